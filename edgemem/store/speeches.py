"""What was said in a turn before its reply, with a tool call, once somebody cut the robot off in the middle of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.store import messages
from edgemem.store.turns import LIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.transaction import Transaction


def keep_heard(tx: Transaction, session: str, n: int, heard: Sequence[str]) -> None:
    """Keep of a turn's tool calls what was heard of the words before them; the rest stays apart, as do its ids.

    Args:
        heard: of each spoken message of the turn, oldest first; that of the reply is for `amend_turn`.
    """
    rows = tx.execute(
        f"select {messages.COLUMNS} from turns t cross join messages m on {LIVE}"  # noqa: S608 - our own
        " where t.session_id = (select id from sessions where name = ?) and t.n = ?"
        " and m.role = 'assistant' order by m.id",
        (session, n),
    )
    said = [messages.message_of(row) for row in rows]
    spoken = [message for message in said if message.content is not None or "tool_calls" not in message.extra]
    for message, part in zip(reversed(spoken), reversed(heard), strict=False):
        if "tool_calls" not in message.extra or part == message.content:
            continue
        whole = (message.content or "") + (message.unheard or "")
        unheard = whole.removeprefix(part) if whole.startswith(part) else whole
        row = messages.row_of(msgspec.structs.replace(message, content=part, unheard=unheard or None))
        tx.execute(
            "update messages set content = ?, unheard = ? where id = ?",
            (row.content, row.unheard, message.id),
        )
        messages.enqueue(tx, [message.id])
