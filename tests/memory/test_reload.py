"""Hot reload: real files, a real observer, and conditions that are waited for."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import edgemem
from edgemem.config import Profile, load_profile
from edgemem.errors import ConfigError, InvalidInputError
from edgemem.hooks.builtin import part_of
from edgemem.inspect.replay import ScriptedModel
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.session.log import log_of
from support.embedders import HashEmbedder
from support.homes import eventually
from support.models import Model

PROFILE = "[idle]\nsettle_s = 0\nindex_rows = 1\n[llama]\nembedder = ''\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files watched at once, and read soon after a change."""
    monkeypatch.setattr("edgemem.memory.reload.START_S", 0.0)
    monkeypatch.setattr("edgemem.memory.reload.QUIET_S", 0.05)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    (tmp_path / "edgemem.toml").write_text(PROFILE)
    with edgemem.open(tmp_path) as opened:
        yield opened


def in_place(path: Path) -> None:
    path.write_text(path.read_text().replace("k = 6", "k = 7"))


def like_sed(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/k = 6/k = 7/", str(path)], check=True)


def like_vim(path: Path) -> None:
    text, backup = path.read_text(), path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text(text.replace("k = 6", "k = 7"))
    backup.unlink()


@pytest.mark.parametrize("edit", [in_place, like_sed, like_vim])
def test_however_a_file_is_saved_it_is_taken(memory: Memory, edit: Callable[[Path], None]) -> None:
    """Each way in which editors write comes out as a change of that file."""
    choose(memory, 6)
    edit(memory.home / "edgemem.toml")
    eventually(lambda: memory.profile.recall.k == 7)


def test_what_is_edited_by_hand_is_indexed(tmp_path: Path) -> None:
    """Notes, and a file of the bank in folders that come, go and come back, get a vector without anybody speaking."""
    (tmp_path / "edgemem.toml").write_text(PROFILE)
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder):
        for word in ("first", "second"):
            folder = tmp_path / "bank" / "mara" / "default" / "plans"
            folder.mkdir(parents=True)
            (folder / "keys.md").write_text(f"the {word} spare key hangs behind the clock\n")
            eventually(lambda word=word: any(word in text for text in embedder.embedded))
            shutil.rmtree(folder)
        _saved(tmp_path / "NOTES.md", "- the third spare key hangs nowhere\n")
        eventually(lambda: any("third" in text for text in embedder.embedded))


def test_writing_the_database_wakes_nobody(tmp_path: Path) -> None:
    """Commits, index, checkpoints and checks of a home's database have no file looked at."""
    (tmp_path / "edgemem.toml").write_text(PROFILE)
    with edgemem.open(tmp_path, watch=True, worker=False, embedder=HashEmbedder()) as memory:
        reload = memory.diagnostics.reload
        (tmp_path / "NOTES.md").write_text("first\n")
        eventually(lambda: reload.looks > 2)
        time.sleep(0.5)
        before = reload.looks
        loop = AgentLoop(ScriptedModel(), hooks=memory.hooks(session_id="s"))
        for i in range(20):
            memory.store.add_fact(f"fact {i}", f"value {i}")
            loop.run(f"this is turn {i}")
        memory.idle(10.0)
        memory.forget("fact 3")
        memory.diagnostics.database.checkpoint()
        with edgemem.open(tmp_path, worker=False) as second:
            second.store.add_fact("from", "another connection")
        time.sleep(0.5)
        assert reload.looks == before
        # Events come in order, and this one comes.
        (tmp_path / "NOTES.md").write_text("last\n")
        eventually(lambda: reload.looks > before)


LIMITED = """
import logging, os, resource, sys, time
from pathlib import Path
import watchdog.events, watchdog.observers
import edgemem, edgemem.memory.reload

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(message)s")
logging.getLogger("edgemem.idle").setLevel(logging.ERROR)  # upkeep cannot open a file either
home = Path(sys.argv[1])
edgemem.memory.reload.START_S, edgemem.memory.reload.POLL_S = 0.3, 0.05
with edgemem.open(home) as memory:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = [os.open("/dev/null", os.O_RDONLY)]
    while len(taken) < 64:
        try:
            taken.append(os.dup(taken[0]))
        except OSError:
            break
    while not memory.diagnostics.reload.fault:
        time.sleep(0.01)
    for one in taken:
        os.close(one)
    print(next(f"{one.state} {one.detail}" for one in memory.check() if one.name == "hot reload"))
    file = home / "edgemem.toml"
    file.write_text(file.read_text() + "[recall]\\nk = 7\\n")
    while memory.profile.recall.k != 7:
        time.sleep(0.01)
"""


def test_without_watches_files_are_looked_at(tmp_path: Path) -> None:
    """Where the system gives no watch, the log and `check` say so, and changes are found all the same."""
    (tmp_path / "edgemem.toml").write_text(PROFILE)
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    fault = (
        "The system does not report changed files (Too many open files); raise fs.inotify.max_user_instances"
    )
    line, check = ran.stdout.splitlines()
    assert line.startswith(fault)
    assert line.endswith("Until then they are looked at every 0.05 seconds.")
    assert check.startswith(f"warn {fault}")


def write_profile(memory: Memory, text: str) -> None:
    _saved(memory.home / "edgemem.toml", PROFILE + text)


def choose(memory: Memory, k: int, more: str = "") -> None:
    """Write another `k` into the profile, and wait until it holds."""
    write_profile(memory, f"{more}[recall]\nk = {k}\n")
    eventually(lambda: memory.profile.recall.k == k)


def files_line(memory: Memory) -> str:
    return next(f"{one.state} {one.detail}" for one in memory.check() if one.name == "hot reload")


def test_a_session_takes_new_settings_with_its_next_turn_and_never_within_one(memory: Memory) -> None:
    """The budget of a block is the old one until the turn ends."""
    budgets: list[int] = []
    hooks = memory.hooks(session_id="s")
    injection, notes, budget = (part_of(hooks, name) for name in ("memory", "notes", "budget"))

    @edgemem.hook("before_llm", priority=99)
    def edit(ctx: object, payload: object) -> None:
        if not budgets:
            write_profile(
                memory,
                "[context]\nblock_tokens = 33\nreply_tokens = 300\n[notes]\ninject_chars = 44\n"
                "[memory]\ndefault_level = 'shared'\n",
            )
            # Read already, by the thread that looks.
            time.sleep(0.5)
        budgets.append(injection.block_tokens)

    loop = AgentLoop(ScriptedModel(), hooks=[*hooks, edit])
    loop.run("one")
    assert (budgets, injection.block_tokens) == ([80], 80)
    loop.run("two")
    assert budgets == [80, 33]
    assert notes.max_chars == 44
    assert budget.max_context_tokens == 4096 - 300
    assert log_of(loop.ctx).prompt_log.default_level == "shared"


def test_how_fast_the_voice_speaks_reaches_a_session_that_runs(memory: Memory) -> None:
    """What was heard of a reply until it was cut off is estimated by the pace that the profile gives now."""
    loop = AgentLoop(Model(otherwise="One two three four five six."), hooks=memory.hooks(session_id="s"))
    heard = []
    for pace in (10, 20):
        write_profile(memory, f"[context]\nspeech_chars_s = {pace}.0\n")
        eventually(lambda pace=pace: memory.profile.context.speech_chars_s == pace)
        loop.run("Count.")
        loop.interrupt(heard_ms=800)
        heard.append(loop.session.messages[-1]["content"])
    assert heard == ["One two", "One two three"]


def test_changed_settings_of_tools_reach_those_that_were_made_before(memory: Memory) -> None:
    """What a call tells and may store, and who may read it, follow the profile."""
    tools = {tool.name: tool for tool in memory.tools(speaker="alice")}
    memory.store.add_fact("alice.tea", "green tea " * 5, scope="household")
    assert "green tea " * 4 in tools["recall_fact"].run(key="alice.tea")
    write_profile(memory, "[tools]\nmax_chars = 20\n[memory]\ndefault_level = 'shared'\n")
    eventually(lambda: memory.profile.tools.max_chars == 20)
    assert len(tools["recall_fact"].run(key="alice.tea")) < 60
    with pytest.raises(InvalidInputError, match="at most 20"):
        tools["remember_fact"].run(key="alice.cup", value="a blue one without a handle")
    with pytest.raises(InvalidInputError, match="1 to 20 characters"):
        tools["notes"].run(action="write", text="x" * 30)
    tools["remember_fact"].run(key="alice.cup", value="a blue one")
    assert memory.store.get_fact("alice.cup", scope="global") == "a blue one"
    assert "erased" not in tools["forget_fact"].run(key="alice.cup").replace("Nothing was erased", "")
    assert memory.store.get_fact("alice.cup", scope="global") == "a blue one"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[recall]\nkk = 7\n", "no key recall.kk; perhaps k was meant"),
        ("[recall\n", "is not TOML"),
        ("[hooks]\nfiles = ['none.py']\n", "There is no hook"),
        ("[context]\nwindow_tokens = 16384\nreply_tokens = 4000\n", "holds from the next start only"),
        (None, "cannot be read"),
    ],
)
def test_a_broken_profile_keeps_what_held(memory: Memory, text: str | None, says: str) -> None:
    """The old settings stay, also where the file is gone, `check` says why in one sentence, and a mended file is taken."""
    choose(memory, 6)
    if text is None:
        (memory.home / "edgemem.toml").unlink()
    else:
        write_profile(memory, text)
    eventually(lambda: memory.diagnostics.reload.problems)
    assert memory.profile.recall.k == 6
    assert says in files_line(memory)
    assert "What held before stays in use." in files_line(memory)
    choose(memory, 8)
    assert files_line(memory).startswith("ok ")


def test_what_needs_a_restart_says_so(memory: Memory) -> None:
    """A key that something was opened with keeps its old value, and is named."""
    choose(memory, 9, "[store]\nwal_limit_mb = 3.0\nmax_episodes = 9\n")
    assert (memory.store.max_episodes, memory.profile.store.wal_limit_mb) == (9, 16.0)
    said = "store.wal_limit_mb was changed and holds from the next start of edgemem."
    assert files_line(memory) == f"warn {said}"
    write_profile(memory, "")
    eventually(lambda: memory.profile.recall.k == 5)
    assert files_line(memory).startswith("ok ")
    more = "[hooks]\ntool_output_chars = 900\n[compaction]\nsummarizer = 'model'\n"
    choose(memory, 9, more)
    assert files_line(memory) == (
        "warn compaction.summarizer and hooks.tool_output_chars were changed and hold from the next start of edgemem."
    )


HOOK = """
class Greeter:
    points = frozenset({{"on_run_start"}})
    priority = {priority}
    def __call__(self, point, ctx, payload):
        said.append({word!r})

said = []

def hook(memory):
    memory.greeted = getattr(memory, "greeted", [])
    global said
    said = memory.greeted
    return Greeter()
"""


def _saved(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.replace(path)
    return path


def test_a_hook_file_is_loaded_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An edited hook acts from the next turn on; one with a syntax error leaves the old one at work."""
    file = _saved(tmp_path / "hooks" / "greet.py", HOOK.format(priority=50, word="hello"))
    _saved(tmp_path / "edgemem.toml", PROFILE + "[hooks]\nfiles = ['greet.py']\n")
    with edgemem.open(tmp_path) as memory:
        (hook_file,) = memory.diagnostics.reload.hook_files()
        loop = AgentLoop(ScriptedModel(), hooks=memory.hooks(session_id="s"))
        loop.run("one")
        _saved(file, "def hook(memory:\n")
        eventually(lambda: memory.diagnostics.reload.problems)
        assert "SyntaxError" in files_line(memory)
        loop.run("two")
        # The same length within the same second: a cache of bytecode would not see it.
        _saved(file, HOOK.format(priority=50, word="salut"))
        eventually(lambda: hook_file.version == 2)
        loop.run("three")
        assert memory.greeted == ["hello", "hello", "salut"]  # type: ignore[attr-defined]
        assert files_line(memory).startswith("ok ")
        assert not (tmp_path / "hooks" / "__pycache__").exists()


@pytest.mark.parametrize("given", ["file", "object", "name"])
def test_which_profile_is_followed(tmp_path: Path, given: str) -> None:
    """A file is watched where it lies; where a profile was given by name or as an object, the home's file means nothing."""
    file, home = _saved(tmp_path / "robot.toml", PROFILE), tmp_path / "home"
    profile = {"file": file, "object": load_profile(file), "name": "default"}[given]
    with edgemem.open(home, profile=profile, embedder=HashEmbedder()) as memory:
        _saved(file if given == "file" else home / "edgemem.toml", PROFILE + "[recall]\nk = 3\n")
        (home / "NOTES.md").write_text("a note\n")
        if given == "file":
            eventually(lambda: memory.profile.recall.k == 3)
        else:
            time.sleep(0.3)
            assert memory.profile.recall.k == Profile().recall.k


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "defines no function hook"),
        ("raise OSError('no such motor')\n", "no such motor"),
        ("\x00", "failed while loading"),
        *(
            (f"def hook(memory):\n    return {hook}\n", r"bad\.py")
            for hook in ("None", "type('H', (), {'points': {'on_moon'}, 'priority': 1})()")
        ),
    ],
)
def test_a_broken_hook_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    """A home whose profile names a broken hook does not open, or gives no hooks where it returns something else."""
    _saved(tmp_path / "hooks" / "bad.py", text)
    _saved(tmp_path / "edgemem.toml", "[llama]\nembedder = ''\n[hooks]\nfiles = ['bad.py']\n")
    with pytest.raises(ConfigError, match=says), edgemem.open(tmp_path, worker=False) as memory:
        memory.hooks()


def test_a_hook_named_before_it_was_written_is_taken_when_it_comes(memory: Memory) -> None:
    """The profile waits for the file, and is taken whole as soon as it is there."""
    write_profile(memory, "[recall]\nk = 9\n[hooks]\nfiles = ['late.py']\n")
    eventually(lambda: memory.diagnostics.reload.problems)
    assert memory.profile.recall.k == 5
    _saved(memory.home / "hooks" / "late.py", HOOK.format(priority=1, word="late"))
    eventually(lambda: memory.profile.recall.k == 9)
    assert not memory.diagnostics.reload.problems
    assert [hook for hook in memory.hooks() if getattr(hook, "name", "") == "late"]
    _saved(memory.home / "hooks" / "late.py", "def hook(")
    eventually(lambda: memory.diagnostics.reload.problems)
    write_profile(memory, "")  # taking it out is a way to mend it
    eventually(lambda: not memory.diagnostics.reload.problems)
    assert memory.diagnostics.reload.hook_files() == []
