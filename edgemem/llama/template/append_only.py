"""Detects templates that rewrite history, and renders only the new part with them.

A prompt is the first question and then steps, each a reply with the messages behind it. The template renders a step within its
own turn, and the text before the reply is cut off, so no text that the model has read is changed.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import TemplateError
from edgemem.llama.protocols import common_prefix
from edgemem.llama.template.limits import PROBE_TOOL

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

    Render = Callable[[Sequence[Message], Sequence[dict[str, Any]] | None, bool, float | None], str]
    Tools = Sequence[dict[str, Any]]
    FitMessages = Callable[[Sequence[Message]], list[Message]]

_MARK = "q7w9x3v5t1k8"  # in place of a reply, to see the template's text around one
_KEPT = 2048  # steps that are not rendered again
_NO_CUT = "the new part of a prompt cannot be told from the old one"
_OPENED = re.compile(r"<([\w:]+)>\s*$")
_EMPTY_THOUGHT = re.compile(r"\s*(?:<([\w:]+)>\s*)?</([\w:]+)>\s*$")
_SYSTEM: Message = {"role": "system", "content": "Be kind and tell where the cups are."}
_DESCRIPTION = PROBE_TOOL["function"]["description"]


class Increments:
    """Renders conversations step by step; the same conversation always gives the same text.

    A step is rendered behind the instructions and tools, its `frame`, unless the template would repeat these.
    """

    def __init__(self, render: Render, *, frame: bool = True) -> None:
        self._render = render
        self._has_frame = frame
        self._known: OrderedDict[str, str] = OrderedDict()

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
        generates: bool,
        now: float | None,
    ) -> str:
        """Return the prompt; raise TemplateError where the template refuses it, or leaves no place to cut at."""
        starts = _starts(messages)
        head = messages[: starts[0]] if starts else messages
        out = [self._render(head, tools, generates or bool(starts), now)]
        system = [message for message in head if self._has_frame and message.get("role") == "system"]
        offered = tools if self._has_frame else None
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
                raise TemplateError(_NO_CUT)
            shared = _shared(opening, whole[len(plain) :])
            behind = whole[len(plain) + shared :]
            closed = behind.lstrip().startswith("</")  # some templates close it themselves
            return ("" if closed else _closing(opening[shared:], "")) + behind
        # The reply is kept as generated, whatever the template would leave of it.
        marked = self._render([*before, {**step[0], "content": _MARK}, *step[1:]], tools, generates, now)
        if marked.count(_MARK) != 1:
            raise TemplateError(_NO_CUT)
        head, _, behind = marked.partition(_MARK)
        own = head[len(plain) :] if head.startswith(plain) else ""
        between = own[len(opening) :] if opening and own.startswith(opening) else ""
        # A reply needs the header of its format, but no empty thought that the model did not generate.
        if between.strip() and not _OPENED.search(opening) and not _EMPTY_THOUGHT.match(between):
            return between + content + behind
        return _closing(opening, content) + content + behind


def _starts(messages: Sequence[Message]) -> list[int]:
    asked = next((n for n, message in enumerate(messages) if message.get("role") == "user"), len(messages))
    roles = [message.get("role") for message in messages]
    return [n for n in range(asked + 1, len(roles)) if roles[n] == "assistant" != roles[n - 1]]


def _turn_before(messages: Sequence[Message], start: int) -> int:
    """Return where the turn of the reply at `start` begins: at its first user message."""
    n = start - 1
    while n > 0 and messages[n].get("role") != "user":
        n -= 1
    while n > 0 and messages[n - 1].get("role") == "user":
        n -= 1
    return n


def _shared(text: str, other: str) -> int:
    """Return the length of the common beginning, up to the end of a marker or a line."""
    n = common_prefix(text, other)
    while 0 < n < len(text) and text[n - 1] not in ">]\n":
        n -= 1
    return n


def without_opening(asked: str, content: str) -> str:
    """Return a reply without the tag of a thought that the prompt has opened."""
    opened = _OPENED.search(asked)
    return content.lstrip().removeprefix(opened[0].rstrip()).lstrip("\n") if opened else content


def as_generated(asked: str, content: str) -> str:
    """Return the text that a model must have generated to say this; empty: the thought that the prompt opened has no end."""
    return "" if _closing(asked, content) else without_opening(asked, content).strip()


def _closing(opening: str, content: str) -> str:
    opened = _OPENED.search(opening)
    if opened is None or f"</{opened[1]}>" in content:
        return ""
    # A line feed behind another one would make one token of two, and change history.
    return ("" if opening.endswith("\n") else "\n") + f"</{opened[1]}>\n\n"


class AppendOnly(msgspec.Struct, frozen=True):
    """A template's way with text that the model has read."""

    rewrites: str = ""
    """When it would; empty: never."""
    increments: Increments | None = None
    """Renders without rewriting, where that can be done."""


class Scene:
    """A conversation to try a template with."""

    def __init__(self, when: str, messages: list[Message], *, tools: bool = False) -> None:
        self.when = when
        self.tools = [PROBE_TOOL] if tools else None
        self.asked = [
            [_SYSTEM, *messages[:n]]
            for n, message in enumerate(messages, 1)
            if message["role"] in ("user", "tool")
        ]
        """The conversation at each point where the model is asked."""


def scenes() -> list[Scene]:
    """Return conversations to try templates with; no two messages are alike, because templates compare them."""
    users: list[Message] = [{"role": "user", "content": f"Where is cup {n}?"} for n in "1234"]
    replies: list[Message] = [{"role": "assistant", "content": f"On table {n}."} for n in "1234"]
    thoughts = [
        {**reply, "content": f"<think>\nIt was there.\n</think>\n\n{reply['content']}"} for reply in replies
    ]
    plain = [users[0], replies[0], users[1], replies[1], users[2]]
    first, second = _called("a1b2c3d4e", "needle"), _called("a1b2c3d4f", "thread")
    return [
        Scene("when the conversation grows", plain),
        Scene("when tools are offered", plain, tools=True),
        Scene(
            "when a tool is called",
            [users[0], *first, replies[2], users[1], replies[1], users[2]],
            tools=True,
        ),
        Scene("when a reply contains its thinking", [users[0], thoughts[0], users[1], thoughts[1], users[2]]),
        Scene(
            "when a tool is called between thoughts",
            [users[0], thoughts[0], users[1], *first, thoughts[1], users[2], *second, thoughts[2], users[3]],
            tools=True,
        ),
    ]


def check_append_only(fit: FitMessages, render: Render) -> AppendOnly:
    """Try whether a template rewrites history, and whether increments avoid it; `fit` makes messages fit `render`."""
    rewrites = _rewrites(fit, render)
    for frame in (True, False) if rewrites else ():
        tried = Increments(render, frame=frame)
        if all(_safe(fit, render, tried, scene) for scene in scenes()):
            return AppendOnly(rewrites, tried)
    return AppendOnly(rewrites)


def appends_only(tokenizer: Tokenizer) -> tuple[bool, str]:
    """Tell whether longer conversations begin with shorter ones, and when the template by itself would rewrite them."""

    def show(messages: Sequence[Message], tools: Tools | None, generates: bool, now: float | None) -> str:
        return tokenizer.render(messages, tools=tools, add_generation_prompt=generates, now=now).text

    rewrites = _rewrites(list, show)
    template = getattr(tokenizer, "template", None)  # an estimate has none
    return not rewrites, rewrites or (template.append_only.rewrites if template is not None else "")


def _rewrites(fit: FitMessages, render: Render) -> str:
    """Return when a prompt does not begin with the one before and its reply, white space apart."""
    for scene in scenes():
        texts = _texts(fit, render, scene)
        for text, longer, messages, grown in zip(
            texts, texts[1:], scene.asked, scene.asked[1:], strict=False
        ):
            reply = grown[len(messages)]
            generated = "" if reply.get("tool_calls") else as_generated(text, str(reply["content"]))
            if not longer.startswith(text) or not longer[len(text) :].lstrip().startswith(generated):
                return scene.when
    return ""


def _texts(fit: FitMessages, render: Render, scene: Scene) -> list[str]:
    texts: list[str] = []
    with suppress(TemplateError):  # earlier prompts stay in the list
        texts.extend(render(fit(messages), scene.tools, True, None) for messages in scene.asked)
    return texts


def _safe(fit: FitMessages, render: Render, tried: Increments, scene: Scene) -> bool:
    """Tell whether prompts by increment only grow, lose and repeat nothing, and end as the template's own."""
    own = _texts(fit, render, scene)
    asked = scene.asked[: len(own)]
    try:
        texts = [tried.text(fit(messages), scene.tools, True, None) for messages in asked]
    except TemplateError:
        return False
    if not texts:
        return True
    once = [str(message["content"]) for message in asked[-1] if message["role"] in ("system", "user")]
    return (
        all(longer.startswith(shorter) for shorter, longer in itertools.pairwise(texts))
        and all(
            text.rpartition(newest)[2] == theirs.rpartition(newest)[2]
            for text, theirs, newest in zip(texts, own, (str(m[-1]["content"]) for m in asked), strict=True)
        )
        and all(texts[-1].count(text) == 1 for text in once)
        and texts[-1].count(_DESCRIPTION) == texts[0].count(_DESCRIPTION)
    )


def _called(name: str, value: str) -> list[Message]:
    call = {"id": name, "type": "function", "function": {"name": "probe", "arguments": {"key": value}}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "probe", "tool_call_id": name, "content": f"Found {value}."},
    ]
