"""Tool events: which tools ran, whether they worked and how long they took; the newest ones are kept.

Those of a turn are written with it, and with them one episode that tells what was asked and which tools ran. What a tool was
given and what it answered stands in an episode of its own; an event holds it only where a program says so.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key
from edgemem.records import MEMORY_TOOLS
from edgemem.store.episodes import append_episode, checked_name, spell_out
from edgemem.store.facts import storable_value
from edgemem.store.rights import (
    LEVELS,
    drop_unused,
    level_and_owner,
    level_of_episode,
    reading_rule,
    spell_both,
)
from edgemem.store.validation import HEARD, checked_number, heard_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Heard, Reader
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

MOST = 10_000
"""Events that are kept."""
_ASKED_CHARS = 200
_TOLD_CHARS = 1000
_COLUMNS = "tool, ok, latency, input, output, session, turn, level, owner, speaker, id"


class ToolRun(msgspec.Struct, frozen=True, array_like=True):
    """One call of a tool, as a hook sees it."""

    tool: str
    ok: bool
    latency_ms: float | None = None


class ToolStats(msgspec.Struct, frozen=True):
    """How a tool has done; percentiles are None where nobody measured."""

    tool: str
    calls: int
    failures: int
    failure_rate: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


def append_tool_event(
    tx: Transaction,
    tool: str,
    *,
    ok: bool = True,
    latency_ms: float | None = None,
    input: str | None = None,  # noqa: A002 - as the column is named
    output: str | None = None,
    session: str | None = None,
    turn: int | None = None,
    heard: Heard | None = None,
    level: Level | None = None,
    owner: str | None = None,
) -> int:
    """Keep one call of a tool, and return its id; the oldest go, a tenth of them at a time.

    Args:
        input: what it was given, and `output` what it answered, at most 16 KiB each.
        heard: how what caused it was heard; of this the speaker is kept.
        level: who may read it; None: the household what a recognised speaker caused, and anybody the rest.
    """
    check_key(tool, what="the name of a tool")
    if latency_ms is not None and not 0 <= checked_number(latency_ms, "latency_ms") < math.inf:
        raise InvalidInputError(f"latency_ms must be milliseconds, 0 or more, not {latency_ms:g}.")
    number, who = level_and_owner("", level_of_episode(level, heard), owner, heard)
    who, heard = spell_both(tx, who, heard)
    given, answered = (
        None if text is None else storable_value(text, what=f"the {what} of a tool")
        for text, what in ((input, "input"), (output, "output"))
    )
    session = checked_name(session, what="the session of a tool event")
    row = (tool, ok, latency_ms, given, answered, session, turn, number, who, heard and heard.speaker)
    return _insert(tx, [row])


def append_turn_tools(
    tx: Transaction, session: str, runs: Sequence[ToolRun], *, agent: str, keep: int
) -> None:
    """Keep the calls of a session's newest turn, as private as that turn, and one episode that tells of them.

    Args:
        agent: whose episode it is.
        keep: as for `append_episode`.
    """
    rows = tx.execute(
        f"select n, level, owner, first_message, last_message, session_id, {HEARD} from turns"  # noqa: S608 - our own
        " where session_id = (select id from sessions where name = ?) order by n desc limit 1",
        (session,),
    )
    if not rows or not runs:
        return
    n, level, owner, first, last, session_id, *columns = rows[0]
    heard = heard_of(columns)
    speaker = heard and heard.speaker
    _insert(
        tx,
        [(run.tool, run.ok, run.latency_ms, None, None, session, n, level, owner, speaker) for run in runs],
    )
    runs = [run for run in runs if run.tool not in MEMORY_TOOLS]  # what these did is stored as it is
    if not runs or (LEVELS[level] == "private" and owner is None):
        return  # of an unknown voice in private nothing is kept that nobody could ever be told
    asked = tx.execute(
        "select content from messages where id between ? and ? and session_id = ? and turn = ? and role = 'user'"
        " and dropped is null order by id limit 1",
        (first, last, session_id, n),
    )
    utterance = " ".join((asked[0][0] or "").split()) if asked else ""
    append_episode(
        tx,
        "turn",
        {},
        _outcome(runs),
        agent=agent,
        heard=heard,
        level=LEVELS[level],
        owner=owner,
        keep=keep,
        summary=_told(utterance, runs),
        tools=tuple(dict.fromkeys(run.tool for run in runs)),
        session=session,
        turn=n,
    )


def tool_stats(db: Tables, *, reader: Reader | None = None) -> list[ToolStats]:
    """Return how each tool has done among the calls that are kept, the most called first."""
    rule, bound = reading_rule(reader)
    runs: defaultdict[str, list[tuple[int, float | None]]] = defaultdict(list)
    for tool, ok, latency in db.query(f"select tool, ok, latency from tool_events where {rule}", bound):  # noqa: S608 - ours
        runs[tool].append((ok, latency))
    stats = [_stats_of(tool, calls) for tool, calls in runs.items()]
    return sorted(stats, key=lambda of: (-of.calls, of.tool))


def _stats_of(tool: str, calls: Sequence[tuple[int, float | None]]) -> ToolStats:
    failures = sum(not ok for ok, _ in calls)
    latencies = sorted(latency for _, latency in calls if latency is not None)
    p50, p90, p99 = (
        latencies[max(0, math.ceil(share * len(latencies)) - 1)] if latencies else None
        for share in (0.5, 0.9, 0.99)
    )
    return ToolStats(tool, len(calls), failures, failures / len(calls), p50, p90, p99)


def _insert(tx: Transaction, rows: Sequence[tuple[object, ...]]) -> int:
    """Write rows without their ids, drop the oldest beyond the bound, and return the id of the last."""
    ids = [tx.tick() for _ in rows]
    tx.executemany(
        f"insert into tool_events ({_COLUMNS}) values ({', '.join('?' * 11)})",  # noqa: S608 - our own constant
        [(*row, number) for row, number in zip(rows, ids, strict=True)],
    )
    if tx.execute("select count(*) from tool_events")[0][0] > MOST + MOST // 10:
        old = tx.execute(
            "delete from tool_events where id <= (select id from tool_events order by id desc limit 1 offset ?)"
            " returning owner, speaker",
            (MOST,),
        )
        drop_unused(tx, (name for row in old for name in row))
    return ids[-1]


def _outcome(runs: Sequence[ToolRun]) -> str:
    worked = sum(run.ok for run in runs)
    return "success" if worked == len(runs) else "partial" if worked else "failure"


def _told(utterance: str, runs: Sequence[ToolRun]) -> str:
    """Return what was asked and how each tool did, as people read it."""
    utterance = _cut(utterance, _ASKED_CHARS)
    counts = Counter((run.tool, run.ok) for run in runs)
    told = ", ".join(
        f"{spell_out(tool)} {'worked' if ok else 'failed'}{f' {n} times' if n > 1 else ''}"
        for (tool, ok), n in counts.items()
    )
    told = _cut(told, _TOLD_CHARS)
    return f"{utterance} ({told})" if utterance else told


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
