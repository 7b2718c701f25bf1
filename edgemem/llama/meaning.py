"""What a reply means: what of it is said aloud and which tools it calls, however it is spelled.

The ids that a model generated stay as generated. The history keeps what they mean, and a template prints that in its own
spelling; so whether a prompt still says what was generated is asked of the meaning, not of the letters.
"""

from __future__ import annotations

from typing import NamedTuple

from edgemem.llama.calls import Call, read_bare, read_calls
from edgemem.llama.markup import CALLS, THOUGHTS, find_hidden


class Meaning(NamedTuple):
    """What of a reply becomes history."""

    text: str
    """What is said; a call that cannot be read stands in it as it was written."""
    calls: tuple[Call, ...] = ()


def meaning_of(reply: str, names: frozenset[str] | None = None) -> Meaning:
    """Return what a reply means.

    Args:
        names: the tools that were offered: a reply that is nothing but JSON calls one of them, or is speech; None: any.
    """
    said: list[str] = []
    calls: list[Call] = []
    at, thought, mute = 0, False, False
    while (hidden := find_hidden(reply, at)) is not None:
        said.append("" if mute else reply[at : hidden.begin])
        at = hidden.end
        if hidden.opens in THOUGHTS:
            thought = True
            continue
        inner = hidden.inner(reply)
        found, end = read_calls(inner)
        if found and (not hidden.closed or not inner[end:].strip()):
            calls += found
            if not hidden.closed:  # another call may follow it; what else does is not spoken
                at, mute = hidden.begin + len(hidden.opens) + end, True
        else:
            said.append(reply[hidden.begin : hidden.end])
    said.append("" if mute else reply[at:])
    text = "".join(said)
    if not calls and names != frozenset():
        bare = read_bare(text)
        if bare and (names is None or all(call.name in names for call in bare)):
            return Meaning("", tuple(bare))
    if thought:
        text = text.lstrip()
    return Meaning(text.strip() if calls else text, tuple(calls))


def behind(reply: str, shown: str, *, opened: str = "") -> str | None:
    """Return what stands behind `reply` in a prompt that goes on with `shown`; None if that means something else.

    Loops and templates trim replies: white space around one makes no difference.

    Args:
        reply: as generated.
        shown: what the prompt has in its place, and everything behind that.
        opened: the marker with which the prompt before both opened a thought.
    """
    literal = _literally_behind(reply, shown)
    if literal is not None:
        return literal
    meant = meaning_of(opened + reply)
    text = meant.text.strip()
    if not text and not meant.calls:
        return None
    rest = _behind_thought(opened + shown)
    if rest is None or not rest.startswith(text):
        return None
    rest = rest[len(text) :]
    calls = list(meant.calls)
    while calls:
        found, rest = _next_calls(rest.lstrip())
        expected, calls = calls[: len(found)], calls[len(found) :]
        if not found or len(found) != len(expected):
            return None
        if not all(map(Call.same, found, expected)):
            return None
    return rest


def _literally_behind(reply: str, shown: str) -> str | None:
    shown, reply = shown.lstrip(), reply.lstrip()
    if shown.startswith(reply):
        return shown[len(reply) :]
    reply = reply.rstrip()
    return shown[len(reply) :].lstrip() if shown.startswith(reply) else None


def _behind_thought(shown: str) -> str | None:
    """Return a message without the empty thought that a template put before it; None where the thought is not empty."""
    shown = shown.lstrip()
    hidden = find_hidden(shown)
    if hidden is None or hidden.begin or hidden.opens not in THOUGHTS:
        return shown
    empty = hidden.closed and not hidden.inner(shown).strip()
    return shown[hidden.end :].lstrip() if empty else None


def _next_calls(shown: str) -> tuple[list[Call], str]:
    """Return the calls that a template printed at the beginning of a text, and what stands behind them."""
    hidden = find_hidden(shown)
    if hidden is None or hidden.begin or hidden.opens not in CALLS:
        found, end = read_calls(shown)
        return found, shown[end:]
    inner = hidden.inner(shown)
    found, end = read_calls(inner)
    if hidden.closed:
        return ([], "") if inner[end:].strip() else (found, shown[hidden.end :])
    return found, inner[end:]
