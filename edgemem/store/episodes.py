"""Episodes: what the robot did or lived through, and how it ended; the newest ones are kept."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, storable
from edgemem.records import Episode
from edgemem.store.facts import storable_value
from edgemem.store.rights import (
    LEVELS,
    drop_unused,
    level_and_owner,
    level_of_episode,
    reading_rule,
    spell_both,
)
from edgemem.store.validation import (
    HEARD,
    checked_count,
    checked_heard,
    checked_text,
    heard_columns,
    heard_of,
    lookup,
)

if TYPE_CHECKING:
    from edgemem.records import Heard, Reader
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction

MAX_PAYLOAD_BYTES = 64 * 1024
_MAX_DEPTH = 32
_MAX_INT = 2**63
_ID_DIGITS = 18
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COLUMNS = f"kind, payload, outcome, agent, id, level, owner, {HEARD}"


def append_episode(
    tx: Transaction,
    kind: str,
    payload: dict[str, Any],
    outcome: str,
    *,
    agent: str = "",
    heard: Heard | None = None,
    level: Level | None = None,
    owner: str | None = None,
    keep: int = 500,
    episode_id: int | None = None,
) -> int:
    """Store an episode and return its id.

    Args:
        payload: anything JSON can hold; what it cannot is stored as text.
        keep: drop the oldest beyond this number, a tenth of them at a time; 0 keeps all.
        episode_id: its number; None: a new one.
    """
    check_key(kind, what="the kind of an episode")
    text = checked_payload(payload).decode()
    number, who = level_and_owner("", level_of_episode(level, checked_heard(heard)), owner, heard)
    who, heard = spell_both(tx, who, heard)
    agent = checked_text(agent, "the agent of an episode")
    row_id = tx.tick() if episode_id is None else episode_id
    outcome = storable_value(outcome, what="the outcome of an episode")
    tx.execute(
        f"insert into episodes ({_COLUMNS}) values ({', '.join('?' * 13)})",  # noqa: S608 - our own constant
        (kind, text, outcome, agent, row_id, number, who, *heard_columns(heard)),
    )
    if keep > 0:
        _trim(tx, keep)
    return row_id


def recent_episodes(
    db: Tables, n: int = 5, *, kind: str | None = None, reader: Reader | None = None, keep: int = 500
) -> list[Episode]:
    """Return the newest `n` episodes, the oldest of them first."""
    n = checked_count(n, "the number of episodes")
    kind = None if kind is None else lookup(kind, "a kind")
    if n == 0:
        return []
    rule, values = reading_rule(reader)
    # What is older than `keep` waits to be dropped with its tenth, and is gone already for everybody who asks.
    oldest = "(select id from episodes order by id desc limit 1 offset :keep)" if keep > 0 else "null"
    of_kind = "" if kind is None else "and kind = :kind"
    rows = db.query(
        f"select {_COLUMNS} from episodes"  # noqa: S608 - our own constants
        f" where id > coalesce({oldest}, 0) and {rule} {of_kind} order by id desc limit :n",
        {**values, "keep": keep, "kind": kind, "n": n},
    )
    return [episode_of(row) for row in reversed(rows)]


def episode_text(kind: str, payload: Any, outcome: str) -> str:
    """Return an episode as people read it."""
    if kind == "tool_call" and isinstance(payload, dict) and isinstance(payload.get("name"), str):
        given = payload.get("args")
        values = list(given.values()) if isinstance(given, dict) else given
        called = " ".join(
            [spell_out(payload["name"]), *_flat(values), *([] if outcome == "ok" else [outcome])]
        )
        answer = " ".join(_flat(payload.get("error" if outcome == "failed" else "result")))
        return f"{called}: {answer}" if answer else called
    words = " ".join(_flat(payload))
    return f"{spell_out(kind)}: {words} ({outcome})" if words else f"{spell_out(kind)} ({outcome})"


def spell_out(key: str) -> str:
    """Return the words of a key such as `user.favouriteColour` or `door_code`, with spaces between them."""
    return " ".join(_HUMP.sub(" ", key).replace("_", " ").replace(".", " ").replace("-", " ").split())


def read_episode(db: Tables, episode_id: str, *, reader: Reader | None = None) -> Episode | None:
    """Return one episode by its id; None: there is none that the reader may read."""
    rule, values = reading_rule(reader)
    rows = db.query(
        f"select {_COLUMNS} from episodes where id = :id and {rule}",  # noqa: S608 - our own constants
        {**values, "id": episode_number(episode_id)},
    )
    return episode_of(rows[0]) if rows else None


def episode_number(episode_id: str) -> int:
    """Return the number of an episode's row; -1 where no id looks like this."""
    text = lookup(episode_id, "the id of an episode")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS else -1


def checked_payload(payload: dict[str, Any]) -> bytes:
    """Return a payload as JSON; raise InvalidInputError if it is no dict, or too long to be stored."""
    if not isinstance(payload, dict):
        raise InvalidInputError(
            f"The payload of an episode must be a dict, not {type(payload).__name__}; pass one such as {{'text': '…'}}."
        )
    text = msgspec.json.encode(_plain(payload))
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(
            f"The payload of an episode may have {MAX_PAYLOAD_BYTES:,} bytes; shorten it."
        )
    return text


def read_payload(payload: Any) -> dict[str, Any]:
    """Return a payload as it was stored; of one that is no dict, what it says as text."""
    if isinstance(payload, dict):
        return payload
    text = payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()
    return {"text": text}


def episode_of(row: tuple[Any, ...]) -> Episode:
    """Return the record of a row of episodes."""
    kind, payload, outcome, agent, row_id, level, owner, *heard = row
    return Episode(
        kind=kind,
        payload=read_payload(msgspec.json.decode(payload)),
        outcome=outcome,
        timestamp=row_id / 1e6,
        agent=agent,
        id=str(row_id),
        level=LEVELS[level],
        owner=owner,
        heard=heard_of(heard),
    )


def _trim(tx: Transaction, keep: int) -> None:
    """Drop the oldest beyond `keep`, a tenth at a time."""
    if tx.execute("select count(*) from episodes")[0][0] <= keep + keep // 10:
        return
    beyond = "select id from episodes order by id desc limit 1 offset ?"
    old = tx.execute(f"delete from episodes where id <= ({beyond}) returning id, owner, speaker", (keep,))  # noqa: S608 - our own constant
    tx.announce("episode", sorted(number for number, _, _ in old))
    drop_unused(tx, (name for row in old for name in row[1:]))


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON and SQLite can hold it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int):
        return value if -_MAX_INT <= value < _MAX_INT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        if depth == _MAX_DEPTH:  # or something that contains itself
            return "…"
        if isinstance(value, dict):
            return {storable(str(key)): _plain(part, depth + 1) for key, part in value.items()}
        return [_plain(part, depth + 1) for part in value]
    return storable(str(value))


def _flat(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for key, part in value.items() for word in (spell_out(str(key)), *_flat(part))]
    if isinstance(value, list):
        return [word for part in value for word in _flat(part)]
    return [] if value is None else [str(value)]
