"""People: who is known, and all that moves where somebody is renamed, merged or split, or a turn was another's.

The declarations of `kinds` say which columns hold a person, and how: a move changes these cells, in one transaction. What people
said keeps its words and its level. The former name is another name of the same person from then on, so a voice that is still called
so is theirs. A record of ids and names, never of texts, undoes the newest move in rows that are as it left them; it is erased with
either of its people.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import BusyError, InvalidInputError, StoreError
from edgemem.languages.words import is_safety_key
from edgemem.scopes import name_key, person_of, scope_of
from edgemem.store.bank.rules import scope_of_user
from edgemem.store.episodes import row_number, spell_out
from edgemem.store.erase.delete_rows import erase_blocks, erase_unsupported
from edgemem.store.facts import ensure_key, restate_facts
from edgemem.store.kinds import DOUBTS, FACT_KEYS, FACTS, KINDS, TURNS
from edgemem.store.pending_erasures import MOVE, note_whose, noted
from edgemem.store.rights import drop_unused, spell, spellings
from edgemem.store.turns import LIVE
from edgemem.store.validation import as_text, checked_text, checked_time

if TYPE_CHECKING:
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.declaration import Kind
    from edgemem.store.journal import TurnJournal

Cell = tuple[str, bool, str | None, str | None]
"""A column, whether only the beginning of its text changes, and what that is before and after."""
Change = tuple[str, tuple[Cell, ...], list[list[Any]]]
"""A table, the cells that change in each of its rows, and the values of their primary keys."""

_FILES = "people:files"  # the key in `meta` of moves of files that are not made yet
_KINDS = {kind.table: kind for kind in KINDS if kind.of_person() and kind is not FACT_KEYS}
_STATED = (FACTS, DOUBTS)  # their keys too say whose they are
_SAID = "r.id = r.origin and (r.value is not null or r.valid_from > -9e999)"  # a fact that somebody stated
_HEARD = """
  r.speaker = :old and (:voice is null or r.device = :voice)
  and (:since is null or {at} >= :since) and (:until is null or {at} < :until)
"""
_FOLLOW_S = 2.0  # seconds that somebody waits for the index, some 1,000 messages
_LABELS = {"preferences": "key", "goals": "name", "bank_files": "path", "facts": "key", "doubts": "key"}
"""The names that rows of a table have; of what has none, a person has one, and that of the other replaces it."""


class Person(msgspec.Struct, frozen=True):
    """Somebody who is known."""

    name: str
    also: tuple[str, ...]  # further names, as they are looked up
    records: dict[str, int]  # how many of each kind they said or own
    voices: tuple[str, ...]  # the devices that heard them


class Moved(msgspec.Struct):
    """A move, and what undoes it."""

    deed: str  # rename, merge, split or give
    old: str | None  # None: an unknown voice
    new: str
    changes: list[Change] = []
    files: list[tuple[str, str]] = []


class People:
    """The people of one truth, with their files in the bank; safe to use from several threads and processes.

    Names are compared case-folded and in NFC. Methods raise InvalidInputError for a name that nobody has, with the nearest, and
    BusyError while one of the people has a turn open. `follow` has the index take in the changes of the truth,
    until it is told to stop; idle time does the rest.
    """

    def __init__(
        self,
        database: Database,
        journal: TurnJournal,
        bank: MemoryBank,
        *,
        follow: Callable[[Callable[[], bool]], None],
    ) -> None:
        self._database, self._journal, self._folder, self._follow = database, journal, bank.folder, follow
        self._move_files()  # as far as a crash left them

    def list(self) -> list[Person]:
        """Return all who are known, in the order of their names; each table is read once, however many they are."""
        also, voices, records = (defaultdict[str, list[Any]](list) for _ in range(3))
        for key, name in self._database.query("select key, name from names order by key"):
            also[name] += [key] if key != name_key(name) else []
        for kind in _KINDS.values():
            who = ", ".join(kind.columns_of("person")) or "substr(scope, instr(scope, ':') + 1)"
            said = _SAID if kind is FACTS else "1"
            sql = f"select coalesce({who}, null), count(*) from {kind.table} r where {said} group by 1"  # noqa: S608 - ours
            for name, number in self._database.query(sql):
                records[name].append((kind.plural, number))
        sql = "select distinct speaker, device from turns where device <> '' order by 2"
        for name, device in self._database.query(sql):
            voices[name].append(device)
        names = sorted(also, key=name_key)
        return [Person(name, tuple(also[name]), dict(records[name]), tuple(voices[name])) for name in names]

    def rename(self, old: str, new: str) -> Moved:
        """Give somebody another name, or their name another spelling; raise InvalidInputError where somebody else has it."""
        return self._move("rename", old, new)

    def merge(self, source: str, into: str) -> Moved:
        """Make one person of two: all of `source` is `into`'s, whose other name that is from then on.

        Of two values of a fact the newer one holds, and the older is its history. Of two that concern safety, and of two preferences,
        goals or files of one name, both stay, one with whose it was before its name.
        """
        return self._move("merge", source, into)

    def split(
        self,
        name: str,
        new: str,
        *,
        voice: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Moved:
        """Make two people of one: what a device heard, or what was heard from one time until another, is the new one's.

        Times are seconds since the epoch. What nobody heard, such as goals and files, stays. The new name may be another of theirs.
        """
        if (voice, since, until) == (None, None, None):
            raise InvalidInputError("Say what to split off: the voice, or since or until when it was heard.")
        since, until = (t if t is None else checked_time(t, "since and until") for t in (since, until))
        bound = {"voice": voice, "since": since, "until": until}
        return self._move("split", name, new, (_HEARD, _HEARD, bound))

    def give(self, turn: str | int, name: str) -> Moved:
        """Give the turn of a message, by that one's id, with what came of it to somebody who spoke in fact."""
        rows = self._database.query(
            "select session_id, n, speaker, recorded, last_message from turns where (session_id, n) ="
            " (select session_id, turn from messages where id = ?)",
            (row_number(str(turn)),),
        )
        if not rows:
            raise InvalidInputError(
                f"There is no turn {turn!r:.80}; give the id of a message, as recall does."
            )
        bound = dict(zip(("session", "n", "old", "begin", "end"), rows[0], strict=True))
        turn_is, said = (
            "r.session_id = :session and r.n = :n",
            "r.speaker = :old and r.id between :begin and :end",
        )
        return self._move("give", bound["old"], name, (turn_is, said, bound))

    def undo(self) -> Moved:
        """Take the newest move back, once; return it. What was forgotten or changed since is left so.

        What was said since to the one of two is theirs; who was renamed or split is one person again, with all that was said.
        """

        def work(tx: Transaction) -> Moved:
            rows = tx.query("select value from meta where key = ?", (MOVE,))
            if not rows:
                raise InvalidInputError("There is no move to undo, or one of its people was forgotten since.")
            moved = msgspec.json.decode(rows[0][0], type=Moved)
            back = _Mover(tx, Moved(moved.deed, moved.new, moved.old or ""))
            # Names first: others are spelled by them.
            for table, cells, numbers in (*moved.changes[:1], *moved.changes[:0:-1]):
                inverse = [(column, is_head, b, a) for column, is_head, a, b in reversed(cells)]
                back.change(table, tuple(inverse), numbers)
            if moved.old and moved.deed in ("rename", "split"):
                back.move_all()
            back.finish([(after, before) for before, after in reversed(moved.files)])
            tx.execute("delete from meta where key = ?", (MOVE,))
            drop_unused(tx, [moved.new])
            return moved

        return self._write(work)

    def merge_voices(self, called: Mapping[str, str]) -> bool:
        """Give people what was heard under another of their names, each once; `called` is the profile's. Tell if any was."""
        people = {name_key(person) for person in called.values()}
        names = dict(self._database.query("select key, name from names")) if called else {}
        merged = False
        for voice, person in ((name_key(name), person) for name, person in called.items()):
            pair = f"{voice}\n{name_key(person)}"
            # Another name of somebody is no voice any more.
            is_voice = voice not in people and name_key(names.get(voice, "")) == voice
            if is_voice and not noted(self._database, "voice", pair):
                with suppress(StoreError, InvalidInputError):  # they speak, or the disk is full: later
                    self._move("merge" if name_key(person) in names else "rename", names[voice], person)
                    self._database.write(partial(note_whose, kind="voice", name=pair))
                    merged = True
        return merged

    def _move(
        self, deed: str, old: str | None, new: str, heard: tuple[str, str, dict[str, Any]] | None = None
    ) -> Moved:
        def work(tx: Transaction) -> Moved:
            was = old if deed == "give" else self._known(tx, str(old))
            name = self._known(tx, new) if deed == "merge" else str(person_of(scope_of_user(new)))
            holder = _holder(tx, name)
            if deed in ("merge", "give"):
                name = holder or name
            elif holder not in (None, was) or (not holder and self._folder.folders_of(name)):
                raise InvalidInputError(
                    f"{name!r:.80} is somebody already; `edgemem people merge` makes one person of two."
                )
            if name == was or (deed == "split" and name_key(name) == name_key(str(was))):
                raise InvalidInputError(f"{old!r:.80} and {new!r:.80} are one person already.")
            mover = _Mover(tx, Moved(deed, was, name))
            if deed != "give":
                mover.move_names(name_key(name) if heard else None)
            spell(tx, name)
            if heard is None:
                mover.move_all()
            elif not mover.move_heard(*heard):
                raise InvalidInputError(
                    f"Nothing was heard of {old!r:.80} so; `edgemem people` lists their voices."
                )
            is_other = heard is None and name_key(name) != name_key(str(was))
            return mover.finish(self._folder.person_moves(str(was), name) if is_other else [])

        names = [new] if old is None else [old, new]
        return self._write(work, *(checked_text(name, "a name") for name in names))

    def _write(self, work: Callable[[Transaction], Moved], *names: str) -> Moved:
        named = spellings(self._database, names)
        heard = (turn.heard for turn in self._journal.open_turns())
        speaking = spellings(self._database, [who.speaker for who in heard if who and who.speaker]).values()
        if spoken := next((name for name, spelled in named.items() if spelled in speaking), None):
            raise BusyError(f"{spoken!r:.80} has a turn that is open; try again when it has ended.")
        self._journal.settle()
        moved = self._database.write(work)
        self._move_files()
        end = monotonic() + _FOLLOW_S
        self._follow(lambda: monotonic() >= end)
        return moved

    def _known(self, tx: Transaction, name: str) -> str:
        if (holder := _holder(tx, name)) or self._folder.folders_of(name):
            return holder or name.strip()
        names = dict(tx.query("select key, name from names"))
        near = [names[key] for key in difflib.get_close_matches(name_key(name), names)]
        hint = f"Did you mean {' or '.join(near)}?" if near else "`edgemem people` lists who is known."
        raise InvalidInputError(f"Nobody is called {name!r:.80}. {hint}")

    def _move_files(self) -> None:
        rows = self._database.query("select value from meta where key = ?", (_FILES,))
        if rows and not self._database.read_only:
            self._folder.move(msgspec.json.decode(rows[0][0], type=list[tuple[str, str]]))
            self._database.write(lambda tx: tx.execute("delete from meta where key = ?", (_FILES,)))


class _Mover:
    """Makes a move within one transaction."""

    def __init__(self, tx: Transaction, moved: Moved) -> None:
        self.tx, self.moved = tx, moved
        self.old, self.new = moved.old, moved.new
        self.shown = set[tuple[str, int]]()
        self._was, self._is = (f"{name_key(name or '').replace(' ', '_')}." for name in (self.old, self.new))

    def move_names(self, key: str | None) -> None:
        """Make the old person's names the new one's, or only one of them."""
        sql = "select key from names where name = :old and (:key is null or key = :key)"
        rows = self.tx.query(sql, {"old": self.old, "key": key})
        self.change("names", (("name", False, self.old, self.new),), [list(row) for row in rows])

    def move_all(self) -> None:
        """Move all that is the old person's."""
        for kind in _KINDS.values():
            has_key = kind in _STATED or bool(kind.columns_of("key"))
            self._move_rows(kind, "1" if has_key else kind.of_person("r"), {"name": self.old})

    def move_heard(self, turn: str, said: str, bound: Mapping[str, Any]) -> bool:
        """Move turns, what came of them, and what else was said, by conditions of rows `r` whose time is `{at}`; tell if any was."""
        bound = {**bound, "old": self.old}
        turn, said = (
            sql.format(at=f"coalesce(r.event_time, r.{tick} / 1e6)")
            for sql, tick in ((turn, "recorded"), (said, "id"))
        )
        of_turn = f"(r.session, r.turn) in (select s.name, r.n from turns r join sessions s on s.id = r.session_id where {turn})"  # noqa: S608 - ours
        # What was put before the other person is none of this one's business.
        self.tx.execute(f"update turns as r set block = null, shown = null where {turn}", bound)  # noqa: S608 - our own constants
        for kind in sorted(_KINDS.values(), key=lambda kind: kind is TURNS):
            if "device" in kind.names:
                of_row = f"{of_turn} or {said}" if "session" in kind.names else said
                self._move_rows(kind, turn if kind is TURNS else of_row, bound)
        return any(table != "names" for table, _, _ in self.moved.changes)

    def finish(self, files: list[tuple[str, str]]) -> Moved:
        """Keep what undoes the move, and which files are to be moved."""
        self.tx.execute(
            "delete from fact_keys where not exists (select 1 from doubts where key_id = fact_keys.id)"
            " and not exists (select 1 from facts where key_id = fact_keys.id and known_to is null)"
        )
        erase_blocks(self.tx, self.shown)
        # What was learnt of the one's and of the other's private words is learnt again, by whose they are now.
        self.tx.execute(
            "delete from stored_edges where type = 'CONSOLIDATED_FROM' and source_id in (select name from stored_thoughts"
            " where type = 'REFLECTION' and source between 'learn:' and 'learn;' and owner in (?, ?))",
            (self.old, self.new),
        )
        erase_unsupported(self.tx)
        self.moved.files = files
        for key, value in ((MOVE, self.moved), *([(_FILES, files)] if files else [])):
            self.tx.execute("insert or replace into meta values (?, ?)", (key, as_text(value)))
        return self.moved

    def _move_rows(self, kind: Kind, where: str, bound: Mapping[str, Any]) -> None:
        """Move the rows of a kind under a condition, those of one place at once."""
        roles = {column.name: column.role for column in kind.columns} | {"scope": "scope", "key": "key"}
        place = ("scope", "key") if kind in _STATED else kind.unique
        names = list(dict.fromkeys((*place, *kind.primary, *kind.columns_of("person", "scope", "key"))))
        rest = [name for name in names if name not in place]
        fields = ", ".join(f"{'r' if name in kind.names else 'p'}.{name}" for name in names)
        said = _SAID if kind is FACTS else "1"
        sql = f"select {fields} from {kind.table} r{kind.join()} where ({where}) and {said} order by {fields}"  # noqa: S608 - ours
        rows = (dict(zip(names, values, strict=True)) for values in self.tx.query(sql, bound))
        for _, group in groupby(rows, key=lambda row: [row[name] for name in place]):
            alike = defaultdict[tuple[Cell, ...], list[list[Any]]](list)
            shared: list[Cell] | None = None
            for row in group:
                if shared is None:
                    shared = self._shared(kind, {name: row[name] for name in place}, row, roles)
                own = [cell for name in rest for cell in self._cells(name, roles[name], row[name])]
                alike[tuple(own + (shared or []))].append([row[name] for name in kind.primary])
            for cells, numbers in alike.items():
                self.change(kind.table, cells, numbers)

    def _cells(self, name: str, role: str, value: Any) -> list[Cell]:
        if role == "person" and value == self.old:
            return [(name, False, self.old, self.new)]
        if role == "scope" and value == scope_of(self.old or ""):
            return [(name, False, value, scope_of(self.new))]
        # A key whose subject, before a dot, is the old person.
        heads = (value[: at + 1] for at, sign in enumerate(value if role == "key" else "") if sign == ".")
        head = next((head for head in heads if name_key(head).replace(" ", "_") == self._was), None)
        return [] if head is None else [(name, True, head, self._is)]

    def _shared(
        self, kind: Kind, here: Mapping[str, Any], row: Mapping[str, Any], roles: Mapping[str, str]
    ) -> list[Cell]:
        """Return the cells of a place that change; where the new person has something there, make room for both.

        Values of a fact become one history, unless they concern safety and disagree. Then, and in other tables with names, the older of
        the two gets whose it was before its name.
        """
        cells = [cell for name, value in here.items() for cell in self._cells(name, roles[name], value)]
        there = _altered(here, cells)
        others, own = self._at(kind, there), self._at(kind, here)
        if here == there or not others:
            return cells
        is_older = kind in _STATED or own[0][1] < others[0][1]
        if kind in _STATED and (own[:1] in ([], others[:1]) or not is_safety_key(spell_out(here["key"]))):
            return cells
        if (label := _LABELS.get(kind.table)) is None:
            if kind.doc:
                self.tx.announce(kind.table, [others[0][0]])  # it is replaced
            return cells
        subject = self._is if there[label].startswith(self._is) else ""
        head = (self._is if subject or kind in _STATED else "") + (self._was if is_older else self._is)
        while self._at(kind, there | {label: head + there[label].removeprefix(subject)}):
            head += self._was
        if is_older:
            return [*cells, (label, True, subject, head)]
        self.change(kind.table, ((label, True, subject, head),), [[others[0][0]]])
        return cells

    def _at(self, kind: Kind, place: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Return id and newest tick of the row in a place; of a fact, nothing and what holds, if anything does."""
        where = " and ".join(f"{name} = :{name}" for name in place) or "0"
        sql = f"select id, {kind.newest or 'id'} from {kind.table} where {where}"  # noqa: S608 - our own constants
        if kind in _STATED:
            sql = f"select null, lower(value) from facts_now where {where}"  # noqa: S608 - our own constants
        return self.tx.query(sql, place) if place else []

    def change(self, table: str, cells: tuple[Cell, ...], rows: list[list[Any]]) -> None:
        """Change those of some rows that are as they shall be before, tell the index, and keep how."""
        kind, tx = _KINDS.get(table), self.tx
        names = list(dict(cell[:2] for cell in cells))
        source = f"{table} r"
        if kind in _STATED and kind is not None:
            names, source = ["speaker", "level", "owner", "scope", "key", "topic"], source + kind.join()
        verb = "ignore" if table in _LABELS else "replace"
        row_is = " and ".join(f"r.{name} = ?" for name in (kind.primary if kind else ("key",)))
        pairs = ", ".join(f"{name} = ?" for name in names)
        update = f"update or {verb} {table} as r set {pairs} where {row_is}"  # noqa: S608 - ours
        changed, stated = [], dict[int, tuple[str | None, int, str | None, int]]()
        for row in rows if cells else ():
            found = tx.query(f"select {', '.join(names)} from {source} where {row_is}", row)  # noqa: S608 - our own constants
            here = dict(zip(names, found[0], strict=True)) if found else {}
            there = _altered(here, cells)
            if here == there:
                continue
            changed.append(row)
            if kind in _STATED:
                speaker, level, owner, *key = there.values()
                stated[row[0]] = speaker, level, owner, ensure_key(tx, *key)
            else:
                tx.execute(update, [*there.values(), *row])
        numbers = [row[0] for row in changed]
        if kind is FACTS:
            restate_facts(tx, stated)
        elif kind is DOUBTS:
            sql = "update doubts set speaker = ?, level = ?, owner = ?, key_id = ? where id = ?"
            tx.executemany(sql, [(*values, number) for number, values in stated.items()])
        elif kind is TURNS:
            sql = (
                f"select m.id from turns t cross join messages m on {LIVE} where t.session_id = ? and t.n = ?"  # noqa: S608 - ours
            )
            tx.announce("messages", [number for row in changed for (number,) in tx.query(sql, row)])
        elif kind is not None and kind.doc:
            tx.announce(table, numbers)
        if kind is not None and kind.doc:
            self.shown.update((kind.doc, number) for number in numbers)
        if changed:
            self.moved.changes.append((table, cells, changed))


def _holder(tx: Transaction, name: str) -> str | None:
    rows = tx.query("select name from names where key = ?", (name_key(name),))
    return str(rows[0][0]) if rows else None


def _altered(row: Mapping[str, Any], cells: Iterable[Cell]) -> dict[str, Any]:
    new = dict(row)
    for column, is_head, before, after in cells:
        value = new.get(column)
        if is_head and value is not None and value.startswith(before):
            new[column] = f"{after}{value[len(before or '') :]}"
        elif not is_head and column in new and value == before:
            new[column] = after
    return new
