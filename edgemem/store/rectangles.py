"""Rectangles in valid time x transaction time, as pure data: how a new value cuts into what was believed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING_HEARD: tuple[None, ...] = (None,) * 6


class Rectangle(NamedTuple):
    """A stretch of valid time with what is believed of it, and all that is written again when it is split."""

    id: int
    value: str | None
    """None: there is no value."""
    valid_from: float
    valid_to: float | None
    version: int
    origin: int
    """The id of the rectangle as it was said, before anything was cut off it."""
    supersedes: int | None
    source: str
    level: int
    owner: str | None
    heard: tuple[Any, ...]
    badly: bool | None = None
    """Whether it was heard badly, as decided when it was said; None: the recogniser's confidence decides."""


def is_news(touched: Sequence[Rectangle], said: Rectangle) -> bool:
    """Tell whether anything is different in what was said from the believed rectangles that it touches."""
    what = (said.value, said.level, said.owner)
    return not touched or any((old.value, old.level, old.owner) != what for old in touched)


def cut(touched: Sequence[Rectangle], said: Rectangle) -> list[Rectangle]:
    """Return what to believe in place of `touched`: what is left of it on both sides, and what was said, last."""
    begin, end = said.valid_from, said.valid_to
    before = next((old.origin for old in touched if old.valid_from <= begin and old.value is not None), None)
    if not touched:
        # Nothing was known of this key: say so for all other times, so that a search finds that at once.
        nothing = said._replace(value=None, source="", heard=NOTHING_HEARD, badly=None)
        touched = [nothing._replace(valid_from=-math.inf, valid_to=None)]
    first, last = touched[0], touched[-1]
    left = []
    if first.valid_from < begin:
        left.append(first._replace(valid_to=begin, version=said.version))
    if end is not None and (last.valid_to is None or last.valid_to > end):
        left.append(last._replace(valid_from=end, version=said.version))
    return [*left, said._replace(supersedes=before)]
