"""The bytes that a thousand turns write to the card, those of the index, and whether the last commit costs more than the first."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench import ground
from edgemem.bench.corpus import SPEAKER, filled, sentence
from edgemem.errors import InvalidInputError
from edgemem.inspect.replay import Line, ScriptedCall
from edgemem.session.log import log_of
from edgemem.session.points import AFTER_LLM, BEFORE_LLM, HookResult

if TYPE_CHECKING:
    from edgemem.memory import Memory

IDLE_S = 600.0
MARKS, WINDOW = (0.1, 0.5, 1.0), 50
"""Shares of all turns after which commits are compared, by the median of so many turns before."""
MESSAGES = 4
"""Of a turn: utterance, call, result, reply."""
MB = 1e6


def run(*, turns: int = 1000, home: Path | None = None) -> dict[str, Any]:
    """Count the bytes that turns write, through all default hooks, and compare commits at turn 100, 500 and 1,000.

    A turn is 4 messages and one durable commit; then comes the silence that the worker needs. `home` is on the disk to measure.
    """
    ground.real_embedder()
    commits: list[float] = []
    text_bytes = 0
    with ground.scratch(home) as folder:
        ground.refuse_tmpfs(folder)
        ground.say(f"{turns} turns through all default hooks …")
        before = ground.bytes_written()
        with edgemem.open(folder / "home") as memory:
            slow = _SlowModel(memory)
            robot = ground.Robot([*memory.hooks(session_id="bench"), slow], tools=[ground.KEEP_PLAN])
            for line in conversation(turns):
                commits.append(robot.turn(line).commit_ms)
                call = line.tools[0]
                text = f"{line.say}{json.dumps(call.arguments)}{call.result}{line.reply}"
                text_bytes += len(text.encode())
                memory.idle(IDLE_S, thorough=False)
            memory.idle(IDLE_S)
            robot.check()
            for failure in memory.diagnostics.upkeep.failures():
                raise InvalidInputError(f"idle work {failure.step} failed: {failure.message}")
        written_mb = round((ground.bytes_written() - before) / MB, 3)
        files = sorted((folder / "home" / "db").iterdir())
        files_mb = {file.name: round(file.stat().st_size / MB, 3) for file in files}
    ends = [max(1, round(turns * mark)) for mark in MARKS]
    commit_ms = {f"turn_{end}": ground.median(commits[max(0, end - WINDOW) : end]) for end in ends}
    growth = commit_ms[f"turn_{ends[-1]}"] / commit_ms[f"turn_{ends[0]}"]
    accepted = slow.accepted / turns
    index_kb = files_mb["index.db"] * 1e3 / (MESSAGES * turns)
    figures = {
        "turns": turns, "text_mb": round(text_bytes / MB, 3), "written_mb": written_mb,
        "accepted": round(accepted, 4), "files_mb": files_mb, "index_kb_a_message": round(index_kb, 3),
        "commit_ms": commit_ms, "commit_growth": round(growth, 3),
    }  # fmt: skip
    bars = {
        "written_mb": ground.at_most(written_mb, 34.0 * turns / 1000),
        "index_kb_a_message": ground.at_most(index_kb, 1.2),
        "accepted": ground.at_least(accepted, 1.0),
        "commit_growth": ground.at_most(growth, 1.2),
    }
    return ground.report("session", figures, bars)


class _SlowModel:
    """Waits like a model and a voice: a script ends a turn before it can be accepted."""

    points = frozenset({BEFORE_LLM, AFTER_LLM})
    priority = -100  # behind the hook that accepts

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.accepted = 0
        """Turns that were accepted with their reply before they ended."""

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        self._memory.diagnostics.database.enqueue(lambda: None).result()
        if point == AFTER_LLM and not payload.get("tool_calls"):
            kept = log_of(ctx).accepted
            self.accepted += kept is not None and kept.done() and not kept.cancelled()
        return None


def conversation(turns: int, *, seed: int = 3, size: int = 200) -> Iterator[Line]:
    """Yield turns with one tool call each: four messages of about `size` bytes, each with a word of its own."""
    rng = random.Random(seed)
    for i in range(turns):
        words = own_words(i)
        plan = {"text": _prose(rng, size - 90, words[1]), "who": filled("{person}", rng)}
        call = ScriptedCall("keep_plan", plan, _prose(rng, size, words[2]))
        utterance, answered = _prose(rng, size, words[0]), _prose(rng, size, words[3])
        yield Line(utterance, speaker=SPEAKER, reply=answered, tools=(call,))


def own_words(turn: int) -> tuple[str, str, str, str]:
    """Return four words, one for each message of a turn, that no other message has."""
    first, second, third, fourth = (_spelled(turn * 4 + i) for i in range(4))
    return first, second, third, fourth


def _prose(rng: random.Random, size: int, own: str) -> str:
    parts = [filled(f"The {own} is what {{person}} meant.", rng)]
    while sum(map(len, parts)) + len(parts) < size - 20:
        parts.append(sentence(rng))
    return " ".join(parts)[: size + 20].strip()


def _spelled(number: int) -> str:
    """Spell a number in syllables, so that the full text sees a new word of ordinary length."""
    syllables = [consonant + vowel for consonant, vowel in product("bdfglmnprt", "aeiou")]
    out = "z"
    for _ in range(4):
        number, digit = divmod(number, len(syllables))
        out += syllables[digit]
    return out
