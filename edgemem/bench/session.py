"""What a thousand turns write to the card, and whether the last one costs more than the first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench.corpus import SPEAKER, conversation, own_words
from edgemem.bench.ground import (
    KEEP_PLAN,
    NearlyReal,
    Robot,
    bytes_written,
    real_embedder,
    refuse_tmpfs,
    scratch,
)
from edgemem.bench.report import at_least, at_most, median, report, say, timed_ms
from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import conversation_of
from edgemem.hooks.points import AFTER_LLM, BEFORE_LLM, HookResult
from edgemem.records import Epoch, Heard, Session, Turn
from edgemem.store.epochs import append_epoch
from edgemem.store.messages import stored_message
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.turns import commit_turn

if TYPE_CHECKING:
    from edgemem.inspect.script import Line
    from edgemem.memory import Memory
    from edgemem.records import Kind, Message
    from edgemem.store.db.transaction import Transaction

SESSION = "bench"
IDLE_S = 600.0
"""More than upkeep ever needs: it ends when nothing is left."""
MARKS = (100, 500, 1000)
WINDOW = 20
WARM_UP = 3
MB = 1e6
_KINDS: tuple[Kind, ...] = ("turn", "episode")


def run(*, turns: int = 1000, home: Path | None = None) -> dict[str, Any]:
    """Count the bytes that turns write, through all default hooks, and compare saving at turn 100, 500 and 1,000.

    The profile is the default, with its embedder and its worker. The model answers when the turn is accepted, as every
    model does that takes a while; after each turn there is the silence that the worker needs, and at the end all is done.

    Args:
        turns: of 4 messages, one durable commit each.
        home: a folder on the disk to measure; default: the temporary files.
    """
    real_embedder()
    with scratch(home) as folder:
        refuse_tmpfs(folder)
        say(f"{turns} turns through all default hooks …")
        played = _play(folder / "played", turns)
        say("timing turns of short and long sessions …")
        figures: dict[str, Any] = {
            "turns": turns,
            "text_mb": round(sum(map(_bytes_of, conversation(turns))) / MB, 3),
            **played,
            **_growth(folder, turns),
        }
    bars = {
        "written_mb": at_most(figures["written_mb"], 20.0 * turns / 1000),
        "accepted": at_least(figures["accepted"], 1.0),
        "found_at_once": at_least(figures["found_at_once"], 1.0),
        "commit_growth": at_most(figures["commit_growth"], 1.2),
        "save_growth": at_most(figures["save_growth"], 1.2),
    }
    return report("session", figures, bars)


def _play(home: Path, turns: int) -> dict[str, Any]:
    """Play all turns; return bytes, where they went, and what was found."""
    before = bytes_written()
    asked = matched = 0
    with edgemem.open(home) as memory:
        slow = _SlowModel(memory)
        robot = Robot([*memory.hooks(session_id=SESSION), slow], tools=[KEEP_PLAN])
        for n, line in enumerate(conversation(turns)):
            robot.turn(line)
            if (n + 1) % max(1, turns // 10) == 0:
                # A tool's call and result are found as the episode that they were. It has its own places: beside words that
                # nobody knows, messages that look like them are near, too.
                hits = [
                    any(word in item.text for kind in _KINDS for item in memory.recall(word, kinds={kind}))
                    for word in own_words(n)
                ]
                asked += len(hits)
                matched += sum(hits)
            memory.idle(IDLE_S, thorough=False)
        memory.idle(IDLE_S)
        robot.check()
        for failure in memory.diagnostics.idle_failures():
            raise InvalidInputError(f"idle work {failure.step} failed: {failure.message}")
    written = bytes_written() - before
    return {
        "written_mb": round(written / MB, 3),
        "accepted": round(slow.accepted / turns, 4),
        "files_mb": {
            file.name: round(file.stat().st_size / MB, 3) for file in sorted((home / "db").iterdir())
        },
        "found_at_once": round(matched / max(1, asked), 4),
        "found_when": "before the silence behind it, each tenth of the way",
    }


class _SlowModel:
    """Lets a model, and the voice behind it, take their time: a script ends a turn before it can be accepted."""

    points = frozenset({BEFORE_LLM, AFTER_LLM})
    priority = -100  # behind the hook that accepts

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.accepted = 0
        """How many turns were accepted with their reply before they ended."""

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Wait for the disk, and count once the reply is there."""
        self._memory.database.enqueue(lambda: None).result()
        if point == AFTER_LLM and not payload.get("tool_calls"):
            kept = conversation_of(ctx).accepted
            self.accepted += kept is not None and kept.done() and not kept.cancelled()
        return None


def _growth(folder: Path, turns: int) -> dict[str, Any]:
    """Time the hooks' commit and `save` around some lengths, all in turn: a busy machine slows all alike."""
    embedder = NearlyReal()
    marks = sorted({max(WINDOW, mark * turns // 1000) for mark in MARKS})
    lines = list(conversation(marks[-1] + WINDOW))
    commits: dict[int, list[float]] = {mark: [] for mark in marks}
    saves: dict[int, list[float]] = {mark: [] for mark in marks}
    with ExitStack() as stack:
        robots, lists = {}, {}
        for mark in marks:
            memory = stack.enter_context(edgemem.open(folder / f"from {mark}", embedder=embedder))
            before = mark - WINDOW // 2
            _lay(memory, lines[:before])
            memory.idle(IDLE_S)
            robots[mark] = Robot(memory.hooks(session_id=SESSION), tools=[KEEP_PLAN])
            store = stack.enter_context(SQLiteSessionStore(folder / f"saved {mark}.db"))
            messages = [message for line in lines[:before] for message in _messages(line)]
            store.save(SESSION, Session(messages))
            lists[mark] = store, messages
        # The first turns resume and find their rhythm; they are played, and not counted.
        for i in range(WINDOW + WARM_UP):
            for mark in marks:
                robot, (store, messages) = robots[mark], lists[mark]
                line = lines[mark - WINDOW // 2 + i]
                commit_ms = robot.turn(line).commit_ms
                messages.extend(_messages(line))
                save_ms = timed_ms(partial(store.save, SESSION, Session(messages)))
                if i >= WARM_UP:
                    commits[mark].append(commit_ms)
                    saves[mark].append(save_ms)
        for robot in robots.values():
            robot.check()
    return {
        "commit_ms": {f"turn_{mark}": median(times) for mark, times in commits.items()},
        "commit_growth": round(median(commits[marks[-1]]) / median(commits[marks[0]]), 3),
        "save_ms": {f"turn_{mark}": median(times) for mark, times in saves.items()},
        "save_growth": round(median(saves[marks[-1]]) / median(saves[marks[0]]), 3),
    }


def _lay(memory: Memory, lines: Sequence[Line]) -> None:
    """Store turns as if they had been played, with the epoch that a long conversation is in by then."""
    turns = [
        Turn(
            SESSION,
            n,
            tuple(map(stored_message, _messages(line))),
            owner=SPEAKER,
            heard=Heard(speaker=SPEAKER),
        )
        for n, line in enumerate(lines)
    ]

    def write(tx: Transaction) -> None:
        for turn in turns:
            commit_turn(tx, turn)
        append_epoch(
            tx, Epoch(SESSION, max(0, len(turns) - 5), "They spoke about plans.", reason="high water")
        )

    memory.database.write(write)


def _messages(line: Line) -> list[Message]:
    """Return the four messages of a turn as a loop keeps them."""
    call = line.tools[0]
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return [
        {"role": "user", "content": line.say},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_0_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0_0", "name": call.name, "content": call.result},
        {"role": "assistant", "content": line.reply},
    ]


def _bytes_of(line: Line) -> int:
    call = line.tools[0]
    return len(f"{line.say}{json.dumps(call.arguments)}{call.result}{line.reply}".encode())
