"""Records: facts, preferences, episodes, sessions and all that one person said, deleted with the blocks that showed them.

Deleted is gone from the file's pages; the eraser takes the bytes out of the log and all copies behind it. What others
said stays, and so does the shape of history: where a person's version of a fact stood among those of others, no value
stands. A conversation that is taken up again without its blocks is told anew what still holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import storable
from edgemem.records import BlockLine
from edgemem.scopes import name_key
from edgemem.store import facts
from edgemem.store.episodes import episode_number, stored_text
from edgemem.store.epochs import erase_epochs
from edgemem.store.erase.copies import Erased, erase_tool_copies, read_erased
from edgemem.store.erase.erasings import newest_erasing, note_folder, note_forgotten
from edgemem.store.goals import erase_goals
from edgemem.store.preferences import erase_preferences
from edgemem.store.procedures import blank_steps, procedure_text
from edgemem.store.rights import drop_unused, scope_in_sql, spellings, written_scope
from edgemem.store.topics import SAID, erase_kept, topic
from edgemem.store.turns import drop_session
from edgemem.store.validation import HEARD, lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

_entries = msgspec.json.Decoder(list[str]).decode
_THEIRS = "(owner = :name or speaker = :name)"
_IN_THEIR_TURNS = """
  (session, turn) in (select s.name, t.n from turns t join sessions s on s.id = t.session_id
    where t.owner = :name or t.speaker = :name)
"""
_BESIDE = " union ".join(
    f"select {column} from {table} where {_THEIRS}"  # noqa: S608 - our own constants
    for table in ("facts", "doubts", "episodes", "turns", "procedures")
    for column in ("owner", "speaker")
)
"""Whose names stand beside a person's: who said what that person owns, and who owns what they said."""


def erase_fact(tx: Transaction, key: str, *, scope: str = "global") -> Erased | None:
    """Erase a fact with every version, also where it was shown to a model; return what finds its copies; None: there is none.

    What the memory's own tools repeated of it goes from all conversations; what people said in their own words stays.
    A conversation that runs keeps it before its model until its epoch ends (law 2), but writes none of it again.
    """
    scope = written_scope(tx, scope)
    erase_blocks(tx, [(scope, key)])
    erased = read_erased(tx, key, scope=scope)
    erase_tool_copies(tx, [erased])
    people = facts.people_of(tx, key, scope=scope)
    existed = facts.forget_fact(tx, key, scope=scope)
    drop_unused(tx, people)
    return erased if existed else None


def erase_preference(tx: Transaction, key: str, *, scope: str = "global") -> bool:
    """Erase a preference, also where it was shown to a model; tell whether there was one."""
    at, values = scope_in_sql(scope)
    keys = erase_preferences(tx, f"scope = {at} and key = :key", {**values, "key": lookup(key)})
    erase_blocks(tx, keys)
    if keys:
        note_forgotten(tx)
    return bool(keys)


def erase_episode(tx: Transaction, episode_id: str) -> Erased | None:
    """Erase an episode, also where it was shown to a model; return what finds its copies; None: there is none.

    What the memory's own tools repeated of it goes as well; what people said in their own words stays.
    """
    number = episode_number(episode_id)
    rows = tx.execute(
        "select kind, payload, outcome, summary, details, owner, speaker from episodes where id = ?",
        (number,),
    )
    if not rows:
        return None
    *columns, owner, speaker = rows[0]
    erased = Erased.of("episode", f"episode:{number}", [stored_text(*columns)])
    note_forgotten(tx)
    erase_tool_copies(tx, [erased])
    erase_blocks(tx, _erase_episodes(tx, "id = :id", {"id": number}))
    drop_unused(tx, (owner, speaker))
    return erased


def erase_procedure(tx: Transaction, procedure_id: str) -> Erased | None:
    """Erase a procedure, also where it was shown to a model; return what finds its copies; None: there is none."""
    rows = tx.execute(
        "delete from procedures where name = ? returning id, owner, speaker, trigger, title, description, tags",
        (lookup(procedure_id, "the id of a procedure"),),
    )
    if not rows:
        return None
    number, owner, speaker, *words = rows[0]
    note_forgotten(tx)
    tx.announce("procedure", [number])
    erase_blocks(tx, [("procedure", number)])
    drop_unused(tx, (owner, speaker))
    return Erased.of("procedure", f"procedure:{number}", [procedure_text(*words)])


def erase_lived(tx: Transaction, session: str, turns: Iterable[int] | None = None) -> list[tuple[str, int]]:
    """Erase what was lived through in a session; return kind and id of what blocks may show of it.

    Its episodes go. What was learnt in it of how things are done stays, without what tools were given there.

    Args:
        turns: only in these turns of it; None: in all of it.
    """
    numbers = None if turns is None else {f"n{n}": n for n in turns}
    some = "" if numbers is None else f" and turn in ({', '.join(f':{name}' for name in numbers)})"
    where, bound = f"session = :session{some}", {"session": session, **(numbers or {})}
    return [*_erase_episodes(tx, where, bound), *_blank_procedures(tx, where, bound)]


def _blank_procedures(tx: Transaction, where: str, bound: dict[str, Any]) -> list[tuple[str, int]]:
    """Take out of procedures what their tools were given, and where and from whom they were learnt; return kind and id of each."""
    rows = tx.execute(f"select id, steps from procedures where {where}", bound)  # noqa: S608 - our own constants
    nothing = ", ".join(f"{column} = null" for column in ("metadata", "session", "turn", *HEARD.split(", ")))
    tx.executemany(
        f"update procedures set steps = ?, {nothing} where id = ?",  # noqa: S608 - our own constants
        [(blank_steps(steps), number) for number, steps in rows],
    )
    tx.announce("procedure", [number for number, _ in rows])
    return [("procedure", number) for number, _ in rows]


def erase_session(tx: Transaction, name: str) -> int:
    """Erase a conversation with all its versions; return how many turns it had, and -1 where there is none."""
    rows = tx.execute("select id from sessions where name = ?", (name,))
    if not rows:
        return -1
    note_forgotten(tx)
    session_id = rows[0][0]
    lived = erase_lived(tx, name)
    # A session's id is a tick: all of its messages have larger ones.
    messages = _erase_messages(tx, "id > :id and session_id = :id", {"id": session_id})
    kept = erase_kept(tx, "session_id = :id", {"id": session_id})
    erase_blocks(tx, [*messages, *lived, *kept["session summaries"]])
    turns = tx.execute("delete from turns where session_id = ? returning owner, speaker", (session_id,))
    drop_unused(tx, (person for turn in turns for person in turn))
    erase_epochs(tx, session_id)
    tx.execute("delete from sessions where id = ?", (session_id,))
    return len(turns)


def erase_person(tx: Transaction, name: str, *, bank: Path | None = None, files: int = 0) -> dict[str, int]:
    """Erase what a person said or owns; return how much of each kind that was.

    Summaries, what was dropped, and the loop's state of the conversations that they took part in go with it.

    Args:
        bank: the folder of a bank in which they have one of their own; the eraser removes that later.
        files: how many are in it.
    """
    rows = tx.execute("select name from names where key = ?", (name_key(name),))
    bound = {"name": rows[0][0] if rows else storable(name)}
    people = {bound["name"], *(other for (other,) in tx.execute(_BESIDE, bound))}
    if bank is not None:
        note_folder(tx, name, bank)
    erased: dict[str, list[tuple[Any, ...]]] = {
        "facts": _erase_facts(tx, bound),
        "doubts": tx.execute(f"delete from doubts where {_THEIRS} returning id", bound),  # noqa: S608 - our own constants
        "preferences": erase_preferences(tx, "owner = :name or scope = 'user:' || :name", bound),
        "episodes": _erase_episodes(tx, f"{_THEIRS} or {_IN_THEIR_TURNS}", bound),
        **erase_goals(tx, bound),
        **erase_kept(tx, "owner = :name", bound),
        "procedures": tx.execute("delete from procedures where owner = :name returning id", bound),
    }
    counts = {kind: len(rows) for kind, rows in erased.items() if rows}
    if files := files + len(
        tx.execute("delete from bank_files where scope = 'user:' || :name returning id", bound)
    ):
        counts["files"] = files
    owned = [number for (number,) in erased["procedures"]]
    tx.announce("procedure", owned)
    learnt = [("procedure", number) for number in owned]
    learnt += _blank_procedures(tx, f"speaker = :name or {_IN_THEIR_TURNS}", bound)
    if len(learnt) > len(owned):
        counts["constants of procedures"] = len(learnt) - len(owned)
    messages, turns = _erase_turns(tx, bound)
    if turns:
        counts["turns"] = turns
    shown = ("facts", "preferences", "episodes", "goals", "session summaries")
    erase_blocks(tx, {*messages, *learnt, *(key for kind in shown for key in erased[kind])})
    if counts:
        note_forgotten(tx)
    drop_unused(tx, people)
    return counts


def _erase_facts(tx: Transaction, bound: dict[str, Any]) -> list[tuple[str, str]]:
    """Erase a person's facts; return their scopes and keys.

    Of those that others have a part in, the place of each version stays in both times.
    """
    keys = tx.execute(
        "select k.id, k.scope, k.key, k.scope = 'user:' || :name from fact_keys k"  # noqa: S608 - our own constants
        f" where k.scope = 'user:' || :name or k.id in (select key_id from facts where {_THEIRS})",
        bound,
    )
    name = bound["name"]
    erase_tool_copies(
        tx,
        [read_erased(tx, key, scope=scope, person=None if whole else name) for _, scope, key, whole in keys],
    )
    columns = "id, key_id, valid_from, valid_to, recorded, known_to, version, node, origin"
    for key_id, scope, key, whole in keys:
        if not whole:
            # No version may be changed, so it is erased and an empty one put there.
            sql = f"delete from facts where key_id = :key and {_THEIRS} returning {columns}"  # noqa: S608 - our own constants
            theirs = sorted(tx.execute(sql, {**bound, "key": key_id}))
            tx.executemany(f"insert into facts ({columns}, level) values ({', '.join('?' * 9)}, 0)", theirs)  # noqa: S608 - ours
            tx.announce("fact", [row[0] for row in theirs])
        left = tx.execute("select 1 from facts where key_id = ? and value is not null limit 1", (key_id,))
        if whole or not left:
            facts.forget_fact(tx, key, scope=scope)
    return [(scope, key) for _, scope, key, _ in keys]


def _erase_episodes(tx: Transaction, where: str, bound: dict[str, Any]) -> list[tuple[str, int]]:
    """Erase episodes; return kind and id of each."""
    numbers = [number for (number,) in tx.execute(f"delete from episodes where {where} returning id", bound)]  # noqa: S608 - ours
    tx.announce("episode", numbers)
    return [("episode", number) for number in numbers]


def _erase_turns(tx: Transaction, bound: dict[str, Any]) -> tuple[list[tuple[str, int]], int]:
    """Erase a person's turns; return kind and id of each message, and how many turns these were."""
    theirs = f"from turns where {_THEIRS}"
    messages = _erase_messages(
        tx,
        f"(session_id, turn) in (select session_id, n {theirs})"
        f" or dropped is not null and session_id in (select session_id {theirs})",
        bound,
    )
    turns = tx.execute(f"delete {theirs} returning session_id", bound)
    for (session_id,) in sorted(set(turns)):
        erase_epochs(tx, session_id)
        tx.execute("update sessions set state = '{}' where id = ?", (session_id,))
        drop_session(tx, session_id)
    return messages, len(turns)


def erase_said(tx: Transaction, session: str, person: str, *, keep: int) -> tuple[int, int]:
    """Erase what a person said in a session and what was answered, but for the newest messages.

    Returns how many messages went, and the number of the first turn behind them. Its epochs with their summaries go with it, what was dropped there, and the loop's state, as with a person.

    Args:
        keep: how many of the newest messages stay.
    """
    bound = topic(session, person)
    rows = tx.execute(f"select m.id, t.session_id, t.n {SAID} limit -1 offset :keep", {**bound, "keep": keep})
    if not rows:
        return 0, 0
    note_forgotten(tx)
    session_id, turns = rows[0][1], sorted({(session_id, n) for _, session_id, n in rows})
    gone = [("turn", number) for number, _, _ in rows]
    lived = erase_lived(tx, session, (n for _, n in turns))
    tx.executemany("delete from messages where id = ?", [(number,) for _, number in gone])
    tx.announce("message", [number for _, number in gone])
    gone += _erase_messages(tx, "session_id = :id and dropped is not null", {"id": session_id})
    # What is left of the oldest turn that stays keeps its row.
    tx.executemany(
        "update turns set block = null, shown = null, first_message = coalesce((select min(id) from messages m where m.id"
        " between first_message and last_message and m.session_id = turns.session_id and m.turn = n), last_message + 1)"
        " where session_id = ? and n = ?",
        turns,
    )
    tx.executemany("delete from tool_outputs where session_id = ? and turn = ?", turns)
    tx.executemany("delete from turns where session_id = ? and n = ? and first_message > last_message", turns)
    erase_blocks(tx, [*gone, *lived])
    erase_epochs(tx, session_id)
    tx.execute("update sessions set state = '{}' where id = ?", (session_id,))
    drop_session(tx, session_id)
    drop_unused(tx, spellings(tx, [person]).values())
    return len(rows), turns[-1][1] + 1


def _erase_messages(tx: Transaction, where: str, bound: dict[str, Any]) -> list[tuple[str, int]]:
    """Erase messages; return kind and id of each, as blocks quote them."""
    rows = tx.execute(f"delete from messages where {where} returning id", bound)  # noqa: S608 - ours
    numbers = sorted(number for (number,) in rows)
    tx.announce("message", numbers)
    return [("turn", number) for number in numbers]


def erase_blocks(tx: Transaction, gone: Iterable[tuple[str, str | int]]) -> None:
    """Erase the blocks, and what is carried in heads, that showed any of these.

    Args:
        gone: scope and key of facts and preferences; kind and id of episodes and messages, whose kind is `turn`.
    """
    keys = frozenset(gone)
    records = {key for key in keys if isinstance(key[1], int)}

    def shows(line: BlockLine) -> bool:
        if line.id.startswith("{"):  # an entry that cannot be read may be of anything
            return True
        return line.fact in keys or line.preference in keys or (bool(records) and line.record in records)

    if keys:
        rows = tx.execute("select session_id, n, shown from turns where shown is not null")
        blocks = [(session_id, n) for session_id, n, entries in rows if any(map(shows, _lines(entries)))]
        tx.executemany("update turns set block = null, shown = null where session_id = ? and n = ?", blocks)
        rows = tx.execute("select id, carried from epochs where carried is not null")
        heads = [(number,) for number, entries in rows if any(map(shows, _lines(entries)))]
        tx.executemany("update epochs set carried = null where id = ?", heads)


def _lines(entries: str) -> list[BlockLine]:
    try:
        return list(map(BlockLine.of, _entries(entries)))
    except msgspec.MsgspecError:
        return [BlockLine.of("{")]


# Bytes


def end_folder(tx: Transaction, number: int) -> None:
    """Note that an erasing has no folder left, and erase whose it was."""
    tx.execute("update erasings set folder = null where id = ?", (number,))


def end_erasings(db: Database, upto: int) -> None:
    """Note that no file holds a byte any more of what was forgotten until a tick; what has a folder left stays."""
    db.write(lambda tx: tx.execute("delete from erasings where id <= ? and folder is null", (upto,)))


def erase_in_truth(
    db: Database,
    *,
    alone: bool,
    wait_s: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Take the bytes of what was forgotten out of a truth and its log; return whether they are gone.

    Args:
        alone: no home has this truth, so nothing else is left to do.
        wait_s: seconds to wait for readers; None: as long as the database waits for others.
        stop: asked every few milliseconds; once it is true, the rest is left for later.
    """
    upto = newest_erasing(db)
    if upto == 0:
        return True
    if not db.wipe(wait_s=wait_s, stop=stop):
        return False
    if alone:
        end_erasings(db, upto)
    return True
