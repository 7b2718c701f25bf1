"""Make `.venv` with everything that edgemem needs; quick when nothing has changed.

    python3 .ci/setup_env.py [demo|dev|server|docs]

Standard library only, because it runs before anything is installed. Even Python 3.6, the python3 of older
Jetsons, can read it and so be told which one is needed: hence the quoted types. What is costly is kept
outside the checkout, in `$EDGEMEM_CACHE` (default `~/.cache/edgemem`): the llama.cpp wheel built for this
machine and these CMAKE_ARGS, and the tokenizer vocabularies and chat templates of its source package; for
`server`, which only the tests need, llama-server built from the same sources, and EdgeVox.
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
VENV = Path(os.environ.get("EDGEMEM_VENV") or ROOT / ".venv")
PYTHON = VENV / "bin" / "python"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
CACHE = Path(
    os.environ.get("EDGEMEM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "edgemem")
).expanduser()
STAMP = VENV / "edgemem.stamp"
DOCS_STAMP = VENV / "docs.stamp"
EXTRAS = {"demo": "models", "dev": "dev"}
"""The package's extra for each kind of environment; `dev` holds all that `demo` does."""
EDGEVOX = ("edgevox", "huggingface-hub", "filelock")
"""EdgeVox, and what its agent modules import that `.venv` lacks; all of it is pure Python, the same for each version."""


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


def server_flags() -> "list[str]":
    """Return the build options of the llama-server that the tests talk to.

    It stands alone, has no web page (which its build would fetch), no TLS and no tools. What does not compute is hardly
    optimised, which saves a third of the build. The caller's CMAKE_ARGS are for the wheel; this computes on the CPU.
    """
    native = "ON" if platform.machine() in ("aarch64", "arm64") else "OFF"
    off = (
        "BUILD_SHARED_LIBS", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI",
        "LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL", "LLAMA_SUBPROCESS", "LLAMA_ALL_WARNINGS",
    )  # fmt: skip
    return [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
        f"-DGGML_NATIVE={native}",
        *(f"-D{name}=OFF" for name in off),
    ]


def server_folder(version: str) -> Path:
    """Return where the llama-server for this machine is kept."""
    made_from = f"{version} {platform.machine()} {' '.join(server_flags())}"
    return CACHE / f"server-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"


def found_server(version: str) -> "Path | None":
    """Return the llama-server that the caller names, or the one that an earlier set-up built."""
    given = os.environ.get("EDGEMEM_LLAMA_SERVER")
    if given:
        if not Path(given).is_file():
            fail(f"EDGEMEM_LLAMA_SERVER names {given}, which is not a file")
        return Path(given).resolve()
    program = server_folder(version) / "llama-server"
    return program if program.exists() else None


def cmake() -> str:
    """Return the CMake of this machine, or put one into `.venv`."""
    there = shutil.which("cmake")
    if there:
        return there
    run("installing CMake", [str(PYTHON), "-m", "pip", "install", "-c", str(CONSTRAINTS), "cmake"])
    return str(PYTHON.parent / "cmake")


def build_server(version: str) -> None:
    """Build llama-server from the sources that the wheel is built from; nothing else is fetched."""
    check_ground(compiler=True)
    archive = llama_source(version)
    folder = server_folder(version)
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    say("unpacking the sources of llama-server")
    with tarfile.open(archive) as tar:
        for member in tar:
            inside = member.name.partition("/vendor/llama.cpp/")[2]
            # The vocabularies are most of the archive, and no part of the program.
            wanted = inside and member.isfile() and not inside.startswith("models/")
            source = tar.extractfile(member) if wanted else None
            if source is None:
                continue
            target = part / "source" / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read())
    fast = part / "fast_ggml.cmake"
    fast.write_text('set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")\n')
    program = cmake()
    run("configuring llama-server", [
        program, "-S", str(part / "source"), "-B", str(part / "build"), f"-DCMAKE_PROJECT_ggml_INCLUDE={fast}",
        *server_flags()])  # fmt: skip
    run("building llama-server for the tests (once; 4 to 8 minutes on a PC)", [
        program, "--build", str(part / "build"), "--target", "llama-server", "--parallel", str(os.cpu_count() or 1)])  # fmt: skip
    made = part / "made"
    made.mkdir()
    (part / "build" / "bin" / "llama-server").rename(made / "llama-server")
    made.rename(folder)
    shutil.rmtree(part)


def edgevox_folder() -> Path:
    """Return where the EdgeVox that the tests attach to is kept, apart from `.venv`: edgemem does not need it."""
    made_from = " ".join(f"{package}=={pinned(package)}" for package in EDGEVOX)
    return CACHE / f"edgevox-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"


def fetch_edgevox() -> None:
    """Install EdgeVox into a folder without its dependencies, which want devices and a network."""
    folder = edgevox_folder()
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    run("installing EdgeVox for the tests", [
        str(PYTHON), "-m", "pip", "install", "-c", str(CONSTRAINTS), "--no-deps", "--target", str(part), *EDGEVOX])  # fmt: skip
    part.rename(folder)


def install_docs() -> None:
    """Install what `make docs` makes the site with, unless it is there; nothing else needs it."""
    if DOCS_STAMP.exists() and DOCS_STAMP.read_text() == fingerprint():
        return
    run("installing what makes the site", [
        str(PYTHON), "-m", "pip", "install", "-c", str(CONSTRAINTS), "-e", f"{ROOT}[docs]"])  # fmt: skip
    DOCS_STAMP.write_text(fingerprint())


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
    """Install for `demo` (what a robot needs), `dev` (what the tests import as well), `server` (what they start) or `docs`."""
    asked = sys.argv[1] if len(sys.argv) > 1 else "demo"
    kind = "dev" if asked in ("server", "docs") else asked
    version = pinned("llama-cpp-python")
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{CACHE} cannot be made ({error.strerror}). Name a folder: make EDGEMEM_CACHE=/var/tmp/edgemem")
    with (CACHE / "lock").open("w") as lock:
        # Two set-ups at once would tread on each other's half-built files.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (is_ready(kind) and (CACHE / f"vocab-{version}").exists()):
            set_up(kind, version)
        if asked == "server" and found_server(version) is None:
            build_server(version)
        if asked == "server" and not edgevox_folder().exists():
            fetch_edgevox()
        if asked == "docs":
            install_docs()


if __name__ == "__main__":
    main()
