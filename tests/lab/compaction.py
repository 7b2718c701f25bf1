"""What compaction costs a person who speaks: milliseconds of a turn with upkeep at work, and tokens that are read again.

`fitted` measures what a prompt that does not fit costs a person who is faster than all idle work.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import msgspec

import edgemem
from edgemem.bench.ground import (
    KEEP_PLAN,
    Robot,
    at_most,
    median,
    percentile,
    quiet,
    real_embedder,
    real_tokenizer,
    report,
    say,
    scratch,
    ticking,
)
from edgemem.bench.session import conversation
from edgemem.config import Profile
from edgemem.hooks.builtin import part_of
from edgemem.llama.protocols import common_prefix
from edgemem.memory.idle import IdleWorker
from edgemem.session.log import Moment, log_of
from edgemem.session.prompt import Compaction

if TYPE_CHECKING:
    from edgemem.config import Profile
    from edgemem.inspect.replay import Line
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.memory import Memory
    from edgemem.records import Message


class _Counting:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.counted = self.encoded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        ids = self._tokenizer.encode(text, special=special)
        self.encoded += len(ids)
        return ids

    def count(self, messages: Sequence[Message], **how: Any) -> int:
        self.counted += 1
        return self._tokenizer.count(messages, **how)


class _Fitted(NamedTuple):
    ms: float
    cpu_ms: float  # of the thread that speaks: what other processes take from it is not in it
    counted: int  # prompts that were counted as a whole
    encoded: int  # tokens of texts that were tokenised


class _Timed:
    """Takes the time of a compaction on each turn whose prompt did not fit, and at the end of each turn."""

    def __init__(self, tokenizer: _Counting) -> None:
        self._tokenizer = tokenizer
        self._guard, self._end = Compaction.guard, Compaction.end
        self.took: list[_Fitted] = []
        self.ends: list[float] = []

    def guard(self, part: Compaction, moment: Moment) -> None:
        prompt_log = moment.log.prompt_log
        counted, encoded = self._tokenizer.counted, self._tokenizer.encoded
        before, begun, cpu = prompt_log.epoch, perf_counter(), time.thread_time()
        self._guard(part, moment)
        ms, cpu_ms = (perf_counter() - begun) * 1e3, (time.thread_time() - cpu) * 1e3
        if prompt_log.epoch is not before and prompt_log.epoch.reason == "did not fit":
            asked = self._tokenizer.counted - counted, self._tokenizer.encoded - encoded
            self.took.append(_Fitted(ms, cpu_ms, *asked))

    def end(self, part: Compaction, moment: Moment) -> None:
        begun = perf_counter()
        self._end(part, moment)
        self.ends.append((perf_counter() - begun) * 1e3)


def fitted(home: Path, tokenizer: Tokenizer, lines: Iterable[Line], *, profile: Profile) -> dict[str, Any]:
    """Play turns without any upkeep, so that prompts do not fit when they are needed, and tell what that took."""
    counting = _Counting(tokenizer)
    with edgemem.open(home, profile=profile, tokenizer=counting, clock=ticking(), worker=False) as memory:
        timed = _Timed(counting)
        with patch.object(Compaction, "guard", timed.guard), patch.object(Compaction, "end", timed.end):
            robot = Robot(memory.hooks(session_id="now"), tools=[KEEP_PLAN])
        for line in lines:
            robot.turn(line)
        robot.check()
    took = timed.took
    if not took:
        return {"fallbacks": 0}
    return {
        "fallbacks": len(took),
        "fallback_ms": median(each.ms for each in took),
        "fallback_p95_ms": percentile([each.ms for each in took], 0.95),
        "fallback_cpu_ms": median(each.cpu_ms for each in took),
        "fallback_cpu_p95_ms": percentile([each.cpu_ms for each in took], 0.95),
        "prompts_counted_a_fallback": max(each.counted for each in took),
        "tokens_encoded_a_fallback": median(each.encoded for each in took),
        "turn_end_ms": median(timed.ends),
        "turn_end_p95_ms": percentile(timed.ends, 0.95),
    }


IDLE_S = 600.0
BAR_MS = 20.0
FALLBACK_BAR_MS = 5.0
WARM = 5  # turns that are not counted: models and vocabularies are loaded in them
FALLBACK_TURNS = 200  # some eighteen prompts of 4,096 tokens that do not fit
PAUSE_S, LONG_PAUSE_S = 0.04, 1.0
"""The longest pause between two turns, and while a compaction is due: it has begun and is often not done."""
SUMMARY_CTX = 1024
SPEECH_S = 0.2
"""From the first sound to the end of the utterance, where a loop tells of both; most people speak for longer."""
SPOKEN_SHARE = 4  # one turn in so many is played again with a loop that tells when somebody begins to speak


def run(
    *, turns: int = 400, window: int = 4096, model: bool = False, home: Path | None = None
) -> dict[str, Any]:
    """Time turns with the idle worker at work against the same turns without, and count what compaction makes a model read.

    Args:
        turns: played on both sides, one after the other; every other one first on this side, then on that.
        window: tokens of the context window; a smaller one is compacted more often.
        model: let a model of 100 M random weights write the summaries; speech stops it each time.
    """
    real_embedder()
    tokenizer = real_tokenizer()
    try:
        with scratch(home) as folder:
            lines = list(conversation(turns + WARM))
            beside = _beside(folder / "turns", tokenizer, lines, window=window, model=model)
            some = lines[: turns // SPOKEN_SHARE + WARM]
            spoken = _beside(
                folder / "spoken", tokenizer, some, window=window, model=model, speech_s=SPEECH_S
            )
            say("fitting prompts while somebody speaks …")
            fallback = fitted(
                folder / "fallback",
                tokenizer,
                conversation(min(turns, FALLBACK_TURNS)),
                profile=_settings(window, embedder=False),
            )
    finally:
        tokenizer.close()
    bars = {"added_p95_ms": at_most(beside["added_p95_ms"], BAR_MS)}
    if fallback["fallbacks"]:
        bars["fallback_ms"] = at_most(fallback["fallback_ms"], FALLBACK_BAR_MS)
    heard = {
        f"speech_{name}": spoken[name]
        for name in ("added_ms", "added_p95_ms", "noise_p95_ms", "upkeep_cpu_p95_ms", "worker_at_work")
    }
    return report("compaction", {"turns": turns, "window": window, **beside, **heard, **fallback}, bars)


def _beside(
    folder: Path,
    tokenizer: Tokenizer,
    lines: Sequence[Line],
    *,
    window: int,
    model: bool,
    speech_s: float = 0.0,
) -> dict[str, Any]:
    """Play the same lines with upkeep at work and without; each turn begins with so many seconds of speech, 0 for none."""
    folder.mkdir()
    chance = random.Random(7)
    settings = _settings(window, model=model)
    with ExitStack() as stack:
        chat = stack.enter_context(_random_model(folder)) if model else None
        busy = stack.enter_context(edgemem.open(folder / "busy", profile=settings, tokenizer=tokenizer))
        still = stack.enter_context(
            edgemem.open(folder / "still", profile=_settings(window), tokenizer=tokenizer, worker=False)
        )
        (one, worker, hook), (other, _, _) = _robot(busy, chat), _robot(still)
        added: list[float] = []
        steady: list[float] = []
        before: list[float] = []
        commits: list[float] = []
        upkeep: list[float] = []
        at_work = 0
        reread: list[int] = []
        ids: list[int] = []
        say("playing turns …")
        for n, line in enumerate(lines):
            if n % 2:
                alone = _alone(other, line, worker, speech_s)
            time.sleep(chance.uniform(0.0, LONG_PAUSE_S if hook.due() else PAUSE_S))
            at_work += worker._lock.locked() and n >= WARM
            epoch = log_of(one.loop.ctx).prompt_log.epoch
            cpu = _upkeep_cpu_ms()
            beside = _timed(one, line, speech_s)
            upkeep.append(_upkeep_cpu_ms() - cpu)
            began = log_of(one.loop.ctx).prompt_log.epoch is not epoch
            if not n % 2:
                alone = _alone(other, line, worker, speech_s)
            ids, again = _reread(tokenizer, alone.handed, other.schemas, ids)
            still.idle(IDLE_S)
            if n < WARM:
                continue
            reread.append(again)
            added.append(beside.ms - alone.ms)
            if not began:
                steady.append(added[-1])
            before.append(beside.before_ms - alone.before_ms)
            commits.append(beside.commit_ms - alone.commit_ms)
        one.check()
        other.check()
        for failure in (*busy.diagnostics.upkeep.failures(), *still.diagnostics.upkeep.failures()):
            raise AssertionError(f"idle work {failure.step} failed: {failure.message}")
        reasons = dict(
            busy.diagnostics.database.query(
                "select reason, count(*) from epochs where reason <> 'begin' group by reason"
            )
        )
    compactions = [tokens for tokens in reread if tokens]
    return {
        "added_ms": median(added),
        "added_p95_ms": percentile(added, 0.95),
        "added_p95_between_epochs_ms": percentile(steady or added, 0.95),
        "noise_p95_ms": percentile([-ms for ms in added], 0.95),
        "before_the_model_added_p95_ms": percentile(before, 0.95),
        "commit_added_p95_ms": percentile(commits, 0.95),
        "upkeep_cpu_p95_ms": percentile(upkeep[WARM:], 0.95),
        "worker_at_work": round(at_work / len(added), 3),
        "epochs": reasons,
        "compactions": len(compactions),
        "tokens_a_compaction": round(sum(compactions) / max(1, len(compactions))),
        "tokens_per_100_turns": round(100 * sum(compactions) / len(added)),
    }


def _settings(window: int, *, model: bool = False, embedder: bool = True) -> Profile:
    plain = Profile() if embedder else quiet()
    replace = msgspec.structs.replace
    summary = min(plain.context.summary_tokens, window // 8)
    return replace(
        plain,
        idle=replace(plain.idle, settle_s=0.0),
        context=replace(
            plain.context, window_tokens=window, summary_tokens=summary, reply_tokens=min(256, window // 8)
        ),
        compaction=replace(
            plain.compaction, summarizer="model" if model else "extractive", summary_ctx=SUMMARY_CTX
        ),
    )


def _random_model(folder: Path) -> Any:
    from edgemem.llama.chat import LlamaChat
    from lab.random_model import write_model

    return LlamaChat(write_model(folder / "model.gguf"), n_ctx=512, threads=1)


def _robot(memory: Memory, model: ChatModel | None = None) -> tuple[Robot, IdleWorker, Compaction]:
    hooks = memory.hooks(session_id="now", tokenizer=memory.diagnostics.tokenizer, model=model)
    worker, compaction = part_of(hooks, "upkeep").upkeep, part_of(hooks, "compaction")
    assert isinstance(worker, IdleWorker)
    return Robot(hooks, tools=[KEEP_PLAN]), worker, compaction


class _Turn(NamedTuple):
    ms: float
    before_ms: float  # of it, what a person waits for: between the utterance and the model
    commit_ms: float
    handed: list[Message]  # to the model, at the first hop


def _timed(robot: Robot, line: Line, speech_s: float) -> _Turn:
    if speech_s:
        robot.loop.speech_start(speaker=line.speaker)
        time.sleep(speech_s)
    started = perf_counter()
    result = robot.turn(line)
    ms = (perf_counter() - started) * 1e3
    return _Turn(ms, result.hooks_ms, result.commit_ms, result.handed[0])


def _upkeep_cpu_ms() -> float:
    """Return what the idle worker has computed so far, in ms: other processes take nothing from it."""
    idents = [thread.ident for thread in threading.enumerate() if thread.name == "edgemem-idle"]
    clocks = [time.pthread_getcpuclockid(ident) for ident in idents if ident is not None]
    return sum(time.clock_gettime(clock) for clock in clocks) * 1e3


def _alone(robot: Robot, line: Line, worker: IdleWorker, speech_s: float) -> _Turn:
    """Play a turn while the other side's worker stands still."""
    worker.hold()
    while worker._lock.locked():
        time.sleep(0.001)
    try:
        return _timed(robot, line, speech_s)
    finally:
        worker.release()


def _reread(
    tokenizer: Tokenizer, handed: Sequence[Message], schemas: list[dict[str, Any]], before: list[int]
) -> tuple[list[int], int]:
    """Return the ids of a prompt, and how many of them are new although the model had read their text."""
    ids = tokenizer.render(handed, tools=schemas).ids
    new = len(ids) - common_prefix(before, ids)
    asked = [n for n, message in enumerate(handed) if message.get("role") == "user"]
    if len(asked) < 2 or not before:
        return ids, 0
    # What the turn itself adds: all behind the utterance before.
    known = tokenizer.count(handed[: asked[-2] + 1], tools=schemas)
    return ids, max(0, new - (len(ids) - known))
