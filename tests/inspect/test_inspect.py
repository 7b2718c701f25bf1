"""`edgemem inspect prompt`: the prompt as the model would get it, and nothing stored by looking; scripts that are replayed."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.config import HookSettings, NotesSettings, Profile
from edgemem.errors import InvalidInputError
from edgemem.inspect.prompt import Inspection, inspect_prompt
from edgemem.inspect.replay import Player, read_script
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, StoredMessage, Turn
from support.cli import refused, run
from support.homes import BY_WORDS, opened
from support.models import Model
from support.refusals import refusal
from support.tokenizers import WordTokenizer

WEATHER = """
class Weather:
    points = frozenset({"before_llm"})
    priority = 0

    def __call__(self, point, ctx, payload):
        raise AssertionError("it may store something")

def hook(memory):
    return Weather()
"""
FACTS = {"ann.tea": "green, no sugar", "ann.car": "a red van", "bo.dog": "a spaniel", "bo.job": "nurse"}


def look(
    memory: Memory, said: str, *, speaker: str | None = "Ann", session: str = "hall", **settings: Any
) -> Inspection:
    return inspect_prompt(
        memory, said, session=session, speaker=speaker, tokenizer=WordTokenizer(), **settings
    )


def talk(home: Path, *said: str) -> None:
    with opened(home, "[recall]\ndeadline_ms = 60000\n") as memory:
        for key, value in FACTS.items():
            memory.store.add_fact(key, value)
        memory.store.add_fact("ann.secret", "a surprise party", scope="user:Ann")
        memory.idle(10.0)
        hooks = memory.hooks(session_id="hall", speaker="Ann", tokenizer=WordTokenizer())
        loop = AgentLoop(Model(), hooks=hooks)
        for text in said:
            loop.run(text)
        memory.idle(10.0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("look") / "home"
    talk(path, "Is the tea green, without sugar?", "Thank you.")
    return path


def contents(home: Path) -> dict[str, Any]:
    """Return every row of both files, and a checksum of the truth's bytes."""
    found: dict[str, Any] = {
        "bytes": hashlib.sha256((home / "db" / "memory.db").read_bytes()).hexdigest(),
        "files": sorted(
            path.relative_to(home).as_posix()
            for path in home.rglob("*")
            if path.is_file() and not path.name.endswith(("-wal", "-shm"))
        ),
    }
    for name in ("memory.db", "index.db"):
        connection = sqlite3.connect(f"file:{home / 'db' / name}?mode=ro", uri=True)
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            found[f"{name}/{table}"] = sorted(map(repr, connection.execute(f"select * from {table}")))
        connection.close()
    return found


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.text(min_size=1, max_size=60),
    speaker=st.sampled_from(["Ann", "Bo", None]),
    session=st.sampled_from(["hall", "new"]),
)
def test_looking_stores_nothing(home: Path, said: str, speaker: str | None, session: str) -> None:
    """Whatever is asked about and by whom, every row, every file and the truth's bytes stay as they were."""
    before = contents(home)
    who = () if speaker is None else ("--speaker", speaker)
    result = run("inspect", "prompt", "--home", home, "--session", session, *who, "--", said)
    assert result.exit_code in (0, 1), result.output
    assert contents(home) == before


def test_an_open_turn_stays_open(tmp_path: Path) -> None:
    """A look beside a running robot does not mark its turn as cut off."""
    talk(tmp_path, "Hello.")
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.sessions.journal.accept(Turn("hall", 1, (StoredMessage("user", "half a"),), "open")).result()
        assert look(memory, "And now?").parts
        assert [turn.state for turn in memory.sessions.journal.read_turns("hall")] == ["complete"]


@pytest.mark.parametrize(
    "said", ["Is the tea green, without sugar?", "What car does Ann drive, a red van?", "Good night."]
)
def test_it_is_the_prompt_that_the_next_turn_hands_over(tmp_path: Path, said: str) -> None:
    """What the look shows is what the model then gets, message for message."""
    talk(tmp_path, "Is the tea green, without sugar?", "Thank you.")
    with edgemem.open(tmp_path, worker=False) as memory:
        found = look(memory, said, instructions="You are a robot.")
        model, hooks = Model(), memory.hooks(session_id="hall", speaker="Ann", tokenizer=WordTokenizer())
        AgentLoop(model, hooks=hooks, instructions="You are a robot.").run(said, speaker="Ann")
    assert found.messages == model.handed[-1]


def reasons(found: Inspection) -> dict[str, str]:
    return {item.text: item.left_out for item in found.left_out}


def test_what_is_left_out_says_why(tmp_path: Path) -> None:
    """Already visible, no room, not likely enough: each has its own reason."""
    talk(tmp_path, "Is the tea green, without sugar?", "Ann's van has a flat tyre.")
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.add_fact("ann.van", "in the garage until Friday, its red paint is scratched")
        told = reasons(look(memory, "Is the tea green, without sugar?"))
        assert told["ann tea: green, no sugar"] == "before the model already, since turn 0"
        here = "before the model already: turn 0 of this conversation"
        assert told["Is the tea green, without sugar?"] == here
        memory.diagnostics.settings.now = msgspec.structs.replace(
            memory.profile, context=msgspec.structs.replace(memory.profile.context, block_tokens=8)
        )
        told = reasons(
            look(memory, "Is the van in the garage until Friday, its red paint scratched?", session="new")
        )
    assert told["ann van: in the garage until Friday, its red paint is scratched"].startswith("no room in 8")
    assert told["ann car: a red van"] == "not likely enough to help ([injection] useless_per_useful)"


def test_what_contests_a_line_is_told(tmp_path: Path) -> None:
    """Among the reasons why it is there."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        for code, sure in (("4711", 0.9), ("4712", 0.1)):
            heard = Heard(speaker="Ann", asr_confidence=sure)
            memory.store.add_fact("gate.code", code, scope="household", heard=heard)
        line, *_ = look(memory, "What is the gate code?").lines
    assert "contested by gate.code: 4712" in line.why


def test_notes_that_are_closed_to_the_voice_are_named(tmp_path: Path) -> None:
    """Whoever wonders why NOTES.md is not there is told, and what opens it; a recognised speaker has it."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        memory.notes.append("The oven runs hot.")
        said = "NOTES.md is for recognised speakers and was left out, because nobody knows who speaks ([notes] level)."
        assert said in look(memory, "Hello.", speaker=None).notes
        assert said not in look(memory, "Hello.", speaker="Ann").notes
    profile = Profile(llama=BY_WORDS.llama, notes=NotesSettings(level="shared"))
    with edgemem.open(tmp_path, profile=profile, worker=False) as memory:
        found = look(memory, "Hello.", speaker=None)
        assert (said in found.notes, any("oven" in line.text for line in found.note_lines)) == (False, True)
        assert "oven" in memory.recall("oven", speaker=None)[0].text


def test_what_is_closed_is_named_and_not_quoted(tmp_path: Path) -> None:
    """A secret that would answer is told to exist and whose it is; its words and its name are not."""
    talk(tmp_path, "Hello.", "Thank you.")
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.add_fact("wine", "a red one from Porto", scope="household")
        for speaker in ("Bo", None):
            found = look(memory, "When is the surprise party?", speaker=speaker)
            (secret,) = [item for item in found.left_out if item.left_out == "private to Ann"]
            assert secret.text == ""
            assert "secret" not in repr(secret)
        (wine,) = [item for item in look(memory, "Which red wine?", speaker=None).left_out if not item.text]
        assert wine.left_out == "closed to a voice that is not recognised"
        far = look(memory, "Is the red wine from Porto?", speaker="Bo")
        assert far.left_out
        assert all(item.text for item in far.left_out), "what is far away anyway is not told to exist"
        assert any("2 turns" in note and "closed" in note for note in look(memory, "Hi.", speaker=None).notes)


def test_the_command_prints_parts_sums_and_estimates(home: Path) -> None:
    """Without a model the figures are marked as estimates; JSON holds all of it."""
    said = "What car does Ann drive, a red van?"
    args = ("inspect", "prompt", said, "--session", "hall", "--speaker", "Ann", "--home", home)
    text = run(*args).stdout
    assert [part for part in ("red van", "turn 0 Ann", "estimates") if part not in text] == []
    assert all(len(line) <= 80 for line in text.splitlines())
    found = json.loads(run(*args, "--json").stdout)
    assert sum(part["tokens"] for part in found["parts"]) == found["tokens"]
    assert found["free_tokens"] == found["window_tokens"] - found["tokens"]
    assert not found["exact"]
    assert sum(found["plan"].values()) == found["tokens"]
    assert found["plan"]["tools"] > 0
    assert found["recall"]["candidates"] > 0
    assert "recall " in text
    assert "before the model already" in run(*args, "--whole").stdout
    assert json.loads(run(*args, "--json", "--no-tools").stdout)["plan"]["tools"] == 0


@pytest.mark.parametrize(
    "args",
    [
        ("", "--session", "hall"), ("\udcff", "--session", "hall"), ("Hi.", "--session", "a\0b"),
        ("Hi.", "--llm", "/no/such.gguf"), ("x" * (1 << 21),),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(home: Path, args: tuple[str, ...]) -> None:
    """What cannot be looked at is told in one sentence."""
    refused(run("inspect", "prompt", *args, "--home", home))


@pytest.mark.parametrize(
    ("vocabulary", "template"),
    [("qwen2", "Qwen-Qwen3-0.6B"), ("llama-bpe", "mistralai-Mistral-Nemo-Instruct-2407")],
)
def test_parts_of_a_prompt_are_exact(home: Path, vocabularies: Path, vocabulary: str, template: str) -> None:
    """With a model's own tokenizer the parts add up to what the model will be handed, whatever its template does."""
    source = (vocabularies / "templates" / f"{template}.jinja").read_text()
    with (
        LlamaTokenizer(vocabularies / f"ggml-vocab-{vocabulary}.gguf", template=source) as tokenizer,
        edgemem.open(home, worker=False) as memory,
    ):
        how = {"session": "hall", "speaker": "Ann", "instructions": "You are a robot."}
        found = inspect_prompt(memory, "What car does Ann drive, a red van?", tokenizer=tokenizer, **how)
        now = memory.sessions.journal.latest_epoch("hall")
        assert found.exact
        assert found.tokens == tokenizer.count(found.messages, now=now.started_at if now else None)
    names = ["instructions", "turn", "turn", "memory", "utterance", "opening"]
    assert [part.name for part in found.parts] == names
    assert (found.parts[1].turn, found.parts[1].speaker) == (0, "Ann")
    assert found.free_tokens == found.window_tokens - found.tokens
    assert sum(line.tokens for line in found.lines) <= found.parts[3].tokens <= (found.block_limit or 0)
    assert all(line.score is not None and line.why for line in found.lines if "red van" in line.text)
    assert all(part.tokens > 0 for part in found.parts[:-1])


def test_of_the_hooks_that_are_not_asked_only_the_users_are_named(tmp_path: Path) -> None:
    """What keeps a turn puts nothing before the model; what somebody else's hook would put there is missing."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        assert [note for note in look(memory, "Hello.").notes if "was not asked" in note] == []
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "weather.py").write_text(WEATHER)
    profile = msgspec.structs.replace(BY_WORDS, hooks=HookSettings(files=("weather.py",)))
    with edgemem.open(tmp_path, profile=profile, worker=False) as memory:
        assert [note for note in look(memory, "Hello.").notes if "was not asked" in note] == [
            "weather was not asked, because it may store something."
        ]


AT = '"at": "2026-11-02T08:00:00+01:00"'


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_time_and_session_are_taken_from_the_line_before(tmp_path: Path) -> None:
    """A line that says neither follows a minute later in the same session."""
    ear = '"speaker": "Ann", "heard": {"asr_confidence": 0.4, "room": "hall"}'
    path = written(
        tmp_path, f'{{{AT}, "say": "hello", "session": "hall", {ear}}}', "", '{"say": "again"}',
        '{"say": "bye", "session": "attic"}',
    )  # fmt: skip
    first, second, third = read_script(path)
    assert second.time == first.time + 60
    assert (first.session, second.session, third.session) == ("hall", "hall", "attic")
    assert first.local.utcoffset() is not None
    heard = first.as_heard()
    assert (heard.speaker, heard.asr_confidence, heard.room) == ("Ann", 0.4, "hall")
    assert heard.event_time == first.time


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("not json", "line 2: JSON is malformed"),
        ("[1]", "line 2: Expected `object`"),
        ('{"speaker": "Ann"}', "missing required field `say`"),
        ('{"say": 5}', "Expected `str`"),
        ('{"say": "x", "spaeker": "Ann"}', "unknown field `spaeker`"),
        ('{"say": "x", "at": "2026-11-02T08:00:00"}', "needs its zone"),
        ('{"say": "x", "at": "Monday"}', "line 2: "),
        ('{"say": "x", "reply": "yes", "interrupted": "no"}', "the beginning of `reply`"),
        ('{"say": " "}', "Nothing was said"),
        ('{"say": "x", "session": "a\\nb"}', "a session id holds"),
        ('{"say": "x", "at": 1e300}', "`at` must be a time of the years 1 to 9999"),
        ('{"say": "x", "remember": [{"key": "", "value": "b"}]}', "a key must not be empty"),
        ('{"say": "x", "remember": [{"key": "a", "value": "b", "scope": "x"}]}', "There is no scope 'x'"),
        ('{"say": "x", "tools": [{"name": "oven"}]}', "either `result` or `error`"),
        (
            '{"say": "x", "remember": [{"key": "a", "value": "b", "valid_from": "2026-11-02T08:00:00"}]}',
            "needs its zone",
        ),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    """What is wrong with a line is said in one sentence, with where it stands."""
    path = written(tmp_path, f'{{{AT}, "say": "fine"}}', line)
    sentence = refusal(InvalidInputError, read_script, path)
    assert complaint in sentence
    assert sentence.startswith("talk.jsonl, line 2: ")


def test_a_line_without_a_reply_is_kept_without_one(memory: Memory, tmp_path: Path) -> None:
    """Old chats may hold one side alone; the model reads that nothing was said."""
    said = ("My dog is called Rex.", "And my cat Tom.")
    lines = read_script(written(tmp_path, *(f'{{{AT}, "say": "{words}"}}' for words in said)))
    played = list(Player(memory).play(lines))
    assert [turn.result.reply for turn in played] == ["", ""]
    turns = memory.sessions.journal.read_turns("kitchen")
    assert [[message.content for message in turn.messages] for turn in turns] == [[words] for words in said]
    assert [m["content"] for m in played[1].result.handed[0] if m["role"] == "assistant"] == ["…"]


def test_binary_empty_and_missing_files_are_refused(tmp_path: Path) -> None:
    """No file, nothing in it, or no text: one sentence each."""
    path = tmp_path / "talk.jsonl"
    refusal(InvalidInputError, read_script, path, match="cannot be read")
    path.write_bytes(b"\n \n")
    refusal(InvalidInputError, read_script, path, match="holds no lines")
    path.write_bytes(b"\xff\xfe\x00GGUF")
    refusal(InvalidInputError, read_script, path, match="line 1")
    path.write_text('{"say": "no time"}')
    refusal(InvalidInputError, read_script, path, match="the first line needs `at`")
