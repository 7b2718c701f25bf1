"""Rendering by increment: a template that rewrites what the model has read is only asked for what is new.

A prompt is made of steps: the first question, and then each reply with the messages behind it. A step is rendered by
the template itself, within its own turn, and what stands before the reply is cut off; so what was shown stays as it was.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.records import Message

    Render = Callable[[Sequence[Message], Sequence[dict[str, Any]] | None, bool, float | None], str]

_MARK = "q7w9x3v5t1k8"
"""Put in place of a reply, to see what the template puts around one."""
_KEPT = 2048  # steps that are not rendered again
_OPENED = re.compile(r"<([\w:]+)>\s*$")
_EMPTY_THOUGHT = re.compile(r"\s*(?:<([\w:]+)>\s*)?</([\w:]+)>\s*$")


class CannotIncrementError(Exception):
    """The new part of a prompt cannot be told from the old one."""


class Increments:
    """Renders conversations step by step; the same conversation always gives the same text.

    Args:
        render: the template itself: messages, tools, whether a reply is to follow, the date.
        with_system: whether a step is rendered with the instructions before it: not where they would be repeated.
        with_tools: the same for the tools.
    """

    def __init__(self, render: Render, *, with_system: bool = True, with_tools: bool = True) -> None:
        self._render = render
        self.with_system = with_system
        self.with_tools = with_tools
        self._known: OrderedDict[str, str] = OrderedDict()

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
        generates: bool,
        now: float | None,
    ) -> str:
        """Return the prompt.

        Raises:
            CannotIncrementError: the template leaves no place to cut at.
            TemplateError: it refuses the messages.
        """
        starts = _starts(messages)
        head = messages[: starts[0]] if starts else messages
        out = [self._render(head, tools, generates or bool(starts), now)]
        system = [message for message in head if message.get("role") == "system"] if self.with_system else []
        offered = tools if self.with_tools else None
        frame = repr((system, offered, now))
        turn = 0
        for start, end in itertools.pairwise([*starts, len(messages)]):
            turn = max(turn, _turn_before(messages, start))
            opens = generates or end < len(messages)
            before, step = messages[turn:start], messages[start:end]
            key = repr((before, step, opens)) + frame
            tail = self._known.get(key)
            if tail is None:
                tail = self._tail([*system, *before], step, offered, opens, now)
                self._known[key] = tail
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            out.append(tail)
        return "".join(out)

    def _tail(
        self,
        before: list[Message],
        step: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
        generates: bool,
        now: float | None,
    ) -> str:
        """Return what a step adds behind the prompt that its reply answered."""
        asked = self._render(before, tools, True, now)
        whole = self._render([*before, *step], tools, generates, now)
        content = str(step[0].get("content") or "")
        if whole.startswith(asked) and whole[len(asked) :].lstrip().startswith(as_generated(asked, content)):
            return whole[len(asked) :]
        content = without_opening(asked, content)
        plain = self._render(before, tools, False, now)
        opening = asked[len(plain) :] if asked.startswith(plain) else ""
        if step[0].get("tool_calls") and not content.strip():
            if not whole.startswith(plain) or not opening:
                raise CannotIncrementError
            shared = _shared(opening, whole[len(plain) :])
            behind = whole[len(plain) + shared :]
            closed = behind.lstrip().startswith("</")  # some templates close it themselves
            return ("" if closed else _closing(opening[shared:], "")) + behind
        # The reply stays as it was generated, whatever the template would leave of it.
        marked = self._render([*before, {**step[0], "content": _MARK}, *step[1:]], tools, generates, now)
        if marked.count(_MARK) != 1:
            raise CannotIncrementError
        head, _, behind = marked.partition(_MARK)
        own = head[len(plain) :] if head.startswith(plain) else ""
        between = own[len(opening) :] if opening and own.startswith(opening) else ""
        # A reply needs the header of its format, but no empty thought that the model did not generate.
        if between.strip() and not _OPENED.search(opening) and not _EMPTY_THOUGHT.match(between):
            return between + content + behind
        return _closing(opening, content) + content + behind


def _starts(messages: Sequence[Message]) -> list[int]:
    """Return where each reply begins that answers something."""
    asked = next((n for n, message in enumerate(messages) if message.get("role") == "user"), len(messages))
    return [
        n
        for n in range(asked + 1, len(messages))
        if messages[n].get("role") == "assistant" and messages[n - 1].get("role") != "assistant"
    ]


def _turn_before(messages: Sequence[Message], start: int) -> int:
    """Return where the turn begins in which the reply at `start` stands: at its first user message."""
    n = start - 1
    while n > 0 and messages[n].get("role") != "user":
        n -= 1
    while n > 0 and messages[n - 1].get("role") == "user":
        n -= 1
    return n


def _shared(one: str, other: str) -> int:
    """Return how much two texts begin with alike, up to the end of a marker or a line."""
    n = 0
    while n < min(len(one), len(other)) and one[n] == other[n]:
        n += 1
    while 0 < n < len(one) and one[n - 1] not in ">]\n":
        n -= 1
    return n


def without_opening(asked: str, content: str) -> str:
    """Return a reply without the tag that the prompt has already opened a thought with."""
    opened = _OPENED.search(asked)
    return content.lstrip().removeprefix(opened[0].rstrip()).lstrip("\n") if opened else content


def as_generated(asked: str, content: str) -> str:
    """Return what a model must have generated behind a prompt to have said this; empty where that cannot be known.

    Where the prompt opens a thought, a reply without the end of it has lost its thinking.
    """
    return "" if _closing(asked, content) else without_opening(asked, content).strip()


def _closing(opening: str, content: str) -> str:
    """Return what closes a thought that the prompt opened and that is not in the reply."""
    opened = _OPENED.search(opening)
    if opened is None or f"</{opened[1]}>" in content:
        return ""
    # A line feed behind another one would make one token of two, and change what was read.
    return ("" if opening.endswith("\n") else "\n") + f"</{opened[1]}>\n\n"
