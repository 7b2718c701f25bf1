"""Candidates: what may be found at all."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.index.sources import FACT, KINDS, NOTE, PREFERENCE, Doc
from edgemem.store.rights import reading_rule

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.records import Reader

BY_TIME = (PREFERENCE, NOTE)
"""Kinds whose refs are no ticks: their time tells when they were learnt."""

_DIGITS = 19  # of the largest id
# Any number of ids in one value; SQLite 3.37 may have no json_each.
_HELD = f"""
  with recursive places (at) as (
    select 1 where :held <> '' union all select at + {_DIGITS} from places where at + {_DIGITS} < length(:held))
  select cast(substr(:held, at, {_DIGITS}) as integer) from places
"""  # noqa: S608 - our own constants


class Filter(NamedTuple):
    """Which docs may be found: a condition in SQL on `docs d`, and the same for those in memory."""

    where: str
    values: dict[str, Any]
    kinds: frozenset[int]
    session_id: int | None
    turns: frozenset[int]
    past: bool
    known_at: int | None = None
    """Only what was known by this tick; None: all that is known."""
    held: tuple[int, ...] | None = None
    """The only facts that count, by what was said, in ascending order; None: all that `past` lets through."""

    def allows(self, doc: Doc) -> bool:
        """Tell whether a doc that is not in the file may be found."""
        if doc.kind not in self.kinds or (doc.past and not self.past):
            return False
        if doc.session_id is not None and doc.session_id == self.session_id and doc.turn in self.turns:
            return False
        if doc.kind == FACT and self.held is not None:
            at = bisect_left(self.held, doc.ref)
            if at == len(self.held) or self.held[at] != doc.ref:
                return False
        if self.known_at is not None:
            known = doc.at * 1e6 if doc.kind in BY_TIME else doc.ref
            if known > self.known_at:
                return False
        if doc.level == 0 or "known" not in self.values:
            return True
        if doc.level == 1:
            return bool(self.values["known"])
        return bool(self.values["alone"]) and doc.owner == self.values["speaker"]


def make_filter(
    reader: Reader | None,
    *,
    kinds: Collection[str] | None = None,
    session_id: int | None = None,
    turns: Collection[int] = (),
    past: bool = False,
    known_at: int | None = None,
    held: Sequence[int] | None = None,
) -> Filter:
    """Return the filter for a reader.

    Args:
        reader: with the name spelled as in the index, see `as_spelled`.
        kinds: only these.
        session_id: of this session, leave `turns` out.
        past: also facts that do not hold any more.
        known_at: only what was known by this tick.
        held: the only facts that count, by what was said, in ascending order.
    """
    where, values = reading_rule(reader, "d.", speaker=":speaker")
    wanted = frozenset(number for number, name in KINDS.items() if kinds is None or name in kinds)
    if held is not None:
        where += f" and (d.kind <> :fact or d.ref in ({_HELD}))"
        values |= {"fact": FACT, "held": "".join(f"{ref:0{_DIGITS}d}" for ref in held)}
    elif not past:
        where += " and d.past = 0"
    if known_at is not None:
        by_time = ",".join(map(str, BY_TIME))
        where += f" and case when d.kind in ({by_time}) then d.at * 1e6 else d.ref end <= :known_at"
        values["known_at"] = known_at
    if len(wanted) < len(KINDS):
        where += f" and d.kind in ({','.join(map(str, sorted(wanted))) or 'null'})"
    if session_id is not None and turns:
        # Bound, not written out: they change with each turn, and a statement would be prepared anew.
        ranges = []
        for n, (first, last) in enumerate(_ranges(turns)):
            ranges.append(f"d.turn between :first{n} and :last{n}")
            values |= {f"first{n}": first, f"last{n}": last}
        where += f" and (d.session_id is null or d.session_id <> :skipped or not ({' or '.join(ranges)}))"
        values["skipped"] = session_id
    facts = None if held is None else tuple(held)
    return Filter(
        where, values, wanted, session_id, frozenset(turns), past or held is not None, known_at, facts
    )


def _ranges(turns: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for n in sorted(turns):
        if runs and n == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
