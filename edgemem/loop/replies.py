"""Replies of a chat model, read from its stream: text for the voice, tool calls for the loop.

A thought is neither spoken nor history. `edgemem.llama.replies` has the markers of thoughts and calls; these are calls:

- JSON between `<tool_call>` tags (Qwen 2.5 and 3, Hermes, Granite 4) or `<tool_calls>`, `<TOOLCALL>` (Nemotron) and
  `<|START_ACTION|>` (Command R7B); behind `<|tool_call|>` (Phi 4 mini, Granite 3), `<|function_call|>` or `functools`;
- arguments in tags of their own: `<function=…>` (Qwen 3.5), `<function name="…">` (MiniCPM 5), `<arg_key>` (GLM);
- `[TOOL_CALLS][{…}]` and `[TOOL_CALLS]name[ARGS]{…}` (Mistral);
- `<|tool_call_start|>[name(key="value")]<|tool_call_end|>` (LFM 2) and `<|tool_call>call:name{…}<tool_call|>` (Gemma 4);
- a reply that is nothing but JSON which names offered tools, also behind `<|python_tag|>` (Llama 3) or in a block of code.

What begins with such a marker and cannot be read is not spoken either, nor is a call of DeepSeek, Kimi or gpt-oss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgemem.llama.replies import THOUGHTS, begun, find_hidden, read_bare, read_reply
from edgemem.records import Message, Reply, ToolCall

if TYPE_CHECKING:
    from edgemem.llama.protocols import ChatModel, Tokenizer

_BARE = re.compile(r"\{|\[\s*\{|```")  # nobody speaks like this: its end tells whether it is a call
_PERHAPS_BARE = re.compile(r"(?:\[\s*|`{1,2})?")
_NAMED = re.compile(r'\W*(?:json\s*\W*)?(?:type"\s*:\s*"function"\s*,\s*")?name"\s*:\s*"([^"]*)("?)')


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
        voice = Voice(names)
        speech = ""
        for piece in pieces:
            if text := voice.feed(piece):
                speech += text
                on_text(text)
        last = self.chat.last
        if last.stopped == "interrupted":
            if voice.holds:
                # What was held back is no history, so the next prompt has nothing like it.
                self.chat.cut(speech)
            return Reply(speech, (), () if voice.thought else last.ids, interrupted=True)
        if text := voice.end():
            speech += text
            on_text(text)
        calls = read_reply(last.text, names).calls
        return Reply(
            speech.strip() if calls else speech,
            tuple(ToolCall(call.name, typed(call.arguments, call.name, tools)) for call in calls),
            () if voice.thought else last.ids,
        )

    def cut(self, heard_text: str) -> None:
        """Forget the generated text behind the heard part."""
        self.chat.cut(heard_text)


def prints_tools(tokenizer: Tokenizer, schemas: Sequence[dict[str, Any]]) -> bool:
    """Tell whether a model's chat template shows it the tools that it is offered."""
    messages: list[Message] = [{"role": "user", "content": "Hello."}]
    return tokenizer.count(messages, tools=schemas) > tokenizer.count(messages)


class Voice:
    """Lets speech through, piece by piece: no thoughts, no calls, no half of a marker; `names` are the offered tools."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self._names = names
        self._held = ""
        self._opens = ""
        self._spoke = False
        self._hid = False
        self.thought = False
        """Whether a thought was left out so far."""

    @property
    def holds(self) -> bool:
        """Whether generated text was neither spoken nor left out for good."""
        return bool(self._held)

    def feed(self, piece: str) -> str:
        """Take generated text, and return what of it, and of the held back, is spoken now."""
        self._held += piece
        out = ""
        while self._held:
            if self._opens:
                hidden = find_hidden(self._held)
                if hidden is None or not hidden.closed:
                    break
                self._held, self._opens = self._held[hidden.end :], ""
                continue
            if not self._spoke:
                begins = self._held.lstrip()
                if not begins or (self._names and (_PERHAPS_BARE.fullmatch(begins) or _BARE.match(begins))):
                    break
            hidden = find_hidden(self._held)
            if hidden is not None:
                before = self._held[: hidden.begin]
                out += self._let(before if self._spoke or before.strip() else "")
                self._held, self._opens, self._hid = self._held[hidden.begin :], hidden.opens, True
                self.thought = self.thought or hidden.opens in THOUGHTS
                continue
            sure = len(self._held) - begun(self._held)
            if self._spoke or self._held[:sure].strip():
                out += self._let(self._held[:sure])
                self._held = self._held[sure:]
            break
        return out

    def end(self) -> str:
        """Return held-back text that is no call after all: the reply has ended."""
        if self._opens or self._is_bare_call():
            return ""
        self._names = frozenset()
        out = self.feed("")
        return out if self._opens else out + self._let(self._held)

    def _let(self, text: str) -> str:
        if self._hid and not self._spoke:
            text = text.lstrip()
        self._spoke = self._spoke or bool(text)
        return text

    def _is_bare_call(self) -> bool:
        """Tell whether held-back text calls an offered tool, or was going to when the reply ended."""
        if not self._names or self._spoke:
            return False
        bare = read_bare(self._held)
        if bare:
            return all(call.name in self._names for call in bare)
        named = _NAMED.match(self._held)
        if named is None:
            return False
        return named[1] in self._names if named[2] else any(n.startswith(named[1]) for n in self._names)


def typed(arguments: dict[str, Any], name: str, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return arguments in the types of the tool's schema: models that write XML spell numbers and lists as text."""
    offered: dict[str, Any] = {tool["function"]["name"]: tool["function"] for tool in tools}
    properties = (offered.get(name, {}).get("parameters") or {}).get("properties") or {}
    values = dict(arguments)
    for key, value in arguments.items():
        if isinstance(value, str) and (properties.get(key) or {}).get("type", "string") != "string":
            with suppress(ValueError):
                values[key] = json.loads(value)
    return values
