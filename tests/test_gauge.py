"""The gauge: exact where it matters, a bound that holds elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.context.gauge import Gauge
from edgemem.llama.tokenizer import LlamaTokenizer

TEXT = st.text(min_size=1, max_size=60)


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


def test_a_changed_past_is_counted_again(tokenizer: LlamaTokenizer) -> None:
    """A bound is drawn only from a prompt that this one extends."""
    gauge = Gauge(tokenizer)
    gauge.tokens([{"role": "user", "content": "one " * 50}], tools=None, limit=9999)
    assert gauge.tokens([{"role": "user", "content": "two"}], tools=None, limit=9999) < 30
    assert gauge.exact
