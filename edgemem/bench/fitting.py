"""What a prompt that does not fit costs a person who is faster than all idle work."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import edgemem
from edgemem.bench.ground import KEEP_PLAN, Robot, ticking
from edgemem.bench.report import median, percentile
from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.conversation import conversation_of
from edgemem.hooks.points import ON_RUN_END

if TYPE_CHECKING:
    from edgemem.config import Profile
    from edgemem.hooks.points import Hook, HookResult
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message
    from edgemem.script import Line


class _Counting:
    """A tokenizer, and how much is asked of it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.counted = self.encoded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokenise bare text."""
        ids = self._tokenizer.encode(text, special=special)
        self.encoded += len(ids)
        return ids

    def count(self, messages: Sequence[Message], **how: Any) -> int:
        """Count a whole prompt."""
        self.counted += 1
        return self._tokenizer.count(messages, **how)


class _Fitted(NamedTuple):
    """What it took to fit a prompt."""

    ms: float
    cpu_ms: float
    """Of the thread that speaks: what other processes take from it is not in it."""
    counted: int
    """Prompts that were counted as a whole."""
    encoded: int
    """Tokens of texts that were tokenised."""


class _Timed:
    """The compaction hook, and how long it took on each turn whose prompt did not fit, and at the end of each turn."""

    def __init__(self, hook: ContextCompactionHook, tokenizer: _Counting) -> None:
        self._hook = hook
        self._tokenizer = tokenizer
        self.points, self.priority = hook.points, hook.priority
        self.took: list[_Fitted] = []
        self.ends: list[float] = []

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Call the hook."""
        layout = conversation_of(ctx).layout
        counted, encoded = self._tokenizer.counted, self._tokenizer.encoded
        before, begun, cpu = layout.epoch, perf_counter(), time.thread_time()
        result = self._hook(point, ctx, payload)
        ms, cpu_ms = (perf_counter() - begun) * 1e3, (time.thread_time() - cpu) * 1e3
        if layout.epoch is not before and layout.epoch.reason == "did not fit":
            asked = self._tokenizer.counted - counted, self._tokenizer.encoded - encoded
            self.took.append(_Fitted(ms, cpu_ms, *asked))
        if point == ON_RUN_END:
            self.ends.append(ms)
        return result


def fitted(home: Path, tokenizer: Tokenizer, lines: Iterable[Line], *, profile: Profile) -> dict[str, Any]:
    """Play turns without any upkeep, so that prompts do not fit when they are needed, and tell what that took."""
    counting = _Counting(tokenizer)
    with edgemem.open(home, profile=profile, tokenizer=counting, clock=ticking(), worker=False) as memory:
        hooks: list[Hook] = []
        timed: list[_Timed] = []
        for hook in memory.hooks(session_id="now"):
            if isinstance(hook, ContextCompactionHook):
                timed.append(_Timed(hook, counting))
                hooks.append(timed[-1])
            else:
                hooks.append(hook)
        robot = Robot(hooks, tools=[KEEP_PLAN])
        for line in lines:
            robot.turn(line)
        robot.check()
    took = timed[0].took
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
        "turn_end_ms": median(timed[0].ends),
        "turn_end_p95_ms": percentile(timed[0].ends, 0.95),
    }
