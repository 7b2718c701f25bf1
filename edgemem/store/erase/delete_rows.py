"""Records: facts, preferences, episodes, sessions and all that one person said, deleted with the blocks that showed them.

Deleted is gone from the file's pages; the eraser takes the bytes out of the log and all copies behind it. What others said stays,
and so does the shape of history: a person's version of a fact among those of others loses only its value. A conversation that is
taken up again without its blocks is told anew what still holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.fence import storable
from edgemem.records import BlockLine
from edgemem.scopes import name_key, person_of
from edgemem.store import facts
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.declaration import IN_THEIR_TURNS, Kind
from edgemem.store.episodes import row_number, text_of
from edgemem.store.erase.copies import Erased, erase_quotes, erase_tool_copies, quotable, read_erased
from edgemem.store.graph import STORED_THOUGHTS, links_kept
from edgemem.store.kinds import BANK_FILES, EPISODES, FACTS, KINDS, PREFERENCES, SHOWN
from edgemem.store.pending_erasures import forget_move, note_folder, note_forgotten, note_whose
from edgemem.store.retention import STAYS
from edgemem.store.rights import drop_session, drop_unused, scope_in_sql, spellings, written_scope
from edgemem.store.thoughts import put_thought, stored_thought
from edgemem.store.turns import erase_epochs
from edgemem.store.users import SAID, topic
from edgemem.store.validation import as_text, checked_json, lookup
from edgemem.thoughts import LifecycleStatus

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Tables, Transaction
    from edgemem.store.retention import AgedRecord

Shown = tuple[str, str | int]
"""A record as blocks name it: the scope and key of a value, else the kind and id of a doc."""

_entries = msgspec.json.Decoder(list[str]).decode
_THEIRS = "(owner = :name or speaker = :name)"
_PEOPLE_BESIDE = " union ".join(
    f"select {column} from {kind.table} where {kind.of_person()}"  # noqa: S608 - our own constants
    for kind in KINDS
    for column in kind.columns_of("person")
)
"""The names in the rows of a person: who said what that person owns, and who owns what they said."""
_TOLD_THEN = "(id between :begun and :end and source = 'llm' and speaker is :speaker)"
"""The versions of a fact, and the doubts, that a model's tools told while a turn was open."""
_LEARNT_OF = """
  (source = 'talk' and id in (select cast(substr(e.source_id, instr(e.source_id, ':') + 1) as integer) from stored_edges e
    where e.type = 'DERIVED_FROM' and e.target_id in ({some}) and not exists (select 1 from stored_edges o
      where o.source_id = e.source_id and o.type = 'DERIVED_FROM' and o.target_id glob 'turn:*' and o.target_id not in ({some}))))
"""
"""The versions of a fact, and the doubts, that were learnt of some messages alone."""
# The weight of each edge is its share of the evidence.
_UNSUPPORTED = """
  select distinct k.scope, k.key from fact_keys k join facts f on f.key_id = k.id
  where k.key between 'learnt.' and 'learnt/' and f.source = ? and f.value is not null and ifnull((
    select count(*) < round(1 / min(weight)) from stored_edges
    where source_id = 'fact:' || f.id and type = 'CONSOLIDATED_FROM'), 1)
"""
_UNSUPPORTED_REFLECTIONS = """
  select id, name, essence from stored_thoughts t where type = 'REFLECTION' and source between 'learn:' and 'learn;' and ifnull((
    select count(*) < round(1 / min(weight)) from stored_edges where source_id = t.name and type = 'CONSOLIDATED_FROM'), 1)
    and essence <> :undone
"""
_UNDONE = "undone"
"""All that is left of a reflection in the archive when a source of it is gone: by its id it is not learnt again."""


def erase_fact(tx: Transaction, key: str, *, scope: str = "global") -> Erased | None:
    """Erase a fact with every version, also where it was shown to a model; return what finds its copies; None: there is none.

    Copies by the memory's own tools go from all conversations; people's own words stay. A conversation that runs keeps it before
    its model until its epoch ends (law 2), but writes none of it again.
    """
    scope = written_scope(tx, scope)
    erase_blocks(tx, [(scope, key)])
    erased = read_erased(tx, key, scope=scope)
    erase_tool_copies(tx, [erased])
    people = facts.people_of(tx, key, scope=scope)
    existed = facts.forget_fact(tx, key, scope=scope)
    drop_unused(tx, people)
    if existed:
        _erase_reflections(tx)
    return erased if existed else None


def erase_unsupported(tx: Transaction) -> None:
    """Erase what was learnt of several memories of which one is gone."""
    for scope, key in tx.execute(_UNSUPPORTED, (facts.LEARNT,)):
        erase_fact(tx, key, scope=scope)
    _erase_reflections(tx)


def _erase_reflections(tx: Transaction) -> None:
    """Erase reflections of which a source is gone; learning makes them again of the others, unless they were in the archive."""
    for number, name, essence in tx.execute(_UNSUPPORTED_REFLECTIONS, {"undone": _UNDONE}):
        note_forgotten(tx)
        before = stored_thought(tx, name)
        erase_tool_copies(tx, [Erased.with_values("thought", name, [essence])])
        erase_blocks(tx, delete_rows(tx, STORED_THOUGHTS, "id = :id", {"id": number}))
        if before.lifecycle_status is LifecycleStatus.ARCHIVED:
            empty = {"essence": _UNDONE, "content": _UNDONE, "consolidated_from": (), "metadata": {}}
            put_thought(tx, before.evolve(**empty, valid_from=None))


def erase_preference(tx: Transaction, key: str, *, scope: str = "global") -> bool:
    """Erase a preference, also where it was shown to a model; tell whether there was one."""
    at, values = scope_in_sql(scope)
    keys = delete_rows(tx, PREFERENCES, f"scope = {at} and key = :key", {**values, "key": lookup(key)})
    erase_blocks(tx, keys)
    if keys:
        note_forgotten(tx)
    return bool(keys)


def erase_record(tx: Transaction, kind: Kind, record_id: str) -> Erased | None:
    """Erase a row, an episode by its number and others by name, also where a model saw it; return what finds its copies."""
    column = "id" if kind is EPISODES else "name"
    value = row_number(record_id) if kind is EPISODES else lookup(record_id, f"the id of a {kind.label}")
    rows = tx.execute(f"select {', '.join(kind.names)} from {kind.table} where {column} = ?", (value,))  # noqa: S608 - ours
    if not rows:
        return None
    row = dict(zip(kind.names, rows[0], strict=True))
    erased = Erased.with_values(
        kind.doc, f"{kind.doc}:{row['id']}", [text_of(kind, [row[column] for column in kind.found_by])]
    )
    note_forgotten(tx)
    erase_tool_copies(tx, [erased])
    erase_blocks(tx, delete_rows(tx, kind, "id = :id", {"id": row["id"]}))
    _erase_reflections(tx)
    return erased


def erase_session(tx: Transaction, name: str) -> dict[str, int]:
    """Erase a conversation with all its versions; return how much of each kind that was."""
    rows = tx.execute("select id from sessions where name = ?", (name,))
    if not rows:
        return {}
    note_forgotten(tx)
    note_whose(tx, "session", name)
    session_id = rows[0][0]
    lived = forget_session_rows(tx, name)
    said = tx.execute("select id from messages where id > :id and session_id = :id", {"id": session_id})
    _erase_learnt(tx, [number for (number,) in said])
    # A session's id is a tick: all of its messages have larger ones.
    messages = _erase_messages(tx, "id > :id and session_id = :id", {"id": session_id})
    kept = [
        shown
        for kind in KINDS
        if kind.goes == "row" and "session_id" in kind.names
        for shown in delete_rows(tx, kind, "session_id = :id", {"id": session_id})
    ]
    erase_blocks(tx, [*messages, *lived, *kept])
    turns = tx.execute("delete from turns where session_id = ? returning owner, speaker", (session_id,))
    drop_unused(tx, (person for turn in turns for person in turn))
    erase_epochs(tx, session_id)
    tx.execute("delete from sessions where id = ?", (session_id,))
    _erase_reflections(tx)
    return {"sessions": 1, "turns": len(turns)}


def erase_person(
    tx: Transaction, name: str, *, bank: Path | None = None, files: int = 0
) -> tuple[dict[str, int], list[Erased]]:
    """Erase what a person said or owns; return how much of each kind that was, and what finds copies of the facts.

    Summaries, dropped messages, and the loop's state of their conversations go with it. The eraser removes their folder in a bank
    later, with so many files.
    """
    rows = tx.execute("select name from names where key = ?", (name_key(name),))
    bound = {"name": rows[0][0] if rows else storable(name)}
    forget_move(tx, [bound["name"]])
    people = {bound["name"], *(other for (other,) in tx.execute(_PEOPLE_BESIDE, bound))}
    if bank is not None:
        note_folder(tx, name, bank)
    keys, copies = _erase_facts(tx, bound)
    shown: list[Shown] = [*keys]
    counts = {"facts": len(shown)}
    for kind in KINDS:
        if kind.goes == "row":
            gone = delete_rows(tx, kind, kind.where_mine(), bound)
            blanked = (
                blank_rows(tx, kind, f"speaker = :name or {IN_THEIR_TURNS}", bound) if kind.blanks else []
            )
            shown += [*gone, *blanked]
            counts[kind.plural], counts[f"constants of {kind.plural}"] = len(gone), len(blanked)
    counts[BANK_FILES.plural] += files
    messages, counts["turns"] = _erase_turns(tx, bound)
    erase_blocks(tx, [*messages, *shown])
    counts = {kind: number for kind, number in counts.items() if number}
    if counts:
        note_forgotten(tx)
        for (key,) in tx.execute("select key from names where name = ?", (bound["name"],)):
            note_whose(tx, "person", key)
    drop_unused(tx, people)
    return counts, copies


def _erase_facts(tx: Transaction, bound: dict[str, Any]) -> tuple[list[tuple[str, str]], list[Erased]]:
    """Erase a person's facts; return scopes and keys, and what finds copies. In facts that others share, each version keeps its place in both times."""
    keys = tx.execute(
        "select k.id, k.scope, k.key, k.scope = 'user:' || :name from fact_keys k"  # noqa: S608 - our own constants
        f" where k.scope = 'user:' || :name or k.id in (select key_id from facts where {_THEIRS})",
        bound,
    )
    name = bound["name"]
    copies = [
        read_erased(tx, key, scope=scope, person=None if whole else name) for _, scope, key, whole in keys
    ]
    erase_tool_copies(tx, copies)
    for key_id, scope, key, whole in keys:
        if not whole:
            _blank_versions(tx, key_id, _THEIRS, bound)
        left = tx.execute("select 1 from facts where key_id = ? and value is not null limit 1", (key_id,))
        if whole or not left:
            facts.forget_fact(tx, key, scope=scope)
    return [(scope, key) for _, scope, key, _ in keys], copies


def _blank_versions(tx: Transaction, key_id: int, where: str, bound: dict[str, Any]) -> None:
    # No version may be changed, so it is erased and an empty one put there, or, of a list, one with the items of others.
    bare = ("id", "key_id", "valid_from", "valid_to", "recorded", "known_to", "version", "node", "origin")
    left, changed = _items_left(tx, key_id, where, bound)
    others = f"origin in ({', '.join(map(str, changed)) or 'null'})"
    columns = f"{', '.join(FACTS.names)}, {where}"
    sql = f"select {columns} from facts where key_id = :key and ({where} or {others}) order by id"  # noqa: S608 - our own constants
    rows = tx.execute(sql, {**bound, "key": key_id})
    with links_kept(tx, [f"fact:{row[0]}" for row in rows if not row[-1]]):
        tx.executemany("delete from facts where id = ?", [(row[0],) for row in rows])
        for *values, goes in rows:
            row = dict(zip(FACTS.names, values, strict=True))
            items = (left if goes else changed).get(row["origin"])
            if goes:
                stays = bool(items) and (row["owner"] is None or row["owner"] != bound.get("name"))
                told = {name: row[name] for name in ("level", "owner", "trust")} if stays else {"level": 0}
                row = {name: row[name] for name in bare} | told
                items = items if stays else None
            if items is not None:
                row["value"], row["json"] = checked_json(items, "a list")
            tx.insert(f"facts ({', '.join(row)})", [*row.values()])
    if left:  # a doubt has the items of all who changed the list before
        tx.execute("delete from doubts where key_id = ? and json is not null", (key_id,))
    tx.announce("facts", [row[0] for row in rows])


def _items_left(
    tx: Transaction, key_id: int, where: str, bound: dict[str, Any]
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return what others brought of a list, by ids: of the versions that go, and of later ones that have items of those."""
    versions = tx.execute(
        f"select id, {where}, value, json from facts where key_id = :key and id = origin order by id",  # noqa: S608 - ours
        {**bound, "key": key_id},
    )
    left, changed = dict[int, list[str]](), dict[int, list[str]]()
    before: str | list[str] = ""
    gone, words = set[str](), ""  # items, and the words of values that were no lists yet
    for number, goes, value, json in versions:
        items = facts.items_of(json)
        news = {item for item in items if item not in before}
        gone = gone | news if goes else gone - news
        words += value if goes and value and json is None else ""
        rest = [item for item in items if item not in gone and item not in words]
        if items and (goes or rest != items):
            (left if goes else changed)[number] = rest
        before = items or value or ""
    return left, changed


def _erase_learnt(tx: Transaction, messages: Sequence[int]) -> list[Erased]:
    """Erase what was learnt of some messages alone."""
    copies: list[Erased] = []
    for some in in_batches([f"turn:{number}" for number in messages]):
        copies += _erase_told(tx, _LEARNT_OF.format(some=placeholders(some)), bound(some))
        # These edges go with their messages; a fact that has others in the next batch must not be kept for them.
        tx.execute(
            f"delete from stored_edges where type = 'DERIVED_FROM' and target_id in ({placeholders(some)})",  # noqa: S608 - ours
            bound(some),
        )
    return copies


def _erase_told(tx: Transaction, then: str, values: dict[str, Any]) -> list[Erased]:
    """Erase what a rule of ours says of facts, with the pieces that later values cut of it; what was told at another time stays."""
    copies: list[Erased] = []
    of_key = f"(select id from facts where key_id = {{key}} and {then})"  # noqa: S608 - our own constants
    keys = tx.execute(
        f"select id, scope, key, exists (select 1 from facts where key_id = k.id and origin not in {of_key.format(key='k.id')})"  # noqa: S608 - ours
        f" or exists (select 1 from doubts where key_id = k.id and not {then}) from fact_keys k where id in"
        f" (select key_id from facts where {then} union select key_id from doubts where {then})",
        values,
    )
    pieces = f"origin in {of_key.format(key=':key')}"
    for key_id, scope, key, stays in keys:
        if not stays:
            copies += filter(None, [erase_fact(tx, key, scope=scope)])
            continue
        told = f"key_id = :key and {then}"
        sql = f"select value, json from facts where key_id = :key and {pieces} union select value, json from doubts where {told}"  # noqa: S608 - ours
        texts = tx.execute(sql, {**values, "key": key_id})
        items = (item for _, json in texts for item in facts.items_of(json))
        copies.append(Erased.with_values(scope, key, (value for value, _ in texts), items))
        erase_tool_copies(tx, copies[-1:])
        erase_blocks(tx, [(scope, key)])
        tx.execute(f"delete from doubts where {told}", {**values, "key": key_id})  # noqa: S608 - ours
        _blank_versions(tx, key_id, pieces, values)
    return copies


def _erase_turns(tx: Transaction, bound: dict[str, Any]) -> tuple[list[tuple[str, int]], int]:
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
    _erase_reflections(tx)
    return messages, len(turns)


def erase_said(tx: Transaction, session: str, person: str, *, keep: int) -> tuple[int, int]:
    """Erase a person's messages in a session but the newest `keep`, with answers; return their number and the first turn left.

    The session's epochs with their summaries, dropped messages and the loop's state go with them, as with a person.
    """
    bound = topic(session, person)
    rows = tx.execute(f"select m.id, t.session_id, t.n {SAID} limit -1 offset :keep", {**bound, "keep": keep})
    if not rows:
        return 0, 0
    turns = sorted({n for _, _, n in rows})
    _erase_parts(tx, session, rows[0][1], turns, [number for number, _, _ in rows])
    drop_unused(tx, spellings(tx, [person]).values())
    return len(rows), turns[-1] + 1


def erase_exchange(tx: Transaction, session: str, n: int) -> tuple[dict[str, int], list[Erased]]:
    """Erase a turn, its utterance and its answer; return how much of each kind went, and what finds copies.

    With it go the facts that nothing but its tools told, what goes with messages, and what its speaker's agent keeps of the
    session; in any conversation, what the memory's tools repeated of it, and what a robot answered since with sentences of it.
    """
    rows = tx.execute(
        "select t.session_id, t.recorded, t.first_message, t.last_message, t.owner, t.speaker from turns t"
        " join sessions s on s.id = t.session_id where s.name = ? and t.n = ?",
        (session, n),
    )
    if not rows:
        return {}, []
    session_id, begun, first, last, owner, speaker = rows[0]
    stored = tx.execute(
        "select id, role, content from messages where session_id = ? and turn = ?"
        " and (id between ? and ? or dropped is not null)",
        (session_id, n, first, last),
    )
    copies = [
        Erased.with_values("turn", f"turn:{number}", quotable(role, text))
        for number, role, text in stored
        if text and role in ("user", "assistant")
    ]
    erase_tool_copies(tx, copies)
    for said in {text for _, role, text in stored if role == "user" and text}:
        erase_quotes(tx, said, first)
    told = _erase_told(tx, _TOLD_THEN, {"begun": begun, "end": first, "speaker": speaker})
    copies += told
    for kind in KINDS:
        if kind.goes == "row" and "session_id" in kind.names:
            bound = {"id": session_id, "name": speaker}
            erase_blocks(tx, delete_rows(tx, kind, "session_id = :id and owner = :name", bound))
    learnt = _erase_parts(tx, session, session_id, [n], [number for number, _, _ in stored])
    told, copies = told + learnt, copies + learnt
    drop_unused(tx, (owner, speaker))
    return {"turns": 1, **({"facts": len(told)} if told else {})}, copies


def _erase_parts(
    tx: Transaction, session: str, session_id: int, turns: Sequence[int], messages: Sequence[int]
) -> list[Erased]:
    """Erase messages, with all that came of their turns and the session's summaries; a turn that keeps a message stays.

    Return what finds copies of the facts that were learnt of them alone.
    """
    note_forgotten(tx)
    learnt = _erase_learnt(tx, messages)
    gone: list[Shown] = [("turn", number) for number in messages]
    numbers = {f"n{n}": n for n in turns}
    lived = forget_session_rows(
        tx, session, f" and turn in ({', '.join(f':{name}' for name in numbers)})", numbers
    )
    tx.executemany("delete from messages where id = ?", [(number,) for number in messages])
    tx.announce("messages", messages)
    gone += _erase_messages(tx, "session_id = :id and dropped is not null", {"id": session_id})
    of = [(session_id, n) for n in turns]
    # The rest of the oldest turn that stays keeps its row.
    tx.executemany(
        "update turns set block = null, shown = null, first_message = coalesce((select min(id) from messages m where m.id"
        " between first_message and last_message and m.session_id = turns.session_id and m.turn = n), last_message + 1)"
        " where session_id = ? and n = ?",
        of,
    )
    tx.executemany("delete from tool_outputs where session_id = ? and turn = ?", of)
    tx.executemany("delete from turns where session_id = ? and n = ? and first_message > last_message", of)
    erase_blocks(tx, [*gone, *lived])
    erase_epochs(tx, session_id)
    tx.execute("update sessions set state = '{}' where id = ?", (session_id,))
    drop_session(tx, session_id)
    _erase_reflections(tx)
    return learnt


def _erase_messages(tx: Transaction, where: str, bound: dict[str, Any]) -> list[tuple[str, int]]:
    """Erase messages; return kind and id of each, as blocks quote them."""
    rows = tx.execute(f"delete from messages where {where} returning id", bound)  # noqa: S608 - ours
    numbers = sorted(number for (number,) in rows)
    tx.announce("messages", numbers)
    return [("turn", number) for number in numbers]


def erase_blocks(tx: Transaction, gone: Iterable[Shown]) -> None:
    """Erase the blocks, and the lines carried in heads, that showed any of these; the kind of a message is `turn`."""
    clear_blocks(tx, find_blocks(tx, gone))


def find_blocks(db: Tables, gone: Iterable[Shown]) -> list[tuple[int, int | None]]:
    """Return session and number of turns whose blocks showed any of these, and ids of epochs whose heads did, without a number."""
    keys = frozenset(gone)

    def shows(entries: str) -> bool:
        return any(
            # An entry that cannot be read may be of anything.
            line.id.startswith("{") or not keys.isdisjoint((line.fact, line.preference, line.record))
            for line in _lines(entries)
        )

    sql = "select session_id, n, shown from turns where shown is not null union all select id, null, carried from epochs where carried is not null"
    return [(number, n) for number, n, entries in (db.query(sql) if keys else ()) if shows(entries)]


def clear_blocks(tx: Transaction, found: Sequence[tuple[int, int | None]]) -> None:
    """Erase blocks of turns, and lines carried in heads, as `find_blocks` returns them."""
    tx.executemany("update turns set block = null, shown = null where session_id = ? and n = ?", found)
    heads = [(number,) for number, n in found if n is None]
    tx.executemany("update epochs set carried = null where id = ?", heads)


def erase_aged(tx: Transaction, records: Iterable[AgedRecord]) -> tuple[dict[str, int], list[Erased]]:
    """Erase records that retention lets go, unless somebody pinned or changed one since; return as `erase_exchange` does.

    A fact and an episode that have expired are forgotten with their copies. What younger turns and summaries say of other ones ages by
    itself. Blocks and names are left to the caller.
    """
    note_forgotten(tx)
    counts, copies = Counter[str](), list[Erased]()
    for record in records:
        (kind, _, number), (scope, key) = record.subjects[-1].partition(":"), record.key or ("", "")
        marks = ", ".join("?" * len(record.subjects))
        if tx.query(f"select 1 from marks where subject in ({marks}) and {STAYS}", record.subjects):  # noqa: S608 - ours
            continue
        gone = 0
        if kind in ("fact", "doubt"):
            newest = max(int(subject.partition(":")[2]) for subject in record.subjects)
            newer = "select 1 from facts where key_id = ? and origin > ?"
            if tx.query(newer, (facts.find_key(tx, scope, key), newest)):
                continue
            if record.is_expired and (erased := erase_fact(tx, key, scope=scope)):
                copies.append(erased)
            gone = record.is_expired or facts.forget_fact(tx, key, scope=scope)
        elif kind == "episode" and record.is_expired:
            copies += filter(None, [erase_record(tx, EPISODES, number)])
            gone = 1
        elif kind == "turn":
            gone = _erase_aged_turn(tx, int(number))
        else:
            where = f"lifecycle = 'ARCHIVED' and not {STAYS}" if kind == "thought" else "1"
            for table in (STORED_THOUGHTS,) if kind == "thought" else SHOWN[kind]:
                of = "session_id" if "session_id" in table.names else "null"
                sql = f"delete from {table.table} where id = ? and {where} returning {of}"  # noqa: S608 - our own constants
                for (session_id,) in tx.execute(sql, (int(number),)):
                    tx.announce(table.table, [int(number)])
                    _end_session(tx, session_id)
                    gone += 1
        counts["thoughts" if kind == "thought" else SHOWN[kind][0].plural] += gone
    erase_unsupported(tx)
    return dict(+counts), copies


def _erase_aged_turn(tx: Transaction, number: int) -> int:
    """Erase the turn of a message, with all versions of it; return 1, or 0 where it is gone."""
    rows = tx.query(
        "select t.session_id, t.n, t.first_message, t.last_message from messages m"
        " join turns t on t.session_id = m.session_id and t.n = m.turn where m.id = ?",
        (number,),
    )
    for session_id, n, first, last in rows:
        bound, of = {"id": session_id, "n": n, "first": first, "last": last}, "session_id = :id and turn = :n"
        _erase_messages(tx, f"id between :first and :last and {of}", bound)
        _erase_messages(tx, f"dropped is not null and {of}", bound)
        tx.execute("delete from turns where session_id = :id and n = :n", bound)
        _end_session(tx, session_id)
    return len(rows)


def _end_session(tx: Transaction, session_id: int | None) -> None:
    """Erase a session in which no turn is left, and nothing that sums it up."""
    left = "select 1 from turns where session_id = :id union all select 1 from epochs where session_id = :id and summary <> ''"
    if session_id is not None and not tx.query(f"{left} limit 1", {"id": session_id}):
        erase_epochs(tx, session_id)
        tx.execute("update sessions set state = '{}' where id = ?", (session_id,))
        drop_session(tx, session_id)


def _lines(entries: str) -> list[BlockLine]:
    try:
        return list(map(BlockLine.parse, _entries(entries)))
    except msgspec.MsgspecError:
        return [BlockLine.parse("{")]


def delete_rows(tx: Transaction, kind: Kind, where: str, bound: Mapping[str, Any]) -> list[Shown]:
    """Delete rows by a condition of ours, and names and conversations that nothing else holds; return the rows as `Shown`."""
    columns = [name for name in kind.names if name in ("id", "scope", "key", "session_id")]
    people = kind.columns_of("person")
    rows = tx.execute(
        f"delete from {kind.table} where {where} returning {', '.join((*columns, *people))}",  # noqa: S608 - our own constants
        bound,
    )
    gone = [dict(zip((*columns, *people), row, strict=True)) for row in rows]
    if kind is EPISODES and rows:
        erase_unsupported(tx)
    if kind.doc:
        tx.announce(kind.table, sorted(row["id"] for row in gone))
    names = {row[column] for row in gone for column in people}
    drop_unused(tx, names | {person_of(row["scope"]) for row in gone if "scope" in row})
    for session_id in {row["session_id"] for row in gone if "session_id" in row}:
        drop_session(tx, session_id)
    if "key" in columns:
        return [(row["scope"], row["key"]) for row in gone]
    return [(kind.doc or kind.label, row["id"]) for row in gone]


def blank_rows(tx: Transaction, kind: Kind, where: str, bound: Mapping[str, Any]) -> list[Shown]:
    """Empty the columns of rows that stay, by `Kind.blanks`; return them as blocks name them."""
    structures = {column: key for column, key in kind.blanks.items() if key}
    columns = ", ".join(("id", *structures))
    rows = tx.execute(f"select {columns} from {kind.table} where {where}", bound)  # noqa: S608 - our own constants
    sets = [f"{column} = ?" if key else f"{column} = null" for column, key in kind.blanks.items()]
    tx.executemany(
        f"update {kind.table} set {', '.join(sets)} where id = ?",  # noqa: S608 - our own constants
        [(*map(_without_values, texts, structures.values()), number) for number, *texts in rows],
    )
    tx.announce(kind.table, [row[0] for row in rows])
    return [(kind.doc, row[0]) for row in rows]


def forget_session_rows(
    tx: Transaction, session: str, condition: str = "", bound: Mapping[str, Any] | None = None
) -> list[Shown]:
    """Delete or blank all rows that came from a session, or from some of its turns by a condition; return how blocks name them."""
    where = f"session = :session{condition}"
    values = {"session": session, **(bound or {})}
    shown: list[Shown] = []
    for kind in KINDS:
        if "session" in kind.names:
            work = blank_rows if kind.blanks else delete_rows
            shown += work(tx, kind, where, values)
    return shown


def _without_values(text: str, key: str) -> str:
    """Return the JSON of a list of objects, with an empty text for each value below a key."""
    parts = [
        {**part, key: dict.fromkeys(part[key], "")} if key in part else part
        for part in msgspec.json.decode(text)
    ]
    return as_text(parts)
