"""Revisions: what a change before the end of a conversation replaces, and what passes on to the new version."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from edgemem.records import Message, StoredMessage
from edgemem.scopes import name_key
from edgemem.store import messages
from edgemem.store.db.transaction import Transaction
from edgemem.store.rights import LEVELS

_COLUMNS = "level, owner, block, shown, speaker, speaker_confidence, asr_confidence, device, room, event_time"

_Inherited = tuple[Any, ...]
_PRIVATE = LEVELS.index("private")


class Revision:
    """Drops the end of a conversation, and hands its turns' levels and speakers on to what replaces it."""

    def __init__(self, level: int) -> None:
        """Make one that replaces nothing.

        Args:
            level: of turns that are new.
        """
        self._turns: dict[int, _Inherited] = {}
        self._turn_by_text: dict[tuple[str, str | None], int] = {}
        self._new: _Inherited = (level, *[None] * 9)

    def drop(
        self,
        tx: Transaction,
        session_id: int,
        stored: Sequence[tuple[int, int, Message]],
        kept: tuple[int, int] | None,
        blocks: Collection[str],
    ) -> None:
        """Mark stored messages (id, turn, message) as dropped; `kept` is the id and turn of the one before them."""
        ids = [number for number, _, _ in stored]
        tx.executemany(
            "update messages set dropped = ? where id = ?", [(tx.recorded, number) for number in ids]
        )
        messages.enqueue(tx, ids)
        for n, *inherited in tx.execute(
            f"select n, {_COLUMNS} from turns where session_id = ? and n >= ?",  # noqa: S608 - our own constants
            (session_id, stored[0][1]),
        ):
            self._turns[n] = tuple(inherited)
            # What stands for private turns, such as a summary, is private too.
            self._new = (*_closing(self._new, self._turns[n]), *self._new[2:])
        for _, turn, message in stored:
            bare, _ = split_block(messages.stored_message(message), blocks)
            self._turn_by_text.setdefault((bare.role, bare.content), turn)
        tx.execute("delete from turns where session_id = ? and n > ?", (session_id, kept[1] if kept else -1))
        if kept:
            tx.execute(
                "update turns set last_message = ? where session_id = ? and n = ?",
                (kept[0], session_id, kept[1]),
            )

    def insert_turn(
        self,
        tx: Transaction,
        session_id: int,
        n: int,
        state: int,
        stored: Sequence[StoredMessage],
        ids: Sequence[int],
        block: str | None,
    ) -> None:
        """Write the row of a turn; one that was said before keeps its level, owner, block and speaker."""
        keys = [(message.role, message.content) for message in stored]
        old = next((self._turn_by_text[key] for key in keys if key in self._turn_by_text), None)
        level, owner, old_block, *rest = self._new if old is None else self._turns[old]
        if keys[0] not in self._turn_by_text:  # a summary before what was kept
            level, owner = _closing((level, owner), self._new)
        tx.execute(
            "insert into turns (session_id, n, first_message, last_message, state, recorded,"  # noqa: S608 - our own
            f" {_COLUMNS}) values ({', '.join('?' * 16)})",
            (session_id, n, ids[0], ids[-1], state, tx.recorded, level, owner, block or old_block, *rest),
        )


def _closing(turn: _Inherited, other: _Inherited) -> _Inherited:
    """Return level and owner of what two turns say; what two people keep to themselves is nobody's."""
    if turn[0] == other[0] == _PRIVATE and name_key(turn[1] or "") != name_key(other[1] or ""):
        return _PRIVATE, None
    return (turn if turn[0] >= other[0] else other)[:2]


def split_block(message: StoredMessage, blocks: Collection[str]) -> tuple[StoredMessage, str | None]:
    """Take a block that we issued off an utterance, byte for byte; other text that looks like one stays."""
    content = message.content or ""
    block = max((block for block in blocks if content.startswith(block)), key=len, default="")
    if not block or message.role != "user":
        return message, None
    return msgspec.structs.replace(message, content=content[len(block) :]), block
