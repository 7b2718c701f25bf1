"""`make test-loops ONE=langchain`: the cases of tests/attach with the real package of a framework.

Each framework has an environment of its own in the cache, made once for its versions. edgemem runs from the checkout, without
llama.cpp: recall there is by words.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

from setup_env import CACHE, CONSTRAINTS, ROOT, fail, run

FRAMEWORKS = {
    "langchain": ("langchain==1.5.2", "langchain-core==1.8.3", "langgraph==1.2.24"),
    "openai_agents": ("openai-agents==0.24.0", "openai==3.57.0"),
}
NEEDED = ("jinja2", "msgspec", "numpy", "pystemmer", "sqlite-vec", "tzdata", "watchdog", "pytest", "tomli")
"""What edgemem imports without llama.cpp and a command line, and what runs the cases."""
CASES = ROOT / "tests" / "attach"


def environment(name: str) -> str:
    """Return the Python of a framework's environment, made if it is not there."""
    made_from = "\0".join((sys.version, *FRAMEWORKS[name], *NEEDED, CONSTRAINTS.read_text()))
    folder = CACHE / f"loops-{name}-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"
    python, stamp = folder / "bin" / "python", folder / "edgemem.stamp"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        run(f"creating the environment of {name}", [sys.executable, "-m", "venv", str(folder)])
        pip = [str(python), "-m", "pip", "install", "-c", str(CONSTRAINTS)]
        run(f"installing {name}", [*pip, *FRAMEWORKS[name], *NEEDED])
        stamp.touch()
    return str(python)


def main(asked: str) -> int:
    """Run the cases of the framework that is asked for, or of each."""
    if asked and asked not in FRAMEWORKS:
        fail(f"ONE must be one of {', '.join(FRAMEWORKS)}; got {asked!r}")
    CACHE.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in [asked] if asked else FRAMEWORKS:
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            python = environment(name)
        # The conftest of the suite imports what these environments lack.
        command = [python, "-m", "pytest", "-c", str(CASES / "pytest.ini"), f"--rootdir={CASES}"]
        command += [f"--confcutdir={CASES}", str(CASES / f"test_{name}.py")]
        env = dict(os.environ, PYTHONPATH=str(ROOT))
        failed |= subprocess.run(command, env=env, cwd=ROOT, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
