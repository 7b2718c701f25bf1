"""The head of an epoch: what stands for the turns before it, a summary and the values that memory told in them.

A value that was asked for is likely to be asked for again. What memory told in the turns that leave the prompt goes on
standing in it, so that no later turn has to be told it anew, each time with a fence of its own; and since it stands in the
head, it is read with the epoch's prompt, ahead of speech where that is read ahead. Only facts that everybody of the
household may know are carried, with the values that hold when the epoch is written, in the summary's share of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.block.delta import line_of_value
from edgemem.context.block.render import About, BlockLine
from edgemem.context.size import estimate
from edgemem.fence import fence
from edgemem.records import Held

if TYPE_CHECKING:
    from edgemem.records import Epoch


SUMMARY_HEADER = "Earlier in this conversation:"

CARRIED_SHARE = 0.5
"""Share of the summary's tokens that values may have: a summary of less says too little of what was said."""

Current = Callable[[Collection[About]], Mapping[About, Held]]
"""Returns for facts what holds now, as far as everybody of the household may know it."""


def head_of(epoch: Epoch) -> str:
    """Return the block that stands before an epoch's first utterance; empty if nothing came before it."""
    summary = [SUMMARY_HEADER, *epoch.summary.splitlines()] if epoch.summary.strip() else []
    return fence([*(item.line for item in carried_by(epoch)), *summary])


def carried_by(epoch: Epoch) -> tuple[BlockLine, ...]:
    """Return what of memory stands in an epoch's head."""
    items = []
    for text in epoch.carried:
        # What cannot be read is from an export that somebody wrote by hand; a talk goes on without it.
        with suppress(msgspec.MsgspecError):
            items.append(msgspec.json.decode(text, type=BlockLine))
    return tuple(filter(_is_carried, items))


def _is_carried(item: BlockLine) -> bool:
    return item.fact is not None and bool(item.value) and item.level != "private" and not item.passing


def carrying(epoch: Epoch, items: Iterable[BlockLine]) -> Epoch:
    """Return an epoch with other values in its head."""
    carried = tuple(msgspec.json.encode(item).decode() for item in items)
    return msgspec.structs.replace(epoch, carried=carried)


def to_carry(shown: Iterable[BlockLine], stays: Collection[About]) -> list[BlockLine]:
    """Return what of the values told in turns that leave the prompt may be carried, the newest first.

    Args:
        told: what was shown, oldest first.
        stays: what is told in the turns that stay.
    """
    newest: dict[About, BlockLine] = {}
    for item in shown:
        if item.about is not None:
            newest.pop(item.about, None)
            newest[item.about] = item
    return [item for about, item in reversed(newest.items()) if _is_carried(item) and about not in stays]


def up_to_date(items: Iterable[BlockLine], current: Current) -> list[BlockLine]:
    """Return lines of facts with the values that hold now; a fact that is gone or private by now is left out."""
    shown = {item.about: item for item in items if item.about is not None}
    now = current(shown.keys())
    out = []
    for about, item in shown.items():
        held = now.get(about)
        if held is not None and held.readable and held.value and held.level != "private":
            out.append(line_of_value(item, about, held))
    return out


def still_holding(epoch: Epoch, current: Current) -> Epoch:
    """Return an epoch without the carried values that are gone or private by now."""
    items = carried_by(epoch)
    if not items:
        return epoch
    left = {item.about for item in up_to_date(items, current)}
    kept = [item for item in items if item.about in left]
    return epoch if len(kept) == len(items) else carrying(epoch, kept)


def fitting(items: Iterable[BlockLine], *, tokens: float) -> list[BlockLine]:
    """Return the first of them that take about so many tokens together, in the order in which they were told.

    A line that is too long is skipped; a shorter one behind it may still fit.
    """
    out: list[BlockLine] = []
    for item in items:
        size = estimate(item.line) + 1
        if size <= tokens:
            tokens -= size
            out.append(item)
    return out[::-1]
