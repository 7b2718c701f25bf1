"""The markup of replies: what encloses a thought or the call of a tool, which are no speech.

The pairs are those of the templates that come with llama.cpp. Where a vocabulary holds one of these markers as a control
token, it is shown as text all the same: nothing else tells a thought from speech.
"""

from __future__ import annotations

import re
from typing import NamedTuple

THOUGHTS = {
    "<think>": "</think>",  # Qwen 3, DeepSeek R1, SmolLM 3, GLM, MiniCPM 5 and most others
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",  # Ministral
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command R7B
    "<|channel>": "<channel|>",  # Gemma 4
    "<|channel|>": "<|channel|>final<|message|>",  # gpt-oss: whatever stands before the final channel
}
CALLS = {
    "<tool_call>": "</tool_call>",  # Qwen, Hermes, Granite 4, and what edgemem shows where a template has no calls
    "<|tool_call|>": "<|/tool_call|>",  # Phi 4 mini; Granite 3 ends it with the reply
    "<|tool_call_start|>": "<|tool_call_end|>",  # LFM 2
    "<|START_ACTION|>": "<|END_ACTION|>",  # Command R7B
    "<TOOLCALL>": "</TOOLCALL>",  # Nemotron Nano
    "<tool_calls>": "</tool_calls>",  # Apriel, MiniMax M1
    "<function=": "</function>",  # Functionary
    "<function name=": "</function>",  # MiniCPM 5
    "<|function_call|>": "",  # GigaChat
    "functools[": "",  # Phi 4 mini, Firefunction
    "<|tool_call>": "<tool_call|>",  # Gemma 4
    "[TOOL_CALLS]": "",  # Mistral
    "<|python_tag|>": "",  # Llama 3
    # These are not read, but never spoken either.
    "<seed:tool_call>": "</seed:tool_call>",
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",  # DeepSeek
    "<｜DSML｜": "",
    "<|tools_prefix|>": "<|tools_suffix|>",  # Apertus
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",  # Kimi K2
    "<|tool_calls|>": "",  # Solar
    "<atem:function_calls>": "</atem:function_calls>",
    "<tool_calls:opensource>": "</tool_calls:opensource>",
}
CLOSES = {**THOUGHTS, **CALLS}
"""What ends each of them; empty: the end of the reply."""

MARKS = frozenset({*CLOSES, *CLOSES.values(), "[ARGS]", "[CALL_ID]", "<|message|>", '<|"|>'} - {""})
"""Markers that are shown as text also where they are control tokens; none of them ends a reply."""

_OPENS = re.compile("|".join(re.escape(mark) for mark in sorted(CLOSES, key=len, reverse=True)))
_OPENED_THOUGHT = re.compile(rf"(?:{'|'.join(map(re.escape, THOUGHTS))})\s*\Z")


class Hidden(NamedTuple):
    """A stretch of a reply that is no speech, markers included."""

    begin: int
    end: int
    opens: str
    closed: bool
    """Whether it was ended before the reply was."""

    def inner(self, text: str) -> str:
        """Return what stands between the markers; a function's tag, and the bracket of a list, belong to that."""
        if self.opens.startswith("<function"):
            return text[self.begin : self.end]
        closes = CLOSES[self.opens] if self.closed else ""
        return text[self.begin + len(self.opens.rstrip("[")) : self.end - len(closes)]


def find_hidden(text: str, at: int = 0) -> Hidden | None:
    """Return the first stretch of a text that is no speech."""
    opening = _OPENS.search(text, at)
    if opening is None:
        return None
    closes = CLOSES[opening[0]]
    end = text.find(closes, opening.start()) if closes else -1
    if end < 0:
        return Hidden(opening.start(), len(text), opening[0], closed=False)
    return Hidden(opening.start(), end + len(closes), opening[0], closed=True)


def all_hidden(text: str) -> list[Hidden]:
    """Return every stretch of a text that is no speech."""
    found: list[Hidden] = []
    at = 0
    while (hidden := find_hidden(text, at)) is not None:
        found.append(hidden)
        at = hidden.end
    return found


def opened_thought(prompt: str) -> str:
    """Return the marker at the end of a prompt that opens a thought, with the space behind it; empty where none does."""
    opened = _OPENED_THOUGHT.search(prompt[-64:])
    return opened[0] if opened is not None else ""


def begun(text: str, *marks: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a marker, of any unless some are named."""
    among = marks or tuple(CLOSES)
    longest = max(map(len, among)) - 1
    for n in range(min(len(text), longest), 0, -1):
        tail = text[-n:]
        if any(len(mark) > n and mark.startswith(tail) for mark in among):
            return n
    return 0
