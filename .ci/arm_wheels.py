"""The wheel folder for aarch64: llama.cpp built by a cross compiler, edgemem's own wheel, and the rest from pip's index."""

import hashlib
import os
import shutil
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from arm_root import FOLDER, SYSTEM, WHEELS, python_version
from setup_env import CONSTRAINTS, PYTHON, ROOT, build_wheel, llama_source, pinned, run, wheel_folder
from wheels import INSTALL, model

# Plain armv8-a runs on every 64-bit board. llama.cpp can also choose among builds for several CPUs at run time
# (GGML_CPU_ALL_VARIANTS), but llama-cpp-python never loads such plug-ins. So a wheel that was built on a Pi 5
# (GGML_NATIVE, with dotprod) is quicker there than this one.
CROSS = " ".join(
    f"-D{name}={value}"
    for name, value in {
        "GGML_CPU_ARM_ARCH": "armv8-a",
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_C_COMPILER": "aarch64-linux-gnu-gcc",
        "CMAKE_CXX_COMPILER": "aarch64-linux-gnu-g++",
        # libraries and headers of this machine are of the wrong kind; its programs are the ones that run
        "CMAKE_FIND_ROOT_PATH": "/usr/aarch64-linux-gnu",
        "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
        "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY": "ONLY",
        "CMAKE_FIND_ROOT_PATH_MODE_INCLUDE": "ONLY",
    }.items()
)
FOR_TESTS = ("pytest", "pytest-timeout", "hypothesis", "gguf", "safetensors")
PAGE = 16384
"""Bytes of a memory page in the kernel that Raspberry Pi OS starts on a Pi 5; other boards have 4096."""


def llama_wheel() -> Path:
    """Return the llama.cpp wheel for aarch64, built and named anew if it has not been."""
    version = pinned("llama-cpp-python")
    os.environ["CMAKE_ARGS"] = CROSS
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = "2"
    folder = wheel_folder(version)
    if not folder.exists():
        build_wheel(version, llama_source(version))
    found = sorted(folder.glob("*-linux_aarch64.whl"))
    if not found:
        # the build names its wheel after the machine it runs on, and pip then refuses it on the other one
        tools = FOLDER / "tools"
        run(
            "fetching the wheel tool",
            [str(PYTHON), "-m", "pip", "install", "-q", "--target", str(tools), "wheel"],
        )
        (built,) = folder.glob("*.whl")
        command = [str(PYTHON), "-m", "wheel", "tags", "--platform-tag", "linux_aarch64", str(built)]
        run("renaming the llama.cpp wheel", command, dict(os.environ, PYTHONPATH=str(tools)))
        found = sorted(folder.glob("*-linux_aarch64.whl"))
    return found[0]


def own_wheel(folder: Path) -> Path:
    """Build edgemem's wheel from this checkout into a folder, in place of an older one."""
    for old in folder.glob("edgemem-*.whl"):
        old.unlink()
    run("building edgemem's wheel", [
        str(PYTHON), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)])  # fmt: skip
    (wheel,) = folder.glob("edgemem-*.whl")
    return wheel


def fetch_rest(folder: Path, wheel: Path) -> None:
    """Bring wheels for aarch64 of all that edgemem and the tests need."""
    version = python_version()
    # glibc 2.36 runs what was built for any older one; pip wants each named
    platforms = [
        "linux_aarch64",
        "manylinux2014_aarch64",
        *(f"manylinux_2_{n}_aarch64" for n in range(17, 37)),
    ]
    run("fetching wheels for aarch64", [
        str(PYTHON), "-m", "pip", "download", "-q", "--only-binary=:all:", "--python-version", version,
        "--implementation", "cp", "--abi", f"cp{version.replace('.', '')}",
        *(f"--platform={name}" for name in platforms), "-c", str(CONSTRAINTS), "--find-links", str(folder),
        "-d", str(folder), str(wheel), "pip", *FOR_TESTS])  # fmt: skip


def make_wheels() -> None:
    """Fill the folder with wheels, the embedding model and the installer that `make wheels` writes."""
    llama = llama_wheel()
    sources = (CONSTRAINTS, ROOT / "pyproject.toml", Path(__file__))
    parts = [llama.parent.name, SYSTEM.name, *(path.read_text() for path in sources)]
    made_from = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    stamp = WHEELS / "made-from"
    if stamp.exists() and stamp.read_text() == made_from:
        own_wheel(WHEELS)
    else:
        shutil.rmtree(WHEELS, ignore_errors=True)
        WHEELS.mkdir(parents=True)
        shutil.copy(llama, WHEELS)
        fetch_rest(WHEELS, own_wheel(WHEELS))
        stamp.write_text(made_from)
    shutil.copy(model(), WHEELS)
    (WHEELS / "install.sh").write_text(INSTALL.format(python=python_version()))


def elf_fault(library: bytes) -> str | None:
    """Tell why a shared library cannot be loaded on every 64-bit ARM board, or None."""
    magic, bits, machine = struct.unpack_from("<4sB13xH", library.ljust(64, b"\0"))
    if (magic, bits, machine) != (b"\x7fELF", 2, 183):
        return "no 64-bit ARM code"
    (start,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    for n in range(count):
        kind, _, _, _, _, _, _, aligned = struct.unpack_from("<IIQQQQQQ", library, start + n * size)
        if kind == 1 and aligned % PAGE:
            return f"its segments are aligned to {aligned} bytes, and a Pi 5 has pages of {PAGE}"
    return None


def libraries(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of every shared library in a folder's wheels."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if ".so" in Path(name).suffixes:
                    yield f"{wheel.name}: {name}", archive.read(name)


def check_libraries(folder: Path) -> int:
    """Return how many shared libraries there are, or stop with those that some board could not load."""
    found = [(name, elf_fault(content)) for name, content in libraries(folder)]
    faults = [f"{name}: {fault}" for name, fault in found if fault]
    if faults:
        sys.exit("\nThese cannot be loaded:\n\n" + "\n".join(faults))
    return len(found)
