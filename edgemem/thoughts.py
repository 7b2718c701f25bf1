"""Thoughts and edges: the records of the graph, with the names, limits and defaults of Engrava's page.

Their times are texts in ISO 8601, in UTC, as that page has them; seconds since the epoch are taken too. A record never changes:
`evolve` returns another one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_args

import msgspec

from edgemem.errors import InvalidInputError, InvalidTransitionError
from edgemem.fence import check_key, storable
from edgemem.records import EARLIEST, LATEST
from edgemem.scopes import Level, person_of

if TYPE_CHECKING:
    from typing_extensions import Self

ESSENCE_CHARS = 200
CONTENT_BYTES = 1 << 20
METADATA_BYTES, METADATA_DEPTH = 16 * 1024, 16
MOST_CYCLE = 2**62

E = TypeVar("E", bound="_Name")


class _Name(str, Enum):
    """One of a closed set of names; it is its text."""

    __str__ = str.__str__


class ThoughtType(_Name):
    """What kind of thought it is; only edgemem itself makes reflections."""

    TASK = "TASK"
    OBSERVATION = "OBSERVATION"
    BELIEF = "BELIEF"
    REFLECTION = "REFLECTION"
    OUTPUT_DRAFT = "OUTPUT_DRAFT"
    NOTE = "NOTE"


class Priority(_Name):
    """How important it is to keep at hand, P1 most of all."""

    P1 = "P1"
    P2 = "P2"
    P3 = "P3"
    P4 = "P4"


class LifecycleStatus(_Name):
    """How far it has come; see `TRANSITIONS`."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    DONE = "DONE"
    ARCHIVED = "ARCHIVED"


class KnowledgeSource(_Name):
    """How the knowledge was obtained."""

    EXPERIENCE = "EXPERIENCE"
    SEEDED_LLM = "SEEDED_LLM"
    DISTILLED_LLM = "DISTILLED_LLM"
    DREAMING = "DREAMING"


class ThoughtVisibility(_Name):
    """Who may hear it: Engrava's names of the levels."""

    PRIVATE = "private"
    SELECTIVE = "selective"
    PUBLIC = "public"


class EdgeType(_Name):
    """How two thoughts hang together."""

    ASSOCIATED = "ASSOCIATED"
    DEPENDS_ON = "DEPENDS_ON"
    DERIVED_FROM = "DERIVED_FROM"
    MESSAGE_OF = "MESSAGE_OF"
    BRIDGE = "BRIDGE"
    CONSOLIDATED_FROM = "CONSOLIDATED_FROM"
    CONTESTED_BY = "CONTESTED_BY"


_CREATED, _ACTIVE, _DONE, _ARCHIVED = LifecycleStatus
TRANSITIONS: Mapping[LifecycleStatus, frozenset[LifecycleStatus]] = {
    _CREATED: frozenset({_ACTIVE}),
    _ACTIVE: frozenset({_DONE, _ARCHIVED}),
    _DONE: frozenset({_ARCHIVED}),
    _ARCHIVED: frozenset({_ACTIVE}),
}
"""Which status may follow which; to leave the archive is to be restored (as in Engrava 0.7.2)."""

Metadata = dict[str, Any]
"""Scalars, and such dicts."""
Filters = tuple[frozenset[str], ...]
"""For each path that is asked for, the traits one of which a record must have; see `traits_of`."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    def evolve(self, **changes: Any) -> Self:
        """Return this record with other values."""
        unknown = sorted(changes.keys() - set(self.__struct_fields__))
        if unknown:
            raise InvalidInputError(
                f"A {type(self).__name__} has no {unknown[0]!r:.60}; it has {', '.join(self.__struct_fields__)}."
            )
        return msgspec.structs.replace(self, **changes)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            msgspec.structs.force_setattr(self, name, value)


class ThoughtRecord(_Record, frozen=True, kw_only=True):
    """One idea, fact, observation or message."""

    thought_id: str
    thought_type: ThoughtType
    essence: str
    """What a prompt shows: 1 to 200 characters."""
    content: str
    """What is searched and kept."""
    priority: Priority
    lifecycle_status: LifecycleStatus
    source: str
    """Where it comes from, in words of the caller's."""
    created_cycle: int = 0
    """The agent's clock; 0 of what is stored: the counter of turns."""
    updated_cycle: int = 0
    confidence: float | None = None
    """How sure its author is, 0 to 1; None counts as .5."""
    source_type: KnowledgeSource = KnowledgeSource.EXPERIENCE
    confirmation_count: int = 0
    consolidated_from: tuple[str, ...] = ()
    visibility: ThoughtVisibility = ThoughtVisibility.SELECTIVE
    owner: str | None = None
    """Who alone may read a selective one, as `user:ines` or `ines`; None: everybody who is recognised."""
    access_count: int = 0
    last_accessed_at: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    expires_at: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    metadata: Metadata = {}
    pinned: bool = False
    """Whether upkeep keeps it, whatever its age."""
    aloud: bool = True
    """Whether it may be said aloud."""
    archived_at_cycle: int | None = None
    archived_at: str | None = None

    def __post_init__(self) -> None:
        check_key(self.thought_id, what="a thought_id")
        essence, content = _text(self.essence, "essence"), _text(self.content, "content")
        if len(essence) > ESSENCE_CHARS:
            raise InvalidInputError(
                f"essence has {len(essence):,} characters and may have {ESSENCE_CHARS}; put the long text into content."
            )
        if len(content.encode()) > CONTENT_BYTES:
            raise InvalidInputError(
                f"content may have {CONTENT_BYTES:,} bytes; split it into several thoughts."
            )
        members = self.consolidated_from or ()
        if not isinstance(members, (list, tuple)) or not all(isinstance(name, str) for name in members):
            raise InvalidInputError(f"consolidated_from must be a list of ids, not {repr(members)[:40]}.")
        if self.pinned not in (True, False) or self.aloud not in (True, False):  # a text would mean neither
            raise InvalidInputError("pinned and aloud must be True or False.")
        self._set(
            essence=essence,
            content=content,
            source=_text(self.source, "source"),
            thought_type=named(ThoughtType, self.thought_type),
            priority=named(Priority, self.priority),
            lifecycle_status=named(LifecycleStatus, self.lifecycle_status),
            source_type=named(KnowledgeSource, self.source_type),
            visibility=named(ThoughtVisibility, self.visibility),
            confidence=_share(self.confidence, "confidence"),
            consolidated_from=tuple(members),
            metadata=checked_metadata(self.metadata),
            **{name: utc(getattr(self, name), name) for name in _THOUGHT_TIMES},
        )
        for name in ("created_cycle", "updated_cycle", "confirmation_count", "access_count"):
            _check_count(getattr(self, name), name)
        if self.updated_cycle < self.created_cycle:
            raise InvalidInputError(
                f"updated_cycle {self.updated_cycle} is before created_cycle {self.created_cycle}; give a later one."
            )
        if self.owner is not None:
            if self.visibility is not ThoughtVisibility.SELECTIVE:
                raise InvalidInputError(
                    f"A {self.visibility} thought has no owner; make it selective, or leave the owner out."
                )
            check_key(self.owner, what="the owner of a thought")
            self._set(owner=person_of(self.owner) or self.owner.strip())
        _check_interval(self.valid_from, self.valid_until)

    def evolve(self, **changes: Any) -> Self:
        """Return this thought with other values; raise InvalidTransitionError where the lifecycle forbids it."""
        if "lifecycle_status" in changes:
            check_transition(self.lifecycle_status, changes["lifecycle_status"])
        return super().evolve(**changes)

    @property
    def level(self) -> Level:
        """Return who may read it; a private one without owner is the operator's alone."""
        if self.visibility is ThoughtVisibility.SELECTIVE:
            return "household" if self.owner is None else "private"
        return "shared" if self.visibility is ThoughtVisibility.PUBLIC else "private"


class EdgeRecord(_Record, frozen=True, kw_only=True):
    """A typed, weighted link from one thought to another."""

    edge_id: str
    from_thought_id: str
    to_thought_id: str
    edge_type: EdgeType
    weight: float = 1.0
    """How strong it is, 0 to 1."""
    created_cycle: int = 0
    source: KnowledgeSource = KnowledgeSource.EXPERIENCE
    valid_from: str | None = None
    valid_until: str | None = None
    metadata: Metadata = {}
    level: Level | None = None
    """Who may read it, where they may read both ends; None: whoever may do that."""
    owner: str | None = None

    def __post_init__(self) -> None:
        for name in ("edge_id", "from_thought_id", "to_thought_id"):
            check_key(getattr(self, name), what=f"a {name}")
        if self.from_thought_id == self.to_thought_id:
            raise InvalidInputError(f"An edge needs two thoughts; both ends are {self.to_thought_id!r:.80}.")
        if self.level not in (None, *get_args(Level)) or not isinstance(self.owner, (str, type(None))):
            raise InvalidInputError(f"level must be one of {', '.join(get_args(Level))}, and owner a name.")
        weight = _share(self.weight, "weight")
        if weight is None:
            raise InvalidInputError("weight must be a number from 0 to 1; leave it out for 1.")
        self._set(
            edge_type=named(EdgeType, self.edge_type),
            source=named(KnowledgeSource, self.source),
            weight=weight,
            metadata=checked_metadata(self.metadata),
            valid_from=utc(self.valid_from, "valid_from"),
            valid_until=utc(self.valid_until, "valid_until"),
        )
        _check_count(self.created_cycle, "created_cycle")
        _check_interval(self.valid_from, self.valid_until)

    @property
    def ends(self) -> tuple[str, str]:
        """Return the ids of both thoughts."""
        return self.from_thought_id, self.to_thought_id


_THOUGHT_TIMES = (
    "last_accessed_at", "created_at", "updated_at", "expires_at", "valid_from", "valid_until", "archived_at",
)  # fmt: skip


class Validity(TypedDict, total=False):
    """When a thing that has valid times shall hold; moments are texts as in records, or seconds since the epoch."""

    valid_now: bool
    valid_at: str | float
    valid_between: tuple[str | float, str | float]  # a time that it overlaps
    valid_within: tuple[str | float, str | float]  # a time in which it begins and ends


_VALIDITY = {
    "valid_at": "ifnull(valid_from <= :at, 1) and ifnull(valid_to > :at, 1)",
    "valid_between": "ifnull(valid_from <= :between_end, 1) and ifnull(valid_to > :between, 1)",
    "valid_within": "valid_from >= :within and valid_to <= :within_end",
}


def validity_rule(now: float, asked: Validity) -> tuple[str, dict[str, float | None]]:
    """Return a condition on the columns valid_from and valid_to, and its values; raise InvalidInputError for wrong moments."""
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if given.pop("valid_now", False):
        given.setdefault("valid_at", now)
    values: dict[str, float | None] = {}
    for name, value in given.items():
        if name not in _VALIDITY:
            raise InvalidInputError(f"There is no {name!r:.40}; take valid_now, {', '.join(_VALIDITY)}.")
        span = (value, value) if name == "valid_at" else value
        if not isinstance(span, (tuple, list)) or len(span) != len(("begin", "end")):
            raise InvalidInputError(f"{name} must be a pair of times, not {repr(value)[:40]}.")
        begin, end = (utc(moment, name) for moment in span)
        _check_interval(begin, end)
        values |= {name[len("valid_") :]: seconds(begin), f"{name[len('valid_') :]}_end": seconds(end)}
    return " and ".join(("1", *(_VALIDITY[name] for name in given))), values


def check_transition(before: LifecycleStatus, after: LifecycleStatus | str) -> None:
    """Raise InvalidTransitionError unless a thought may go from one status to another, or stays in it."""
    status = named(LifecycleStatus, after)
    if status is not before and status not in TRANSITIONS[before]:
        allowed = " or ".join(sorted(TRANSITIONS[before]))
        raise InvalidTransitionError(
            f"A thought that is {before} cannot become {status}; it may become {allowed}."
        )


def named(kind: type[E], value: E | str) -> E:
    """Return one of a closed set of names by its text; raise InvalidInputError where there is none."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInputError(
            f"There is no {kind.__name__} {repr(value)[:40]}; take one of {', '.join(kind)}."
        ) from None


def utc(moment: str | float | datetime | None, what: str) -> str | None:
    """Return a moment as text in ISO 8601, in UTC; a text without an offset is taken as UTC.

    Raises:
        InvalidInputError: it is no moment of the years 1 to 9999.
    """
    if moment is None:
        return None
    try:
        if isinstance(moment, str):
            # Python 3.10 knows no Z.
            moment = datetime.fromisoformat(moment.strip().replace("Z", "+00:00").replace("z", "+00:00"))
        elif not isinstance(moment, datetime):
            if isinstance(moment, bool) or not EARLIEST <= moment <= LATEST:
                raise ValueError("out of range")
            moment = datetime.fromtimestamp(moment, timezone.utc)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        return zoned.astimezone(timezone.utc).isoformat()
    except (ValueError, TypeError, OverflowError, OSError):
        raise InvalidInputError(
            f"{what} must be a time such as 2026-01-31T09:00:00Z, or seconds since the epoch, not {repr(moment)[:40]}."
        ) from None


def seconds(moment: str | None) -> float | None:
    """Return seconds since the epoch of a text of `utc`."""
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


def checked_metadata(value: Any) -> Metadata:
    """Return metadata as a file can hold it; raise InvalidInputError unless it is text, numbers and dicts of such, at no length."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"metadata must be a dict, not {type(value).__name__}; write {{'room': 'kitchen'}}."
        )
    kept = _checked_value(value, "metadata", 0)
    if (size := len(msgspec.json.encode(kept))) > METADATA_BYTES:
        raise InvalidInputError(
            f"metadata has {size:,} bytes as JSON and may have {METADATA_BYTES:,}; shorten it."
        )
    return dict(kept)


def flattened(metadata: Mapping[str, Any], path: str = "$") -> list[tuple[str, Any]]:
    """Return the scalars of metadata with their paths, such as `$.place.room`."""
    pairs: list[tuple[str, Any]] = []
    for name, part in metadata.items():
        below = f"{path}.{name}"
        pairs += flattened(part, below) if isinstance(part, dict) else [(below, part)]
    return pairs


def traits_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return path and value of each scalar of metadata as one text; true, 1 and "1" make three, 1 and 1.0 one."""
    return frozenset(_trait(path, value) for path, value in flattened(metadata))


def scalar_part(value: Mapping[str, Any]) -> Metadata:
    """Return the part of a dict that metadata can hold; empty where that is too much."""
    parts = {name: scalar_part(part) if isinstance(part, dict) else part for name, part in value.items()}
    try:
        return checked_metadata({name: part for name, part in parts.items() if not isinstance(part, list)})
    except InvalidInputError:
        return {}


def checked_filters(filters: Mapping[str, Any] | None) -> Filters:
    """Return the traits that filters ask for; raise InvalidInputError unless they give a scalar, or several, for each path."""
    if filters is None:
        return ()
    asked = []
    for path, values in filters.items() if isinstance(filters, Mapping) else [("", filters)]:
        several = values if isinstance(values, (list, tuple, set, frozenset)) else [values]
        if not isinstance(path, str) or not path.strip() or not all(map(_is_scalar, several)):
            raise InvalidInputError(
                "filters must be a dict with a value, or a list of values, for each path of metadata, such as"
                f" {{'room': 'kitchen', 'place.floor': [1, 2]}}, not {repr(filters)[:80]}."
            )
        full = f"$.{storable(path.removeprefix('$.'))}"
        asked.append(frozenset(_trait(full, value) for value in several))
    return tuple(asked)


def pass_filters(traits: Collection[str], filters: Filters) -> bool:
    """Tell whether something with these traits has one that is asked for of each path."""
    return all(not asked.isdisjoint(traits) for asked in filters)


def _trait(path: str, value: Any) -> str:
    if isinstance(value, float):
        value = int(value) if value.is_integer() and abs(value) < MOST_CYCLE else float(value)
    return msgspec.json.encode([path, storable(value) if isinstance(value, str) else value]).decode()


def _is_scalar(value: Any) -> bool:
    whole = isinstance(value, int) and abs(value) < MOST_CYCLE
    finite = isinstance(value, float) and math.isfinite(value)
    return value is None or isinstance(value, (bool, str)) or whole or finite


def _checked_value(value: Any, name: Any, depth: int) -> Any:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"A key of metadata must be text, not {repr(name)[:40]}.")
    if isinstance(value, Mapping):
        if depth == METADATA_DEPTH:
            raise InvalidInputError(f"metadata may have {METADATA_DEPTH} levels of dicts; flatten it.")
        parts = {key: _checked_value(part, key, depth + 1) for key, part in value.items()}
        return {storable(key): part for key, part in parts.items()}
    if isinstance(value, str):
        return storable(value)
    if _is_scalar(value):
        return float(value) if isinstance(value, float) else value  # JSON takes none of numpy's
    raise InvalidInputError(
        f"metadata {name!r:.60} must be text, a number, true, false or a dict of such, not {repr(value)[:40]}."
    )


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"{what} must be text with something in it, not {repr(text)[:40]}.")
    return storable(text)


def _share(number: Any, what: str) -> float | None:
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise InvalidInputError(f"{what} must be a number from 0 to 1, not {repr(number)[:40]}.")
    return float(number)


def _check_count(number: Any, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MOST_CYCLE:
        raise InvalidInputError(f"{what} must be a whole number of 0 or more, not {repr(number)[:40]}.")


def _check_interval(valid_from: str | None, valid_until: str | None) -> None:
    begin, end = seconds(valid_from), seconds(valid_until)
    if begin is not None and end is not None and begin > end:
        raise InvalidInputError(f"valid_from {valid_from} is after valid_until {valid_until}; swap them.")
