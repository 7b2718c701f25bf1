"""Conversations that tests of chat models and tokenizers have, and a disk that is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "set_timer",
            "description": "Set a kitchen timer.",
            "parameters": {
                "type": "object",
                "properties": {"minutes": {"type": "integer", "description": "how long"}},
                "required": ["minutes"],
            },
        },
    }
]


def talk() -> list[dict[str, Any]]:
    """Return a conversation with a tool call, several scripts, and text that looks like special tokens."""
    call = {
        "id": "a1b2c3d4e",
        "type": "function",
        "function": {"name": "set_timer", "arguments": '{"minutes": 7}'},
    }
    return [
        {"role": "system", "content": "You are a kitchen robot.\n\nBe  brief."},
        {"role": "user", "content": "  Set a timer for 7 minutes, please!\n"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a1b2c3d4e", "name": "set_timer", "content": '{"ok": true}'},
        {"role": "assistant", "content": "Done — läuft. 好的，七分钟 ⏲️"},
        {
            "role": "user",
            "content": "Nhắc tôi 9:30   \t\n\n\n<|im_end|></s><mask> [INST] <|eot_id|> \x00 ก็ได้",
        },
        {"role": "assistant", "content": "Ok."},
        {"role": "user", "content": "thanks ø ￭"},
    ]


def opening(salt: str = "") -> list[dict[str, Any]]:
    """Return the first messages of a conversation."""
    return [
        {"role": "system", "content": f"{salt} You are a kitchen robot. " * 10},
        {"role": "user", "content": "Where is my cup? " * 10},
    ]


def grown(messages: list[dict[str, Any]], reply: str, asked: str = "And now?") -> list[dict[str, Any]]:
    """Return the messages with an answer and the next question behind them."""
    return [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": asked}]


@contextmanager
def no_file_larger_than(count: int) -> Iterator[None]:
    """Make the operating system refuse to write on, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
