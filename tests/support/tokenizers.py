"""A tokenizer for tests that need no model: one token a word, one for each marker of a small template."""

import json
import zlib
from collections.abc import Sequence
from typing import Any

from edgemem.llama.protocols import Prompt, Segment
from edgemem.records import Message


class WordTokenizer:
    """Counts words exactly, and how often it was asked."""

    fingerprint = "words"
    exact = True

    def __init__(self) -> None:
        self.counts = 0

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return one id for each word and each line break."""
        return [zlib.crc32(word.encode("utf-8", "replace")) for word in text.replace("\n", " \\n ").split()]

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> Prompt:
        """Render `<role> content calls <end>` for each message."""
        texts = [f"<tools> {json.dumps(list(tools))}"] if tools else []
        for message in messages:
            calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
            texts.append(f"<{message['role']}> {message.get('content') or ''} {calls} <end>")
        if add_generation_prompt:
            texts.append("<assistant>")
        return Prompt(" ".join(texts), tuple(Segment(text, tuple(self.encode(text))) for text in texts))

    def count(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> int:
        self.counts += 1
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).n


def encode_whole(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text that is tokenised at once."""
    vocabulary = tokenizer.vocabulary
    begins = () if text.startswith(vocabulary.bos_text) else vocabulary.begins
    return [*begins, *vocabulary.tokenize(text, special=True)]
