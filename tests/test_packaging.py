"""The wheel: it carries what the program needs, nothing else, and works without the checkout beside it."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import edgemem

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    command += ["-w", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(unpacked: Path, cwd: Path, *args: str) -> str:
    environment = {key: v for key, v in os.environ.items() if not key.startswith(("EDGEMEM", "PYTHON"))}
    environment |= {"PYTHONPATH": str(unpacked), "HOME": str(cwd), "XDG_DATA_HOME": str(cwd / "data")}
    # -P or a `cd` is not enough: an editable install of the checkout must lose against PYTHONPATH.
    how = {"capture_output": True, "text": True, "timeout": 60, "cwd": cwd, "env": environment}
    done = subprocess.run([sys.executable, *args], **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_carries_what_is_needed_and_nothing_else(wheel: Path) -> None:
    """Code, attachments, profiles, catalogue, the demo's script and the licence; no weights, tests or caches."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("dist-info/METADATA"))
        (entries,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    code = {str(path.relative_to(ROOT)) for path in (ROOT / "edgemem").rglob("*.py")}
    assert code <= names
    assert {
        *("edgemem/py.typed", "edgemem/cli/kitchen.jsonl", "edgemem/store/kinds.py"),
        *(
            *(f"edgemem/attach/{path.name}" for path in (ROOT / "hooks").glob("*.py")),
            "edgemem/_models/catalog.toml",
        ),
        *(f"edgemem/_configs/{path.name}" for path in (ROOT / "configs").glob("*.toml")),
    } <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    unwanted = (".gguf", ".safetensors", ".pyc", ".db", ".whl")
    assert not [name for name in names if name.endswith(unwanted) or not name.startswith("edgemem")]
    assert wheel.stat().st_size < 1_350_000
    assert f"Version: {edgemem.__version__}" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert "Author: The edgemem authors\n" in metadata
    assert "Author-email" not in metadata
    versions = re.findall(r"Classifier: Programming Language :: Python :: (3\.\d+)", metadata)
    assert versions == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert "edgemem = edgemem.cli:main" in entries


def test_the_command_line_runs_from_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    """`check` and `models list` work in an empty directory, with the catalogue out of the wheel."""
    checks: list[dict[str, Any]] = json.loads(python(unpacked, tmp_path, "-m", "edgemem", "check", "--json"))
    states = {one["name"]: one["state"] for one in checks}
    assert "fail" not in states.values()
    assert states["embedder"] == "warn", "the checkout's own model was found"
    listed = json.loads(python(unpacked, tmp_path, "-m", "edgemem", "models", "list", "--json"))
    assert {model["name"]: model["path"] for model in listed}["all-minilm-l6-v2"] is None


def test_what_lies_beside_the_package_is_found_inside_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    """Profiles, attachments and the demo's script load from the copy, and remember a fact."""
    code = """
import edgemem, json
from edgemem.config import profile_named, profile_names
from edgemem.hooks import available, load
from edgemem.inspect.replay import read_script
from pathlib import Path

place = Path(edgemem.__file__).parent
loaded = load("llama_cpp_loop")
from edgemem.attach import llama_cpp_loop
with edgemem.open("home", profile="pi5", worker=False) as memory:
    memory.store.add_fact("tea", "black")
    found = memory.recall("tea")[0].text
print(json.dumps({
    "place": str(place), "hook": loaded.__file__, "imported": llama_cpp_loop.__file__, "attach": callable(loaded.attach), "available": available(),
    "profiles": profile_names(), "window": profile_named("pi5").context.window_tokens, "found": found,
    "lines": len(read_script(place / "cli" / "kitchen.jsonl")),
}))
"""
    told = json.loads(python(unpacked, tmp_path, "-c", code))
    assert told["place"] == str(unpacked / "edgemem")
    assert told["hook"] == str(unpacked / "edgemem" / "attach" / "llama_cpp_loop.py")
    assert told["imported"] == told["hook"]
    assert told["attach"]
    assert told["available"] == ["edgevox_loop", "langchain_loop", "llama_cpp_loop", "openai_agents_loop"]
    assert set(told["profiles"]) == {path.stem for path in (ROOT / "configs").glob("*.toml")}
    assert told["window"] >= 1024
    assert "black" in told["found"]
    assert told["lines"] >= 60
