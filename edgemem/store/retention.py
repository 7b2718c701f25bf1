"""Retention: what ages, why, and how it goes.

What expired goes first: stored thoughts into the archive, all else for good. Then goes what was archived long ago, and what a cap on
age or size lets go: turns, what was lived through, summaries, preferences, and facts last. Whatever is pinned or P1, by itself or by
its mark, stays; so does the whole turn of such a message. The ring of episodes and the bound of tool outputs are caps too, which each
write keeps, and so are the days of the bank.

A clock that went far ahead may be wrong: nothing is erased until it has gone on for some days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.clock import span
from edgemem.errors import BusyError, StoreError

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.records import Forgotten
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction
    from edgemem.store.declaration import Kind

    Stop = Callable[[], bool]

AT_ONCE = 16
"""Records of one transaction: a turn that ends meanwhile waits for some milliseconds."""
_ARCHIVED_AT_ONCE = 4  # a new version is written of each
STAYS = "(pinned or priority = 'P1')"
"""The condition under which a thought, or the record of a mark, never ages."""
_DAY_S = 86400.0
_EXPIRED = "expired"
_JUMP_S, _SETTLE_S = 30 * _DAY_S, 7 * _DAY_S
"""How long a robot that is off may be away, and how long a clock that went further ahead must have gone on since."""
_JUMP = "retention:jump"  # the key in `meta` of when it last did, in seconds since the epoch
_LOOK_S = _DAY_S  # between two looks of idle time: each erasing writes a backup anew
_LEAST_S = _DAY_S  # for which a cap on size lets everything be: it is talked about now
_SHARE = 0.9  # of a cap on size that is left full, so that not every look erases


class AgedRecord(msgspec.Struct, frozen=True):
    """A record that would go."""

    id: str
    """As a thought's; of a turn, its last message's."""
    at: float
    """Since when nothing touched it, or when it expired, seconds since the epoch."""
    bytes: int
    """Of its words, which is less than it takes on the disk."""
    subjects: tuple[str, ...]
    """All ids under which it is shown: of a turn those of its messages, of a fact those of its versions and doubts."""
    key: tuple[str, str] | None
    """Scope and key of a fact or a preference."""
    reason: str
    action: Literal["archive", "erase"] = "erase"

    @property
    def is_expired(self) -> bool:
        """Tell whether somebody said that it goes now."""
        return self.reason == _EXPIRED


_AGEING = f"""
  select s.kind, s.id, case s.kind when 'turn' then (select session_id || ' ' || turn from messages where id = s.id)
    else ifnull(k.id, s.id) end, ifnull(k.scope, p.scope), ifnull(k.key, p.key), length(cast(s.content as blob)), {STAYS}, s.expires
  from shown_thoughts s
    left join preferences p on s.kind = 'preference' and p.id = s.id
    left join fact_keys k on k.id = case s.kind when 'fact' then (select key_id from facts where id = s.id)
      when 'doubt' then (select key_id from doubts where id = s.id) end
  order by s.kind = 'fact', s.id
"""  # noqa: S608 - our own constant
"""What is shown as a thought, with the number of what it is a part of: the messages of a turn, the versions and doubts of a fact."""
_ORDER = ("turn", "episode", "summary", "goal", "preference", "fact")


def trim(tx: Transaction, kind: Kind, *, most: int, size: str = "1", slack: int = 0) -> list[tuple[Any, ...]]:
    """Delete the oldest rows beyond a number or a size of all, once there is `slack` more; return their ids, and people in them.

    `size`: expression of what a row counts.
    """
    if tx.execute(f"select total({size}) from {kind.table}")[0][0] <= most + slack:  # noqa: S608 - our own constants
        return []
    return tx.execute(
        f"delete from {kind.table} as r where id in (select id from"  # noqa: S608 - our own constants
        f" (select id, sum({size}) over (order by id desc) as total from {kind.table}) where total > :most)"
        f" and not exists (select 1 from marks where {STAYS} and subject = '{kind.doc}:' || r.id)"
        f" returning {', '.join(('id', *kind.columns_of('person')))}",
        {"most": most},
    )


def oldest_kept(days: float, now: float) -> float:
    """Return the moment before which something is older than some days; 0 days keep all."""
    return now - days * _DAY_S if days else float("-inf")


class Retention:
    """What ages in a home.

    Args:
        archive: puts stored thoughts of some ids into the archive.
        erase: erases records a few at a time, until it is stopped; with `at_once` it waits for the bytes to be gone.
        retain: deletes the files of the bank that are too old; tells whether there was any.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        archive: Callable[[Sequence[str]], None],
        erase: Callable[[Sequence[AgedRecord], Stop, bool], Forgotten],
        retain: Callable[[Stop], bool],
    ) -> None:
        self._database, self._settings = database, settings
        self._archive, self._erase, self._retain = archive, erase, retain
        self._seen = database.last_tick() / 1e6 or database.now()
        """When the clock last went well; at first, the newest that is stored."""
        self._next = 0.0
        with suppress(StoreError):  # else the next look notes a jump
            self.doubt()

    def plan(self, *, expired: bool = True) -> list[AgedRecord]:
        """Return what would go now, in this order, and why; `expired`: also what only somebody's expiry ends. Nothing is changed."""
        settings, now, used_mb = self._settings.now.retention, self._database.now(), self._used_mb()
        records = _shown(self._database, now)
        plan = [*_thoughts(self._database, settings.collect_days, now), *records]
        plan = [record for record in plan if record.reason and (expired or not record.is_expired)]
        oldest = oldest_kept(settings.max_days, now)
        over = (used_mb - settings.max_mb * _SHARE) * 1e6 if 0 < settings.max_mb < used_mb else 0.0
        for record in records:
            if (expired and record.is_expired) or record.id.startswith("goal:"):
                continue
            if record.at < oldest:
                plan.append(
                    msgspec.structs.replace(record, reason=f"untouched for {settings.max_days:g} days")
                )
            elif over > 0 and record.at < now - _LEAST_S:
                plan.append(msgspec.structs.replace(record, reason=f"more than {settings.max_mb:g} MB"))
            else:
                continue
            over -= record.bytes
        return plan

    def erase(self, plan: Sequence[AgedRecord]) -> Forgotten:
        """Have a plan done, and wait for the bytes to be gone; raise BusyError while the clock is in doubt."""
        if doubt := self.doubt():
            raise BusyError(f"Nothing was erased. {doubt}")
        return self._go(plan, lambda: False, at_once=True)

    def work(self, stop: Stop) -> bool:
        """Do what the profile asks for, all but the bank once a day; tell whether anything was done."""
        if self._database.read_only or self.doubt():
            return False
        is_done = self._retain(stop)
        settings, now = self._settings.now.retention, self._database.now()
        if now >= self._next and any(msgspec.structs.astuple(settings)):
            plan = self.plan(expired=settings.expired)
            if plan:
                self._go(plan, stop, at_once=False)
            self._next = self._next if stop() else now + _LOOK_S
            is_done = is_done or bool(plan)
        return is_done

    def doubt(self) -> str:
        """Return why the clock is not believed, so that nothing may be erased; empty while it is."""
        trust, now = self._database.clock.trust(), self._database.now()
        if not trust.trusted:
            return trust.reason
        if now - self._seen > _JUMP_S and not self._database.read_only:
            note = "insert or replace into meta values (?, ?)"
            self._database.write(lambda tx: tx.execute(note, (_JUMP, now)))
        self._seen = now
        for (jumped,) in self._database.query("select value from meta where key = ?", (_JUMP,)):
            if (left := jumped + _SETTLE_S - now) > 0:
                return f"The clock went far ahead; set it if it is wrong, or wait {span(left)}."
        return ""

    def _go(self, plan: Sequence[AgedRecord], stop: Stop, *, at_once: bool) -> Forgotten:
        names = [record.id for record in plan if record.action == "archive"]
        for start in range(0, len(names), _ARCHIVED_AT_ONCE):
            if not stop():
                self._archive(names[start : start + _ARCHIVED_AT_ONCE])
        return self._erase([record for record in plan if record.action == "erase"], stop, at_once)

    def _used_mb(self) -> float:
        sql = "select (page_count - freelist_count) * page_size / 1e6 from pragma_page_count, pragma_freelist_count, pragma_page_size"
        return float(self._database.query(sql)[0][0])


def _thoughts(db: Tables, collect_days: float, now: float) -> list[AgedRecord]:
    """Return the stored thoughts that have expired, or were archived long ago."""
    rows = db.query(
        "select name, id, iif(lifecycle = 'ARCHIVED', ifnull(archived, id / 1e6), expires) as at, lifecycle = 'ARCHIVED',"  # noqa: S608 - our own constant
        " length(cast(essence as blob)) + length(cast(content as blob)) from stored_thoughts where not"
        f" {STAYS} and iif(lifecycle = 'ARCHIVED', ifnull(archived, id / 1e6) < :oldest, expires <= :now) order by at",
        {"oldest": oldest_kept(collect_days, now), "now": now},
    )
    collected = f"archived for {collect_days:g} days"
    return [
        AgedRecord(
            name, at, size, (f"thought:{number}",), None, collected if is_archived else _EXPIRED,
            "erase" if is_archived else "archive",
        )
        for name, number, at, is_archived, size in rows
    ]  # fmt: skip


def _shown(db: Tables, now: float) -> list[AgedRecord]:
    """Return all that is shown as a thought and that no mark keeps, in the order in which it goes; the reason is open but of what expired."""
    parts: defaultdict[tuple[str, Any], list[tuple[Any, ...]]] = defaultdict(list)
    for kind, ref, whole, *row in db.query(_AGEING):
        parts["fact" if kind == "doubt" else kind, whole].append((f"{kind}:{ref}", ref, *row))
    records: list[tuple[int, float, AgedRecord]] = []
    for (kind, _), rows in parts.items():
        subjects, refs, scopes, keys, sizes, stays, expiries = zip(*rows, strict=True)
        ends = [
            end for end in (expiries if kind == "turn" else expiries[-1:]) if end is not None and end <= now
        ]
        key = None if keys[-1] is None else (scopes[-1], keys[-1])
        at, reason = (min(ends), _EXPIRED) if ends else (max(refs) / 1e6, "")
        if not any(stays):
            record = AgedRecord(subjects[-1], at, sum(sizes), subjects, key, reason)
            records.append((_ORDER.index(kind), at, record))
    return [record for *_, record in sorted(records, key=lambda item: item[:2])]
