"""Thoughts and calls from a real model through the loop: what is said, what is kept, and what is read again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from llama_cpp import Llama

from edgemem.llama.chat import LlamaChat
from edgemem.llama.template.chat_template import CHATML
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.memory import Memory
from edgemem.session.tools import Tool
from support.models import Forced, write_llama_gguf

OPENING = CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}")
"""A template that opens a thought before each reply."""

PROMPTS = {
    "qwen3": "Qwen-Qwen3-0.6B",
    "opening": OPENING,
    "smollm": "HuggingFaceTB-SmolLM3-3B",
    "ministral": "mistralai-Ministral-3-14B-Reasoning-2512",
}
MARKS = {"ministral": ("[THINK]", "[/THINK]")}

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def model(chat_model: Callable[[str], Path]) -> Iterator[Any]:
    """Return a real model of random weights, without a conversation."""
    model = Llama(str(chat_model("qwen2")), n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)
    yield model
    model.close()


def weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    return {"temp": 21, "city": city}


WEATHER = Tool(
    "weather",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    weather,
)


@contextmanager
def talking(
    model: Any, memory: Memory, vocabularies: Path, template: str, **options: Any
) -> Iterator[tuple[AgentLoop, Forced]]:
    """Open a loop whose model says what a test wants."""
    source = template if "{" in template else (vocabularies / "templates" / f"{template}.jinja").read_text()
    model.reset()
    generate = model.generate
    try:
        with LlamaChat.wrap(model, template=source) as chat:
            forced = Forced(chat)
            hooks = memory.hooks(session_id="s", speaker="alice", model=chat)
            yield AgentLoop(ChatReplies(chat), hooks=hooks, speaker="alice", **options), forced
    finally:
        model.generate = generate


@pytest.mark.parametrize("name", PROMPTS)
def test_thoughts_are_neither_said_nor_kept(
    model: Any, memory: Memory, vocabularies: Path, name: str
) -> None:
    """What the robot thought is not spoken, not history, not stored and not recalled; what it said is all of that."""
    opens, closes = MARKS.get(name, ("<think>", "</think>"))
    said: list[str] = []
    with talking(model, memory, vocabularies, PROMPTS[name]) as (loop, forced):
        opened = forced_opening(loop)
        forced.queue = [f"{'' if opened else opens}\nThe Lisbon surprise.\n{closes}\n\nNothing is planned."]
        result = loop.run("What is planned?", on_text=said.append)
        assert "".join(said) == result.reply == "Nothing is planned."
        assert loop.session.messages[-1] == {"role": "assistant", "content": "Nothing is planned."}
        forced.queue = [f"{'' if opened else opens}\nhm\n{closes}\n\nAll right."]
        loop.run("Thanks.")
        assert forced.common[1] == forced.held[1], "nothing that was generated is read again"
    assert not any("Lisbon" in found.text for found in memory.recall("Lisbon", speaker="alice"))
    stored = memory.sessions.journal.read_turns("s")[0].messages[-1]
    assert (stored.content, stored.tokens) == ("Nothing is planned.", ())


def forced_opening(loop: AgentLoop) -> str:
    """Return the marker with which the loop's prompts open a thought."""
    from edgemem.llama.replies import opened_thought

    prompt = loop.model.tokenizer.render([{"role": "user", "content": "hi"}])  # type: ignore[attr-defined]
    return opened_thought(prompt.text)


@pytest.mark.parametrize(
    ("name", "told"), [("qwen3", {"heard_text": "First we bake"}), ("opening", {"heard_ms": 1000})]
)
def test_a_barge_in_behind_a_thought(
    model: Any, memory: Memory, vocabularies: Path, name: str, told: dict[str, Any]
) -> None:
    """What was heard is found behind the thought, and the cache ends there."""
    with talking(model, memory, vocabularies, PROMPTS[name]) as (loop, forced):
        opens = "" if forced_opening(loop) else "<think>"
        forced.queue = [f"{opens}\nFirst we hm\n</think>\n\nFirst we bake the cake."]
        loop.run("What now?")
        loop.interrupt(**told)
        assert loop.session.messages[-1]["content"] == "First we bake"
        forced.queue = ["Stopped."]
        loop.run("Stop.")
        unheard = len(forced.vocabulary.tokenize(" the cake.", special=False))
        assert forced.held[1] - forced.common[1] == unheard


@pytest.mark.parametrize("name", ["qwen3", "opening"])
def test_a_barge_in_within_a_thought(model: Any, memory: Memory, vocabularies: Path, name: str) -> None:
    """A thought that was cut off has said nothing, and nothing of it stays in the prompt."""
    with talking(model, memory, vocabularies, PROMPTS[name]) as (loop, forced):
        opens = "" if forced_opening(loop) else "<think>"
        forced.queue = [f"{opens}\nThe Lisbon surprise must not be told.\n</think>\n\nNothing."]
        seen = 0

        def stop() -> bool:
            nonlocal seen
            seen += 1
            return seen > 6

        result = loop.run("What is planned?", stop=stop)
        assert (result.reply, result.interrupted) == ("", True)
        forced.queue = ["Yes?"]
        loop.run("Hello?")
        assert "Lisbon" not in model.detokenize(forced.ids[1]).decode()
        assert loop.session.messages[1]["content"] == ""


CALLS = {
    "Qwen-Qwen2.5-7B-Instruct": [
        '<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>',
        '<tool_call>\n{"arguments": {"city": "Oslo"}, "name": "weather"}\n</tool_call>',
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Os\\u00e9"}}\n</tool_call>',
        'Sure!<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n',
    ],
    "meta-llama-Llama-3.2-3B-Instruct": [
        '{"name":"weather","parameters":{"city":"Oslo"}}',
        '{"type": "function", "name": "weather", "parameters": {"city": "Oslo"}}',
    ],
    "Qwen-Qwen3-0.6B": [
        '<think>\nI need it.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
        '<think>\n\n</think>\n\n<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>',
    ],
    "mistralai-Mistral-Nemo-Instruct-2407": [
        '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo"}, "id": "abcdefghi"}]',
    ],
    "Qwen3.5-4B": [
        "hm\n</think>\n\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
    ],
    "LFM2-8B-A1B": ["<|tool_call_start|>[weather(city='Oslo')]<|tool_call_end|>"],
    "google-gemma-4-31B-it": ['<|tool_call>call:weather{city: <|"|>Oslo<|"|>}<tool_call|>'],
    "openbmb-MiniCPM5-1B": ['<function name="weather"><param name="city">Oslo</param></function>\n'],
}


@pytest.mark.parametrize("template", CALLS)
def test_a_call_is_not_read_again(model: Any, memory: Memory, vocabularies: Path, template: str) -> None:
    """However a call was spelled, each prompt begins with all that the cache holds, and the call is never spoken."""
    said: list[str] = []
    with talking(model, memory, vocabularies, template, tools=[WEATHER]) as (loop, forced):
        closes = "</think>\n\n" if forced_opening(loop) else ""
        for n, call in enumerate(CALLS[template] * (1 + (len(CALLS[template]) == 1))):
            forced.queue = [call, f"{closes}It is 21."]
            result = loop.run(f"And the weather of day {n}?", on_text=said.append)
            assert [tool.name for tool in result.tools] == ["weather"]
            assert result.reply == "It is 21."
        assert forced.common == forced.held
        assert {text.strip() for text in "".join(said).replace("Sure!", "").split("It is 21.")} == {""}


def test_markers_that_are_control_tokens(tmp_path: Path, memory: Memory, vocabularies: Path) -> None:
    """llama.cpp prints no control token; a thought between two of them is found, and nothing is read again."""
    file = write_llama_gguf(tmp_path / "ministral.gguf", vocabularies=vocabularies, layers=1, width=16)
    raw = file.read_bytes()
    # Three control tokens get other names, together as long as before.
    for old, new in (
        (b"<|im_start|>", b"[THINK]"),
        (b"<|im_end|>", b"[/THINK]"),
        (b"<|endoftext|>", b"<|endoftext|>_______"),
    ):
        entry = struct.pack("<Q", len(old)) + old
        assert raw.count(entry) == 1
        raw = raw.replace(entry, struct.pack("<Q", len(new)) + new)
    file.write_bytes(raw)
    model = Llama(str(file), n_ctx=2048, n_batch=512, n_threads=1, n_threads_batch=1, verbose=False)
    said: list[str] = []
    with talking(model, memory, vocabularies, PROMPTS["ministral"]) as (loop, forced):
        assert len(forced.vocabulary.tokenize("[THINK]", special=True)) == 1
        for n in range(2):
            forced.queue = ["[THINK]The Lisbon surprise.[/THINK]Nothing."]
            assert loop.run(f"What is planned on day {n}?", on_text=said.append).reply == "Nothing."
        assert forced.common == forced.held
        assert "".join(said) == "Nothing." * 2
    model.close()


def test_a_barge_in_at_half_a_marker(model: Any, memory: Memory, vocabularies: Path) -> None:
    """What was held back when the robot was cut off was not said, so the cache ends before it, and no earlier."""
    with talking(model, memory, vocabularies, "Qwen-Qwen2.5-7B-Instruct") as (loop, forced):
        forced.queue = ["It is hot [TOOL and more"]
        log = loop.model.chat.log  # type: ignore[attr-defined]
        result = loop.run(
            "How is it?", stop=lambda: bool(forced.ids) and len(log.ids) > len(forced.ids[0]) + 3
        )
        assert result.reply == "It is hot "
        assert len(log.ids) == len(forced.ids[0]) + 3
        loop.run("Go on.")
        assert forced.common == forced.held
