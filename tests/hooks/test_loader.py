"""Loading attachments by name or path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemem.cli import main
from edgemem.errors import ConfigError
from edgemem.hooks import available, load, load_entry_points
from edgemem.loop.loop import AgentLoop

ROOT = Path(__file__).parents[2]


def test_shipped_attachments_load_by_name() -> None:
    """Every file in hooks/ defines attach(), and is loaded once: it knows what it is attached to."""
    assert "llama_cpp_loop" in available()
    for name in available():
        assert callable(load(name).attach)
        assert load(name) is load(name)


def test_a_file_of_the_operator_loads_by_path(tmp_path: Path) -> None:
    """A path to a Python file is enough; it is read each time, since its owner edits it."""
    file = tmp_path / "mine.py"
    for answer in ("mine", "mine, edited"):
        file.write_text(f"def attach():\n    return {answer!r}\n")
        assert load(file).attach() == answer


@pytest.mark.parametrize("name", ["no_such_loop", "/does/not/exist.py"])
def test_a_missing_hook_is_named(name: str) -> None:
    """The error says what there is."""
    with pytest.raises(ConfigError, match="llama_cpp_loop"):
        load(name)


def test_a_hook_that_fails_while_loading_is_one_sentence(tmp_path: Path) -> None:
    """The file and the cause are named."""
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=r"broken\.py failed while loading: ZeroDivisionError"):
        load(file)


PACKAGE = """
from edgemem.hooks import HookResult

class Shout:
    points = frozenset({"on_run_start", "after_llm"})
    priority = 30
    def __call__(self, point, ctx, payload):
        if point == "on_run_start":
            return HookResult.replace({**payload, "task": payload["task"].upper()})

class FromEdgeVox:
    points = frozenset({"before_llm", "on_edgevox_only"})  # no priority, and a point that is not ours
    def __call__(self, point, ctx, payload):
        class Result:
            is_continue, is_end, is_modify, reason, payload = False, True, False, "", "ended by a foreign hook"
        return Result

def factory():
    return Shout()

ready = Shout()
nothing = 42
several = [Shout(), Shout]

class Elsewhere(FromEdgeVox):
    points = frozenset({"on_edgevox_only"})

class NeedsArguments(Shout):
    def __init__(self, path): ...
"""

ENTRY_POINTS = """
[edgemem.hooks]
shout = robot_hooks:Shout
made = robot_hooks:factory
ready = robot_hooks:ready
several = robot_hooks:several
number = robot_hooks:nothing
arguments = robot_hooks:NeedsArguments
gone = robot_hooks_that_are_gone:Hook

[edgevox.hooks]
foreign = robot_hooks:FromEdgeVox
elsewhere = robot_hooks:Elsewhere
shout = robot_hooks:FromEdgeVox
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with entry points, as pip leaves it behind."""
    (tmp_path / "robot_hooks.py").write_text(PACKAGE)
    info = tmp_path / "robot_hooks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: robot-hooks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "robot_hooks", raising=False)


@pytest.mark.usefixtures("installed")
def test_entry_points_of_both_groups_load_and_broken_ones_are_named() -> None:
    """Classes, functions and ready hooks load; each one that cannot is named, counted, and stops no other."""
    loaded = load_entry_points()
    assert list(loaded.hooks) == ["made", "ready", "several", "several.2", "shout", "foreign"]
    told = {failure.hook: failure for failure in loaded.failures}
    assert set(told) == {"number", "arguments", "gone", "elsewhere", "shout"}
    assert "42 is not a hook" in told["number"].message
    assert "path" in told["arguments"].message
    assert "No module named 'robot_hooks_that_are_gone'" in told["gone"].message
    assert "points that do not exist here (on_edgevox_only)" in told["elsewhere"].message
    assert "another hook of this name" in told["shout"].message
    assert all((failure.point, failure.count) == ("loading", 1) for failure in loaded.failures)
    assert all(failure.message.endswith("(robot-hooks 1.0)") for failure in loaded.failures)


@pytest.mark.usefixtures("installed")
def test_check_names_each_broken_package(tmp_path: Path) -> None:
    """`edgemem check` loads what packages offer: a broken one is named with its fault, and is no reason to fail."""
    home = tmp_path / "home"
    result = CliRunner().invoke(main, ["check", "--home", str(home), "--json"])
    (packages,) = [one for one in json.loads(result.stdout) if one["name"] == "packages"]
    assert packages["state"] == "warn"
    assert "the hook gone cannot be loaded: ModuleNotFoundError" in packages["detail"]
    assert "(robot-hooks 1.0)" in packages["detail"]
    assert "installed packages offer made, ready, several, several.2, shout, foreign" in packages["detail"]
    assert "Mend, update or remove" in packages["advice"]
    assert result.exit_code == 0
    assert "robot_hooks_that_are_gone" in "".join(
        line.strip() for line in CliRunner().invoke(main, ["check", "--home", str(home)]).stdout.splitlines()
    )


@pytest.mark.parametrize("code", ["raise SystemExit('no')", "def Hook(:", "import nothing_like_this"])
def test_check_outlives_a_package_that_ends_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Whatever a package does while it is loaded, the check goes on and names it."""
    (tmp_path / "trap_hooks.py").write_text(code)
    info = tmp_path / "trap-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgevox.hooks]\ntrap = trap_hooks:Hook\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(main, ["check", "--home", str(tmp_path / "home"), "--json"])
    (packages,) = [one for one in json.loads(result.stdout) if one["name"] == "packages"]
    assert packages["detail"].startswith("the hook trap cannot be loaded: ")
    assert packages["detail"].endswith("(trap 1.0)")


@pytest.mark.usefixtures("installed")
def test_a_package_whose_entry_points_are_no_text_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hooks of all others load."""
    info = tmp_path / "more" / "noise-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noise\nVersion: 1.0\n")
    (info / "entry_points.txt").write_bytes(b"[edgevox.hooks]\n\xff\xfe = x:y\n")
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    loaded = load_entry_points(only=["made", "foreign"])
    assert set(loaded.hooks) == {"made", "foreign"}
    told = {failure.hook: failure.message for failure in loaded.failures}
    assert "its entry points cannot be read: UnicodeDecodeError" in told["noise"]


@pytest.mark.usefixtures("installed")
def test_loaded_hooks_act_in_a_loop() -> None:
    """A hook of ours rewrites the utterance, one written for EdgeVox ends the turn before the model is called."""
    loaded = load_entry_points(only=["shout", "foreign"])
    assert loaded.failures[0].hook == "shout"
    loop = AgentLoop(None, hooks=loaded.hooks.values())  # type: ignore[arg-type] - no model is ever asked
    result = loop.run("hello")
    assert result.reply == "ended by a foreign hook"
    assert loop.session.messages[0]["content"] == "HELLO"
    assert loop.hooks.failures() == []


@pytest.mark.usefixtures("installed")
def test_a_name_that_nobody_offers_says_what_there_is() -> None:
    """A misspelt entry point is a failure with the names that exist."""
    loaded = load_entry_points(only=["shuot"])
    assert loaded.hooks == {}
    assert "there are: arguments, elsewhere, foreign" in loaded.failures[0].message


def test_nothing_is_loaded_before_somebody_asks(tmp_path: Path) -> None:
    """Importing edgemem and its hooks looks at no entry point."""
    (tmp_path / "trap.py").write_text("raise SystemExit('loaded unasked')\n")
    info = tmp_path / "trap-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[edgemem.hooks]\ntrap = trap:Hook\n")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import edgemem.hooks, edgemem.loop.loop, edgemem.memory"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
