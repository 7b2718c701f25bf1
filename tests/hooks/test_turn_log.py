"""The log of turns, one line of figures each, in which nobody's words stand; and what each hook, the model and the tools took."""

import json
import logging
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.config import Profile, RecallSettings
from edgemem.llama.chat import LlamaChat
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.records import Heard
from edgemem.session.figures import FigureFile, TurnFigures
from support.homes import BY_WORDS
from support.models import Model, write_llama_gguf

WORD = st.text(st.characters(categories=["L"]), min_size=4, max_size=12)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def turns(self) -> list[dict[str, Any]]:
        return [json.loads(record.getMessage()) for record in self.records]


@pytest.fixture
def lines() -> Any:
    handler, logger = Lines(), logging.getLogger("edgemem.turn")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_each_turn_logs_one_line_of_figures(tmp_path: Path, lines: Lines) -> None:
    """Recall, hooks, commit, tokens and candidates stand in one JSON object a turn."""
    profile = Profile(recall=RecallSettings(deadline_ms=60_000, query_embed_ms=60_000))
    with edgemem.open(tmp_path, profile=profile, worker=False) as memory:
        facts = {"tea": "green, no sugar", "car": "a red van", "dog": "a spaniel", "job": "nurse"}
        for key, value in facts.items():
            memory.store.add_fact(f"ann.{key}", value)
        memory.idle(10.0)
        loop = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(speaker="ann"))
        loop.run("Is the green tea without sugar?")
        loop.run("And where is it?")
    assert [line["turn"] for line in lines.turns] == [0, 1]
    first = lines.turns[0]
    assert set(first) == set(TurnFigures.__struct_fields__)
    assert first["hops"] == 1
    assert first["candidates"] >= 1
    assert first["block_tokens"] > 0
    assert first["hooks_ms"] >= first["recall_ms"] > 0
    assert first["commit_ms"] > 0
    assert (first["counted"], first["new_tokens"]) == (False, 0)
    assert not first["late"]


def test_a_real_model_tells_its_own_tokens(tmp_path: Path, lines: Lines, vocabularies: Path) -> None:
    """With llama.cpp the figures are its counters, over all hops; the second turn reuses what the first evaluated."""
    file = write_llama_gguf(tmp_path / "tiny.gguf", vocabularies=vocabularies, vocabulary="phi-3", width=32)
    with (
        edgemem.open(tmp_path / "home", worker=False) as memory,
        LlamaChat(file, n_ctx=1024, threads=1) as chat,
    ):
        memory.store.add_fact("ann.tea", "green, no sugar")
        hooks = memory.hooks(speaker="ann", tokenizer=chat.tokenizer)
        loop = AgentLoop(ChatReplies(chat, max_tokens=6), hooks=hooks, instructions="You are a robot.")
        told = []
        for text in ("Is the green tea without sugar?", "Thanks."):
            loop.run(text)
            told.append((chat.last.evaluated_tokens, chat.last.prompt_tokens - chat.last.evaluated_tokens))
    first, second = lines.turns
    assert [(line["new_tokens"], line["reused_tokens"]) for line in (first, second)] == told
    assert first["counted"] is second["counted"] is True
    assert first["new_tokens"] > second["new_tokens"] > 0 == first["reused_tokens"]
    assert second["reused_tokens"] >= first["new_tokens"]
    assert first["model_ms"] > 0


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=WORD, reply=WORD, key=WORD, value=WORD, who=WORD, session=WORD)
def test_no_word_that_was_said_stored_or_shown_is_logged(
    lines: Lines, said: str, reply: str, key: str, value: str, who: str, session: str
) -> None:
    """Whatever is talked about and by whom, the line holds numbers under fixed names only."""
    lines.records.clear()
    with tempfile.TemporaryDirectory() as home, edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        memory.store.add_fact(key, value)
        loop = AgentLoop(Model(otherwise=reply), hooks=memory.hooks(session_id=session, speaker=who))
        loop.run(f"{said} {key}?", heard=Heard(speaker=who, room=said))
        kept = memory.diagnostics.figures
    text = lines.records[0].getMessage()
    for name, figure in json.loads(text).items():
        assert name in TurnFigures.__struct_fields__
        assert isinstance(figure, (int, float, bool))
    bare = re.sub("|".join([*TurnFigures.__struct_fields__, "true", "false"]), "", text)
    assert not re.search(r"[^\W\d_]", bare.replace("e-", ""))
    assert lines.records[0].args == (text,)
    assert kept.path.name == "turn.json"


def test_a_thrown_away_turn_is_not_logged(tmp_path: Path, lines: Lines) -> None:
    """What was prepared and aborted leaves no line; what failed leaves one that says so."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        loop = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks())
        loop.prepare("Half a sent")
        loop.abort()
        assert not lines.records
        broken = AgentLoop(Model(otherwise="Fine."), hooks=memory.hooks(session_id="other"))
        broken.model.complete = None  # type: ignore[assignment,method-assign]
        with pytest.raises(TypeError):
            broken.run("Hello.")
    (line,) = lines.turns
    assert line["failed"]
    assert line["hops"] == 0


def test_figures_are_written_rarely_and_whole(tmp_path: Path) -> None:
    """A talkative evening costs one small write a minute; closing writes the last figures."""
    seconds = [0.0]
    file = FigureFile(tmp_path / "turn.json", every_s=60.0, now=lambda: seconds[0])
    assert file.read() is None
    assert not file.write()
    file.note(TurnFigures(1.0, 0))
    assert file.write()
    file.note(TurnFigures(2.0, 1))
    assert not file.write()
    seconds[0] = 61.0
    assert file.write()
    assert not file.write()
    file.note(TurnFigures(3.0, 2))
    assert file.write(at_once=True)
    assert file.read() == TurnFigures(3.0, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["turn.json"]


def test_a_damaged_or_unwritable_file_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Figures are for looking: a full disk is told in the log, and a damaged file counts as none."""
    file = FigureFile(tmp_path / "turn.json")
    file.path.write_bytes(b"{half")
    assert file.read() is None
    gone = FigureFile(tmp_path / "no" / "turn.json")
    gone.note(TurnFigures(1.0, 0))
    assert not gone.write()
    assert "could not be kept" in caplog.text
