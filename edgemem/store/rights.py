"""Who may read what: one clause, the same for every table (law 7 of the design).

The truth holds a person's name as first written, found by what all its spellings have in common. All rows spell it so, and are
compared as they are. SQL cannot fold names: a writer looks the spelling up by its key; a reader does so within one statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, storable
from edgemem.records import Reader
from edgemem.scopes import level_of_scope, name_key, person_of, scope_of, without_spaces
from edgemem.store.kinds import KINDS, SESSIONS
from edgemem.store.validation import lookup

if TYPE_CHECKING:
    from edgemem.records import Heard
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

_IN_USE = " or ".join(
    f"exists (select 1 from {kind.table} where {kind.of_person()})"  # noqa: S608 - our own constants
    for kind in KINDS
    if kind.of_person()
)

_OF_SESSION = [kind for kind in KINDS if any("references sessions" in column.sql for column in kind.columns)]

LEVELS: tuple[Level, ...] = ("shared", "household", "private")  # in the order of the file's integers

SPELLED = "(select name from names where key = {key})"
"""A person's name as rows have it, by a value that is its key."""
_SPEAKER = SPELLED.format(key=":speaker_key")


def reading_rule(reader: Reader | None, prefix: str = "", *, level: str = "") -> tuple[str, dict[str, Any]]:
    """Return the condition under which `reader` may read a row, and its named values; None is the operator, who reads everything.

    It is true or false, and never null, so that it may be negated. `level` replaces the column of that name.
    """
    _check_reader(reader)
    if reader is None:
        return "1", {}
    level = level or f"{prefix}level"
    clause = (
        f"({level} = 0 or ({level} = 1 and :known)"
        f" or ({level} = 2 and :alone and ifnull({prefix}owner = {_SPEAKER}, 0)))"
    )
    values = {"known": int(reader.is_recognised), "alone": int(reader.is_alone)}
    return clause, {**values, "speaker_key": reader.key}


def _check_reader(reader: object) -> None:
    if not isinstance(reader, (Reader, type(None))):
        raise InvalidInputError(
            f"reader must be a Reader, not {type(reader).__name__}; write Reader('ines')."
        )


def readable(reader: Reader | None, level: Level, owner: str | None) -> bool:
    """Tell whether `reader` may read a record that is in memory; the same rule as the clause."""
    if reader is None or level == "shared":
        return True
    if level == "household":
        return reader.is_recognised
    return reader.is_alone and owner is not None and name_key(owner) == reader.key


def level_of_episode(level: Level | None, heard: Heard | None) -> Level:
    """Return who may read an episode: the household, or anyone if nobody is known to have caused it, as with facts."""
    return level or ("household" if heard is not None and heard.speaker else "shared")


def level_and_owner(
    scope: str, level: Level | None, owner: str | None, heard: Heard | None
) -> tuple[int, str | None]:
    """Return the stored level and owner of a record: as given, or as its scope means.

    A private record without an owner belongs to its speaker. An unmarked one of an unknown scope is private, and the operator's.
    """
    meant, owner_of_scope = level_of_scope(scope)
    if level is None and meant == "private" and owner_of_scope is None:
        return LEVELS.index(meant), None
    level = level or meant
    owner = storable(owner).strip() if owner else owner
    if level not in LEVELS:
        raise InvalidInputError(f"The level {level!r} does not exist; use one of {', '.join(LEVELS)}.")
    if level != "private":
        return LEVELS.index(level), owner
    owner = owner or owner_of_scope or (heard.speaker if heard else None)
    if not owner:
        raise InvalidInputError("A private record needs an owner: give one, or a scope such as user:alice.")
    return LEVELS.index(level), owner


def spell(tx: Transaction, name: str) -> str:
    """Return a name as it was first written; one that is new is kept so."""
    key = name_key(name)
    if not key:
        return name  # a voice that nobody recognised
    rows = tx.execute("select name from names where key = ?", (key,))
    if rows:
        return str(rows[0][0])
    tx.execute("insert into names (key, name) values (?, ?)", (key, name.strip()))
    return name.strip()


def spell_person(tx: Transaction, name: str) -> str:
    """Return the name of a user as it was first written; raise InvalidInputError where it can be nobody's."""
    check_key(name, what="a name")
    return spell(tx, name)


def person_key(name: str) -> str:
    """Return the key by which somebody is looked up; raise InvalidInputError unless it is text."""
    return name_key(lookup(name, "a user"))


def spell_scope(tx: Transaction, scope: str) -> str:
    """Return a scope, that of a person with the name as it was first written."""
    person = person_of(scope)
    return scope if person is None else scope_of(spell(tx, person))


def spell_heard(tx: Transaction, heard: Heard | None) -> Heard | None:
    """Return how something was heard, with the speaker's name as it was first written."""
    if heard is None or not heard.speaker:
        return heard
    return msgspec.structs.replace(heard, speaker=spell(tx, heard.speaker))


def canonical_owner_and_heard(
    tx: Transaction, owner: str | None, heard: Heard | None
) -> tuple[str | None, Heard | None]:
    """Return an owner, and how something was heard, with names as first written."""
    return owner if owner is None else spell(tx, owner), spell_heard(tx, heard)


def written_scope(db: Tables, scope: str) -> str:
    """Return a scope in the spelling that the rows have; one that no row has is returned without its spaces."""
    at, values = scope_in_sql(scope)
    written: str | None = db.query(f"select {at}", values)[0][0]
    return without_spaces(scope) if written is None else written


def scope_in_sql(scope: str) -> tuple[str, dict[str, Any]]:
    """Return the expression of a scope in a statement that looks something up, and its value."""
    scope, person = looked_up(scope)
    if person is None:
        return ":scope", {"scope": scope}
    return f"('user:' || {SPELLED.format(key=':scope')})", {"scope": person}


def looked_up(scope: str) -> tuple[str, str | None]:
    """Return a scope without spaces, and the key of the person whose it is, if any."""
    scope = lookup(without_spaces(scope) if isinstance(scope, str) else scope, "a scope")
    person = person_of(scope)
    return scope, None if person is None else name_key(person)


def spellings(db: Tables, names: Iterable[str]) -> dict[str, str]:
    """Return for each of some names how it was first written; of one that is not known, the name itself."""
    keys = {name: name_key(name) for name in names}
    marks = ", ".join("?" * len(keys))
    known = dict(db.query(f"select key, name from names where key in ({marks})", list(keys.values())))  # noqa: S608 - our own marks
    return {name: known.get(key, name) for name, key in keys.items()}


def with_stored_spelling(db: Tables, reader: Reader | None) -> Reader | None:
    """Return a reader whose name is spelled as in the rows, and in texts made of them; by its key where no row has it."""
    _check_reader(reader)
    if reader is None or not reader.speaker:
        return reader
    name = spellings(db, [reader.key])[reader.key]
    return reader if name == reader.speaker else msgspec.structs.replace(reader, speaker=name)


def drop_unused(tx: Transaction, names: Iterable[str | None]) -> None:
    """Erase the written forms of names that no row holds any more; called after an erasure."""
    for name in {name for name in names if name}:
        tx.execute(
            f"delete from names where name = :name and not ({_IN_USE})",  # noqa: S608 - our own constant
            {"name": name},
        )


def unused_names(db: Tables) -> list[str]:
    """Return the written forms of names that no row holds."""
    used = _IN_USE.replace(":name", "names.name")
    return [name for (name,) in db.query(f"select name from names where not ({used})")]  # noqa: S608 - our own constant


def drop_session(tx: Transaction, session_id: int) -> None:
    """Delete a session in which nothing is left."""
    empty = " and ".join(
        f"not exists (select 1 from {kind.table} where session_id = sessions.id)"  # noqa: S608 - our own constants
        for kind in _OF_SESSION
    )
    tx.execute(f"delete from {SESSIONS.table} where id = ? and state = '{{}}' and {empty}", (session_id,))  # noqa: S608 - ours
