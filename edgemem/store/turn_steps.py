"""Steps of the journal, as data: the change of a turn, and further writes of the same transaction.

A step can wait, in memory and in a file, until the database can be written again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.records import Episode, Epoch, Heard, StoredMessage, Turn
from edgemem.scopes import Level, name_key
from edgemem.store import turns
from edgemem.store.episodes import Run, append_episode, retell_turn
from edgemem.store.erase.copies import without_answers, without_memory
from edgemem.store.erase.delete_rows import erase_blocks
from edgemem.store.messages import to_json
from edgemem.store.pending_erasures import last_forgotten, note_erasing, noted
from edgemem.store.procedures import record_outcome
from edgemem.store.rights import drop_session, drop_unused, level_of_episode
from edgemem.store.turns import append_epoch, keep_output

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

_log = logging.getLogger(__name__)


class Accept(msgspec.Struct, frozen=True, tag="accept"):
    """Keep an open turn, as far as its process came that has ended in it."""

    turn: Turn
    tick: int  # when it was accepted, which tells it from all others

    def run(self, tx: Transaction) -> None:
        """Write the turn as unfinished, in place of an older record of it.

        Nothing is written if the turn has ended, or if something was forgotten since and nobody knows whether the turn holds it.
        """
        tx.clock.witness(self.tick)
        written = turns.find_turn(tx, self.turn.session, self.tick, from_n=self.turn.n)
        if written is not None and written[1] != "unfinished":
            return
        if self.tick > last_forgotten(tx):
            Commit(msgspec.structs.replace(self.turn, state="unfinished"), self.tick).run(tx)
        elif written is None:
            _log.warning("A turn that was cut off is left out: something was forgotten while it was open.")


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """Write a whole turn."""

    turn: Turn
    tick: int  # when it was accepted, or given
    forgotten: tuple[int, int] | None = None
    """The newest forgetting known when it began, and the newest that its record is without; None: the tick."""

    def run(self, tx: Transaction) -> int | None:
        """Write the turn behind all others, in place of the one that was written while it was open; return its number.

        What was forgotten since it began is left out: of a forgotten person or session all of it, and None is returned; else the
        block, and what the memory's tools told, which may hold it.
        """
        turn = self.turn
        session, n = turn.session, turn.n
        last = turns.last_number(tx, session)
        if last >= n:
            written = turns.find_turn(tx, session, self.tick, from_n=n)
            if written is not None:
                turns.erase_turn(tx, session, written[0])
                last = turns.last_number(tx, session)
            n = max(n, last + 1)
        began, without = self.forgotten or (self.tick, self.tick)
        if (newest := last_forgotten(tx)) > began:
            people = {name_key(name) for name in (turn.owner, turn.heard and turn.heard.speaker) if name}
            if max(noted(tx, "session", session), noted(tx, "person", *people)) > began:
                return None
            turn = msgspec.structs.replace(turn, block="", shown=())
            if newest > without:
                turn = msgspec.structs.replace(turn, messages=tuple(without_answers(turn.messages)))
        turns.commit_turn(tx, msgspec.structs.replace(turn, n=n), recorded=self.tick)
        return n


class Amend(msgspec.Struct, frozen=True, tag="amend"):
    """Keep of a turn's speech the heard part, message by message."""

    session: str
    n: int  # that of a turn which was read from the file
    heard: tuple[str, ...]
    tick: int | None = None  # that of the commit, whichever number it gave

    def run(self, tx: Transaction) -> bool:
        """Amend the turn; return whether there is one."""
        number = _number(tx, self)
        return number is not None and turns.amend_turn(tx, self.session, number, self.heard)


class AddResult(msgspec.Struct, frozen=True, tag="result"):
    """Keep the result of a tool that answered after its turn; the further fields are as those of `Amend`."""

    session: str
    n: int
    result: StoredMessage
    answer: Level  # as private as what the tool has read since
    outputs: tuple[KeepOutput, ...] = ()
    tick: int | None = None

    def run(self, tx: Transaction) -> bool:
        """Add it to the turn; return whether there is one."""
        number = _number(tx, self)
        if number is None or not turns.add_result(tx, self.session, number, self.result, self.answer):
            return False
        for output in self.outputs:
            output(tx, number)
        return True


def _number(tx: Transaction, step: Amend | AddResult) -> int | None:
    """Return the number of a step's turn; None if it is not written."""
    if step.tick is None:
        return step.n
    written = turns.find_turn(tx, step.session, step.tick)
    return None if written is None else written[0]


class Discard(msgspec.Struct, frozen=True, tag="discard"):
    """Erase an accepted turn that was written while it was open."""

    session: str
    tick: int  # when it was accepted

    def run(self, tx: Transaction) -> bool:
        """Erase it without a trace; return whether there was one."""
        written = turns.find_turn(tx, self.session, self.tick)
        if written is None:
            return False
        note_erasing(tx)  # its bytes go as those of what is forgotten
        drop_unused(tx, turns.erase_turn(tx, self.session, written[0]))
        drop_session(tx, turns.ensure_session(tx, self.session))
        return True


Step = Accept | Commit | Amend | AddResult | Discard


class BeginEpoch(msgspec.Struct, frozen=True, tag="epoch"):
    """A session's prompt begins anew."""

    epoch: Epoch
    forgotten: int | None = None
    """The newest forgetting that was known when its head was written; None: nothing can be forgotten of that."""

    def __call__(self, tx: Transaction) -> None:
        """Write the epoch, without what memory put into it if anything was forgotten since."""
        epoch = self.epoch
        if self.forgotten is not None and last_forgotten(tx) != self.forgotten:
            epoch = without_memory(epoch)
        append_epoch(tx, epoch)


class KeepHead(msgspec.Struct, frozen=True, tag="head"):
    """A hash of the instructions and tools before the epoch that a session is in."""

    session: str
    head: str

    def __call__(self, tx: Transaction) -> None:
        """Write the hash, where another is known."""
        tx.execute(
            "update epochs set head = :head where head is not :head and id = (select max(id) from epochs"
            " where session_id = (select id from sessions where name = :session))",
            {"head": self.head, "session": self.session},
        )


class KeepState(msgspec.Struct, frozen=True, tag="state"):
    """The loop's own state of a session, as `state_text` gives it."""

    session: str
    state: str

    def __call__(self, tx: Transaction) -> None:
        """Write the state."""
        tx.execute("update sessions set state = ? where name = ?", (self.state, self.session))


class AddEpisode(msgspec.Struct, frozen=True, tag="episode"):
    """Something that happened within the turn; the fields are those of `Episode`."""

    kind: str
    payload: dict[str, Any]
    outcome: str
    agent: str = ""
    heard: Heard | None = None
    level: Level | None = None
    owner: str | None = None
    keep: int = 500
    session: str = ""
    """Of whose newest turn it is, and as private as its answer; empty: `level` and `owner` tell."""
    latency_ms: float | None = None

    def __call__(self, tx: Transaction) -> None:
        """Write the episode."""
        fields = msgspec.structs.asdict(self) | {"level": level_of_episode(self.level, self.heard)}
        keep, turn = fields.pop("keep"), None
        if self.session:
            turn = turns.last_number(tx, self.session)
            closed = turns.answer_of(tx, self.session)
            if closed is not None:
                fields["level"], fields["owner"] = closed
        if fields["level"] == "private" and not fields["owner"]:
            return  # an unknown voice in private: nobody could ever be told
        append_episode(tx, Episode(**fields, turn=turn), keep=keep)


class RetellTurn(msgspec.Struct, frozen=True, tag="retell"):
    """What several calls of tools came to in a session's newest turn; the fields are those of `retell_turn`."""

    session: str
    runs: list[Run]  # what else ran in the turn is added until it ends
    agent: str = ""
    keep: int = 500

    def __call__(self, tx: Transaction) -> None:
        """Write one episode that tells of all of them."""
        retell_turn(tx, self.session, self.runs, agent=self.agent, keep=self.keep)


class CountOutcome(msgspec.Struct, frozen=True, tag="outcome"):
    """How a procedure went that a session's newest turn followed."""

    procedure: str
    success: bool
    session: str = ""

    def __call__(self, tx: Transaction) -> None:
        """Count it, of a private turn for its own private procedures alone; one that was forgotten meanwhile is left alone."""
        answer = turns.answer_of(tx, self.session)
        is_private = answer is not None and answer[0] == "private"
        record_outcome(tx, self.procedure, success=self.success, private=is_private)


class EraseBlocks(msgspec.Struct, frozen=True, tag="blocks"):
    """Erase the blocks that showed records erased in another file; pairs of scope and key."""

    pairs: tuple[tuple[str, str], ...]

    def __call__(self, tx: Transaction) -> None:
        """Erase the blocks."""
        erase_blocks(tx, self.pairs)


class KeepOutput(msgspec.Struct, frozen=True, tag="output"):
    """Keep a tool's whole answer, whose beginning is in the turn."""

    session: str
    pointer: str
    text: str
    most_bytes: int  # of all such texts together

    def __call__(self, tx: Transaction, n: int | None = None) -> None:
        """Write the text, with turn `n`; None: the newest."""
        keep_output(tx, self.session, self.pointer, self.text, most_bytes=self.most_bytes, n=n)


Companion = (
    BeginEpoch | KeepHead | KeepState | AddEpisode | RetellTurn | CountOutcome | EraseBlocks | KeepOutput
)  # fmt: skip
"""Writes that go together with a turn, and can wait with it in a file."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step in the spool."""

    id: int  # larger than that of every step before
    step: Step
    also: tuple[Companion, ...] = ()

    def encoded(self) -> bytes:
        """Return it as JSON; raise InvalidInputError where there is none for it."""
        try:
            return msgspec.json.encode(self)
        except (TypeError, ValueError, RecursionError):
            # Half of a sign, or what JSON has not: it is made plain, or refused.
            return to_json(self, what="A turn").encode()


_line = msgspec.json.Decoder(Line).decode


def line_of(text: bytes) -> Line | None:
    """Return the line that a record holds; None: it is damaged."""
    with suppress(msgspec.DecodeError):
        return _line(text)
    return None
