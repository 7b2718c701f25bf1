"""Make `.venv` with everything that edgemem needs; quick when nothing has changed.

    python3 .ci/setup_env.py [demo|dev]

Standard library only, because it runs before anything is installed. What is costly is kept outside the
checkout, in `$EDGEMEM_CACHE` (default `~/.cache/edgemem`): the llama.cpp wheel built for this machine and
these CMAKE_ARGS, and the tokenizer vocabularies and chat templates that its source package carries.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
CACHE = Path(
    os.environ.get("EDGEMEM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "edgemem")
).expanduser()
EXTRAS = {"demo": "models", "dev": "dev"}


def fail(text: str) -> None:
    """Print one message for the user and stop."""
    sys.exit(f"\nedgemem set-up: {text}")


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(f"  {text}", flush=True)


def run(what: str, command: list[str], env: dict[str, str] | None = None) -> None:
    """Run a command with its output in a log; show that it lives, and the log's end when it fails."""
    log = CACHE / "logs" / (re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-") + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(20):
            say(f"{what} … {time.monotonic() - started:.0f} s")

    say(f"{what} …")
    threading.Thread(target=beat, daemon=True).start()
    try:
        with log.open("wb") as out:
            code = subprocess.run(
                command, stdout=out, stderr=subprocess.STDOUT, env=env, check=False
            ).returncode
    finally:
        done.set()
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        fail(f"{what} failed. The end of its log:\n\n{tail}\n\nThe whole log: {log}")


def pinned(package: str) -> str:
    """Return the version that the constraints file pins for a package."""
    found = re.search(rf"(?m)^{re.escape(package)}==([^\s;]+)", CONSTRAINTS.read_text())
    if not found:
        fail(f"{package} is not pinned in {CONSTRAINTS.name}")
        raise AssertionError
    return found.group(1)


def check_ground() -> None:
    """Name what is missing on this machine, with the one line that brings it."""
    if sys.version_info < (3, 10):  # noqa: UP036 - this script is run by whatever python3 is there
        fail(
            f"Python 3.10 or newer is needed; this is {platform.python_version()}. Say which: make PYTHON=python3.11"
        )
    missing = []
    try:
        import ensurepip  # noqa: F401  (Debian splits it off into python3-venv)
        import venv  # noqa: F401
    except ImportError:
        missing.append(f"python{sys.version_info.major}.{sys.version_info.minor}-venv")
    if not any(shutil.which(name) for name in (os.environ.get("CXX") or "c++", "g++", "clang++")):
        missing.append("build-essential")
    if missing:
        fail(
            f"something is missing here. Type:\n\n    sudo apt install {' '.join(missing)}\n\nand run make again."
        )


def make_venv() -> None:
    """Create the virtual environment if there is none that works."""
    if PYTHON.exists():
        probe = subprocess.run([str(PYTHON), "-m", "pip", "--version"], capture_output=True, check=False)
        if probe.returncode == 0:
            return
        say("the old .venv does not work any more; making it anew")
    run("creating .venv", [sys.executable, "-m", "venv", "--clear", str(VENV)])


def llama_source(version: str) -> Path:
    """Fetch the source package of llama-cpp-python once, and unpack its vocabularies and templates."""
    folder = CACHE / "sdist"
    archive = folder / f"llama_cpp_python-{version}.tar.gz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        run("fetching the llama.cpp sources (77 MB)", [
            str(PYTHON), "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python",
            "-d", str(part), f"llama-cpp-python=={version}"])  # fmt: skip
        (part / archive.name).rename(archive)
    vocabularies = CACHE / f"vocab-{version}"
    if not vocabularies.exists():
        say("unpacking tokenizer vocabularies and chat templates")
        part = CACHE / f"vocab-{version}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                inside = member.name.partition("/vendor/llama.cpp/models/")[2]
                source = tar.extractfile(member) if inside and member.isfile() else None
                if source is None:
                    continue
                target = part / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read())
        part.rename(vocabularies)
    return archive


def llama_wheel(version: str, archive: Path) -> str:
    """Return what to install for llama.cpp, building a trimmed wheel if none fits.

    The trim (no multimodal, no common library, no OpenSSL) takes 60 % off the build. On x86 the wheel
    is built for any CPU with AVX2, not for this one, so that a cached wheel never dies with SIGILL on
    another machine; on ARM the native flags (dotprod, i8mm) are worth more than that.
    """
    given = os.environ.get("EDGEMEM_LLAMA_WHEEL")
    if given:
        if not Path(given).is_file():
            fail(f"EDGEMEM_LLAMA_WHEEL names {given}, which is not a file")
        return str(Path(given).resolve())
    native = "ON" if platform.machine() in ("aarch64", "arm64") else "OFF"
    trim = f"-DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_NATIVE={native}"
    callers = os.environ.get("CMAKE_ARGS", "")
    key = hashlib.sha256(f"{version} {platform.machine()} {trim} {callers}".encode()).hexdigest()[:12]
    folder = CACHE / "wheels" / key
    wheels = sorted(folder.glob("llama_cpp_python-*.whl"))
    if not wheels:
        # llama-cpp-python forces LLAMA_BUILD_COMMON on in CMake's cache; only a normal variable beats that.
        include = CACHE / "no_common.cmake"
        include.write_text("set(LLAMA_BUILD_COMMON OFF)\n")
        env = dict(os.environ, CMAKE_ARGS=f"{trim} -DCMAKE_PROJECT_INCLUDE={include} {callers}".strip())
        env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        run("building llama.cpp (once; 2 to 5 minutes on a PC, longer on a Pi)", [
            str(PYTHON), "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "-w", str(part), str(archive)], env)  # fmt: skip
        part.rename(folder)
        wheels = sorted(folder.glob("llama_cpp_python-*.whl"))
    return str(wheels[0])


def fingerprint(kind: str) -> str:
    """Hash all that the environment is made from."""
    parts = [
        kind,
        sys.version,
        os.environ.get("CMAKE_ARGS", ""),
        os.environ.get("EDGEMEM_LLAMA_WHEEL", ""),
        str(ROOT),
    ]
    parts += [path.read_text() for path in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def main() -> None:
    """Install for `demo` (what a robot needs) or `dev` (what the tests need as well)."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "demo"
    stamp = VENV / f"edgemem-{kind}.stamp"
    wanted = fingerprint(kind)
    version = pinned("llama-cpp-python")
    if (
        PYTHON.exists()
        and stamp.exists()
        and stamp.read_text() == wanted
        and (CACHE / f"vocab-{version}").exists()
    ):
        return
    print("Setting up edgemem (the first time takes some minutes)", flush=True)
    check_ground()
    make_venv()
    archive = llama_source(version)
    wheel = llama_wheel(version, archive)
    pip = [str(PYTHON), "-m", "pip", "install", "-c", str(CONSTRAINTS)]
    run("installing llama.cpp", [*pip, wheel])
    run("installing edgemem and what it needs", [*pip, "-e", f"{ROOT}[{EXTRAS[kind]}]"])
    stamp.write_text(wanted)
    say("ready")


if __name__ == "__main__":
    main()
