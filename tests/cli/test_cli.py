"""The command line: one sentence for every error, JSON for everything, and nothing that steers the terminal."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import edgemem
from edgemem.cli import COMMANDS
from edgemem.cli.options import Begin, When
from edgemem.cli.printing import plain
from edgemem.errors import InvalidInputError
from support.cli import refused, run
from support.homes import BY_WORDS, opened


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home without a model, with a few facts and a conversation of two turns, for tests that look."""
    from edgemem.inspect.replay import Line, Player, ScriptedFact

    path = tmp_path_factory.mktemp("look") / "home"
    with opened(path) as memory:
        how = {"speaker": "Ann", "session": "hall"}
        fact = ScriptedFact("ann.allergy", "peanuts")
        first = Line("I am allergic to peanuts.", 1.78e9, reply="Noted.", remember=(fact,), **how)
        second = Line("The canoe is in the shed.", 1.78e9 + 60, reply="Good.", private=True, **how)
        assert len(list(Player(memory).play([first, second]))) == 2
        memory.store.add_fact("ann.secret", "a surprise party", scope="user:Ann")
        memory.store.add_fact("wifi", "\x1b[31mred\u202e", scope="global")
    return path


@pytest.mark.parametrize("name", [*COMMANDS])
def test_every_command_has_help(name: str) -> None:
    """The table of the first page agrees with what there is."""
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert COMMANDS[name][1] in run("--help").output.replace("\n            ", " ")


def test_help_imports_no_command() -> None:
    """The first page comes without models, tables and databases."""
    code = (
        "import sys; from edgemem.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('rich', 'numpy', 'llama_cpp', 'sqlite3', 'edgemem.memory') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip().endswith("[]"), done.stdout + done.stderr


def test_recall_finds_and_says_why(home: Path) -> None:
    """A hit carries its score, its words and the signals that found it; a conversation those of what was said in it."""
    items = json.loads(run("recall", "peanuts", "--home", home, "--json").stdout)
    assert any("peanuts" in item["text"] for item in items)
    assert all(0 <= item["score"] <= 1 and item["why"] for item in items)
    assert "peanuts" in run("recall", "is", "there", "peanuts", "--home", home).stdout
    [session] = json.loads(run("recall", "canoe", "--sessions", "--home", home, "--json").stdout)
    assert any("canoe" in item["text"] for item in session["messages"])
    assert session["session"] in run("recall", "canoe", "--sessions", "--home", home).stdout
    assert "question is empty" in refused(run("recall", " ", "--home", home))


@pytest.mark.parametrize(
    ("args", "private"),
    [
        (("recall", "surprise party"), "surprise"), (("recall", "canoe"), "canoe"), (("facts",), "surprise"),
        (("recall", "canoe", "--sessions"), "canoe"), (("sessions", "show", "hall"), "canoe"),
    ],
)  # fmt: skip
def test_a_speaker_sees_what_they_would_be_told(home: Path, args: tuple[str, ...], private: str) -> None:
    """Private text is shown to its owner and to the operator, not to others."""
    for who in ((), ("--speaker", "Ann")):
        assert private in run(*args, "--home", home, *who, "--json").stdout
    assert private not in run(*args, "--home", home, "--speaker", "Bo", "--json").stdout


def test_stored_text_cannot_steer_the_terminal(home: Path) -> None:
    """Escape sequences and direction marks in a stored value are not printed."""
    out = run("facts", "--home", home, color=True).stdout
    assert [part for part in ("\x1b[31m", "\u202e") if part in out] == []
    assert plain("a\x1b[2Jb\u202ec\n\td") == "a\ufffd[2Jbc d"


@pytest.mark.parametrize("columns", ["60", "80"])
def test_no_line_is_wider_than_a_terminal(home: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a table has no room, each cell gets a line; a drawing is as wide as the terminal."""
    monkeypatch.setenv("COLUMNS", columns)
    for args in (
        *(("facts",), ("facts", "ann.allergy"), ("sessions",), ("sessions", "hall"), ("models",)),
        *(("recall", "peanuts canoe"), ("recall", "--sessions", "peanuts canoe")),
    ):
        out = run(*args, "--home", home).stdout
        lines = [line for line in out.splitlines() if "/" not in line]  # paths are for copying
        assert all(len(line) <= int(columns) for line in lines), out
    words = run("facts", "--home", home).stdout.replace("\n", " ").split()
    assert {"peanuts", "ann.allergy"} <= set(words)
    wide = home.parent / f"wide{columns}"
    assert run("facts", "add", "k" * 200, "word " * 1000, "--home", wide).exit_code == 0
    out = run("facts", "--home", wide).stdout
    assert "5,000 characters" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= int(columns)


def test_a_terminal_without_colours_gets_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR holds for errors as well."""
    for args in (("facts", "nope"), ("check",), ("models", "verify")):
        monkeypatch.delenv("NO_COLOR", raising=False)
        coloured = run(*args, "--home", home, color=True)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run(*args, "--home", home, color=True).output
        assert "\x1b" in coloured.output or args == ("check",)


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("fact",), "facts"), (("facts", "hisotry", "wifi"), "history"), (("facts", "wiffi"), "wifi"),
        (("facts", "lst"), "list"), (("forget", "wify"), "wifi"), (("sessions", "hal"), "hall"),
        (("models", "gett"), "get"), (("models", "get", "all-minilm"), "all-minilm-l6-v2"),
        (("models", "remove", "all-minilm"), "all-minilm-l6-v2"),
    ],
)  # fmt: skip
def test_a_misspelt_word_comes_with_the_nearest(home: Path, args: tuple[str, ...], meant: str) -> None:
    """Commands, keys, conversations and models are told by what was probably meant."""
    result = run(*args, *(() if args[0] == "fact" else ("--home", home)))
    assert result.exit_code in (1, 2)
    assert f"Did you mean {meant}?" in result.stderr or f"perhaps {meant} was meant" in result.stderr


def test_a_newcomer_without_a_model_learns_of_it(tmp_path: Path) -> None:
    """Where nothing is found by words alone, recall says how to find by meaning; who wants no model is left alone."""
    home = tmp_path / "new"
    run("facts", "add", "allergy", "hazelnuts", "--home", home)
    (home / "edgemem.toml").write_text('[llama]\nembedder = "embeddinggemma-300m"\n')
    result = run("recall", "where", "is", "the", "stapler", "--home", home)
    assert result.stdout == "Nothing is remembered about that.\n"
    assert "edgemem models get embeddinggemma-300m" in result.stderr
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    assert run("recall", "where", "is", "the", "stapler", "--home", home).stderr == ""


def test_recall_finds_by_meaning_what_came_a_moment_ago(
    tmp_path: Path, minilm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the vectors that are missing, and says how many it had no time for."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("vet", "Doctor Brandt looks after the cat")
        memory.diagnostics.index.catch_up()
    with monkeypatch.context() as patch:
        patch.setattr("edgemem.cli.options.EMBED_S", 0.0)
        result = run("recall", "animal physician", "--home", home, "--json")
        assert result.stderr == "1 text without a vector yet: only words find that.\n"
    result = run("recall", "animal physician", "--home", home, "--json")
    assert result.stderr == ""
    assert "meaning" in json.loads(result.stdout)[0]["why"]


@pytest.mark.parametrize("args", [("recall", "canoe"), ("facts",), ("sessions", "hall"), ("episodes",)])
def test_a_name_that_nobody_bears_is_told_with_the_nearest(home: Path, args: tuple[str, ...]) -> None:
    """The command goes on as that person; a name counts in any case."""
    assert run(*args, "--home", home, "--speaker", "ann").stderr == ""
    result = run(*args, "--home", home, "--speaker", "Anne")
    assert result.exit_code == 0
    assert result.stderr == "Nobody here is called Anne. Did you mean Ann?\n"


def test_the_home_stands_before_or_behind_the_command(home: Path, tmp_path: Path) -> None:
    """Behind it counts more, and both more than the environment."""
    other = tmp_path / "other"
    run("facts", "add", "tea", "black", "--home", other)
    shown = run("facts", "list", "--home", home).stdout
    for args in (("--home", home, "facts"), ("--home", other, "facts", "--home", home)):
        assert run(*args, env={"EDGEMEM_HOME": str(other)}).stdout == shown
    assert "black" in run("facts", env={"EDGEMEM_HOME": str(other)}).stdout
    assert "something already" in refused(run("--home", home, "demo"))


def test_a_file_is_no_home(tmp_path: Path) -> None:
    """A file in place of the home is told, and stays as it is."""
    path = tmp_path / "file"
    path.write_text("mine")
    for args in (("recall", "x"), ("facts",), ("sessions",), ("demo",), ("check",)):
        assert "is a file" in refused(run(*args, "--home", path))
    assert path.read_text() == "mine"


def test_times_are_read_as_people_write_them() -> None:
    """ISO with and without a zone, a date as its end, and seconds."""
    when = When()
    assert when.convert("2026-11-02T08:00:00+01:00", None, None) == 1793602800.0
    assert when.convert("2026-11-02T07:00:00Z", None, None) == 1793602800.0
    assert when.convert("1793602800", None, None) == 1793602800.0
    end = when.convert("2026-11-02", None, None) - when.convert("2026-11-02T00:00", None, None)
    assert 86399 < end < 86400
    assert Begin().convert("2026-11-02", None, None) == when.convert("2026-11-02T00:00", None, None)
    assert Begin().convert("12.5", None, None) == 12.5
    assert run("facts", "--as-of", "yesterdayish").exit_code == 2


def test_a_fault_of_ours_is_a_sentence_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is told without a traceback, and with one when it is asked for."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("edgemem.memory.Memory.recall", broken)
    assert "ZeroDivisionError: inside" in refused(run("recall", "x", "--home", home))
    monkeypatch.setenv("EDGEMEM_TRACEBACK", "1")
    assert isinstance(run("recall", "x", "--home", home).exception, ZeroDivisionError)


def test_replay_plays_a_script(tmp_path: Path) -> None:
    """A script is played into the home, what it must be shown is checked, and playing it twice is refused."""
    script = tmp_path / "talk.jsonl"
    script.write_text(
        '{"at": "2026-11-02T08:00:00+01:00", "speaker": "Ann", "say": "My canoe is in the shed.", "reply": "Good."}\n'
        '{"say": "Where is the canoe?", "speaker": "Ann", "reply": "In the shed.", "must": ["in the shed"]}\n'
    )
    report = json.loads(run("replay", script, "--home", tmp_path / "home", "--json").stdout)
    assert (report["turns"], report["messages"], report["checks"], report["checks_failed"]) == (2, 4, 1, 0)
    assert "holds session 'kitchen' already" in refused(run("replay", script, "--home", tmp_path / "home"))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"at": 1790000000, "speaker": "Ann", "say": "Hello.", "must": ["zebra"]}\n')
    failed = run("replay", broken, "--home", tmp_path / "broken", "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["checks_failed"]) == (1, 1)
    printed = run("replay", script, "--session", "one", "--home", tmp_path / "again")
    assert "tokens memory" in printed.stdout
    assert "Ann: My canoe" in run("sessions", "one", "--home", tmp_path / "again").stdout


def test_chat_goes_on_where_it_was(tmp_path: Path, chat_model: Callable[[str], Path]) -> None:
    """Lines come from a pipe, empty ones are passed over, /quit ends, and the next chat knows the turns before."""
    home = tmp_path / "home"
    args = ["chat", "--llm", chat_model("qwen2"), "--home", home, "--speaker", "Ann"]
    args += ["--max-tokens", "4", "--json"]
    first = run(*args, input="My canoe is blue.\n\n   \nIt leaks.\n/quit\nnever said\n")
    assert first.exit_code == 0, first.output
    turns = [json.loads(line) for line in first.stdout.splitlines()]
    assert [turn["said"] for turn in turns] == ["My canoe is blue.", "It leaks."]
    second = json.loads(run(*args, input="And now?\n").stdout)
    assert second["prompt_tokens"] > turns[1]["prompt_tokens"]
    (session,) = json.loads(run("sessions", "--home", home, "--json").stdout)
    assert (session["session"], session["turns"], session["unfinished"]) == ("chat", 3, 0)
    assert "canoe" in run("recall", "canoe", "--home", home).stdout


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("recall", "--nope"), "--nope"), (("recall", "tea", "--json", "-x"), "-x"), (("recall",), "QUERY"),
        (("recall", "tea", "-k", "0"), "1000"), (("recall", "tea", "-k"), "-k"), (("--nope",), "--nope"),
        (("recall", "tea", "--valid-at", "noonish"), "noonish"), (("check", "too", "much"), "too much"),
        (("facts", "add", "tea"), "VALUE"), (("facts", "add", "--json"), "KEY"),
        (("--json", "recall", "tea"), "edgemem COMMAND --json"),
    ],
)  # fmt: skip
def test_a_mistyped_line_is_one_sentence(args: tuple[str, ...], names: str) -> None:
    """Unknown options, missing words and bad values are named without a block of usage, with exit code 2."""
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("edgemem: ")
    assert names in sentence
    assert "Usage" not in sentence


@pytest.mark.parametrize(
    ("args", "says"),
    [
        *(((name,), "There is no memory at") for name in ("facts", "stats", "export", "notes", "check")),
        (("recall", "x"), "There is no memory at"),
        (("facts", "add", "a", "b"), "holds other things, such as mine.txt"),
        (("notes", "add", "x"), "holds other things, such as mine.txt"),
        (("models", "add", "f"), "holds other things, such as mine.txt"),
        ((), "holds other things, such as mine.txt"),
    ],
)
def test_a_directory_of_others_is_left_alone(tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    """A directory without a memory gets no folders and keeps its rights, whatever is asked, also by `edgemem.open`."""
    tmp_path.chmod(0o755)
    (tmp_path / "mine.txt").write_text("x")
    if args:
        assert says in refused(run(*args, "--home", tmp_path))
    else:
        with pytest.raises(InvalidInputError, match=says):
            edgemem.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["edgemem.toml", "NOTES.md", "models/x.gguf", ".keep"])
def test_what_was_put_ready_for_a_home_may_be_there(tmp_path: Path, name: str) -> None:
    """A profile, notes or models that lie there before the first start are those of the home."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    assert run("facts", "add", "a", "b", "--home", tmp_path).exit_code == 0
    assert "a" in run("facts", "--home", tmp_path).stdout


def test_the_home_that_was_meant_is_named(tmp_path: Path) -> None:
    """The README keeps its memory in a folder of the default home: who asks there is told where it is."""
    home = tmp_path / "kitchen"
    assert run("facts", "add", "a", "b", "--home", home).exit_code == 0
    for args in (("facts",), ("facts", "add", "a", "c")):
        assert f"there is one at {home}" in refused(run(*args, "--home", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["kitchen"]


@pytest.mark.parametrize(("name", "says"), [("", "is empty"), ("~no-such-user-here/x", "no such user")])
def test_a_home_that_can_be_no_path_is_one_sentence(name: str, says: str) -> None:
    """An empty variable of a script does not mean the working directory."""
    assert says in refused(run("facts", "--home", name))


def test_checking_makes_no_home(tmp_path: Path) -> None:
    """`check` with a misspelt home looks at the machine, says that there is no memory, and makes none."""
    ran = run("check", "--home", tmp_path / "typo")
    assert ran.exit_code == 0
    assert "there is no memory at" in " ".join(ran.stdout.split())
    assert "machine" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_ours_is_closed_to_others(tmp_path: Path) -> None:
    """An empty directory and a home are closed; one that holds something of the operator's keeps its rights."""
    for name, closed in (("empty", True), ("ready", False)):
        home = tmp_path / name
        home.mkdir()
        home.chmod(0o755)
        if not closed:
            (home / "lost+found").mkdir()
        edgemem.open(home, profile=BY_WORDS, worker=False).close()
        assert home.stat().st_mode & 0o777 == (0o700 if closed else 0o755)
    (tmp_path / "ready").chmod(0o755)
    edgemem.open(tmp_path / "ready", profile=BY_WORDS, worker=False).close()
    assert (tmp_path / "ready").stat().st_mode & 0o777 == 0o700


def test_a_new_fact_says_who_may_read_it(tmp_path: Path) -> None:
    """Who tells a fact sees at once who may read it."""
    readers = {"global": "anybody", "household": "recognised speakers", "user:alice": "alice alone"}
    for scope, who in readers.items():
        told = run("facts", "add", "allergy", "nuts", "--scope", scope, "--home", tmp_path / "home").stdout
        assert told.rstrip().endswith(f"; read by {who}.")


def test_a_home_that_cannot_be_written_is_one_sentence() -> None:
    """Where no folder can be made, that is said; /proc refuses even root."""
    assert "cannot be made" in refused(run("demo", "--home", "/proc/edgemem-home"))
