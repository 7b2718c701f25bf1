"""Past times: at which times something held that a question asks for.

That is the time that it names, where that is over; but "before March" asks for what held until then, "since March" for all
that has held from then on, and "from April to July" for what held in between. Only facts are chosen by them: what was said
on a day is found by the day itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgemem.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.recall.dates import Span
    from edgemem.recall.question import Asked

    Time = tuple[float, float]

_SURE = 0.5  # a time that is less sure than this is one of several readings
_DAY_S = 86400.0
_THE = r"\s+(?:(?:the|dem|der|den|el|la)\s+)?$"
_BEFORE = Pattern(
    rf"\b(?:before|until|till|up to|prior to|bis|bis zu[mr]?|vor|antes de|antes del|hasta|trước){_THE}",
    flags=re.IGNORECASE,
)
_SINCE = Pattern(rf"\b(?:since|seit|desde|kể từ){_THE}", flags=re.IGNORECASE)
_AFTER = Pattern(rf"\b(?:after|nach|después de|después del|tras|sau){_THE}", flags=re.IGNORECASE)
_BEFORE_IT, _SINCE_IT, _AFTER_IT = (
    re.compile(rf"\s*(?:{each})") for each in ("之前|以前|前", "以来|起", "之后|以后|后")
)
_OPENS = Pattern(
    rf"\b(?:from|between|von|vom|zwischen|desde|entre|từ|giữa){_THE}|[从在]$", flags=re.IGNORECASE
)
_GOES_ON = Pattern(
    r"\s*(?:(?:to|until|till|through|and|bis|bis zum|und|hasta|a|y|đến|và)\s+(?:(?:the|dem|el|la)\s+)?|[到至和])",
    flags=re.IGNORECASE,
)


def past_times(asked: Asked, now: float) -> list[Time]:
    """Return begin and end of the times at which held what a question asks for, as far as they are over.

    Args:
        now: seconds since the epoch.
    """
    ends = _likeliest(asked.ends)
    # Both ends of a range say together which ones are meant: between January and May 2025.
    ranges = [each for each in _likeliest(asked.spans) if sum(end.said in each.said for end in ends) > 1]
    found: list[Time] = [(each.begin, each.end) for each in ranges]
    opened: Time | None = None
    at = 0
    for span in ends:
        if any(span.said in each.said for each in ranges):
            continue
        begin = asked.text.find(span.said, at)
        if begin < 0:  # it stands there in other letters
            found.append((span.begin, span.end))
            continue
        between, at = asked.text[at:begin], begin + len(span.said)
        if opened is not None and _GOES_ON.fullmatch(between):
            found[-1] = opened[0], span.end
        else:
            found.append(_meant(span, asked.text[:begin], asked.text[at:], now))
        opened = found[-1] if _OPENS.search(asked.text[:begin]) else None
    if asked.in_past:  # "which codes did it have this year?"
        found = [(begin, min(end, now)) for begin, end in found]
    return sorted((begin, end) for begin, end in found if begin < end <= now)


def _likeliest(spans: Iterable[Span]) -> list[Span]:
    """Return the likeliest reading of each time that a question speaks of, where it is sure enough."""
    found: dict[str, Span] = {}
    for span in spans:
        found.setdefault(span.said, span)
    return [span for span in found.values() if span.sure >= _SURE]


def _meant(span: Span, before: str, behind: str, now: float) -> Time:
    """Return the time that is meant by one that a question names, by the words before it and, in Chinese, behind it."""
    if _BEFORE.search(before) or _BEFORE_IT.match(behind):
        return span.begin - _DAY_S, span.begin
    if _SINCE.search(before) or _SINCE_IT.match(behind):
        return span.begin, now
    if _AFTER.search(before) or _AFTER_IT.match(behind):
        return span.end, now
    return span.begin, span.end
