"""The gauge: exact where it matters, a bound that holds elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgemem.context.gauge import Gauge
from edgemem.llama.tokenizer import LlamaTokenizer

TEXT = st.text(min_size=1, max_size=60)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "light", "description": "Switches the light.", "parameters": {}},
    }
]


class CountingTokenizer:
    """Notes which texts are tokenised, and how often a prompt is counted."""

    def __init__(self, tokenizer: LlamaTokenizer) -> None:
        self._tokenizer = tokenizer
        self.texts: list[str] = []
        self.counts = 0

    def encode(self, text: str) -> list[int]:
        self.texts.append(text)
        return self._tokenizer.encode(text)

    def count(self, messages: Any, **how: Any) -> int:
        self.counts += 1
        return self._tokenizer.count(messages, **how)


@pytest.fixture(scope="module")
def tokenizer(vocabularies: Path) -> Any:
    """Return the tokenizer of phi-3 with ChatML."""
    from edgemem.llama.template import CHATML

    with LlamaTokenizer(vocabularies / "ggml-vocab-phi-3.gguf", template=CHATML) as opened:
        yield opened


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=12), limit=st.integers(0, 4000))
def test_the_figure_is_never_too_low(tokenizer: LlamaTokenizer, texts: list[str], limit: int) -> None:
    """As a conversation grows, what the gauge says is the count or more, and exact above the limit."""
    gauge = Gauge(tokenizer)
    messages: list[dict[str, Any]] = []
    for i, text in enumerate(texts):
        messages.append({"role": "assistant" if i % 2 else "user", "content": text})
        told = gauge.tokens(messages, tools=None, limit=limit)
        counted = tokenizer.count(messages)
        assert told >= counted
        if told > limit:
            assert told == counted


LOOKS = st.sampled_from(["<|end|>", "<unk>", "</s>", "cup", "Tasse ", "お茶", " ", "\n", '"', "7"])


@settings(max_examples=60, deadline=None)
@given(turns=st.lists(st.lists(LOOKS, min_size=1, max_size=60).map("".join), min_size=1, max_size=8))
@example(turns=["cup", "</s>" * 300])
def test_what_was_measured_ahead_bounds_the_next_prompt(tokenizer: LlamaTokenizer, turns: list[str]) -> None:
    """After each turn the next prompt has a bound, above the count by little, also where another past stands before it."""
    gauge = Gauge(tokenizer)
    system: list[dict[str, Any]] = [{"role": "system", "content": "You are a robot."}]
    said: list[dict[str, Any]] = []
    for text in turns:
        asked = [*system, *said, {"role": "user", "content": text}]
        counted = tokenizer.count(asked, tools=TOOLS)
        bound = gauge.bound(asked, tools=TOOLS, limit=0)
        if said:
            assert bound is not None
            assert counted <= bound <= counted + 40 + 2 * sum(map(text.count, "<[>"))
            shorter = [*system, *said[-2:], {"role": "user", "content": text}]
            bound = gauge.bound(shorter, tools=TOOLS, limit=1e6)
            assert bound is not None
            assert bound >= tokenizer.count(shorter, tools=TOOLS)
        else:
            assert bound is None
        said += [asked[-1], {"role": "assistant", "content": text[::-1]}]
        gauge.settle([*system, *said], tools=TOOLS, limit=0)


def test_what_was_measured_ahead_is_not_measured_again(tokenizer: LlamaTokenizer) -> None:
    """The next turn tokenises its own text alone, and renders nothing; far from the limit no turn's end counts."""
    counting = CountingTokenizer(tokenizer)
    gauge = Gauge(counting)
    said = [
        {"role": "assistant" if n % 2 else "user", "content": f"cup {n} stands in drawer {n}"}
        for n in range(40)
    ]
    assert gauge.settle(said, tools=TOOLS, limit=100) == tokenizer.count(
        [*said, {"role": "user", "content": "cup"}], tools=TOOLS
    )
    counting.texts.clear()
    counting.counts = 0
    asked = [*said, {"role": "user", "content": "where is cup 7?"}]
    assert gauge.bound(asked, tools=TOOLS, limit=0) is not None
    assert gauge.bound(asked[26:], tools=TOOLS, limit=600) is not None
    assert (counting.counts, counting.texts) == (0, ["where is cup 7?"])
    assert gauge.settle(asked, tools=TOOLS, limit=1e6) is None
    assert counting.counts == 0
    gauge.forget()
    gauge.bound(asked[26:], tools=TOOLS, limit=600)
    assert len(counting.texts) > 12


def test_a_changed_past_is_counted_again(tokenizer: LlamaTokenizer) -> None:
    """A bound is drawn only from a prompt that this one extends."""
    gauge = Gauge(tokenizer)
    gauge.tokens([{"role": "user", "content": "one " * 50}], tools=None, limit=9999)
    assert gauge.tokens([{"role": "user", "content": "two"}], tools=None, limit=9999) < 30
    assert gauge.exact


def test_a_message_that_changed_is_measured_anew(tokenizer: LlamaTokenizer) -> None:
    """Of a prompt whose middle changed, what stands before the change is known, and the bound is that of a new gauge."""
    said = [{"role": "user", "content": "cup " * n} for n in range(1, 8)]
    gauge = Gauge(tokenizer)
    gauge.settle([{"role": "system", "content": "hello"}], tools=None, limit=10)
    for messages in (said, [*said, said[2]], [*said[:3], said[5]], said[1:], []):
        whole = [{"role": "system", "content": "hello"}, *messages]
        other = Gauge(tokenizer)
        other.settle(whole[:1], tools=None, limit=10)
        assert gauge.bound(whole, tools=None, limit=10) == other.bound(whole, tools=None, limit=10)
    gauge.forget()
    assert not gauge._behind
