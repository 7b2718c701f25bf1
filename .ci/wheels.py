"""Collect all that a machine of this kind needs into one folder, to install edgemem there without a network.

    make wheels TO=FOLDER

Of this kind: the same Python, processor and Linux, not older. The folder holds every wheel (llama.cpp built here,
edgemem's own too), the embedding model and `install.sh`, which needs nothing else
(pip goes along too: Debian's Python has none, and none for virtual environments).
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setup_env import CONSTRAINTS, PYTHON, ROOT, fail, found_wheel, pinned, run

INSTALL = """#!/bin/sh
# Install edgemem from this folder, without a network:  sh install.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${{1:-$HOME/.local/share/edgemem/venv}}
models=${{XDG_DATA_HOME:-$HOME/.local/share}}/edgemem/models
python=${{PYTHON:-python{python}}}
command -v "$python" > /dev/null || {{
    echo "These wheels are for Python {python}, and $python is not here. Name it: PYTHON=/path/to/python sh install.sh" >&2
    exit 1
}}
"$python" -m venv --without-pip ${{VENV_OPTIONS:-}} "$venv"
pip=$(echo "$here"/pip-*.whl)
"$venv/bin/python" "$pip/pip" install --quiet --upgrade --no-index --find-links "$here" edgemem
"$venv/bin/python" -c "
import sys
from edgemem.errors import ModelError
from edgemem.llama.backend import llama
try:
    llama()
except ModelError as error:
    sys.exit(str(error))"
mkdir -p "$models"
cp "$here"/*.gguf "$models/"
"$venv/bin/edgemem" models verify
echo "edgemem is installed. Type: $venv/bin/edgemem demo"
"""


def model() -> Path:
    """Return the file of the default embedding model."""
    program = (
        "from edgemem.llama.models import catalog; print(catalog.file_of(catalog.DEFAULT_EMBEDDER), end='')"
    )
    done = subprocess.run([str(PYTHON), "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        fail("the embedding model is not here; type: .venv/bin/edgemem models get")
    return Path(done.stdout)


def collect(folder: Path) -> None:
    """Fill a new folder with wheels, models and the installer."""
    llama = found_wheel(pinned("llama-cpp-python"))
    if llama is None:
        fail("llama.cpp has not been built here; type: make env")
        raise AssertionError
    run("collecting wheels", [
        str(PYTHON), "-m", "pip", "wheel", "-c", str(CONSTRAINTS), "-w", str(folder), str(llama), str(ROOT), "pip"])  # fmt: skip
    embedder = model()
    for path in (embedder, *embedder.parent.glob("NOTICE-*.txt")):
        shutil.copy2(path, folder)
    version = ".".join(platform.python_version_tuple()[:2])
    (folder / "install.sh").write_text(INSTALL.format(python=version))


def place(name: str) -> Path:
    """Return the folder to write; one that holds anything but our own earlier work is refused."""
    folder = Path(name).expanduser().absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / "install.sh").exists():
        fail(f"{folder} holds other things; name a new folder: make wheels TO=wheels")
    return folder


def main() -> None:
    """Write the folder in one step, and say how to use it."""
    folder = place(sys.argv[1])
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    collect(part)
    if folder.exists():
        shutil.rmtree(folder)
    part.rename(folder)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(f"\n{folder}: {len(list(folder.glob('*.whl')))} wheels, {size:.0f} MB")
    print(
        f"Take it to the other machine ({platform.machine()}, Python {platform.python_version()}) and type:"
    )
    print(f"\n    sh {folder.name}/install.sh")


if __name__ == "__main__":
    main()
