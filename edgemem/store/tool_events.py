"""Tool events: the calls of tools, which are kept as episodes of the kind `tool_call`, and what they come to.

A call is an episode of its own. A turn that has several has one more, which tells what was asked and how each tool did.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.records import Episode
from edgemem.store.episodes import append_episode, read_payload, spell_out
from edgemem.store.rights import LEVELS, reading_rule
from edgemem.store.validation import HEARD, heard_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction

TOOL_CALL = "tool_call"
_ASKED_CHARS = 200
_DID_CHARS = 1000

Run = tuple[str, bool]
"""A tool that was called, and whether that worked."""


class ToolStats(msgspec.Struct, frozen=True):
    """How a tool has done; percentiles are None where nobody measured."""

    tool: str
    calls: int
    failures: int
    failure_rate: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


def call_record(tool: str, args: Any, answer: Any) -> tuple[dict[str, Any], str]:
    """Return the payload and the outcome of a call; it failed if its answer has an `error`, or an `error` as its `status`."""
    failed = isinstance(answer, dict) and ("error" in answer or answer.get("status") == "error")
    payload = {"name": tool, "args": args, "error" if failed else "result": answer}
    return payload, "failed" if failed else "ok"


def retell_turn(tx: Transaction, session: str, runs: Sequence[Run], *, agent: str, keep: int) -> None:
    """Store one episode that tells what was asked in a session's newest turn and how its tools did, as private as that turn.

    Args:
        agent: whose episode it is.
        keep: as for `append_episode`.
    """
    rows = tx.execute(
        f"select n, level, owner, first_message, last_message, session_id, {HEARD} from turns"  # noqa: S608 - our own
        " where session_id = (select id from sessions where name = ?) order by n desc limit 1",
        (session,),
    )
    if not rows or (rows[0][1] == LEVELS.index("private") and rows[0][2] is None):
        return  # of an unknown voice in private nothing is kept that nobody could ever be told
    n, level, owner, first, last, session_id, *columns = rows[0]
    asked = tx.execute(
        "select content from messages where id between ? and ? and session_id = ? and turn = ? and role = 'user'"
        " and dropped is null order by id limit 1",
        (first, last, session_id, n),
    )
    worked = sum(ok for _, ok in runs)
    episode = Episode(
        "turn",
        {},
        "success" if worked == len(runs) else "partial" if worked else "failure",
        agent=agent,
        heard=heard_of(columns),
        level=LEVELS[level],
        owner=owner,
        summary=_retold(" ".join((asked[0][0] or "").split()) if asked else "", runs),
        tools=tuple(dict.fromkeys(tool for tool, _ in runs)),
        session=session,
        turn=n,
    )
    append_episode(tx, episode, keep=keep)


def tool_stats(db: Tables, *, reader: Reader | None = None) -> list[ToolStats]:
    """Return how each tool has done among the calls that are kept, the most called first."""
    rule, bound = reading_rule(reader)
    rows = db.query(
        f"select payload, outcome, latency from episodes where kind = :kind and {rule}",  # noqa: S608 - ours
        {**bound, "kind": TOOL_CALL},
    )
    runs: defaultdict[str, list[tuple[bool, float | None]]] = defaultdict(list)
    for payload, outcome, latency in rows:
        runs[str(read_payload(msgspec.json.decode(payload)).get("name"))].append((outcome == "ok", latency))
    stats = [_stats_of(tool, calls) for tool, calls in runs.items()]
    return sorted(stats, key=lambda of: (-of.calls, of.tool))


def _stats_of(tool: str, calls: Sequence[tuple[bool, float | None]]) -> ToolStats:
    failures = sum(not ok for ok, _ in calls)
    latencies = sorted(latency for _, latency in calls if latency is not None)
    p50, p90, p99 = (
        latencies[max(0, math.ceil(share * len(latencies)) - 1)] if latencies else None
        for share in (0.5, 0.9, 0.99)
    )
    return ToolStats(tool, len(calls), failures, failures / len(calls), p50, p90, p99)


def _retold(utterance: str, runs: Sequence[Run]) -> str:
    """Return what was asked and how each tool did, as people read it."""
    did = ", ".join(
        f"{spell_out(tool)} {'worked' if ok else 'failed'}{f' {n} times' if n > 1 else ''}"
        for (tool, ok), n in Counter(runs).items()
    )
    asked, did = _cut(utterance, _ASKED_CHARS), _cut(did, _DID_CHARS)
    return f"{asked} ({did})" if asked else did


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
