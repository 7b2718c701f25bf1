"""How a prompt grows: whether a template leaves alone what the model has read, and what it costs where it does not."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import TemplateError
from edgemem.llama.increment import CannotIncrementError, Increments, as_generated
from edgemem.llama.probe import PROBE_TOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.increment import Render
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

    Tools = Sequence[dict[str, Any]]
    Fit = Callable[[Sequence[Message]], list[Message]]

_SYSTEM: Message = {"role": "system", "content": "Be kind and tell where the cups are."}
_TURNS = 10
_TOLD = PROBE_TOOL["function"]["description"]


class Habits(msgspec.Struct, frozen=True):
    """What a template does to what the model has read."""

    rewrites: str = ""
    """When it would rewrite that; empty if it never does."""
    increments: Increments | None = None
    """Renders without rewriting, where that can be done."""
    replies_again: bool = False
    """Whether the newest reply alone is read again even so: the template puts text of its own before it."""


class Growth(msgspec.Struct, frozen=True):
    """Whether a prompt that grows leaves what the model has already read as it is."""

    appends: bool
    reason: str = ""
    """What the template does by itself, also where it is kept from it."""
    tokens: int = 0
    """Tokens that are evaluated again each turn, as prompts are rendered; measured over ten turns."""
    own_tokens: int = 0
    """How many it would be if the template had its way."""

    def __bool__(self) -> bool:
        return self.appends


class Scene(msgspec.Struct, frozen=True):
    """A conversation to try a template with."""

    when: str
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None

    def asked(self) -> list[list[Message]]:
        """Return the conversation as it is at each point where the model is asked."""
        return [
            [_SYSTEM, *self.messages[:n]]
            for n, message in enumerate(self.messages, 1)
            if message["role"] in ("user", "tool")
        ]


def scenes() -> list[Scene]:
    """Return the conversations that templates are tried with; no two messages are alike, because templates compare them."""
    users: list[Message] = [{"role": "user", "content": f"Where is cup {n}?"} for n in "123"]
    replies: list[Message] = [{"role": "assistant", "content": f"On table {n}."} for n in "123"]
    thoughts = [_thought(reply) for reply in replies]
    called = [*_called("a1b2c3d4e", "needle"), replies[2]]
    return [
        Scene("when the conversation grows", [users[0], replies[0], users[1], replies[1], users[2]]),
        Scene("when tools are offered", [users[0], replies[0], users[1], replies[1], users[2]], [PROBE_TOOL]),
        Scene("when a tool is called", [users[0], *called, users[1], replies[1], users[2]], [PROBE_TOOL]),
        Scene("when a reply contains its thinking", [users[0], thoughts[0], users[1], thoughts[1], users[2]]),
    ]


def conversation() -> Scene:
    """Return the conversation that costs are measured on: ten turns, three with a tool, all with thinking."""
    messages: list[Message] = []
    for n in range(_TURNS):
        messages.append(
            {"role": "user", "content": f"Where did I put cup number {n}, and who had it before me?"}
        )
        if n % 3 == 1:
            messages += _called(f"a1b2c3d{n:02}", f"cup {n}")
        reply = f"Cup number {n} stands on table {n + 20}, and Alice had it before you, on Monday."
        messages.append(_thought({"role": "assistant", "content": reply}))
    return Scene("in a conversation", messages, [PROBE_TOOL])


def find_habits(fit: Fit, render: Render) -> Habits:
    """Find out whether a template rewrites what the model has read, and whether it can be kept from it.

    Args:
        fit: makes messages fit the template.
        render: renders messages that fit.
    """
    rewrites = next((scene.when for scene in scenes() if not _grows(_texts(fit, render, scene), scene)), "")
    if not rewrites:
        return Habits()
    for system, tools in ((True, True), (True, False), (False, True), (False, False)):
        tried = Increments(render, with_system=system, with_tools=tools)
        if all(_safe(fit, render, tried, scene) for scene in [*scenes(), conversation()]):
            again = not all(_grows(_texts(fit, tried.text, scene), scene) for scene in scenes())
            return Habits(rewrites, tried, again)
    return Habits(rewrites)


def grows_by_appending(tokenizer: Tokenizer) -> Growth:
    """Find out whether a longer conversation begins with the shorter one, by rendering both."""

    def show(messages: Sequence[Message], tools: Tools | None, generates: bool, now: float | None) -> str:
        return tokenizer.render(messages, tools=tools, add_generation_prompt=generates, now=now).text

    rewrites = next((scene.when for scene in scenes() if not _grows(_texts(list, show, scene), scene)), "")
    template = getattr(tokenizer, "template", None)  # an estimate has none
    told = rewrites or (template.habits.rewrites if template is not None else "")
    if not told:
        return Growth(True)
    reason = f"the chat template renders earlier messages differently {told}"
    tokens = _cost(tokenizer, lambda messages, tools: tokenizer.render(messages, tools=tools).text)
    own = _cost(tokenizer, template.own) if template is not None else tokens
    return Growth(not rewrites, reason, tokens, own)


def _texts(fit: Fit, render: Render, scene: Scene) -> list[str]:
    """Return the prompts of a scene; none from where on the template refuses it."""
    texts: list[str] = []
    with suppress(TemplateError):  # what was rendered before stays in the list
        texts.extend(render(fit(messages), scene.tools, True, None) for messages in scene.asked())
    return texts


def _grows(texts: Sequence[str], scene: Scene) -> bool:
    """Tell whether each prompt begins with the one before it and the reply to that, white space apart."""
    for (n, text), longer in zip(enumerate(texts), texts[1:], strict=False):
        reply = scene.asked()[n + 1][len(scene.asked()[n])]
        said = "" if reply.get("tool_calls") else as_generated(text, str(reply["content"]))
        if not longer.startswith(text) or not longer[len(text) :].lstrip().startswith(said):
            return False
    return True


def _safe(fit: Fit, render: Render, tried: Increments, scene: Scene) -> bool:
    """Tell whether prompts rendered by increment only grow, lose and repeat nothing, and end as the template's own."""
    own = _texts(fit, render, scene)
    asked = scene.asked()[: len(own)]
    try:
        texts = [tried.text(fit(messages), scene.tools, True, None) for messages in asked]
    except (CannotIncrementError, TemplateError):
        return False
    if not texts:
        return True
    once = [str(message["content"]) for message in asked[-1] if message["role"] in ("system", "user")]
    return (
        all(longer.startswith(shorter) for shorter, longer in itertools.pairwise(texts))
        and all(
            _behind(text, messages) == _behind(theirs, messages)
            for text, theirs, messages in zip(texts, own, asked, strict=True)
        )
        and all(texts[-1].count(text) == 1 for text in once)
        and texts[-1].count(_TOLD) == texts[0].count(_TOLD)
    )


def _behind(text: str, messages: Sequence[Message]) -> str:
    """Return what stands behind the newest message."""
    return text.rpartition(str(messages[-1]["content"]))[2]


def _cost(tokenizer: Tokenizer, show: Callable[[Sequence[Message], Tools | None], str]) -> int:
    """Return how many tokens that the model has seen the next prompt does not begin with, on average over ten turns."""
    scene = conversation()
    asked = [messages for messages in scene.asked() if messages[-1]["role"] == "user"]
    try:
        texts = [show(messages, scene.tools) for messages in asked]
    except TemplateError:
        return 0
    lost = 0
    for (n, text), longer in zip(enumerate(texts), texts[1:], strict=False):
        reply = asked[n + 1][len(asked[n])]
        seen = text
        if not reply.get("tool_calls"):
            behind = longer[len(text) :] if longer.startswith(text) else ""
            space = behind[: len(behind) - len(behind.lstrip())]
            seen += space + as_generated(text, str(reply["content"]))
        before, after = (tokenizer.encode(each, special=True) for each in (seen, longer))
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        lost += len(before) - sum(1 for _ in same)
    return round(lost / (len(texts) - 1))


def _thought(reply: Message) -> Message:
    return {**reply, "content": f"<think>\nIt was there.\n</think>\n\n{reply['content']}"}


def _called(name: str, value: str) -> list[Message]:
    call = {"id": name, "type": "function", "function": {"name": "probe", "arguments": {"key": value}}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "probe", "tool_call_id": name, "content": f"Found {value}."},
    ]
