"""The log of turns, one line of figures each, in which nobody's words stand; and what each hook, the model and the tools took."""

from __future__ import annotations

import json
import logging
import re
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ggufs import write_llama_gguf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem import TimingHook
from edgemem.config import LogSettings, Profile, RecallSettings
from edgemem.hooks import AFTER_LLM, HookRegistry, TurnLogHook, hook
from edgemem.hooks.points import (
    AFTER_TOOL,
    BEFORE_LLM,
    ON_RUN_END,
    ON_RUN_START,
)
from edgemem.hooks.turn_log import FigureFile, TurnFigures
from edgemem.llama.chat import LlamaChat
from edgemem.llama.protocols import Generation
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.loop.toolbox import Tool
from edgemem.recall.search.search import RecallStats
from edgemem.records import Heard, Message, Reply, ToolCall

WORD = st.text(st.characters(categories=["L"]), min_size=4, max_size=12)


class Model:
    """Answers what it is told to, and may tell what it evaluated, as edgemem's own chat model does."""

    def __init__(self, reply: str = "Fine.", *, evaluated: Sequence[tuple[int, int]] = ()) -> None:
        self.reply = reply
        self.last = Generation()
        self._evaluated = list(evaluated)

    def complete(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        """Say the reply."""
        if self._evaluated:
            prompt, evaluated = self._evaluated.pop(0)
            self.last = Generation(self.reply, prompt_tokens=prompt, evaluated_tokens=evaluated)
        return Reply(self.reply)

    def cut(self, heard_text: str) -> None:
        """Do nothing."""


class Lines(logging.Handler):
    """Keeps what was logged, as a file would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    @property
    def turns(self) -> list[dict[str, Any]]:
        """Return the logged objects."""
        return [json.loads(record.getMessage()) for record in self.records]


@pytest.fixture
def lines() -> Any:
    """Return what the logger `edgemem.turn` writes."""
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
        for key, value in (
            ("tea", "green, no sugar"),
            ("car", "a red van"),
            ("dog", "a spaniel"),
            ("job", "nurse"),
        ):
            memory.store.add_fact(f"ann.{key}", value)
        memory.idle(10.0)
        loop = AgentLoop(Model(), hooks=memory.hooks(speaker="ann"))
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
    assert first["reused_tokens"] == 0 < lines.turns[1]["reused_tokens"]
    assert not first["late"]


def test_a_real_model_tells_its_own_tokens(tmp_path: Path, lines: Lines, vocabularies: Path) -> None:
    """With llama.cpp the figures are its counters, over all hops; the second turn reuses what the first evaluated."""
    file = write_llama_gguf(tmp_path / "tiny.gguf", vocabularies=vocabularies, vocabulary="phi-3", width=32)
    with (
        edgemem.open(tmp_path / "home", worker=False) as memory,
        LlamaChat(file, n_ctx=1024, threads=1) as chat,
    ):
        memory.store.add_fact("ann.tea", "green, no sugar")
        loop = AgentLoop(
            ChatReplies(chat, max_tokens=6),
            hooks=memory.hooks(speaker="ann", tokenizer=chat.tokenizer),
            instructions="You are a kitchen robot.",
        )
        told = []
        for text in ("Is the green tea without sugar?", "Thanks."):
            loop.run(text)
            told.append((chat.last.evaluated_tokens, chat.last.prompt_tokens - chat.last.evaluated_tokens))
        loop.model.chat = _CutOff(chat)  # type: ignore[attr-defined]
        loop.run("And the milk?")
    first, second, third = lines.turns
    assert [(line["new_tokens"], line["reused_tokens"]) for line in (first, second)] == told
    assert first["counted"]
    assert second["counted"]
    assert first["new_tokens"] > second["new_tokens"] > 0 == first["reused_tokens"]
    assert second["reused_tokens"] >= first["new_tokens"]
    assert first["model_ms"] > 0
    assert third["interrupted"]
    assert third["reused_tokens"] == 0, "what was never read is not reused"


class _CutOff:
    """A chat model that somebody cuts off before its first word."""

    def __init__(self, chat: LlamaChat) -> None:
        self._chat = chat
        self.tokenizer = chat.tokenizer

    @property
    def last(self) -> Generation:
        """Return what the model did."""
        return self._chat.last

    def stream(self, messages: Sequence[dict[str, Any]], **options: Any) -> Any:
        """Answer with the stop already asked for."""
        return self._chat.stream(messages, **{**options, "stop": lambda: True})

    def cut(self, heard_text: str) -> None:
        """Forget what was not heard."""
        self._chat.cut(heard_text)


def test_the_block_is_counted_where_it_is_made(tmp_path: Path, lines: Lines) -> None:
    """The figure is what the budget counted, a header and the notes included; no text is tokenised again for it."""
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.add_fact("ann.tea", "green, no sugar")
        hooks = memory.hooks(speaker="ann")
        loop = AgentLoop(Model(), hooks=hooks)
        loop.run("Is the green tea without sugar?")
        injection = next(hook for hook in hooks if hasattr(hook, "block_tokens"))
        injection.header = "What is known, in short:"
        memory.store.add_fact("ann.tea", "black, with sugar")
        loop.run("And with sugar?")
        memory.notes.append("The plumber comes on Friday at nine.")
        loop.run("Good.")
        loop.run("Fine.")
    bare, headed, noted, nothing = (line["block_tokens"] for line in lines.turns)
    assert 12 < bare <= 80
    assert bare < headed <= 80
    assert noted >= 9
    assert nothing == 0


def test_each_figure_is_of_its_own_part(lines: Lines) -> None:
    """Hooks behind the answer are no time of the model, and a recall within the turn does not overwrite the turn's."""
    now = [0.0]
    recalls = [RecallStats(), RecallStats(2.0, 3.0, candidates=7), RecallStats(90.0, 90.0)]

    def slow(point: str, ctx: Any, payload: Any) -> None:
        now[0] += 5.0

    slow.points, slow.priority = frozenset({AFTER_LLM}), 0  # type: ignore[attr-defined]
    kept: list[TurnFigures] = []
    log = TurnLogHook(
        keep=kept.append, recalled=lambda: recalls.pop(0), clock=lambda: now[0], now=lambda: 0.0
    )
    model = Model()
    answer = model.complete

    def complete(*given: Any, **options: Any) -> Reply:
        now[0] += 1.0
        return answer(*given, **options)

    model.complete = complete  # type: ignore[method-assign]
    AgentLoop(model, hooks=HookRegistry([slow, log])).run("Hello.")  # type: ignore[list-item]
    assert kept[0].model_ms == 1000.0
    assert (kept[0].recall_ms, kept[0].embed_ms, kept[0].candidates) == (5.0, 2.0, 7)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=WORD, reply=WORD, key=WORD, value=WORD, who=WORD, session=WORD)
def test_no_word_that_was_said_stored_or_shown_is_logged(
    lines: Lines, said: str, reply: str, key: str, value: str, who: str, session: str
) -> None:
    """Whatever is talked about and by whom, the line holds numbers under fixed names only."""
    lines.records.clear()
    with tempfile.TemporaryDirectory() as home, edgemem.open(home, worker=False) as memory:
        memory.store.add_fact(key, value)
        loop = AgentLoop(Model(reply), hooks=memory.hooks(session_id=session, speaker=who))
        loop.run(f"{said} {key}?", heard=Heard(speaker=who, room=said))
        kept = memory.figures
    text = lines.records[0].getMessage()
    for name, figure in json.loads(text).items():
        assert name in TurnFigures.__struct_fields__
        assert isinstance(figure, (int, float, bool))
    bare = re.sub("|".join([*TurnFigures.__struct_fields__, "true", "false"]), "", text)
    assert not re.search(r"[^\W\d_]", bare.replace("e-", ""))
    assert lines.records[0].args == (text,)
    assert kept.path.name == "turn.json"


def test_the_profile_switches_it_off(tmp_path: Path, lines: Lines) -> None:
    """`[log] turn = false` logs nothing; the figures are kept for `edgemem stats` all the same."""
    with edgemem.open(tmp_path, profile=Profile(log=LogSettings(turn=False)), worker=False) as memory:
        AgentLoop(Model(), hooks=memory.hooks()).run("Hello.")
        figures = memory.figures
    assert not lines.records
    newest = figures.read()
    assert newest is not None
    assert newest.hops == 1


def test_a_thrown_away_turn_is_not_logged(tmp_path: Path, lines: Lines) -> None:
    """What was prepared and aborted leaves no line; what failed leaves one that says so."""
    with edgemem.open(tmp_path, worker=False) as memory:
        loop = AgentLoop(Model(), hooks=memory.hooks())
        loop.prepare("Half a sent")
        loop.abort()
        assert not lines.records
        broken = AgentLoop(Model(), hooks=memory.hooks(session_id="other"))
        broken.model.complete = None  # type: ignore[assignment,method-assign]
        with pytest.raises(TypeError):
            broken.run("Hello.")
    (line,) = lines.turns
    assert line["failed"]
    assert line["hops"] == 0


def test_an_agent_within_a_tool_has_a_line_of_its_own(tmp_path: Path, lines: Lines) -> None:
    """An outer agent's turn is logged with its own figures, after those of the inner one that shares its hooks."""

    def turn_of(answers: Sequence[Reply], evaluated: Sequence[tuple[int, int]]) -> Model:
        model, left = Model(evaluated=evaluated), list(answers)
        told = model.complete

        def complete(*given: Any, **options: Any) -> Reply:
            told(*given, **options)
            return left.pop(0)

        model.complete = complete  # type: ignore[method-assign]
        return model

    with edgemem.open(tmp_path, worker=False) as memory:
        hooks = memory.hooks(session_id="kitchen")

        def ask(question: str) -> str:
            inner = AgentLoop(turn_of([Reply("Salt.")], [(9, 9)]), hooks=hooks, agent_name="cook")
            return inner.run(question).reply

        tool = Tool("ask", "Ask.", {"type": "object", "properties": {"question": {"type": "string"}}}, ask)
        calls = [Reply("", (ToolCall("ask", {"question": "what is missing?"}),))] * 20
        model = turn_of([*calls, Reply("Salt is.")], [(100, 100), *((130 + n, 10) for n in range(20))])
        outer = AgentLoop(model, hooks=hooks, tools=[tool], agent_name="host", max_hops=30)
        assert outer.run("What is missing?").reply == "Salt is."
    *inside, line = lines.turns
    kitchen, cook, host = (zlib.crc32(name) for name in (b"kitchen", b"cook", b"host"))
    assert {(one["agent"], one["session"], one["hops"], one["new_tokens"]) for one in inside} == {
        (cook, 0, 1, 9)
    }
    assert len(inside) == 20
    assert (line["agent"], line["session"], line["hops"], line["new_tokens"]) == (host, kitchen, 21, 300)


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


class Stopwatch:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Busy:
    """Calls a tool, then answers; each takes a while."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch
        self.calls = [Reply("", (ToolCall("wait", {}),))]

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.watch.seconds += 0.2
        return self.calls.pop() if self.calls else Reply("ok")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def test_hooks_model_tools_and_turn_are_measured() -> None:
    """Each hook is counted at each of its points, also when it fails; the spans are exact; an aborted turn is none."""
    watch = Stopwatch()
    timing = TimingHook(now=watch)

    @hook(ON_RUN_START, BEFORE_LLM)
    def slow(point: str, ctx: Any, payload: Any) -> None:
        if point == BEFORE_LLM:
            raise OSError("no disk")

    def wait() -> str:
        watch.seconds += 0.05
        return "waited"

    loop = AgentLoop(Busy(watch), hooks=[timing, slow], tools=[Tool("wait", "", {}, wait)])
    loop.run("go")
    loop.prepare("go")
    loop.abort()
    spans = {(each.point, each.hook): each for each in timing.timings()}
    assert spans[ON_RUN_START, "slow"].count == 2
    assert spans[BEFORE_LLM, "slow"].count == spans[BEFORE_LLM, "TimingHook"].count == 3
    model, turn = spans[AFTER_LLM, "model"], spans[ON_RUN_END, "turn"]
    assert (model.count, round(model.total_ms), round(model.max_ms)) == (3, 600, 200)
    assert round(spans[AFTER_TOOL, "tool"].last_ms) == 50
    assert (turn.count, round(turn.last_ms)) == (1, 450)
