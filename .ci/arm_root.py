"""A Debian for aarch64 on a machine of another kind: made once by debootstrap, run by qemu, entered without a network."""

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from setup_env import CACHE, ROOT, pinned, run, say

SUITE = "bookworm"  # what Raspberry Pi OS 12 is made from; its Python is 3.11, its SQLite 3.40.1
CPU = "cortex-a72"  # a Pi 4: code that needs more than plain armv8-a dies of SIGILL here, as it would there
FOLDER = CACHE / "arm64"
SYSTEM = FOLDER / f"root-{SUITE}"
WHEELS = FOLDER / "wheels"
VENV = "/opt/edgemem"  # in the system
INSIDE = "/root"  # the home in the system
VOCABULARIES = f"vocab-{pinned('llama-cpp-python')}"

PACKAGES = ("python3", "libgomp1")  # the second is all that the llama.cpp wheel asks of a system
TOOLS = {
    "debootstrap": "debootstrap",
    "qemu-aarch64-static": "qemu-user-static",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
}
REGISTRY = Path("/proc/sys/fs/binfmt_misc")
REGISTRATION = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")

# Runs in namespaces of its own, so that mounts and processes end with it, and there is no network but an own, dead
# loopback. $0 is the system's folder; the arguments up to `--` are pairs of folders to show inside, read-only.
ENTER = """
set -e
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t sysfs -o ro sysfs "$0/sys"
while [ "$1" != -- ]; do
    mkdir -p "$0$2"
    mount -o bind,ro "$1" "$0$2"
    shift 2
done
shift
exec chroot "$0" "$@"
"""
ENVIRONMENT = {
    "PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": INSIDE,
    "LANG": "C.UTF-8",
    "COLUMNS": "100",
    "QEMU_CPU": CPU,
    "EDGEMEM_CACHE": "/cache",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",  # noqa: S108 - the checkout is shown read-only
}


def cannot(text: str) -> NoReturn:
    """Say in one sentence why this machine cannot do it, and stop with the exit code for that."""
    print(f"aarch64 was not tried: {text}", flush=True)
    sys.exit(77)


def check_ground() -> None:
    """Install what is missing here, or tell that it cannot be."""
    if platform.machine() in {"aarch64", "arm64"}:
        cannot("this machine is an aarch64 itself, so type: make test")
    if os.geteuid() != 0:
        cannot("only root may enter an emulated system, so type: sudo make test-arm")
    packages = [package for command, package in TOOLS.items() if not shutil.which(command)]
    if not packages:
        return
    if not shutil.which("apt-get"):
        cannot(f"these commands are missing, and there is no apt-get to bring them: {', '.join(TOOLS)}")
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    try:
        run("apt-get update", ["apt-get", "update"])
        run(
            f"apt-get install {' '.join(packages)}",
            install,
            dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
        )
    except SystemExit as error:
        cannot(f"apt-get could not install {', '.join(packages)}: {str(error.code).strip()}")


@contextmanager
def emulation() -> Iterator[None]:
    """Have the kernel hand aarch64 programs to qemu, and leave the machine afterwards as it was."""
    mounted = not (REGISTRY / "register").exists()
    mount = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(REGISTRY)]
    if mounted and subprocess.run(mount, check=False).returncode:
        cannot("binfmt_misc cannot be mounted here, by which the kernel finds the emulator for a program")
    entry = REGISTRY / "qemu-aarch64"
    # Debian's package registers by systemd-binfmt only, which does not run in a container. The line is the package's
    # own: its flag F has the kernel open the emulator now, so that it is also found from within the other system.
    registered = not entry.exists()
    try:
        if registered:
            (REGISTRY / "register").write_text(REGISTRATION.read_text().strip())
        yield
    except PermissionError:
        cannot(f"{REGISTRY} is not open for writing here")
    finally:
        if registered and entry.exists():
            entry.write_text("-1")
        if mounted:
            subprocess.run(["umount", str(REGISTRY)], check=False)


def mirror() -> list[str]:
    """Return the archive that this machine's apt uses for the suite; nothing, and so debootstrap's default, elsewhere."""
    form = "$(CODENAME) $(COMPONENT) $(REPO_URI)"
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", form], capture_output=True, text=True, check=False
    ).stdout
    rows = (line.split() for line in listed.splitlines())
    return next(([row[2]] for row in rows if row[:2] == [SUITE, "main"]), [])


def make_system() -> None:
    """Unpack and set up the system, unless that was done before."""
    if SYSTEM.exists():
        return
    part = FOLDER / "root.part"
    shutil.rmtree(part, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    run(f"fetching {SUITE} for aarch64", [
        "debootstrap", "--arch=arm64", "--variant=minbase", "--foreign",
        f"--include={','.join(PACKAGES)}", SUITE, str(part), *mirror()])  # fmt: skip
    # without it dpkg waits for the disk after each file, of a system that is thrown away if this fails
    settings = part / "etc/dpkg/dpkg.cfg.d"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "unsafe-io").write_text("force-unsafe-io\n")
    # debootstrap mounts /proc and /sys for its second stage; in a mount namespace they cannot be left behind, where
    # the next run's clearing up would walk into them
    run(f"setting up {SUITE} under emulation", [
        "unshare", "--mount", "chroot", str(part), "/debootstrap/debootstrap", "--second-stage"])  # fmt: skip
    part.rename(SYSTEM)


def python_version() -> str:
    """Return the version of the system's Python, such as 3.11."""
    return (SYSTEM / "usr/bin/python3").readlink().name.removeprefix("python")


def command_inside(command: list[str], *, folder: str = INSIDE) -> list[str]:
    """Return the command that runs another one inside the system, with the checkout, wheels and vocabularies to read."""
    shown = [ROOT, "/checkout", WHEELS, "/wheels", CACHE / VOCABULARIES, f"/cache/{VOCABULARIES}"]
    settings = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    return [
        "unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child",
        "/bin/sh", "-c", ENTER, str(SYSTEM), *map(str, shown), "--",
        "/usr/bin/env", "-i", "-C", folder, *settings, *command]  # fmt: skip


def inside(what: str, command: list[str], *, folder: str = INSIDE) -> str:
    """Run a command inside the system and return what it printed; stop with that if it fails."""
    say(f"{what} …")
    started = time.monotonic()
    done = subprocess.run(command_inside(command, folder=folder), capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        sys.exit(f"\n{what} failed on aarch64 (exit code {done.returncode}):\n\n{tail}")
    say(f"{what} took {time.monotonic() - started:.0f} s")
    return done.stdout
