"""What reading a new epoch's prompt in idle time saves its first turn, and what it costs whoever speaks meanwhile."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.corpus import SPEAKER
from edgemem.bench.ground import quiet, scratch
from edgemem.bench.report import at_least, at_most, median, percentile, report, say, timed_ms
from edgemem.bench.session import conversation
from edgemem.errors import InvalidInputError
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import conversation_of
from edgemem.hooks.upkeep import UpkeepHook
from edgemem.inspect.replay import INSTRUCTIONS
from edgemem.llama.chat import LlamaChat
from edgemem.llama.forward import watching
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from lab.random_model import write_model

if TYPE_CHECKING:
    from edgemem.context.prompt.log import PromptLog
    from edgemem.llama.second_context import WarmPrefix
    from edgemem.loop.loop import TurnResult
    from edgemem.memory import Memory

REPLY = 8
"""Tokens of each reply, and of the check that the model goes on as it would have."""
WAIT_BAR_MS = 20.0
TURNS_BETWEEN = 2
"""Turns spoken while an epoch is read: as many as the window has room for."""
PAUSE_S = 0.25
"""The longest silence until somebody speaks again."""
_LOOK_S = 0.0002
_MOST_TURNS = 500


class _Timed:
    """What reads ahead, and how long it took to take a prefix out of one context and to put it into the other."""

    def __init__(self, prefix: WarmPrefix) -> None:
        self._prefix = prefix
        self.out_ms: list[float] = []
        self.in_ms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prefix, name)

    def read(self, *arguments: Any, **options: Any) -> str:
        """Read a batch more."""
        begun = perf_counter()
        told = self._prefix.read(*arguments, **options)
        if told == "ready":
            self.out_ms.append((perf_counter() - begun) * 1e3)
        return told

    def put(self) -> bool:
        """Put it in."""
        moved = False

        def put() -> None:
            nonlocal moved
            moved = self._prefix.put()

        self.in_ms.append(timed_ms(put))
        return moved


class _First(msgspec.Struct, frozen=True):
    """The first turn of an epoch."""

    prompt_tokens: int
    evaluated_tokens: int
    own_tokens: int
    """Of the utterance with its block, and the markers behind it."""
    first_token_ms: float


class _Robot:
    """A robot that talks with a real model, in one session."""

    def __init__(self, memory: Memory, chat: LlamaChat) -> None:
        self.chat = chat
        hooks = memory.hooks(session_id="now", speaker=SPEAKER, model=chat)
        (self.hook,) = [hook for hook in hooks if isinstance(hook, ContextCompactionHook)]
        (upkeep,) = [hook for hook in hooks if isinstance(hook, UpkeepHook)]
        self.worker: Any = upkeep.upkeep
        tools = memory.tools(speaker=SPEAKER)
        self.loop = AgentLoop(
            ChatReplies(chat, max_tokens=REPLY), hooks=hooks, instructions=INSTRUCTIONS, tools=tools
        )
        self.schemas = [tool.schema() for tool in tools]
        self._lines = conversation(_MOST_TURNS)
        self.read_more: list[int] = []
        """Tokens that turns within an epoch read beside their own."""

    @property
    def prompt_log(self) -> PromptLog:
        return conversation_of(self.loop.ctx).prompt_log

    def turn(self) -> tuple[TurnResult, _First]:
        """Say the next line, and return what came of it."""
        line = next(self._lines, None)
        if line is None:
            raise InvalidInputError(
                "The conversation is at its end; name a smaller --window or fewer --epochs."
            )
        before = self.prompt_log.epoch if self.loop.session.messages else None
        seen = self.chat.last.prompt_tokens + len(self.chat.last.ids)
        first: list[float] = []
        begun = perf_counter()
        result = self.loop.run(
            line.say, speaker=SPEAKER, on_text=lambda _: first.append((perf_counter() - begun) * 1e3)
        )
        for failure in self.loop.hooks.failures():
            raise InvalidInputError(f"{failure.hook} failed at {failure.point}: {failure.message}")
        last = self.chat.last
        if self.prompt_log.epoch is before:
            # The last token of a reply is sampled, and read with the next prompt.
            self.read_more.append(last.evaluated_tokens - (last.prompt_tokens - seen) - 1)
        handed = result.handed[0]
        count = self.chat.tokenizer.count
        own = count(handed, tools=self.schemas) - count(
            handed[:-1], tools=self.schemas, add_generation_prompt=False
        )
        ms = first[0] if first else result.hooks_ms + result.model_ms
        return result, _First(last.prompt_tokens, last.evaluated_tokens, own, ms)

    def until_due(self) -> None:
        """Talk until an epoch waits to begin."""
        while not self.hook.due():
            self.turn()


def run(
    *,
    window: int = 4096,
    epochs: int = 2,
    interruptions: int = 20,
    threads: int = 0,
    model: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Compare the first turns of epochs whose prompts were read in idle time with those that read them themselves.

    While a prompt is read ahead somebody speaks again and again, now and then to the robot.

    Args:
        window: tokens of the context window.
        epochs: how many begin on each side.
        interruptions: how often somebody speaks while a prompt is read ahead.
        threads: of the model; 0: as many as llama.cpp finds good.
        model: a GGUF of yours; default: about 100 M random weights, written for this run.
        home: where scratch files go; default: the temporary files.
    """
    with scratch(home) as folder:
        if model is None:
            say("writing a model …")
            model = write_model(folder / "model.gguf")
        say("talking without …")
        cold, _ = _talk(folder / "without", model, window, epochs, 0, threads, warm=False)
        say("talking with it …")
        warm, figures = _talk(folder / "with", model, window, epochs, interruptions, threads, warm=True)
    sides = {
        name: {
            side: median(getattr(first, name) for first in firsts)
            for side, firsts in (("without", cold), ("with", warm))
        }
        for name in _First.__struct_fields__
    }
    beside = max(first.evaluated_tokens - first.own_tokens for first in warm)
    bars = {
        "tokens_beside_its_own": at_most(beside, 1),
        "tokens_beside_their_own_in_the_middle": at_most(figures.pop("read_more"), 0),
        "same_tokens_as_cold": at_least(figures.pop("same"), 1.0),
    }
    if interruptions:
        bars["speech_waited_p95_ms"] = at_most(figures["speech_waited_p95_ms"], WAIT_BAR_MS)
    return report("warm", {"window": window, "side_by_side": sides, **figures}, bars)


def _talk(
    home: Path, model: Path, window: int, epochs: int, interruptions: int, threads: int, *, warm: bool
) -> tuple[list[_First], dict[str, Any]]:
    """Talk until so many epochs have begun; return their first turns, and what reading ahead did."""
    chance = random.Random(7)
    firsts: list[_First] = []
    waited: list[float] = []
    noticed: list[float] = []
    same: list[bool] = []
    with ExitStack() as stack:
        memory = stack.enter_context(edgemem.open(home, profile=_settings(window, warm=warm), watch=False))
        chat = stack.enter_context(LlamaChat(model, n_ctx=window, threads=threads or None))
        fresh = stack.enter_context(LlamaChat(model, n_ctx=window, threads=threads or None))
        robot = _Robot(memory, chat)
        warming = robot.hook.warming
        timed: Any = None
        if warming is not None:
            timed = warming.prefix = _Timed(warming.prefix)  # type: ignore[assignment]
        for _ in range(epochs):
            robot.until_due()
            for n in range(interruptions):
                time.sleep(chance.uniform(0.0, PAUSE_S))
                waited.append(_speak(robot))
                noticed.append(_notice())
                # Once all is read, a turn would begin the epoch: it is the one to be measured.
                unread = warming is not None and warming.waits()
                if unread and n in range(
                    interruptions // (TURNS_BETWEEN + 1), interruptions, interruptions // 2
                ):
                    robot.turn()
                robot.worker.release(robot)
            while robot.worker.working or (warming.waits() if warming is not None else robot.hook.due()):
                time.sleep(_LOOK_S)
            result, first = robot.turn()
            firsts.append(first)
            list(
                fresh.stream(
                    result.handed[0],
                    tools=robot.schemas,
                    max_tokens=REPLY,
                    now=robot.prompt_log.epoch.started_at,
                )
            )
            same.append(fresh.last.ids == chat.last.ids)
        for failure in memory.diagnostics.upkeep.failures():
            raise InvalidInputError(f"idle work {failure.step} failed: {failure.message}")
        figures: dict[str, Any] = {
            "read_more": max(robot.read_more),
            "same": sum(same) / len(same),
            "reasons": [
                reason
                for (reason,) in memory.diagnostics.database.query("select reason from epochs order by id")
            ][1:],
        }
        if timed is not None:
            figures |= {
                "tokens_read_ahead": timed.tokens_read,
                "moved": timed.moved,
                "taken_out_ms": median(timed.out_ms),
                "put_in_ms": median(timed.in_ms),
                "put_in_most_ms": round(max(timed.in_ms), 2),
            }
    if waited:
        figures |= {
            "speech_waited_ms": median(waited),
            "speech_waited_p95_ms": percentile(waited, 0.95),
            "speech_waited_most_ms": round(max(waited), 2),
            "noticed_with_nothing_to_stop_p95_ms": percentile(noticed, 0.95),
        }
    return firsts, figures


def _speak(robot: _Robot) -> float:
    """Begin to speak; return after how many milliseconds nothing was computed any more."""

    def hold() -> None:
        robot.worker.hold(robot)
        while robot.worker.working:
            time.sleep(_LOOK_S)

    return timed_ms(hold)


def _notice() -> float:
    """Return after how many milliseconds the watch notices that somebody speaks: the machine's part of the wait."""
    spoken, noticed = threading.Event(), threading.Event()
    with watching(spoken.is_set, noticed.set):
        time.sleep(_LOOK_S)

        def speak() -> None:
            spoken.set()
            noticed.wait()

        return timed_ms(speak)


def _settings(window: int, *, warm: bool) -> Any:
    plain = quiet()
    replace = msgspec.structs.replace
    return replace(
        plain,
        chat=replace(plain.chat, keep_state="off"),
        idle=replace(plain.idle, settle_s=0.0),
        context=replace(
            plain.context,
            window_tokens=window,
            summary_tokens=min(plain.context.summary_tokens, window // 8),
            reply_tokens=min(plain.context.reply_tokens, window // 8),
        ),
        compaction=replace(plain.compaction, warm=warm),
    )
