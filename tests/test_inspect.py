"""`edgemem inspect prompt`: the prompt as the model would get it, told part by part, and nothing stored by looking."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from ggufs import write_llama_gguf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from word_tokenizer import WordTokenizer

import edgemem
from edgemem.cli import main
from edgemem.config import ContextSettings, NotesSettings, Profile
from edgemem.context.block.select import NEAR
from edgemem.errors import InvalidInputError
from edgemem.hooks.points import BEFORE_LLM
from edgemem.inspect.prompt import Inspection, inspect_prompt
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Reply, StoredMessage, Turn

FACTS = (
    ("ann.tea", "green, no sugar"),
    ("ann.car", "a red van"),
    ("bo.dog", "a spaniel"),
    ("bo.job", "nurse"),
)


class Model:
    """Answers the same to everything, and keeps what it was handed."""

    def __init__(self) -> None:
        self.handed: list[dict[str, Any]] = []

    def complete(self, messages: Sequence[dict[str, Any]], **_: Any) -> Reply:
        """Say something."""
        self.handed = list(messages)
        return Reply("Of course.")

    def cut(self, heard_text: str) -> None:
        """Do nothing."""


def run(*args: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(arg) for arg in args])


def look(
    memory: Memory, said: str, *, speaker: str | None = "Ann", session: str = "hall", **settings: Any
) -> Inspection:
    """Inspect the next prompt of a session with a tokenizer that counts words."""
    tokenizer = WordTokenizer()
    return inspect_prompt(
        memory.hooks(session_id=session, speaker=speaker, tokenizer=tokenizer),
        said,
        speaker=speaker,
        look=lambda **who: memory.recall(said, k=20, asked=False, **who),
        k=memory.profile.recall.k,
        recalled=memory.last_recall,
        **settings,
    )


def talk(home: Path, *said: str, profile: Profile | None = None) -> None:
    """Make a home in which Ann has said some things in the session `hall`."""
    home.mkdir(exist_ok=True)
    (home / "edgemem.toml").write_text(
        '[llama]\nembedder = ""\n[recall]\ndeadline_ms = 60000\n', encoding="utf-8"
    )  # words suffice, and are quick
    with edgemem.open(home, profile=profile, worker=False) as memory:
        for key, value in FACTS:
            memory.store.add_fact(key, value)
        memory.store.add_fact("ann.secret", "a surprise party", scope="user:Ann")
        memory.idle(10.0)
        loop = AgentLoop(
            Model(), hooks=memory.hooks(session_id="hall", speaker="Ann", tokenizer=WordTokenizer())
        )
        for text in said:
            loop.run(text)
        memory.idle(10.0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with facts and a conversation of two turns."""
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
            if not table.startswith(("words", "vocabulary")):
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
        found = look(memory, "And now?")
        assert [turn.state for turn in memory.sessions.journal.read_turns("hall")] == ["complete", "open"]
    assert any("half a" in part.text for part in found.parts)


@pytest.mark.parametrize(
    "said", ["Is the tea green, without sugar?", "What car does Ann drive, a red van?", "Good night."]
)
def test_it_is_the_prompt_that_the_next_turn_hands_over(tmp_path: Path, said: str) -> None:
    """What the look shows is what the model then gets, message for message."""
    talk(tmp_path, "Is the tea green, without sugar?", "Thank you.")
    with edgemem.open(tmp_path, worker=False) as memory:
        found = look(memory, said, instructions="You are a robot.")
        model = Model()
        AgentLoop(
            model,
            hooks=memory.hooks(session_id="hall", speaker="Ann", tokenizer=WordTokenizer()),
            instructions="You are a robot.",
        ).run(said, speaker="Ann")
    assert found.messages == model.handed


def test_the_parts_add_up_to_the_whole(home: Path) -> None:
    """Instructions, turns, memory, utterance and the opening take together what the prompt takes, counted at once."""
    with edgemem.open(home, worker=False) as memory:
        found = look(memory, "What car does Ann drive, a red van?", instructions="You are a robot.")
    assert [part.name for part in found.parts] == [
        "instructions",
        "turn",
        "turn",
        "memory",
        "utterance",
        "opening",
    ]
    assert found.exact
    assert found.tokens == WordTokenizer().count(found.messages)
    assert found.free_tokens == found.window_tokens - found.tokens
    first = found.parts[1]
    assert (first.turn, first.speaker) == (0, "Ann")
    assert first.block_tokens > 0
    memory_part = found.parts[3]
    assert sum(line.tokens for line in found.lines) <= memory_part.tokens <= found.block_limit


def test_each_line_says_why_and_what_did_not_become_one(home: Path) -> None:
    """Lines carry their score and signals; what scored too little is told apart."""
    with edgemem.open(home, worker=False) as memory:
        found = look(memory, "What car does Ann drive, a red van?")
    (line,) = [line for line in found.lines if "red van" in line.text]
    assert line.score is not None
    assert line.why
    assert all(item.left_out for item in found.left_out)
    assert not {item.id for item in found.left_out} & {line.id for line in found.lines}


def reasons(found: Inspection) -> dict[str, str]:
    """Return why things are left out, by their text."""
    return {item.text: item.left_out for item in found.left_out}


def test_what_is_left_out_says_why(tmp_path: Path) -> None:
    """Already visible, scored too little, behind a better one, only a question, no room: each has its own reason."""
    talk(tmp_path, "Is the tea green, without sugar?", "Ann's van has a flat tyre.")
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.add_fact("ann.van", "in the garage until Friday, its red paint is scratched")
        told = reasons(look(memory, "Is the tea green, without sugar?"))
        assert told["ann tea: green, no sugar"] == "before the model already, since turn 0"
        assert (
            told["Is the tea green, without sugar?"]
            == "before the model already: turn 0 of this conversation"
        )
        memory.settings.now = msgspec.structs.replace(
            memory.profile, context=msgspec.structs.replace(memory.profile.context, block_tokens=16)
        )
        told = reasons(look(memory, "Does Ann's scratched red van have a flat tyre?", session="new"))
        near = reasons(
            look(memory, "Is the van in the garage until Friday, its red paint scratched?", session="new")
        )
    assert told["ann van: in the garage until Friday, its red paint is scratched"].startswith("no room in 16")
    assert f"{NEAR:.0%} of the best one" in near["ann car: a red van"]


def test_of_the_hooks_that_are_not_asked_only_the_users_are_named(tmp_path: Path) -> None:
    """What keeps a turn puts nothing before the model; what somebody else's hook would put there is missing."""

    class Weather:
        points = frozenset({"before_llm"})
        priority = 0

        def __call__(self, point: str, ctx: object, payload: object) -> None:
            raise AssertionError("it may store something")

    with edgemem.open(tmp_path, worker=False) as memory:
        said = [note for note in look(memory, "Hello.").notes if "was not asked" in note]
        assert said == []
        hooks = [*memory.hooks(session_id="hall", speaker="Ann", tokenizer=WordTokenizer()), Weather()]
        found = inspect_prompt(hooks, "Hello.", speaker="Ann")
        assert [note for note in found.notes if "was not asked" in note] == [
            "Weather was not asked, because it may store something."
        ]


def test_notes_that_are_closed_to_the_voice_are_named(tmp_path: Path) -> None:
    """Whoever wonders why NOTES.md is not there is told, and what opens it; a recognised speaker has it."""
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.notes.append("The oven runs hot.")
        said = "NOTES.md is for recognised speakers and was left out, because nobody knows who speaks ([notes] level)."
        assert said in look(memory, "Hello.", speaker=None).notes
        assert said not in look(memory, "Hello.", speaker="Ann").notes
    profile = Profile(notes=NotesSettings(level="shared"))
    with edgemem.open(tmp_path, profile=profile, worker=False) as memory:
        found = look(memory, "Hello.", speaker=None)
        assert (said in found.notes, any("oven" in line.text for line in found.note_lines)) == (False, True)
        assert "oven" in memory.recall("oven", speaker=None)[0].text


def test_a_change_that_was_told_is_before_the_model(tmp_path: Path) -> None:
    """It was told under another id than the fact now has."""
    talk(tmp_path, "Is the tea green, without sugar?")
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.add_fact("ann.tea", "white")
        hooks = memory.hooks(session_id="hall", speaker="Ann", tokenizer=WordTokenizer())
        AgentLoop(Model(), hooks=hooks).run("Thank you.")
        told = reasons(look(memory, "Is the tea white?"))
    assert told["ann tea: white"] == "before the model already, since turn 1"


def test_a_question_that_was_asked_before_is_no_answer(home: Path) -> None:
    """A turn that only asks is told apart from one that scored too little."""
    with edgemem.open(home, worker=False) as memory:
        found = look(memory, "Is the tea green, without sugar?", session="new")
    assert reasons(found)["Is the tea green, without sugar?"] == "only asks something"


def test_what_nothing_is_known_of_names_the_least_score(home: Path) -> None:
    """Where nothing is likely to help, the bound and the key of the profile that sets it are told."""
    with edgemem.open(home, worker=False) as memory:
        injection = next(hook for hook in memory.hooks() if hasattr(hook, "floors"))
        floor = injection.floors.any
        told = reasons(look(memory, "They spoke about the nurse and a lot of other, quite different things."))
    assert f"nothing reaches {floor:.2f} ([injection] min_score)" in told.values()


def test_a_look_tells_what_recall_took(home: Path) -> None:
    """The milliseconds and candidates are those of the block's own recall, not of the look beside it."""
    with edgemem.open(home, worker=False) as memory:
        found = look(memory, "What car does Ann drive, a red van?")
        assert found.recall.search_ms > 0
        assert found.recall.candidates > 0
        assert found.recall is not memory.last_recall()


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


def test_the_plan_counts_each_kind_of_part(tmp_path: Path, vocabularies: Path) -> None:
    """Tool schemas and notes are told apart from instructions and memory, and the plan adds up to the prompt."""
    talk(tmp_path, "Is the tea green, without sugar?")
    source = (vocabularies / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text()
    with (
        LlamaTokenizer(vocabularies / "ggml-vocab-qwen2.gguf", template=source) as tokenizer,
        edgemem.open(tmp_path, worker=False) as memory,
    ):
        memory.notes.append("The plumber comes on Friday at nine.")
        schemas = [tool.schema() for tool in memory.tools()]

        def ask(tools: Sequence[dict[str, Any]]) -> Inspection:
            return inspect_prompt(
                memory.hooks(session_id="hall", speaker="Ann", tokenizer=tokenizer),
                "What car does Ann drive, a red van?",
                speaker="Ann",
                instructions="You are a robot.",
                tools=tools,
            )

        found, bare = ask(schemas), ask(())
        epoch = memory.sessions.journal.latest_epoch("hall")
        now = epoch.started_at if epoch else None
        assert found.tokens == tokenizer.count(found.messages, tools=schemas, now=now)
        assert bare.tokens == tokenizer.count(bare.messages, now=now)
    plan = found.plan
    assert sum(plan.values()) == found.tokens
    assert plan["tools"] == found.tokens - bare.tokens > 300
    assert all(plan[name] > 0 for name in ("instructions", "history", "memory", "notes", "utterance"))
    assert plan["notes"] >= sum(line.tokens for line in found.note_lines) > 0
    assert {**plan, "tools": 0} == bare.plan
    assert not [line for line in found.lines if "plumber" in line.text]


def test_a_template_without_tools_is_told(home: Path, vocabularies: Path) -> None:
    """Where the chat template prints no tools, the look says that the model knows of none."""
    source = (vocabularies / "templates" / "microsoft-Phi-3.5-mini-instruct.jinja").read_text()
    with (
        LlamaTokenizer(vocabularies / "ggml-vocab-phi-3.gguf", template=source) as tokenizer,
        edgemem.open(home, worker=False) as memory,
    ):
        found = inspect_prompt(
            memory.hooks(session_id="hall", tokenizer=tokenizer), "Hi.",
            tools=[tool.schema() for tool in memory.tools()],
        )  # fmt: skip
    assert found.plan["tools"] == 0
    assert any("prints no tools" in note for note in found.notes)


def test_it_shows_nobody_what_that_person_may_not_hear(home: Path) -> None:
    """A look with the ears of a person has that person's prompt: others' secrets and turns are not in it."""
    with edgemem.open(home, worker=False) as memory:
        for speaker in ("Bo", None):
            text = repr(look(memory, "When is the surprise party?", speaker=speaker))
            assert "a surprise party'" not in text
        assert "a surprise party" in repr(look(memory, "When is the surprise party?").lines)
        assert not [part for part in look(memory, "Hello?", speaker=None).parts if part.name == "turn"]


def test_a_compacted_session_shows_its_summary(tmp_path: Path) -> None:
    """Where older turns were compacted, the summary is a part of its own, and the parts still add up."""
    small = Profile(
        context=ContextSettings(
            window_tokens=260, reply_tokens=40, block_tokens=30, summary_tokens=60, keep_last_turns=1
        )
    )
    talk(
        tmp_path,
        *(f"The {n} box holds many blue and red marbles of glass." for n in range(24)),
        profile=small,
    )
    with edgemem.open(tmp_path, profile=small, worker=False) as memory:
        found = look(memory, "How many boxes?")
    assert "summary" in [part.name for part in found.parts]
    assert found.tokens == WordTokenizer().count(found.messages)
    assert found.tokens <= found.window_tokens - found.reply_tokens


def test_hooks_of_the_operator_are_named_and_not_run(home: Path) -> None:
    """A hook that is not known to store nothing is left out of a look, which says so."""

    class Own:
        points = frozenset({BEFORE_LLM})
        priority = 75

        def __call__(self, point: str, ctx: Any, payload: Any) -> None:
            pytest.fail("it was run")

    with edgemem.open(home, worker=False) as memory:
        tokenizer = WordTokenizer()
        hooks = [*memory.hooks(session_id="hall", tokenizer=tokenizer), Own()]
        found = inspect_prompt(hooks, "Hi.")
    assert any("Own" in note for note in found.notes)


def test_nothing_said_is_refused(home: Path) -> None:
    """A prompt is for an utterance; without one there is a sentence."""
    with (
        edgemem.open(home, worker=False) as memory,
        pytest.raises(InvalidInputError, match="Nothing was said"),
    ):
        look(memory, "  ")


def test_the_command_prints_parts_sums_and_estimates(home: Path) -> None:
    """Without a model the figures are marked as estimates; JSON holds all of it."""
    args = (
        "inspect",
        "prompt",
        "What car does Ann drive, a red van?",
        "--session",
        "hall",
        "--speaker",
        "Ann",
        "--home",
        home,
    )
    text = run(*args).stdout
    assert "red van" in text
    assert "turn 0 Ann" in text
    assert "estimates" in text
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


def test_the_command_tells_what_waits_for_its_vectors(
    tmp_path: Path, minilm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until idle time has embedded what was said, only words find it, and whoever looks is told so."""
    monkeypatch.setenv("EDGEMEM_MODELS", str(minilm.parent))
    talk(tmp_path, "The spade hangs behind the shed.")
    (tmp_path / "edgemem.toml").write_text("[recall]\ndeadline_ms = 60000\n", encoding="utf-8")
    args = ("inspect", "prompt", "Where is the spade?", "--speaker", "Ann", "--home", tmp_path)
    assert json.loads(run(*args, "--json").stdout)["waiting"] > 0
    assert "wait for their vectors" in run(*args).stdout
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.idle(20.0)
    assert json.loads(run(*args, "--json").stdout)["waiting"] == 0
    assert "wait for their vectors" not in run(*args).stdout


@pytest.mark.parametrize(
    "args",
    [
        ("", "--session", "hall"),
        ("\udcff", "--session", "hall"),
        ("Hi.", "--session", "a\0b"),
        ("Hi.", "--llm", "/no/such.gguf"),
        ("x" * (1 << 21),),
    ],
)
def test_bad_input_is_one_sentence(home: Path, args: tuple[str, ...]) -> None:
    """What cannot be looked at is told in one sentence."""
    result = run("inspect", "prompt", *args, "--home", home)
    assert result.exit_code == 1
    assert result.stderr.startswith("edgemem: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("vocabulary", "template"),
    [
        ("qwen2", "Qwen-Qwen3-0.6B"),
        ("phi-3", "microsoft-Phi-3.5-mini-instruct"),
        ("llama-bpe", "mistralai-Mistral-Nemo-Instruct-2407"),
    ],
)
def test_parts_are_exact_through_real_templates(
    home: Path, vocabularies: Path, vocabulary: str, template: str
) -> None:
    """With a model's own tokenizer the parts add up to what the model will be handed, whatever its template does."""
    source = (vocabularies / "templates" / f"{template}.jinja").read_text()
    with (
        LlamaTokenizer(vocabularies / f"ggml-vocab-{vocabulary}.gguf", template=source) as tokenizer,
        edgemem.open(home, worker=False) as memory,
    ):
        found = inspect_prompt(
            memory.hooks(session_id="hall", speaker="Ann", tokenizer=tokenizer),
            "What car does Ann drive, a red van?",
            speaker="Ann",
            instructions="You are a robot.",
        )
        now = memory.sessions.journal.latest_epoch("hall")
        assert found.exact
        assert found.tokens == tokenizer.count(found.messages, now=now.started_at if now else None)
    assert [part.name for part in found.parts] == [
        "instructions",
        "turn",
        "turn",
        "memory",
        "utterance",
        "opening",
    ]
    assert all(part.tokens > 0 for part in found.parts[:-1])


def test_the_command_counts_with_a_chat_model(home: Path, tmp_path: Path, vocabularies: Path) -> None:
    """`--llm` reads the vocabulary and template of a GGUF, and the figures are exact."""
    model = write_llama_gguf(tmp_path / "model.gguf", vocabularies=vocabularies)
    args = ("inspect", "prompt", "What car is it?", "--session", "hall", "--llm", model, "--home", home)
    assert json.loads(run(*args, "--json").stdout)["exact"]
