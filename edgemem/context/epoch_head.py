"""The head of an epoch: what stands for the turns before it, a summary and the values that memory told in them.

A value that was asked for is likely to be asked for again. What memory told in the turns that leave the prompt goes on
standing in it, so that no later turn has to be told it anew, each time with a fence of its own; and since it stands in the
head, it is read with the epoch's prompt, ahead of speech where that is read ahead. Only facts that everybody of the
household may know are carried, with the values that hold when the epoch is written, in the summary's share of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.block import line_of_value
from edgemem.context.gauge import about as about_tokens
from edgemem.context.shown import About, Shown
from edgemem.fence import fence, storable

if TYPE_CHECKING:
    from edgemem.records import Epoch

SUMMARY_HEADER = "Earlier in this conversation:"

CARRIED_SHARE = 0.5
"""Share of the summary's tokens that values may have: a summary of less says too little of what was said."""

Current = Callable[[Collection[About]], Mapping[About, tuple[bool, str | None]]]
"""Returns for facts whether everybody of the household may know what holds now, and if so, the value or None."""


def head_of(epoch: Epoch) -> str:
    """Return the block that stands before an epoch's first utterance; empty if nothing came before it."""
    lines = [item.line for item in carried_by(epoch)]
    if not epoch.summary:
        return fence(lines)
    if not lines:
        return fence(epoch.summary.splitlines(), header=SUMMARY_HEADER)
    return fence([*lines, SUMMARY_HEADER, *epoch.summary.splitlines()])


def carried_by(epoch: Epoch) -> tuple[Shown, ...]:
    """Return what of memory stands in an epoch's head."""
    return tuple(msgspec.json.decode(item, type=Shown) for item in epoch.carried)


def carrying(epoch: Epoch, items: Iterable[Shown]) -> Epoch:
    """Return an epoch with other values in its head."""
    carried = tuple(msgspec.json.encode(item).decode() for item in items)
    return msgspec.structs.replace(epoch, carried=carried)


def to_carry(told: Iterable[Shown], stays: Collection[About]) -> list[Shown]:
    """Return what of the values told in turns that leave the prompt may be carried, the newest first.

    Args:
        told: what was shown, oldest first.
        stays: what is told in the turns that stay.
    """
    newest: dict[About, Shown] = {}
    for item in told:
        if item.about is not None:
            newest.pop(item.about, None)
            newest[item.about] = item
    return [
        item
        for about, item in reversed(newest.items())
        if item.fact is not None
        and item.value
        and item.level != "private"
        and not item.passing
        and about not in stays
    ]


def up_to_date(items: Iterable[Shown], current: Current) -> list[Shown]:
    """Return them with the values that hold now, each as a line of its own; what is gone or closed by now is left out."""
    shown = {item.about: item for item in items if item.about is not None}
    now = current(shown.keys())
    out = []
    for about, item in shown.items():
        readable, value = now.get(about, (False, None))
        if readable and value:
            out.append(line_of_value(item, about, storable(value)))
    return out


def fitting(items: Iterable[Shown], *, tokens: float) -> list[Shown]:
    """Return the first of them that take about so many tokens together, in the order in which they were told."""
    out: list[Shown] = []
    for item in items:
        tokens -= about_tokens(item.line) + 1
        if tokens < 0:
            break
        out.append(item)
    return out[::-1]
