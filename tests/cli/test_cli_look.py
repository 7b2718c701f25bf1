"""Looking from the command line: facts told, drawn in two times and erased, conversations with their marks, and completion."""

import json
import math
import shutil
import tempfile
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import HandClock
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import edgemem
from edgemem.cli.options import Begin, When
from edgemem.cli.printing import WIDTH
from edgemem.cli.timeline import ASCII, UNICODE, Belief, axis_of, beliefs_of, believed, draw, newest, versions
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.turn_steps import KeepOutput
from edgemem.store.turns import pointer_to
from edgemem.store.users import put_goal
from support.cli import refused, run
from support.homes import opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "home"
    opened(path).close()
    for args in (
        ("tulip", "--valid-from", "2026-01-05", "--speaker", "Mara"),
        ("rose", "--valid-from", "2026-02-05"),
        ("lily", "--valid-from", "2025-02-05", "--valid-to", "2025-03-01"),
    ):
        assert run("facts", "add", "wifi", *args, "--home", path).exit_code == 0
    return path


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "home"))


def test_times_are_read_and_printed_in_the_zone_of_the_home(home: Path) -> None:
    """Not in that of the machine from which an operator looks; a time that names its zone is that time."""
    text = (home / "edgemem.toml").read_text()
    (home / "edgemem.toml").write_text(text.replace("[time]\n", '[time]\nzone = "Asia/Tokyo"\n'))
    add = ("facts", "add", "gate", "4711", "--valid-from")
    assert "2026-11-02 18:30" in run(*add, "2026-11-02T18:30", "--home", home).stdout
    told = json.loads(run("facts", "history", "gate", "--home", home, "--json").stdout)[0]
    assert told["valid_from"] == When().convert("2026-11-02T18:30+09:00", None, None)
    assert "2026-11-02 18:30" in run("facts", "history", "gate", "--home", home).stdout


def test_a_fact_is_told_with_all_that_belongs_to_it(home: Path) -> None:
    """Scope, speaker, source and both ends of its time are kept; what is told twice is written once."""
    args = ["facts", "add", "ann.tea", "green", "--scope", "user:Ann", "--speaker", "Ann", "--source", "test"]
    args += ["--valid-from", "2026-01-05", "--valid-to", "2026-01-06"]
    told = json.loads(run(*args, "--home", home, "--json").stdout)
    assert (told["value"], told["scope"], told["owner"]) == ("green", "user:Ann", "Ann")
    assert (told["source"], told["heard"]) == ("test", {"speaker": "Ann"})
    assert told["valid_from"] == Begin().convert("2026-01-05", None, None)
    assert told["valid_to"] == When().convert("2026-01-06", None, None)
    again = run("facts", "add", "wifi", "rose", "--home", home)
    assert "already" in again.stdout
    assert len(json.loads(run("facts", "history", "wifi", "--home", home, "--json").stdout)) == 3


def test_the_history_is_drawn_and_told(home: Path) -> None:
    """Each version is a line of the picture and a row of the table; `facts KEY` is the same."""
    shown = run("facts", "history", "wifi", "--home", home)
    text = shown.stdout
    told = ("3 versions", "█1 tulip █", "█2 rose █", "lily", "Mara")
    assert [part for part in told if part not in text] == []
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "█2 rose █" in run("facts", "wifi", "--home", home).stdout
    ascii_only = run("facts", "history", "wifi", "--ascii", "--home", home).stdout
    assert "#1 tulip #" in ascii_only
    assert "█" not in ascii_only


def test_forgetting_one_of_two_scopes_wants_its_name(home: Path) -> None:
    """A key in two scopes is not guessed at; --yes asks nothing, --json tells what went."""
    run("facts", "add", "wifi", "sesame", "--scope", "env:garage", "--home", home)
    assert "--scope" in refused(run("facts", "forget", "wifi", "--yes", "--home", home))
    assert "wifi" in refused(run("facts", "forget", "wifi", "--scope", "user:Bo", "--yes", "--home", home))
    done = run("facts", "forget", "wifi", "--scope", "global", "--yes", "--home", home, "--json")
    assert json.loads(done.stdout) == {"key": "wifi", "scope": "global", "versions": 3, "pending": {}}
    assert "sesame" in run("facts", "--home", home).stdout


def test_recall_looks_at_another_time(home: Path) -> None:
    """What held, and what was known, is asked for with a date; a question about the past needs none."""

    def told(*args: str) -> list[tuple[str, bool]]:
        found = json.loads(run("recall", "wifi", *args, "--json", "--home", home).stdout)
        return [(item["value"], item.get("past", False)) for item in found]

    assert told() == [("rose", False)]
    assert told("--valid-at", "2026-01-20") == [("tulip", True)]
    assert told("--valid-at", "2025-02-20") == [("lily", True)]
    assert told("--valid-at", "2026-01-20", "--known-at", "2025-01-01") == []
    assert {value for value, past in told("what was it before") if past} == {"tulip", "lily"}
    printed = run("recall", "what was the wifi before", "--home", home).stdout
    assert "wifi: tulip (until 2026-02-05)" in printed


@pytest.fixture
def talked(tmp_path: Path) -> Path:
    """Return a home with turns that ended in every way."""
    path = tmp_path / "talked"
    heard = Heard("Ann", 0.93, 0.8, "mic-1", "hall", 1_770_000_000.0)
    with opened(path) as memory:
        journal = memory.sessions.journal
        user, robot = StoredMessage("user", "How far is the moon?"), StoredMessage("assistant", "Far away.")
        block = "<memory>\n- moon: 384,000 km\n</memory>\n"
        journal.commit(Turn("hall", 0, (user, robot), block=block, heard=heard)).result()
        cut = StoredMessage("assistant", "Very far away.")
        journal.commit(Turn("hall", 1, (user, cut), heard=heard)).result()
        journal.amend("hall", 1, ["Very"]).result()
        journal.commit(Turn("hall", 2, (user,), "unfinished", level="private", owner="Ann")).result()
        journal.accept(Turn("hall", 3, (user,), "open")).result()
    return path


def test_a_conversation_shows_who_when_how_and_what_was_shown(talked: Path) -> None:
    """Speaker, times, how well it was heard, the block, and what was not heard of a reply."""
    text = run("sessions", "show", "hall", "--home", talked).stdout
    told = (
        *(
            "Ann: How far is the moon?", "a voice: How far is the moon?", "robot: Far away.", "kept ", "private",
        ),
        *("- moon: 384,000 km", "voice 93% sure", "words 80% sure", "hall, mic-1", "not heard: far away."),
    )  # fmt: skip
    assert [part for part in told if part not in text] == []
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "384,000" not in run("sessions", "hall", "--no-blocks", "--home", talked).stdout


def test_turns_that_did_not_end_well_are_marked_and_summed_up(talked: Path) -> None:
    """Interrupted and unfinished turns say so where they stand, and at the end."""
    lines = run("sessions", "hall", "--home", talked).stdout.splitlines()
    for mark, number in (("(interrupted:", 1), ("(unfinished:", 2)):
        assert sum(mark in line for line in lines) == number
    assert lines[-1] == "4 turns, 1 interrupted, 2 unfinished"
    (listed,) = json.loads(run("sessions", "--home", talked, "--json").stdout)
    # A line in the log of turns names no conversation; who reads it finds the name here.
    assert (listed["session"], listed["number"]) == ("hall", zlib.crc32(b"hall"))


def test_what_a_tool_answered_is_shown_in_full(tmp_path: Path) -> None:
    """The whole text, line by line and harmless on a terminal, exact as JSON, and only to whoever may read its turn."""
    path = tmp_path / "tools"
    text = "pump:  ok\n\x1b[31mvalve\topen\n" * 400
    with opened(path) as memory:
        memory.store.add_fact("tea", "black", heard=Heard("Bob"))
        said = (StoredMessage("user", "Read the log."),)
        name = pointer_to("hall", text)
        journal = memory.sessions.journal
        turn = Turn("hall", 0, said, level="private", owner="Ann", heard=Heard("Ann"))
        journal.commit(turn, [KeepOutput("hall", name, text, 10**6)]).result()
    shown = run("inspect", "output", name.upper(), "--home", path)
    assert shown.stdout == text.replace("\x1b", "\N{REPLACEMENT CHARACTER}").expandtabs()
    assert shown.stderr == f"{len(text):,} characters, from turn 0 of hall (private of Ann)\n"
    told = json.loads(run("inspect", "output", name, "--speaker", "Ann", "--home", path, "--json").stdout)
    whose = {"session": "hall", "turn": 0, "level": "private", "owner": "Ann"}
    assert told == {"pointer": name, **whose, "characters": len(text), "text": text}
    for args in (["0011223344"], [name, "--speaker", "Bob"], ["'; drop table turns"]):
        sentence = refused(run("inspect", "output", *args, "--home", path))
        assert sentence.startswith("edgemem: Nothing is kept under ")
        assert ("that Bob may read" in sentence) == ("Bob" in args)
    copy = tmp_path / "copy"
    lines = run("export", "--home", path).stdout
    assert ", 1 tool output" in run("import", "-", "--home", copy, input=lines).stdout
    assert json.loads(run("inspect", "output", name, "--home", copy, "--json").stdout) == told
    assert run("forget", "--speaker", "Ann", "--yes", "--home", copy).exit_code == 0
    refused(run("inspect", "output", name, "--home", copy))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str) -> None:
    """The script calls edgemem back under its own name."""
    result = run("completion", shell)
    assert result.exit_code == 0, result.output
    assert f"_EDGEMEM_COMPLETE={shell}_complete" in result.stdout
    assert "bash-completion/completions/edgemem" in run("completion", "--help").stdout


def offered(*words: str, **env: str) -> list[str]:
    """Return what bash would offer after the words, the last of which is not finished."""
    typed = {"COMP_WORDS": " ".join(("edgemem", *words)), "COMP_CWORD": str(len(words))}
    done = run(prog_name="edgemem", env={"_EDGEMEM_COMPLETE": "bash_complete", **typed, **env})
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_keys_and_conversations_are_offered(home: Path, talked: Path) -> None:
    """Words, options, keys and session ids complete; where there is no home, nothing is offered or made."""
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("wifi.\u202eback", "x")  # what could steer a terminal is not offered
    assert offered("sess") == ["sessions"]
    assert {"add", "history", "forget", "list"} <= set(offered("facts", ""))
    assert offered("sessions", "sh") == ["show"]
    assert "--valid-from" in offered("facts", "add", "--va")
    assert offered("facts", "history", "w", EDGEMEM_HOME=str(home)) == ["wifi"]
    assert offered("facts", "forget", "--home", str(home), "wi") == ["wifi"]
    assert offered("sessions", "show", "", EDGEMEM_HOME=str(talked)) == ["hall"]
    assert offered("forget", "w", EDGEMEM_HOME=str(home)) == ["wifi"]
    assert offered("models", "g") == ["get"]
    assert offered("models", "get", "qwen2") == ["qwen2.5-1.5b-instruct"]
    nowhere = home.parent / "nowhere"
    assert offered("facts", "history", "", EDGEMEM_HOME=str(nowhere)) == []
    assert not nowhere.exists()


def test_bad_input_is_one_sentence_and_loses_nothing(home: Path) -> None:
    """What cannot be stored or found is told in one sentence, and the facts stay as they were."""
    before = run("facts", "--home", home, "--json").stdout
    for args in (
        ("add", "k", "x" * (1 << 20)), ("add", "k", "a\0b", "--scope", "a\0b"), ("add", "", "x"),
        ("add", "k", "x", "--valid-from", "2026-02-01", "--valid-to", "2026-01-01"), ("history", "../../x"),
        ("forget", "no.such", "--yes"), ("forget", "\udcff", "--yes"),
    ):  # fmt: skip
        refused(run("facts", *args, "--home", home))
    assert run("facts", "--home", home, "--json").stdout == before


def test_goals_are_listed(tmp_path):
    """All of them, those of a person, and as JSON."""
    home = tmp_path / "home"
    with opened(home) as memory:
        data = {"target_amount": 900, "current_amount": 30, "phase": "saving"}
        memory.store.database.write(lambda tx: put_goal(tx, "Ann", "canoe", "buy a canoe", data))
        memory.store.database.write(lambda tx: put_goal(tx, "Bob", "shed", "paint the shed", {}))

    def told(*options):
        return run("goals", *options, "--home", home).output

    assert "buy a canoe, 30 of 900 (saving)" in told()
    assert "paint the shed" in told()
    assert "shed" not in told("--person", "ann")
    assert [goal["name"] for goal in json.loads(told("--json"))] == ["shed", "canoe"]
    assert "no goals" in told("--person", "eve")


Spoken = list[tuple[str | None, float | None, float | None]]
DAY = 86400.0
START = 1_770_000_000.0
TIMES = st.one_of(st.none(), st.integers(-400, 400).map(lambda days: START + days * DAY))
VALUES = st.one_of(
    st.none(),
    st.text(min_size=1, max_size=30),
    st.sampled_from(["日本語の値段", "\x1b[31mred\u202e\nnext", "e\u0301"]),
)
SAID = st.lists(st.tuples(VALUES, TIMES, TIMES), min_size=1, max_size=12)


def tell(store: SQLiteMemoryStore, hand: HandClock, spoken: Spoken) -> None:
    """Tell a store statements, half an hour apart; None retracts."""
    for value, begin, end in spoken:
        hand.advance(1800.0)
        if value is None:
            store.retract_fact("k", valid_from=begin)
        elif value.strip() and (end is None or end > (hand.wall if begin is None else begin)):
            store.add_fact("k", value, valid_from=begin, valid_to=end)


def chain(n: int) -> list[Belief]:
    """Return n values that follow one another day by day, each learnt when it began."""
    out = [Belief(0, None, -math.inf, START, START, math.inf)]
    for i in range(n):
        begin, end = START + i * DAY, START + (i + 1) * DAY
        last = i == n - 1
        out.append(Belief(i + 1, f"value {i}", begin, math.inf, begin, math.inf if last else end))
        if not last:
            out.append(Belief(i + 1, f"value {i}", begin, end, end, math.inf))
    return out


@settings(max_examples=25, deadline=None)
@given(spoken=SAID, ascii_only=st.booleans())
def test_the_drawing_is_narrow_complete_and_true(spoken: Spoken, ascii_only: bool) -> None:
    """No line is wider than 80 cells or steers the terminal, each version has one line, and every cell says what `facts_as_of` says."""
    hand = HandClock(START)
    with (
        tempfile.TemporaryDirectory() as folder,
        SQLiteMemoryStore(Path(folder) / "m.db", clock=hand.clock) as store,
    ):
        tell(store, hand, spoken)
        beliefs = beliefs_of(store.database, "k", "global")
        now = hand.clock.now()
        lines = draw(beliefs, now=now, glyphs=ASCII if ascii_only else UNICODE)
        assert all(cell_len(line) <= WIDTH for line in lines)
        assert not any(sign in line for line in lines for sign in "\x1b\u202e\n")
        numbered = versions(beliefs)
        assert sum(belief.value is not None for belief in numbered.values()) == len(store.fact_history("k"))
        assert [line[:4].strip() for line in lines[2:]] == [str(number) for number in numbered]
        for new in numbered.values():
            for stretch in pairwise(axis_of(numbered.values(), now)):
                drawn = [value for _, value in believed(beliefs, new.learnt, *stretch) if value is not None]
                for at in sampled(*stretch):
                    assert [fact.value for fact in store.facts_as_of(at, known_at=new.learnt)] == drawn


def sampled(begin: float, end: float) -> list[float]:
    """Return moments of a stretch: its beginning, which belongs to it, and one between."""
    if not math.isfinite(begin):
        return [end - 1.0]
    return [begin, (begin + end) / 2 if math.isfinite(end) else begin + 1e6]


@pytest.mark.parametrize("n", [1, 2, 14, 200])
def test_of_many_versions_the_newest_are_drawn(n: int) -> None:
    """A sensor's fact has thousands of versions; the newest keep their numbers."""
    lines = draw(chain(n), now=START + n * DAY)
    numbered = [line for line in lines if line[:4].strip().isdigit()]
    assert [int(line[:4]) for line in numbered] == list(range(max(0, n - newest(WIDTH)) + 1, n + 1))
    assert all(UNICODE[0] in line for line in numbered)
    assert all(cell_len(line) <= WIDTH for line in lines)


def test_what_held_before_is_shaded_and_what_ended_is_crossed() -> None:
    """A correction that takes a value away shows the rest of it, and where there is none any more."""
    beliefs = [
        Belief(1, "tulip", START, math.inf, START, START + DAY),
        Belief(1, "tulip", START, START + DAY, START + DAY, math.inf),
        Belief(2, None, START + DAY, math.inf, START + DAY, math.inf),
    ]
    second = next(line for line in draw(beliefs, now=START + 2 * DAY) if line.startswith("   2"))
    assert [part for part in ("░", "×") if part not in second] == []
    assert "█" not in second
