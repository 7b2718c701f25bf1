"""Blocks: what memory put before a model, erased together with what it showed; in turns, and in the heads of epochs.

A conversation that is taken up again without them is told anew what still holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from edgemem.store.line import as_text

if TYPE_CHECKING:
    from edgemem.store.transaction import Transaction

_ITEM = re.compile(r"\b(?:turn|episode):\d+")


def erase_blocks(tx: Transaction, keys: Collection[tuple[Any, ...]]) -> None:
    """Erase the blocks that showed facts or preferences.

    Args:
        keys: scope and key of each.
    """
    # An entry is JSON within JSON: {"fact":["global","door"],…} as a text in a list.
    pairs = [as_text(as_text(pair))[1:-1] for pair in keys]
    if pairs:
        _erase(tx, lambda shown: any(pair in shown for pair in pairs))
        for number, carried in tx.execute("select id, carried from epochs where carried is not null"):
            if any(pair in carried for pair in pairs):
                tx.execute("update epochs set carried = null where id = ?", (number,))


def erase_blocks_quoting(tx: Transaction, kind: str, ids: Collection[int]) -> None:
    """Erase the blocks that quoted messages (kind `turn`) or episodes."""
    names = {f"{kind}:{number}" for number in ids}
    if names:
        _erase(tx, lambda shown: not names.isdisjoint(_ITEM.findall(shown)))


def _erase(tx: Transaction, meant: Callable[[str], bool]) -> None:
    for session_id, n, shown in tx.execute("select session_id, n, shown from turns where shown is not null"):
        if meant(shown):
            tx.execute(
                "update turns set block = null, shown = null where session_id = ? and n = ?", (session_id, n)
            )
