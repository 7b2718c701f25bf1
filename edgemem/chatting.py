"""From a chat model's stream to the loop's replies: text for the voice, tool calls for the loop.

Tool calls are read in the two forms that small models write: a JSON object between `<tool_call>` tags (Qwen, Hermes),
and a reply that is nothing but a JSON object which names one of the offered tools (Llama 3). Neither is ever spoken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.loop import Reply, ToolCall
from edgemem.records import Message

if TYPE_CHECKING:
    from edgemem.llama.protocols import ChatModel, Tokenizer

OPEN, CLOSE = "<tool_call>", "</tool_call>"
BRACE = "{"


class ChatReplies:
    """Lets the loop talk to a chat model."""

    def __init__(
        self, chat: ChatModel, *, max_tokens: int = 256, temperature: float = 0.0, seed: int = 0
    ) -> None:
        self.chat = chat
        self.tokenizer = chat.tokenizer
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.seed = seed

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        """Stream one answer."""
        pieces = self.chat.stream(
            messages,
            tools=tools or None,
            max_tokens=self.max_tokens,
            stop=stop,
            temperature=self.temperature,
            seed=self.seed,
            now=now,
        )
        names = frozenset(str(tool["function"]["name"]) for tool in tools)
        for piece in spoken(pieces, names):
            on_text(piece)
        last = self.chat.last
        content, calls = parse(last.text, names)
        return Reply(content, calls, last.ids, last.stopped == "interrupted")

    def cut(self, heard_text: str) -> None:
        """Forget what was generated beyond what was heard."""
        self.chat.cut(heard_text)


def prints_tools(tokenizer: Tokenizer, schemas: Sequence[dict[str, Any]]) -> bool:
    """Tell whether a model's chat template shows it the tools that it is offered."""
    asked: list[Message] = [{"role": "user", "content": "Hello."}]
    return tokenizer.count(asked, tools=schemas) > tokenizer.count(asked)


def spoken(pieces: Iterable[str], names: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield what is meant for the voice: everything but tool calls, held back only while one may begin.

    Args:
        names: the tools that were offered.
    """
    held = ""
    inside = False
    pieces = iter(pieces)
    for piece in pieces:
        held += piece
        if names:
            begun = held.lstrip()
            if not begun:
                continue
            if begun.startswith(BRACE):
                # Nobody speaks in braces: whether this is a call shows at its end.
                held += "".join(pieces)
                if _bare_call(held, names) is not None:
                    return
            names = frozenset()
        while held:
            mark = CLOSE if inside else OPEN
            before, found, after = held.partition(mark)
            if found:
                if before and not inside:
                    yield before
                held, inside = after, not inside
                continue
            keep = _beginning(held, mark)
            if not inside and len(held) > keep:
                yield held[: len(held) - keep]
            held = held[len(held) - keep :] if keep else ""
            break
    if held and not inside:
        yield held


def parse(text: str, names: frozenset[str] = frozenset()) -> tuple[str, tuple[ToolCall, ...]]:
    """Return what is said and the tools that are called in a reply; a malformed call counts as speech.

    Args:
        names: the tools that were offered.
    """
    bare = _bare_call(text, names)
    if bare is not None:
        return "", (bare,)
    said = ""
    calls: list[ToolCall] = []
    rest = text
    while True:
        before, found, after = rest.partition(OPEN)
        said += before
        if not found:
            return said.strip() if calls else said, tuple(calls)
        inner, closed, rest = after.partition(CLOSE)
        call = _call(inner) if closed else None
        if call is None:
            said += found + inner + closed
        else:
            calls.append(call)


def _call(text: str) -> ToolCall | None:
    try:
        raw = msgspec.json.decode(text.strip())
    except msgspec.DecodeError:
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        return None
    arguments = raw.get("arguments", raw.get("parameters"))
    return ToolCall(raw["name"], arguments if isinstance(arguments, dict) else {})


def _bare_call(text: str, names: frozenset[str]) -> ToolCall | None:
    """Return the call that a whole reply is, if it names a tool that was offered."""
    call = _call(text) if names and text.lstrip().startswith(BRACE) else None
    return call if call is not None and call.name in names else None


def _beginning(text: str, mark: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `mark`."""
    for n in range(min(len(text), len(mark) - 1), 0, -1):
        if mark.startswith(text[-n:]):
            return n
    return 0
