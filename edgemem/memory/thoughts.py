"""Thoughts: the door to typed thoughts and edges, with Engrava's names; its `get`, `list` and `count` are the operator's view.

memory.thoughts.create_thought(ThoughtRecord(thought_id="mug", …))
memory.thoughts.get_thought("fact:1764500000000000")        # what other tables remember is shown as a thought
memory.thoughts.create_edge(EdgeRecord(edge_id="e1", from_thought_id="mug", to_thought_id="fact:…", …))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.errors import InvalidInputError, InvalidTransitionError, ThoughtNotFoundError
from edgemem.recall.index.sources import checked_kinds
from edgemem.recall.recall import Request
from edgemem.recall.text.analyse import terms
from edgemem.store import edges
from edgemem.store.episodes import row_number
from edgemem.store.graph import STORED_THOUGHTS
from edgemem.store.kinds import EPISODES
from edgemem.store.rights import LEVELS
from edgemem.store.thoughts import (
    LINE,
    OURS,
    PROMOTED,
    STORED,
    UNMARKED,
    archive_thoughts,
    change_thought,
    checked_shown_kinds,
    confirm_thought,
    count_thoughts,
    expired_thoughts,
    find_thoughts,
    note_access,
    put_aloud,
    put_mark,
    put_thought,
    same_thought,
    stored_thought,
    thought_of,
)
from edgemem.store.turns import current_cycle, turn_of
from edgemem.store.validation import checked_count, checked_number, checked_text, item_count, whole_number
from edgemem.thoughts import (
    ESSENCE_CHARS,
    EdgeRecord,
    EdgeType,
    KnowledgeSource,
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    ThoughtType,
    ThoughtVisibility,
    checked_filters,
    named,
    seconds,
    utc,
    validity_rule,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgemem.recall.recall import Recall
    from edgemem.records import Kind, Reader
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.edges import Direction
    from edgemem.store.erase.eraser import Eraser
    from edgemem.store.memory_store import SQLiteMemoryStore
    from edgemem.thoughts import Validity

_TIMED: frozenset[Kind] = frozenset(("fact", "thought"))
_NEAR = 3  # likely thoughts among which one of the same words is looked for
_DOORS = {
    "fact": "memory.store.add_fact", "doubt": "memory.store.add_fact", "preference": "memory.store.set_preference",
    "episode": "memory.store.add_episode", "goal": "memory.goals.save_goal",
}  # fmt: skip
_FACT_KEY = "select k.key, k.scope from facts f join fact_keys k on k.id = f.key_id where f.id = ? and f.id = f.origin"
_PREFERENCE_KEY = "select key, scope from preferences where id = ?"
_REFLECTIONS = "select id from stored_thoughts where type = 'REFLECTION'"
_LEVEL_OF = {
    "public": "level = 0",
    "selective": "(level = 1 or owner is not null)",
    "private": "level = 2 and owner is null",
}


class CleanupResult(NamedTuple):
    """What became of thoughts that had expired."""

    expired_count: int
    strategy_applied: str
    timestamp: str
    pinned_kept_count: int


class Thoughts:
    """The thoughts of a memory, stored and shown.

    Args:
        new_id: makes the id of a thought that is only remembered.
    """

    def __init__(
        self, store: SQLiteMemoryStore, *, search: Recall, eraser: Eraser, new_id: Callable[[], str]
    ) -> None:
        self._store, self._database = store, store.database
        self._search = search
        self._eraser = eraser
        self._new_id = new_id

    def remember(
        self, text: str, *, metadata: dict[str, Any] | None = None, deduplicate: bool = False
    ) -> ThoughtRecord:
        """Store a text as a note of priority P3, whose first 200 characters a prompt shows."""
        text = checked_text(text, "a thought")
        thought = ThoughtRecord(
            thought_id=self._new_id(),
            thought_type=ThoughtType.NOTE,
            essence=text[:ESSENCE_CHARS],
            content=text,
            priority=Priority.P3,
            lifecycle_status=LifecycleStatus.ACTIVE,
            source="remember",
            metadata=metadata or {},
        )
        return self.create_thought(thought, deduplicate=deduplicate)

    def create_thought(
        self, thought: ThoughtRecord, *, expires_after_seconds: float | None = None, deduplicate: bool = False
    ) -> ThoughtRecord:
        """Store a new thought.

        Args:
            expires_after_seconds: from now; None: as its `expires_at` says.
            deduplicate: where one of the same words, for the same readers, is stored already, count that as its confirmation.

        Raises:
            InvalidInputError: the id is taken, or of edgemem's own form; or it is a reflection, which only learning makes.
        """
        return self.bulk_store(
            [thought], expires_after_seconds=expires_after_seconds, deduplicate=deduplicate
        )[0]

    def bulk_store(
        self,
        thoughts: Sequence[ThoughtRecord],
        *,
        expires_after_seconds: float | None = None,
        deduplicate: bool = False,
    ) -> list[ThoughtRecord]:
        """Store new thoughts, all or none of them; see `create_thought`."""
        if not isinstance(thoughts, Iterable):
            raise InvalidInputError(f"Give a list of thoughts, not {type(thoughts).__name__}.")
        thoughts = [*thoughts]  # a generator is read once
        near: dict[tuple[str | None, ...], str | None] = {}
        for thought in thoughts:
            _check_new(thought)
            # Of equal ones, and where one is stored, nothing is looked for: there may be thousands.
            if deduplicate and _likeness(thought) not in near:
                same = same_thought(self._database, thought)
                near[_likeness(thought)] = None if same is not None else self._near(thought)

        def store(tx: Transaction, thought: ThoughtRecord) -> ThoughtRecord:
            same = (same_thought(tx, thought) or near[_likeness(thought)]) if deduplicate else None
            return confirm_thought(tx, same) if same else _create(tx, thought, expires_after_seconds)

        return self._database.write(lambda tx: [store(tx, thought) for thought in thoughts])

    def get_or_create(
        self, thought: ThoughtRecord, *, expires_after_seconds: float | None = None
    ) -> tuple[ThoughtRecord, bool]:
        """Return the stored thought with this content for the same readers, else store this one; and whether it is new."""
        _check_new(thought)

        def work(tx: Transaction) -> tuple[ThoughtRecord, bool]:
            same = same_thought(tx, thought)
            if same is not None:
                return confirm_thought(tx, same), False
            return _create(tx, thought, expires_after_seconds), True

        return self._database.write(work)

    def upsert_by_hash(
        self, thought: ThoughtRecord, *, expires_after_seconds: float | None = None
    ) -> ThoughtRecord:
        """Store a thought, or let the one with this content for the same readers say what this one does."""
        _check_new(thought)

        def work(tx: Transaction) -> ThoughtRecord:
            same = same_thought(tx, thought)
            if same is None:
                return _create(tx, thought, expires_after_seconds)
            names = (
                "essence", "priority", "metadata", "visibility", "lifecycle_status", "source", "confidence", "source_type",
                "thought_type",
            )  # fmt: skip
            return change_thought(tx, same, {name: msgspec.structs.asdict(thought)[name] for name in names})

        return self._database.write(work)

    def get_thought(self, thought_id: str, *, reader: Reader | None = None) -> ThoughtRecord | None:
        """Return a thought, stored or shown; None: there is none that the reader may read."""
        if not (line := LINE.fullmatch(checked_text(thought_id, "a thought_id"))):
            return edges.read_thought(self._database, thought_id, reader=reader)
        if (item := self._search.item(line[1], int(line[2]), reader)) is None:  # type: ignore[arg-type]
            return None
        row: dict[str, Any] = {"name": thought_id, "type": "NOTE", "lifecycle": "ACTIVE", "priority": "P3"}
        row |= {"content": item.text, "source": item.source, "created": item.recorded_at}
        row |= {"level": LEVELS.index(item.level), "owner": item.owner}
        return thought_of(row)

    def update_thought(self, /, thought_id: str, **changes: Any) -> ThoughtRecord:
        """Write another version of a thought under its id; of one that is only shown, change its mark.

        Raises:
            ThoughtNotFoundError: there is none.
            InvalidTransitionError: its lifecycle does not go that way.
            InvalidInputError: a value is wrong, or belongs to a record that another door changes.
        """
        if not OURS.match(checked_text(thought_id, "a thought_id")):
            return self._database.write(lambda tx: _change(tx, thought_id, changes))

        self._there(thought_id)
        if others := sorted(changes.keys() - UNMARKED):
            raise InvalidInputError(
                f"{others[0]} of {thought_id} is not changed here; {_door_of(thought_id)} does that. Here are changed:"
                f" {', '.join(sorted(UNMARKED))}."
            )

        def change_mark(tx: Transaction) -> None:
            put_mark(tx, thought_id, **changes)
            if "aloud" in changes:  # or a change would tell the value before
                put_aloud(tx, thought_id, aloud=bool(changes["aloud"]))

        self._database.write(change_mark)
        return self._there(thought_id)

    def restore_thought(self, thought_id: str, *, current_cycle: int | None = None) -> ThoughtRecord:
        """Take a thought out of the archive."""

        def work(tx: Transaction) -> ThoughtRecord:
            if (status := stored_thought(tx, thought_id).lifecycle_status) is not LifecycleStatus.ARCHIVED:
                raise InvalidTransitionError(f"The thought {thought_id!r:.80} is {status} and not archived.")
            changes = (
                {}
                if current_cycle is None
                else {"updated_cycle": whole_number(current_cycle, "current_cycle")}
            )
            return change_thought(tx, thought_id, {"lifecycle_status": LifecycleStatus.ACTIVE, **changes})

        return self._database.write(work)

    def invalidate_thought(self, thought_id: str, valid_until: str | float) -> ThoughtRecord:
        """Say until when a thought was true."""
        return self.update_thought(thought_id, valid_until=valid_until)

    def delete_thought(self, thought_id: str) -> bool:
        """Erase a thought, as a forgetting does, and tell whether there was one; a fact with its history, a message with its turn."""
        if not OURS.match(checked_text(thought_id, "a thought_id")):
            return bool(self._eraser.record(STORED_THOUGHTS, thought_id))
        kind, _, number = thought_id.partition(":")
        if kind == "episode":
            return bool(self._eraser.record(EPISODES, number))
        if kind == "turn":
            place = turn_of(self._database, number)
            return place is not None and bool(self._eraser.turn(*place))
        if kind not in ("fact", "preference"):
            raise InvalidInputError(f"{thought_id} is not forgotten here; {_door_of(thought_id)} changes it.")
        rows = self._database.query(_FACT_KEY if kind == "fact" else _PREFERENCE_KEY, (row_number(number),))
        if kind == "fact":
            return bool(rows) and bool(self._eraser.fact(rows[0][0], scope=rows[0][1]))
        return bool(rows) and self._store.forget_preference(rows[0][0], scope=rows[0][1])

    def list_thoughts(
        self,
        *,
        priority: Priority | str | None = None,
        lifecycle_status: LifecycleStatus | str | None = None,
        thought_type: ThoughtType | str | None = None,
        min_cycle: int | None = None,
        max_cycle: int | None = None,
        visibility: ThoughtVisibility | str | None = None,
        exclude_visibility: ThoughtVisibility | str | None = None,
        include_expired: bool = False,
        kinds: Collection[str] = STORED,
        limit: int = 50,
        offset: int = 0,
        **validity: Unpack[Validity],
    ) -> list[ThoughtRecord]:
        """Return thoughts that pass all filters, those of the highest cycle first; without a time, of all times.

        `kinds` has `thought` for stored ones, and `fact`, `turn` and so on for what is shown as one.
        """
        rule, moments = validity_rule(self._database.now(), validity)
        where, values = _conditions(priority, lifecycle_status, thought_type, include_expired=include_expired)
        for name, sign, cycle in (("least", ">=", min_cycle), ("most", "<=", max_cycle)):
            if cycle is not None:
                where += f" and updated_cycle {sign} :{name}"
                values[name] = whole_number(cycle, f"{name} cycle")
        if visibility is not None:
            where += f" and {_LEVEL_OF[named(ThoughtVisibility, visibility)]}"
        if exclude_visibility is not None:
            where += f" and not ({_LEVEL_OF[named(ThoughtVisibility, exclude_visibility)]})"
        return find_thoughts(
            self._database,
            f"{where} and {rule}",
            {**values, **moments},
            kinds=checked_shown_kinds(kinds),
            limit=checked_count(limit, "limit"),
            offset=checked_count(offset, "offset"),
        )

    def count_thoughts(
        self,
        *,
        lifecycle_status: LifecycleStatus | str | None = None,
        thought_type: ThoughtType | str | None = None,
        priority: Priority | str | None = None,
        include_expired: bool = False,
        kinds: Collection[str] = STORED,
    ) -> int:
        """Return how many thoughts pass all filters; `kinds` is that of `list_thoughts`."""
        where, values = _conditions(priority, lifecycle_status, thought_type, include_expired=include_expired)
        return count_thoughts(self._database, where, values, kinds=checked_shown_kinds(kinds))

    def max_cycle(self) -> int:
        """Return the highest cycle that a turn, a thought or an edge has had; the next turn's is one more."""
        return current_cycle(self._database)

    def thought_exists_by_source(self, *, source: str, thought_type_value: str) -> bool:
        """Tell whether a stored thought of a type has this source."""
        where = "source = :source and type = :type"
        return count_thoughts(self._database, where, {"source": source, "type": thought_type_value}) > 0

    def record_access(self, thought_id: str) -> None:
        """Count that a stored thought was used."""
        self._database.write(lambda tx: note_access(tx, thought_id))

    def cleanup_expired(
        self, now: str | float | None = None, *, exclude_id: str | None = None
    ) -> CleanupResult:
        """Archive the stored thoughts that have expired, but for one, and end their expiry; those that are pinned stay."""
        moment = utc(self._database.now() if now is None else now, "now")

        def work(tx: Transaction) -> CleanupResult:
            names, pinned = expired_thoughts(tx, seconds(moment) or 0.0, without=exclude_id)
            archive_thoughts(tx, names)
            return CleanupResult(len(names), "archive", moment or "", pinned)

        return self._database.write(work)

    def create_edge(self, edge: EdgeRecord) -> EdgeRecord:
        """Store an edge between two thoughts, stored or shown; it is at least as private as they are.

        Raises:
            DuplicateEdgeError: there is one of this type, or of this id.
            ThoughtNotFoundError: an end is not there.
        """
        if not isinstance(edge, EdgeRecord):
            raise InvalidInputError(f"An edge must be an EdgeRecord, not {type(edge).__name__}.")

        def work(tx: Transaction) -> EdgeRecord:
            cycle = edge.created_cycle or current_cycle(tx)
            return edges.put_edge(tx, edge.evolve(created_cycle=cycle))

        return self._database.write(work)

    def update_edge(self, /, edge_id: str, **changes: Any) -> EdgeRecord:
        """Change an edge's weight, valid times, source, metadata or level."""
        return self._database.write(lambda tx: edges.change_edge(tx, edge_id, changes))

    def invalidate_edge(self, edge_id: str, valid_until: str | float) -> EdgeRecord:
        """Say until when an edge held."""
        return self.update_edge(edge_id, valid_until=valid_until)

    def get_edges(
        self,
        thought_id: str,
        *,
        direction: Direction = "BOTH",
        limit: int | None = None,
        reader: Reader | None = None,
    ) -> list[EdgeRecord]:
        """Return the edges at a thought, those that other tables tell among them; with a limit the heaviest."""
        checked_text(thought_id, "a thought_id")
        found = edges.edges_of(self._database, thought_id, direction=direction, reader=reader)
        if limit is None:
            return found
        return sorted(found, key=lambda edge: -edge.weight)[: item_count(limit, "limit")]

    def list_edges(
        self,
        *,
        edge_type: EdgeType | str | None = None,
        source: KnowledgeSource | str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 5000,
        reader: Reader | None = None,
    ) -> list[EdgeRecord]:
        """Return stored edges, the newest first; `filters` are those of `memory.recall`."""
        where, values = _equal(type=(EdgeType, edge_type), source_type=(KnowledgeSource, source))
        asked, most = checked_filters(filters), item_count(limit, "limit")
        return edges.list_edges(self._database, where, values, filters=asked, limit=most, reader=reader)

    def delete_edge(self, edge_id: str) -> bool:
        """Delete an edge; tell whether there was one."""
        return self._database.write(lambda tx: edges.delete_edge(tx, edge_id))

    def related(
        self, thought_id: str, depth: int = 1, *, reader: Reader | None = None
    ) -> list[tuple[int, EdgeRecord]]:
        """Return the edges around a thought, nearest first, each with its distance, 1 or 2."""
        if not 1 <= whole_number(depth, "depth") <= edges.MOST_DEPTH:
            raise InvalidInputError(f"depth must be from 1 to {edges.MOST_DEPTH}, not {depth}.")
        return edges.related(
            self._database, checked_text(thought_id, "a thought_id"), depth=depth, reader=reader
        )

    def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        kinds: Collection[Kind] | None = None,
        reflections: bool | None = None,
        include_archived: bool = False,
        reader: Reader | None = None,
        filters: Mapping[str, Any] | None = None,
        **validity: Unpack[Validity],
    ) -> list[tuple[str, float]]:
        """Return ids of thoughts, stored or shown, with the scores of `recall`, best first; without a time, of what holds now.

        Args:
            reflections: only them, or none of them; None: among all else.
        """
        known = () if reflections is None else self._database.query(_REFLECTIONS)
        rule, values = validity_rule(self._database.now(), validity)
        spans = validity.keys() - {"valid_now", "valid_at"}
        if "valid_within" in spans:  # without bounds nothing is within any
            kinds = _TIMED.intersection(kinds or _TIMED)
        request = Request(
            reader=reader,
            k=item_count(top_k, "top_k"),
            kinds=STORED if reflections else checked_kinds(kinds),
            refs=[ref for (ref,) in known] if reflections else None,
            exclude=[] if reflections else [f"thought:{ref}" for (ref,) in known],
            include_archived=include_archived,
            filters=checked_filters(filters),
            valid_at=None if spans else values.get("at"),
            validity=(rule, values) if spans else None,
            include_past=True if spans else None,
        )
        items = self._search.recall(checked_text(query, "the query"), request)
        return [(item.thought_id, item.score) for item in items]

    def _there(self, thought_id: str) -> ThoughtRecord:
        if (thought := self.get_thought(thought_id)) is None:
            raise ThoughtNotFoundError(f"There is no {thought_id!r:.80}.")
        return thought

    def _near(self, thought: ThoughtRecord) -> str | None:
        """Return the id of a stored thought with the same words for the same readers, whatever their case and signs."""
        words = terms(thought.content)
        for name, _ in self.search(thought.content, top_k=_NEAR, kinds=STORED):
            other = stored_thought(self._database, name)
            if terms(other.content) == words and (other.level, other.owner) == (thought.level, thought.owner):
                return name
        return None


def _conditions(
    priority: str | None, lifecycle: str | None, thought_type: str | None, *, include_expired: bool
) -> tuple[str, dict[str, Any]]:
    """Return the condition that thoughts are such, and its values."""
    where, values = _equal(
        priority=(Priority, priority),
        lifecycle=(LifecycleStatus, lifecycle),
        type=(ThoughtType, thought_type),
    )
    return f"{where} and (:expired or ifnull(expires > :now, 1))", {**values, "expired": include_expired}


def _equal(**names: tuple[Any, str | None]) -> tuple[str, dict[str, Any]]:
    """Return the condition that columns have names of closed sets, where one is given, and its values."""
    values = {column: named(kind, name) for column, (kind, name) in names.items() if name is not None}
    return " and ".join(("1", *(f"{column} = :{column}" for column in values))), values


def _door_of(thought_id: str) -> str:
    """Return the door that changes what is shown under an id."""
    return _DOORS.get(thought_id.partition(":")[0], "the conversation that it was said in")


def _likeness(thought: ThoughtRecord) -> tuple[str | None, ...]:
    """Return what two thoughts have in common of which one confirms the other."""
    return thought.content, thought.level, thought.owner


def _check_new(thought: ThoughtRecord) -> None:
    """Raise InvalidInputError unless it is a thought that a caller may store."""
    if not isinstance(thought, ThoughtRecord):
        raise InvalidInputError(f"A thought must be a ThoughtRecord, not {type(thought).__name__}.")
    if thought.thought_type is ThoughtType.REFLECTION:
        raise InvalidInputError("Only learning makes a REFLECTION; store a BELIEF or a NOTE.")


def _change(tx: Transaction, thought_id: str, changes: dict[str, Any]) -> ThoughtRecord:
    """Change a thought, which no caller makes a reflection; that it was promoted stays known, until somebody sets its priority."""
    before = stored_thought(tx, thought_id)
    if PROMOTED in before.metadata:
        kept = before.metadata[PROMOTED] and "priority" not in changes
        changes = {**changes, "metadata": {**changes.get("metadata", before.metadata), PROMOTED: kept}}
    thought = change_thought(tx, thought_id, changes)
    if before.thought_type is not ThoughtType.REFLECTION:
        _check_new(thought)
    return thought


def _create(tx: Transaction, thought: ThoughtRecord, expires_after_seconds: float | None) -> ThoughtRecord:
    if tx.execute("select 1 from stored_thoughts where name = ?", (thought.thought_id,)):
        raise InvalidInputError(
            f"There is a thought {thought.thought_id!r:.80} already; update_thought changes it."
        )
    if expires_after_seconds is not None:
        seconds_left = checked_number(expires_after_seconds, "expires_after_seconds")
        thought = thought.evolve(expires_at=tx.now() + seconds_left)
    begun = thought.created_cycle or current_cycle(tx)
    updated = max(thought.updated_cycle or current_cycle(tx), begun)
    return put_thought(tx, thought.evolve(created_cycle=begun, updated_cycle=updated))
