"""The command line: one sentence for every error, JSON for everything, and nothing that steers the terminal."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.cli import COMMANDS, main
from edgemem.cli.options import When
from edgemem.cli.printing import plain

if TYPE_CHECKING:
    from pathlib import Path


def run(*args: object, **settings: Any) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(arg) for arg in args], **settings)


def refused(result: Result) -> str:
    """Return the one sentence of a command that failed."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    sentence = result.stderr.strip()
    assert sentence.startswith("edgemem: ")
    assert "\n" not in sentence
    return sentence


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with a few facts and a conversation of two turns."""
    from edgemem.inspect.replay import Player
    from edgemem.inspect.script import Line, ScriptedFact

    path = tmp_path / "home"
    with edgemem.open(path, worker=False) as memory:
        player = Player(memory)
        fact = ScriptedFact("ann.allergy", "peanuts")
        lines = [
            Line(
                say="I am allergic to peanuts.",
                reply="Noted.",
                at=1.78e9,
                speaker="Ann",
                session="hall",
                remember=(fact,),
            ),
            Line(
                say="The canoe is in the shed.",
                reply="Good.",
                at=1.78e9 + 60,
                speaker="Ann",
                session="hall",
                private=True,
            ),
        ]
        for _ in player.play(lines):
            pass
        memory.store.add_fact("ann.secret", "a surprise party", scope="user:Ann")
        memory.store.add_fact("wifi", "\x1b[31mred\u202e", scope="global")
    return path


@pytest.mark.parametrize("name", [*COMMANDS])
def test_every_command_has_help_and_its_module(name: str) -> None:
    """The table of the first page agrees with what there is."""
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert importlib.import_module(f"edgemem.cli.{'import_' if name == 'import' else name}")
    assert COMMANDS[name] in run("--help").output.replace("\n            ", " ")


@pytest.mark.parametrize("name", ["demo", "chat", "replay", "recall", "check"])
def test_every_printing_command_has_json(name: str) -> None:
    """Whatever prints can print JSON."""
    assert "--json" in run(name, "--help").output


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


def test_python_dash_m_runs_the_command_line() -> None:
    """`python -m edgemem` is the same command."""
    done = subprocess.run(
        [sys.executable, "-m", "edgemem", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == f"edgemem, version {edgemem.__version__}"


def test_recall_finds_and_says_why(home: Path) -> None:
    """A hit carries its score, its words and the signals that found it."""
    found = json.loads(run("recall", "peanuts", "--home", home, "--json").stdout)
    assert any("peanuts" in item["text"] for item in found)
    assert all(0 <= item["score"] <= 1 and item["why"] for item in found)
    assert "peanuts" in run("recall", "peanuts", "--home", home).stdout


def test_recall_reads_with_the_eyes_of_a_speaker(home: Path) -> None:
    """Private text is found by its owner and by the operator, not by others."""
    assert "surprise" in run("recall", "surprise party", "--home", home, "--json").stdout
    assert "surprise" in run("recall", "surprise party", "--home", home, "--speaker", "Ann", "--json").stdout
    assert (
        "surprise" not in run("recall", "surprise party", "--home", home, "--speaker", "Bo", "--json").stdout
    )
    assert "canoe" not in run("recall", "canoe", "--home", home, "--speaker", "Bo", "--json").stdout


def test_recall_tells_conversations(home: Path) -> None:
    """With `--sessions` a hit is a conversation with what was said there; private ones are for their owner."""
    [found] = json.loads(run("recall", "canoe", "--sessions", "--home", home, "--json").stdout)
    assert any("canoe" in item["text"] for item in found["messages"])
    assert found["score"] >= found["messages"][0]["score"]
    told = run("recall", "canoe", "--sessions", "--home", home).stdout
    assert "canoe" in told
    assert found["session"] in told
    hers = run("recall", "canoe", "--sessions", "--home", home, "--speaker", "Bo").stdout
    assert "canoe" not in hers
    refused = run("recall", "canoe", "--sessions", "--valid-at", "2026-11-02", "--home", home)
    assert refused.exit_code == 1


def test_facts_now_then_and_one_by_name(home: Path) -> None:
    """`facts` lists, `--as-of` goes back, `facts KEY` tells the history."""
    keys = {fact["key"] for fact in json.loads(run("facts", "--home", home, "--json").stdout)}
    assert keys == {"ann.allergy", "ann.secret", "wifi"}
    assert (
        run("facts", "--home", home, "--as-of", "2001-01-01").stdout.strip() == "There are no facts to show."
    )
    history = json.loads(run("facts", "ann.allergy", "--home", home, "--json").stdout)
    assert [(version["value"], version["scope"]) for version in history] == [("peanuts", "household")]
    assert "peanuts" in run("facts", "show", "ann.allergy", "--home", home).stdout
    assert "no.such" in refused(run("facts", "no.such", "--home", home))


def test_facts_of_a_speaker_leave_out_what_others_keep_private(home: Path) -> None:
    """`--speaker` applies the rule that the robot applies."""
    keys = {
        fact["key"] for fact in json.loads(run("facts", "--speaker", "Bo", "--home", home, "--json").stdout)
    }
    assert keys == {"ann.allergy", "wifi"}


def test_sessions_are_listed_and_shown(home: Path) -> None:
    """A conversation is listed with its turns and shown word for word."""
    (one,) = json.loads(run("sessions", "--home", home, "--json").stdout)
    assert (one["session"], one["turns"]) == ("hall", 2)
    shown = run("sessions", "hall", "--home", home).stdout
    assert "Ann: I am allergic to peanuts." in shown
    assert "canoe" not in run("sessions", "show", "hall", "--speaker", "Bo", "--home", home).stdout
    assert "no conversation 'attic'" in refused(run("sessions", "attic", "--home", home))


def test_stored_text_cannot_steer_the_terminal(home: Path) -> None:
    """Escape sequences and direction marks in a stored value are not printed."""
    out = run("facts", "--home", home, color=True).stdout
    assert "\x1b[31m" not in out
    assert "\u202e" not in out
    assert plain("a\x1b[2Jb\u202ec\n\td") == "a\ufffd[2Jbc d"


def test_tables_keep_to_80_columns(home: Path) -> None:
    """No printed line is wider than a small terminal."""
    for args in (
        ("recall", "peanuts canoe party"),
        ("recall", "--sessions", "peanuts canoe party"),
        ("facts",),
        ("facts", "ann.allergy"),
        ("sessions",),
        ("sessions", "hall"),
    ):
        out = run(*args, "--home", home).stdout
        assert max(len(line) for line in out.splitlines()) <= 80, out


def examples(command: click.Command) -> list[str]:
    """Return the examples in the help of a command and of those below it."""
    found = re.findall(
        r"^ *(?:\* \* \* \* \* )?(edgemem [^|\n]+?)(?:  .*| \|.*)?$", command.help or "", re.MULTILINE
    )
    below = command.commands.values() if isinstance(command, click.Group) and command is not main else ()
    return [*found, *(each for one in below for each in examples(one))]


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_every_example_of_the_help_can_be_typed(name: str | None) -> None:
    """Commands and options of each example are there."""
    command = main if name is None else main.get_command(click.Context(main), name)
    assert command is not None
    for line in examples(command):
        args = shlex.split(line.partition(" >")[0])[1:]
        typed = [arg for arg in args if arg != "COMMAND"]
        assert run(*typed, *(() if "--help" in typed else ("--help",))).exit_code == 0, line


def test_help_has_examples_where_words_alone_leave_a_doubt() -> None:
    """Times, scopes, prefixes, pipes and cron are shown, not only described."""
    for name in ("facts", "recall", "notes", "export", "import", "models", "stats", "completion"):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert examples(command) or name == "completion", name


@pytest.mark.parametrize("columns", ["40", "60"])
def test_a_narrow_terminal_loses_no_column(home: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a table has no room, each cell gets a line; a drawing is as wide as the terminal."""
    monkeypatch.setenv("COLUMNS", columns)
    for args in (("facts",), ("facts", "ann.allergy"), ("sessions",), ("recall", "peanuts"), ("models",)):
        out = run(*args, "--home", home).stdout
        lines = [line for line in out.splitlines() if "/" not in line]  # paths are for copying
        assert max(len(line) for line in lines) <= int(columns), out
    told = run("facts", "--home", home).stdout
    assert {"peanuts", "ann.allergy"} <= set(told.replace("\n", " ").split())


def test_a_long_key_does_not_push_the_value_out(tmp_path: Path) -> None:
    """A key of 200 letters goes on below itself, and a value of 5,000 ends after some lines and says so."""
    with edgemem.open(tmp_path / "home", worker=False) as memory:
        memory.store.add_fact("k" * 200, "the value")
        memory.store.add_fact("long", "word " * 1000)
    out = run("facts", "--home", tmp_path / "home").stdout
    assert "the value" in " ".join(out.split())
    assert "5,000 characters" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_terminal_without_colours_gets_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR holds for errors and pictures as well."""
    for args in (("facts", "nope"), ("facts", "wifi"), ("check",), ("models", "verify")):
        monkeypatch.delenv("NO_COLOR", raising=False)
        coloured = run(*args, "--home", home, color=True)
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run(*args, "--home", home, color=True).output
        assert "\x1b" in coloured.output or args == ("check",)


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("fact",), "facts"),
        (("facts", "hisotry", "wifi"), "history"),
        (("facts", "wiffi"), "wifi"),
        (("facts", "lst"), "list"),
        (("sessions", "hal"), "hall"),
        (("models", "gett"), "get"),
        (("models", "get", "all-minilm"), "all-minilm-l6-v2"),
        (("models", "remove", "all-minilm"), "all-minilm-l6-v2"),
        (("forget", "wify"), "wifi"),
    ],
)
def test_a_misspelt_word_comes_with_the_nearest(home: Path, args: tuple[str, ...], meant: str) -> None:
    """Commands, keys, conversations and models are told by what was probably meant."""
    result = run(*args, *(() if args[0] == "fact" else ("--home", home)))
    assert result.exit_code in (1, 2)
    assert f"Did you mean {meant}?" in result.stderr or f"perhaps {meant} was meant" in result.stderr


@pytest.mark.parametrize("option", ["--home", "--json", "--speaker"])
def test_an_option_of_a_command_stands_behind_it(option: str) -> None:
    """Whoever writes it before the command is told where it belongs."""
    result = run(option, "x", "recall", "tea")
    assert result.exit_code == 2
    assert f"edgemem COMMAND {option}" in result.stderr


def test_an_option_that_nobody_knows_is_refused() -> None:
    """Only those of the commands are known before them."""
    result = run("--hom", "x", "recall", "tea")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


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


def test_several_words_need_no_quotes(home: Path) -> None:
    """A question, a value and a note may be typed as they are spoken."""
    assert run("facts", "add", "tea", "black", "or", "green", "--home", home).exit_code == 0
    assert "black or green" in run("recall", "which", "tea", "is", "there", "--home", home).stdout
    run("notes", "add", "Bins", "on", "Monday.", "--home", home)
    assert run("notes", "--home", home).stdout.endswith("Bins on Monday.\n")
    assert "question is empty" in refused(run("recall", " ", "--home", home))


@pytest.mark.parametrize(
    "args", [("recall", "x"), ("facts",), ("facts", "key"), ("sessions",), ("sessions", "x")]
)
def test_reading_makes_no_home(tmp_path: Path, args: tuple[str, ...]) -> None:
    """A home that is not there is not made by looking into it."""
    path = tmp_path / "none"
    assert "There is no memory at" in refused(run(*args, "--home", path))
    assert not path.exists()


@pytest.mark.parametrize("args", [("recall", "x"), ("facts",), ("sessions",), ("demo",), ("check",)])
def test_a_file_is_no_home(tmp_path: Path, args: tuple[str, ...]) -> None:
    """A file in place of the home is told, and stays as it is."""
    path = tmp_path / "file"
    path.write_text("mine")
    assert "is a file" in refused(run(*args, "--home", path))
    assert path.read_text() == "mine"


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be read as one" * 40, b""])
def test_a_damaged_database_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    """A truth that is no database is an error in words, or, if empty, an empty memory."""
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "memory.db").write_bytes(content)
    result = run("facts", "--home", tmp_path)
    if content:
        refused(result)
    else:
        assert result.exit_code == 0


@pytest.mark.parametrize(
    "query", ["", "   ", "\x00", "\udcff", "☃" * 1000, "\u202e)(*\"'", "a" * (1 << 20), "NEAR(x y) OR -"]
)
def test_recall_takes_any_text(home: Path, query: str) -> None:
    """A query is answered or refused in one sentence, whatever it holds."""
    result = run("recall", query, "--home", home)
    if result.exit_code:
        refused(result)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a\x00b", "\udcff", "x" * 100_000])
def test_session_names_are_never_paths(home: Path, name: str) -> None:
    """A name that is none leads to a sentence."""
    refused(run("sessions", "show", name, "--home", home))


def test_times_are_read_as_people_write_them() -> None:
    """ISO with and without a zone, a date as its end, and seconds."""
    when = When()
    assert when.convert("2026-11-02T08:00:00+01:00", None, None) == 1793602800.0
    assert when.convert("2026-11-02T07:00:00Z", None, None) == 1793602800.0
    assert when.convert("1793602800", None, None) == 1793602800.0
    end = when.convert("2026-11-02", None, None) - when.convert("2026-11-02T00:00", None, None)
    assert 86399 < end < 86400
    assert run("facts", "--as-of", "yesterdayish").exit_code == 2


def test_a_fault_of_ours_is_a_sentence_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is told without a traceback, and with one when it is asked for."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("edgemem.memory.Memory.recall", broken)
    assert "ZeroDivisionError: inside" in refused(run("recall", "x", "--home", home))
    monkeypatch.setenv("EDGEMEM_TRACEBACK", "1")
    assert isinstance(run("recall", "x", "--home", home).exception, ZeroDivisionError)


def test_check_lists_what_works(tmp_path: Path) -> None:
    """`check` names each part with its state, and JSON has the same."""
    result = run("check", "--home", tmp_path / "home", "--json")
    states = {one["name"]: one["state"] for one in json.loads(result.stdout)}
    assert set(states.values()) <= {"ok", "warn", "fail"}
    assert {"database", "embedder", "clock", "disk"} <= set(states)
    assert "SQLite" in run("check", "--home", tmp_path / "home").stdout


def test_replay_plays_a_script_and_measures_recall(tmp_path: Path) -> None:
    """A script is played into the home, its evidence is asked for, and playing it twice is refused."""
    script = tmp_path / "talk.jsonl"
    script.write_text(
        '{"at": "2026-11-02T08:00:00+01:00", "speaker": "Ann", "say": "My canoe is in the shed.", "reply": "Good.", "id": "a"}\n'
        '{"say": "Where is the canoe?", "speaker": "Ann", "reply": "In the shed.", "evidence": ["a"], "must": ["in the shed"]}\n'
    )
    report = json.loads(run("replay", script, "--home", tmp_path / "home", "--json").stdout)
    assert (report["turns"], report["messages"], report["checks_failed"]) == (2, 4, 0)
    assert (report["asked"], report["recall"]) == (1, 1.0)
    assert "holds session 'kitchen' already" in refused(run("replay", script, "--home", tmp_path / "home"))
    printed = run("replay", script, "--session", "one", "--home", tmp_path / "again")
    assert "recall@10" in printed.stdout
    assert "Ann: My canoe" in run("sessions", "one", "--home", tmp_path / "again").stdout


def test_replay_asks_when_all_is_written(tmp_path: Path) -> None:
    """Where no turn waits for the disk, what was said last is measured too."""
    home, script = tmp_path / "home", tmp_path / "talk.jsonl"
    home.mkdir()
    (home / "edgemem.toml").write_text('[store]\ncommit_wait_s = 0.0\n[llama]\nembedder = ""\n')
    said = [f'{{"say": "My canoe number {n} is in the shed.", "id": "a{n}"}}' for n in range(8)]
    asked = '{"say": "Where is canoe number 7?", "evidence": ["a7"], "must": []}'
    first = said[0].replace("{", '{"at": "2026-11-02T08:00:00+01:00", ', 1)
    script.write_text("\n".join([first, *said[1:], asked]) + "\n")
    report = json.loads(run("replay", script, "--home", home, "--json").stdout)
    assert report["recall"] == 1.0


def test_replay_fails_where_a_script_is_not_kept(tmp_path: Path) -> None:
    """A text that must be before the model and is not makes exit code 1, figures and all."""
    script = tmp_path / "talk.jsonl"
    script.write_text('{"at": 1790000000, "speaker": "Ann", "say": "Hello.", "must": ["zebra"]}\n')
    result = run("replay", script, "--home", tmp_path / "home", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["checks_failed"] == 1


def test_replay_refuses_what_is_no_script(tmp_path: Path) -> None:
    """Binary, foreign and missing files are one sentence, and make no home."""
    path = tmp_path / "talk.jsonl"
    home = tmp_path / "home"
    for content in (b"\x00\x01\x02", b"hello\n", b"[1, 2]", b"", b'{"say": 1}'):
        path.write_bytes(content)
        refused(run("replay", path, "--home", home))
    refused(run("replay", tmp_path / "missing", "--home", home))
    assert not home.exists()


def test_chat_needs_a_model_that_is_one(tmp_path: Path) -> None:
    """A file that is missing or no GGUF is told before anybody says a word."""
    path = tmp_path / "model.gguf"
    refused(run("chat", "--llm", path, "--home", tmp_path / "home", input="hello\n"))
    path.write_bytes(b"GGUF\x03\x00")
    refused(run("chat", "--llm", path, "--home", tmp_path / "home", input="hello\n"))


@pytest.fixture
def model(tmp_path: Path, vocabularies: Path) -> Path:
    """Return a real chat model that answers nonsense."""
    from ggufs import write_llama_gguf

    return write_llama_gguf(tmp_path / "model.gguf", vocabularies=vocabularies)


def test_chat_goes_on_where_it_was(tmp_path: Path, model: Path) -> None:
    """Lines come from a pipe, empty ones are passed over, /quit ends, and the next chat knows the turns before."""
    home = tmp_path / "home"
    args = ("chat", "--llm", model, "--home", home, "--speaker", "Ann", "--max-tokens", "4", "--json")
    first = run(*args, input="My canoe is blue.\n\n   \nIt leaks.\n/quit\nnever said\n")
    assert first.exit_code == 0, first.output
    turns = [json.loads(line) for line in first.stdout.splitlines()]
    assert [turn["said"] for turn in turns] == ["My canoe is blue.", "It leaks."]
    second = json.loads(run(*args, input="And now?\n").stdout)
    assert second["prompt_tokens"] > turns[1]["prompt_tokens"]
    (session,) = json.loads(run("sessions", "--home", home, "--json").stdout)
    assert (session["session"], session["turns"], session["unfinished"]) == ("chat", 3, 0)
    assert "canoe" in run("recall", "canoe", "--home", home).stdout


def test_chat_survives_what_nobody_says(tmp_path: Path, model: Path) -> None:
    """Binary, NUL, lone bytes and a megabyte end in a reply or a sentence, and the talk goes on."""
    lines = [
        b"\xff\xfe\x00\x01",
        b"<|im_start|>system",
        b"a " * 600_000,
        "\u202eright to left".encode(),
        b"hello",
    ]
    args = ("chat", "--llm", model, "--home", tmp_path / "home", "--max-tokens", "2", "--json")
    result = run(*args, input=b"\n".join(lines))
    assert result.exit_code == 0, result.output
    assert "Traceback" not in result.output
    assert json.loads(result.stdout.splitlines()[-1])["said"] == "hello"


def test_chat_tells_of_a_turn_that_was_cut_off(tmp_path: Path, model: Path) -> None:
    """A turn left open by a crash is kept, marked unfinished, and told once at the next start."""
    from edgemem.records import StoredMessage, Turn

    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.sessions.journal.accept(Turn("chat", 0, (StoredMessage("user", "half a"),), "open")).result()
    args = ("chat", "--llm", model, "--home", home, "--max-tokens", "2")
    assert "1 turn of session chat had been cut off" in run(*args, input="hello\n").stderr
    assert "cut off" not in run(*args, input="hello\n").stderr
    assert "half a" in run("sessions", "chat", "--home", home).stdout


def test_a_home_that_cannot_be_written_is_one_sentence() -> None:
    """Where no folder can be made, that is said; /proc refuses even root."""
    assert "cannot be made" in refused(run("demo", "--home", "/proc/edgemem-home"))


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("recall", "--nope"), "--nope"),
        (("recall", "tea", "--json", "-x"), "-x"),
        (("recall",), "QUERY"),
        (("recall", "tea", "-k", "0"), "1000"),
        (("recall", "tea", "-k"), "-k"),
        (("recall", "tea", "--valid-at", "noonish"), "noonish"),
        (("facts", "add", "tea"), "VALUE"),
        (("facts", "add", "--json"), "KEY"),
        (("stats", "too", "much"), "too much"),
        (("reca", "tea"), "Did you mean recall?"),
        (("models", "gett", "x"), "Did you mean get?"),
        (("--nope",), "--nope"),
        (("--json", "recall", "tea"), "edgemem COMMAND --json"),
    ],
)
def test_a_mistyped_line_is_one_sentence(args: tuple[str, ...], names: str) -> None:
    """Unknown options, missing words and bad values are named without a block of usage, with exit code 2."""
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    sentence = result.stderr
    assert sentence.startswith("edgemem: ")
    assert sentence.endswith("\n")
    assert sentence.count("\n") == 1
    assert names in sentence
    assert "Usage" not in sentence


def test_a_command_that_needs_another_word_shows_its_page() -> None:
    """Whoever types only the beginning is told what there is."""
    for args in ((), ("inspect",)):
        result = run(*args)
        assert "Usage:" in result.output
        assert "Commands:" in result.output
