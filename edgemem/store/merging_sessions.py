"""Merging conversations: turns of another memory into this one, for as long as both go the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError
from edgemem.store import messages, rows
from edgemem.store.intake import Parted
from edgemem.store.summaries import note_newer

if TYPE_CHECKING:
    from edgemem.store.intake import Intake


# A turn is ended after it was accepted, and amended when its speech was cut off: a later stage replaces an earlier one.
_STAGES = {"open": 0, "unfinished": 1, "complete": 2, "interrupted": 3}


class SessionMerge:
    """Takes in conversations, each after its own record."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._tx = intake.tx
        self._sessions: dict[str, int] = {}
        self._states: dict[str, str] = {}
        """The loop's states that differ from what is here."""
        self._newest_turn: dict[str, int] = {}
        self._grown: set[str] = set()
        self._parted: dict[str, int] = {}
        """How much of each conversation was left out after it had parted."""

    def begin(self, given: rows.Session) -> None:
        """Take in a conversation without its turns."""
        columns = rows.Session.COLUMNS
        found = self._tx.execute(
            f"select {columns} from sessions where name = ? or id = ?",  # noqa: S608 - our own constants
            (given.name, given.id),
        )
        self._sessions[given.name] = given.id
        if not found:
            self._intake.insert("sessions", columns, given.columns())
        elif found[0][:2] != (given.id, given.name):
            self._part(given.name, "is another one here")
            return
        elif given.state is not None and found[0][3] != rows.as_text(given.state):
            self._states[given.name] = rows.as_text(given.state)
        self._intake.report.count("sessions", new=not found)

    def take(self, record: rows.Turn | rows.Epoch | rows.Dropped | rows.Output) -> None:
        """Take in what belongs to a conversation, unless that has parted."""
        name = record.session
        session_id = self._sessions.get(name)
        if session_id is None:
            raise InvalidInputError(f"A part of conversation {name!r} comes before that conversation itself.")
        if name in self._parted:
            self._parted[name] += 1
            return
        try:
            if isinstance(record, rows.Turn):
                kind, new = "turns", self._turn(session_id, record)
                self._newest_turn[name] = record.n
            elif isinstance(record, rows.Epoch):
                kind, new = "epochs", self._epoch(session_id, record)
            elif isinstance(record, rows.Output):
                kind, new = "outputs", self._output(session_id, record)
            else:
                kind, new = "messages", self._dropped(session_id, record)
        except Parted as parted:
            self._part(name, str(parted))
            return
        self._intake.report.count(kind, new=new)
        if new and kind != "outputs":
            self._grown.add(name)

    def finish(self) -> None:
        """Bring the states of conversations up to date, and tell what was left out."""
        refused = self._intake.report.refused
        for name, state in self._states.items():
            if name in self._parted:
                continue
            if name in self._grown:
                self._tx.execute("update sessions set state = ? where name = ?", (state, name))
            elif self._newest_turn.get(name) == self._newest_here(name):
                refused.append(f"The loop's state of conversation {name!r} differs; the one here stays.")
        for name, count in self._parted.items():
            if count:
                refused.append(f"With that, {count} more records of conversation {name!r} were left out.")

    def _part(self, name: str, reason: str) -> None:
        self._parted[name] = 0
        self._intake.report.refused.append(f"The conversation {name!r} {reason}; what is here stays.")

    def _turn(self, session_id: int, given: rows.Turn) -> bool:
        there = self._turn_here(session_id, given)
        if there == given:
            return False
        gone: list[int] = []
        if there is not None:
            if there.first != given.first:
                raise Parted(f"goes on in another way from turn {given.n}")
            stage, known = (_STAGES[given.state], given.last), (_STAGES[there.state], there.last)
            if stage < known:
                return False
            if stage == known:
                raise Parted(f"differs in turn {given.n}")
            gone = [message.id for message in there.messages]
        with self._tx.atomic():
            self._tx.executemany("delete from messages where id = ?", [(number,) for number in gone])
            messages.enqueue(self._tx, gone)
            for message in given.messages:
                self._message(session_id, given.n, message, None)
            columns = f"session_id, {rows.Turn.COLUMNS}"
            self._intake.insert("turns", columns, (session_id, *given.columns()), replace=True)
        return True

    def _turn_here(self, session_id: int, given: rows.Turn) -> rows.Turn | None:
        found = self._tx.execute(
            f"select {rows.Turn.COLUMNS} from turns where session_id = ? and n = ?",  # noqa: S608 - our own constants
            (session_id, given.n),
        )
        if not found:
            return None
        said = self._tx.execute(rows.SAID_IN_TURN, (*found[0][1:3], session_id, given.n))
        return rows.Turn.of(given.session, found[0], [rows.Message.of(row) for row in said])

    def _message(self, session_id: int, turn: int, given: rows.Message, dropped: int | None) -> None:
        if self._tx.execute("select 1 from messages where id = ?", (given.id,)):
            raise Parted(f"was rewritten since, at turn {turn}")
        columns = f"session_id, turn, dropped, {rows.Message.COLUMNS}"
        self._intake.insert("messages", columns, (session_id, turn, dropped, *given.columns()))
        self._intake.announce("messages", given.id)

    def _dropped(self, session_id: int, given: rows.Dropped) -> bool:
        found = self._tx.execute(
            f"select session_id, turn, dropped, {rows.Message.COLUMNS} from messages where id = ?",  # noqa: S608 - ours
            (given.message.id,),
        )
        if not found:
            self._message(session_id, given.turn, given.message, given.dropped)
        elif found[0] != (session_id, given.turn, given.dropped, *given.message.columns()):
            raise Parted(f"was rewritten since, at turn {given.turn}")
        return not found

    def _epoch(self, session_id: int, given: rows.Epoch) -> bool:
        columns = f"session_id, {rows.Epoch.COLUMNS}"
        found = self._tx.execute(f"select {columns} from epochs where id = ?", (given.id,))  # noqa: S608 - ours
        if not found:
            self._intake.insert("epochs", columns, (session_id, *given.columns()))
            self._intake.announce("epochs", given.id)
            note_newer(self._tx, session_id, given.id)
        elif found[0] != (session_id, *given.columns()):
            raise Parted("began anew in another way")
        return not found

    def _output(self, session_id: int, given: rows.Output) -> bool:
        """Take in what a tool answered; the bound on all of them is kept when the next one is."""
        if not self._tx.execute(
            "select 1 from turns where session_id = ? and n = ?", (session_id, given.turn)
        ):
            raise InvalidInputError(
                f"What a tool answered in turn {given.turn} of {given.session!r} comes without it."
            )
        columns = rows.Output.COLUMNS
        found = self._tx.execute(
            f"select {columns} from tool_outputs where session_id = ? and turn = ? and pointer = ?",  # noqa: S608 - ours
            (session_id, given.turn, given.pointer),
        )
        if not found:
            size = len(given.content.encode())
            self._intake.insert(
                "tool_outputs", f"session_id, bytes, {columns}", (session_id, size, *given.columns())
            )
        elif found[0] != given.columns():
            self._intake.report.refused.append(
                f"What {given.pointer!r} names is another text here, which stays."
            )
        return not found

    def _newest_here(self, name: str) -> int | None:
        found = self._tx.execute(
            "select max(n) from turns where session_id = (select id from sessions where name = ?)", (name,)
        )
        newest: int | None = found[0][0]
        return newest
