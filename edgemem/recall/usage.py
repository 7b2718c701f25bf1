"""Usage: what memory put before a model of late, as far as the truth remembers.

Each turn notes which items its block showed (`turns.shown`); nothing else counts how often something is of use. An
item that was shown will be asked for again sooner than one that never was, so its vector is made first.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from edgemem.recall.sources import KINDS

if TYPE_CHECKING:
    from edgemem.store.database import Database

_SESSIONS = 20
_TURNS = 50  # of each: the key of turns serves only the turns of one session in order
_NUMBERS = {name: number for number, name in KINDS.items()}
# An entry is the name of an item, or JSON that holds it, as a text in a list.
_ITEM = re.compile(rf"\b({'|'.join(_NUMBERS)}):(-?\d{{1,19}})\b")


def most_shown(truth: Database, limit: int) -> list[tuple[int, int]]:
    """Return kind and ref of the items that were shown in most turns of late, at most `limit`."""
    counts: Counter[tuple[int, int]] = Counter()
    for (session,) in truth.query("select id from sessions order by recorded desc limit ?", (_SESSIONS,)):
        rows = truth.query(
            "select shown from turns where session_id = ? and shown is not null order by n desc limit ?",
            (session, _TURNS),
        )
        for (shown,) in rows:
            counts.update({(_NUMBERS[name], int(ref)) for name, ref in _ITEM.findall(shown)})
    return [item for item, _ in counts.most_common(limit)]
