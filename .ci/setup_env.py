"""Make `.venv` with everything that edgemem needs; quick when nothing has changed.

    python3 .ci/setup_env.py [demo|dev]

Standard library only, because it runs before anything is installed. Even Python 3.6, the python3 of older
Jetsons, can read it and so be told which one is needed: hence the quoted types. What is costly is kept
outside the checkout, in `$EDGEMEM_CACHE` (default `~/.cache/edgemem`): the llama.cpp wheel built for this
machine and these CMAKE_ARGS, and the tokenizer vocabularies and chat templates of its source package.
"""

import fcntl
import hashlib
import os
import platform
import re
import shlex
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
STAMP = VENV / "edgemem.stamp"
EXTRAS = {"demo": "models", "dev": "dev"}
"""The package's extra for each kind of environment; `dev` holds all that `demo` does."""


def fail(text: str) -> None:
    """Print one message for the user and stop."""
    sys.exit(f"\nedgemem set-up: {text}")


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(f"  {text}", flush=True)


def run(what: str, command: "list[str]", env: "dict[str, str] | None" = None) -> None:
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


def check_ground(*, compiler: bool) -> None:
    """Name what is missing on this machine, a compiler too if one is needed, with the one line that brings it."""
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
    named = shlex.split(os.environ.get("CXX", ""))[:1]
    if compiler and not any(shutil.which(name) for name in (*named, "c++", "g++", "clang++")):
        missing.append("build-essential")
    if missing:
        fail(
            f"something is missing here. Type:\n\n    sudo apt install {' '.join(missing)}\n\nand run make again."
        )


def make_venv() -> None:
    """Create the virtual environment if there is none of this very Python that works."""
    if PYTHON.exists():
        command = [str(PYTHON), "-c", "import pip, sys; print(sys.version, end='')"]
        probe = subprocess.run(command, capture_output=True, text=True, check=False)
        if probe.returncode == 0 and probe.stdout == sys.version:
            return
        say("the old .venv is broken or of another Python; making it anew")
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


def cmake_trim() -> str:
    """Return the build options of this machine, before the caller's own.

    The trim (no multimodal, no common library, no OpenSSL) takes 60 % off the build. On x86 the wheel
    is built for any CPU with AVX2, not for this one, so that a cached wheel never dies with SIGILL on
    another machine; on ARM the native flags (dotprod, i8mm) are worth more than that.
    """
    native = "ON" if platform.machine() in ("aarch64", "arm64") else "OFF"
    return f"-DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_NATIVE={native}"


def wheel_folder(version: str) -> Path:
    """Return where the wheel for this machine and the caller's CMAKE_ARGS is kept."""
    made_from = f"{version} {platform.machine()} {cmake_trim()} {os.environ.get('CMAKE_ARGS', '')}"
    return CACHE / "wheels" / hashlib.sha256(made_from.encode()).hexdigest()[:12]


def found_wheel(version: str) -> "Path | None":
    """Return the llama.cpp wheel that the caller names, or the one that an earlier set-up built."""
    given = os.environ.get("EDGEMEM_LLAMA_WHEEL")
    if given:
        if not Path(given).is_file():
            fail(f"EDGEMEM_LLAMA_WHEEL names {given}, which is not a file")
        return Path(given).resolve()
    return next(iter(sorted(wheel_folder(version).glob("llama_cpp_python-*.whl"))), None)


def build_wheel(version: str, archive: Path) -> Path:
    """Build the trimmed llama.cpp wheel, with the caller's CMAKE_ARGS last so that they win."""
    folder = wheel_folder(version)
    # llama-cpp-python forces LLAMA_BUILD_COMMON on in CMake's cache; only a normal variable beats that.
    include = CACHE / "no_common.cmake"
    include.write_text("set(LLAMA_BUILD_COMMON OFF)\n")
    ours = f"{cmake_trim()} {shlex.quote(f'-DCMAKE_PROJECT_INCLUDE={include}')}"
    env = dict(os.environ, CMAKE_ARGS=f"{ours} {os.environ.get('CMAKE_ARGS', '')}".strip())
    env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    run("building llama.cpp (once; 2 to 5 minutes on a PC, longer on a Pi)", [
        str(PYTHON), "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "-w", str(part), str(archive)], env)  # fmt: skip
    part.rename(folder)
    (wheel,) = folder.glob("llama_cpp_python-*.whl")
    return wheel


def fingerprint() -> str:
    """Hash all that the environment is made from."""
    parts = [
        sys.version,
        os.environ.get("CMAKE_ARGS", ""),
        os.environ.get("EDGEMEM_LLAMA_WHEEL", ""),
        str(ROOT),
    ]
    parts += [path.read_text() for path in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_ready(kind: str) -> bool:
    """Tell whether `.venv` holds all that this kind needs, made from what is here now."""
    if not PYTHON.exists() or not STAMP.exists():
        return False
    return STAMP.read_text() in {f"{holder} {fingerprint()}" for holder in (kind, "dev")}


def set_up(kind: str, version: str) -> None:
    """Build what has not been built, and install it all."""
    print("Setting up edgemem (the first time takes some minutes)", flush=True)
    wheel = found_wheel(version)
    check_ground(compiler=wheel is None)
    make_venv()
    STAMP.unlink(missing_ok=True)
    archive = llama_source(version)
    wheel = wheel or build_wheel(version, archive)
    pip = [str(PYTHON), "-m", "pip", "install", "-c", str(CONSTRAINTS)]
    # Forced, because pip keeps what has the same version, however differently it was built.
    run("installing llama.cpp", [*pip, "--no-deps", "--force-reinstall", str(wheel)])
    run("installing edgemem and what it needs", [*pip, "-e", f"{ROOT}[{EXTRAS[kind]}]"])
    STAMP.write_text(f"{kind} {fingerprint()}")
    say("ready")


def main() -> None:
    """Install for `demo` (what a robot needs) or `dev` (what the tests need as well)."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "demo"
    version = pinned("llama-cpp-python")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        # Two set-ups at once would tread on each other's half-built files.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (is_ready(kind) and (CACHE / f"vocab-{version}").exists()):
            set_up(kind, version)


if __name__ == "__main__":
    main()
