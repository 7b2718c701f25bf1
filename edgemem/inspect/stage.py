"""The stage of the demo: a played script with the lines that memory showed, and the figures of the whole run."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.block.render import IN_A_LINE_ABOVE
from edgemem.inspect.replay import Line, PlayedTurn, Player, seconds
from edgemem.session.log import log_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.loop.loop import AgentLoop, TurnResult
    from edgemem.memory import Memory


class ShownLine(msgspec.Struct, frozen=True):
    """One line of the block, and the signals that found it."""

    text: str
    why: tuple[str, ...]


class Scene(msgspec.Struct, frozen=True):
    """One turn as the demo shows it."""

    played: PlayedTurn
    shown: tuple[ShownLine, ...]
    compacted: bool
    """Whether the prompt began anew with this turn."""
    late: bool
    """Whether recall took longer than a robot waits for it."""

    @property
    def checks(self) -> int:
        """Return how many texts were looked for."""
        return len(self.played.line.must) + len(self.played.line.must_not)

    @property
    def passed(self) -> int:
        """Return how many of them were before the model, or kept from it, as the script wants."""
        return self.checks - len(self.played.missing) - len(self.played.leaked)

    def as_dict(self) -> dict[str, Any]:
        """Return the turn for JSON, without the prompts, which are long and mostly the same."""
        played, line, result = self.played, self.played.line, self.played.result
        return {
            "at": line.local.isoformat(),
            "session": line.session,
            "speaker": line.speaker,
            "say": line.say,
            "reply": result.reply,
            "shown": self.shown,
            "tools": result.tools,
            "tokens": played.tokens,
            "new_tokens": played.new_tokens,
            "memory_tokens": played.block_tokens,
            "compacted": self.compacted,
            "hooks_ms": result.hooks_ms,
            "commit_ms": result.commit_ms,
            "late": self.late,
            "checks": self.checks,
            "missing": played.missing,
            "leaked": played.leaked,
        }


class Stage(Player):
    """Plays lines, and keeps the newest scene."""

    scene: Scene

    def __init__(self, memory: Memory, *, deadline_ms: float, **settings: Any) -> None:
        """Make the stage of a home whose robot waits `deadline_ms` for recall; the demo waits longer."""
        super().__init__(memory, **settings)
        self._epoch = ("", 0)
        self.deadline_ms = deadline_ms

    def _played(self, line: Line, loop: AgentLoop, result: TurnResult) -> PlayedTurn:
        played = super()._played(line, loop, result)
        turn = log_of(loop.ctx).prompt_log.turns[-1]
        recalled = {f"{item.kind}:{item.id}": item for item in played.recalled}
        shown = []
        for item in turn.shown:
            why = recalled[item.item].why if item.item in recalled else ("changed",) if item.fact else ()
            shown.append(ShownLine(item.line.removeprefix("- ") or IN_A_LINE_ABOVE, why))
        compacted = self._epoch[0] == line.session and played.epoch > self._epoch[1]
        self._epoch = (line.session, played.epoch)
        recall = played.recall
        late = recall is not None and (recall.late or recall.embed_ms + recall.search_ms > self.deadline_ms)
        self.scene = Scene(played, tuple(shown), compacted, late)
        return played


def summary(scenes: list[Scene], stage: Stage, *, scripted: bool) -> dict[str, Any]:
    """Return the figures of a whole run."""
    memory, behind = stage.memory, stage.memory.diagnostics
    behind.database.checkpoint()
    played = [scene.played for scene in scenes]
    hooks = sorted(turn.result.hooks_ms for turn in played)
    failures = [f"{failure.hook}, {failure.point}: {failure.message}" for failure in stage.failures]
    failures += [f"{failure.step}: {failure.message}" for failure in behind.upkeep.failures()]
    leaked = any(turn.leaked for turn in played)
    # What must be found is written for recall by words and meaning; what must stay hidden holds always.
    missed = behind.embedder is not None and any(scene.played.missing and not scene.late for scene in scenes)
    return {
        "ok": not failures and not (scripted and (leaked or missed)),
        "scripted": scripted,
        "turns": len(played),
        "days": len({turn.line.local.date() for turn in played}),
        "checks": sum(scene.checks for scene in scenes),
        "checks_passed": sum(scene.passed for scene in scenes),
        "compactions": sum(scene.compacted for scene in scenes),
        "late": sum(scene.late for scene in scenes),
        "deadline_ms": stage.deadline_ms,
        "failures": failures,
        "exact_tokens": behind.tokenizer.exact,
        "embedder": behind.embedder is not None,
        "tokens_evaluated": sum(turn.new_tokens for turn in played),
        "tokens_memory": sum(turn.block_tokens for turn in played),
        "hooks_ms_median": hooks[len(hooks) // 2],
        "bytes_of_truth": (memory.home / "db" / "memory.db").stat().st_size,
    }


@contextmanager
def zone_of(line: Line) -> Iterator[None]:
    """Live in the time zone of the script: when "Monday morning" was depends on it."""
    before = os.environ.get("TZ")
    minutes = int((line.local.utcoffset() or timedelta()) / timedelta(minutes=1))
    # POSIX counts west of Greenwich.
    os.environ["TZ"] = f"SCRIPT{'-' if minutes >= 0 else '+'}{abs(minutes) // 60}:{abs(minutes) % 60:02}"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def remember(memory: Memory, line: Line) -> None:
    """Store what the script tells to and a real model did not think of."""
    for fact in line.remember:
        now = memory.store.get_fact(fact.key, scope=fact.scope)
        since = seconds(fact.valid_from) if fact.valid_from is not None else line.time
        if fact.value is None and now is not None:
            memory.store.retract_fact(fact.key, scope=fact.scope)
        elif fact.value is not None and now != fact.value:
            memory.store.add_fact(
                fact.key, fact.value, scope=fact.scope, valid_from=since, heard=line.as_heard()
            )
