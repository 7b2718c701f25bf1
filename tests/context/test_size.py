"""The size of a prompt: exact where that matters, never too low, and each text tokenised once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgemem.context.budget import PromptSize, TokenCache
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from support.tokenizers import WordTokenizer

TEXT = st.text(min_size=1, max_size=60)
TOOLS = [{"type": "function", "function": {"name": "light", "description": "Switches it.", "parameters": {}}}]


@pytest.fixture(scope="module")
def tokenizer(vocabularies: Path) -> Any:
    from edgemem.llama.template.chat_template import CHATML

    with LlamaTokenizer(vocabularies / "ggml-vocab-phi-3.gguf", template=CHATML) as opened:
        yield opened


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=12), limit=st.integers(0, 4000))
def test_the_figure_is_never_too_low(tokenizer: LlamaTokenizer, texts: list[str], limit: int) -> None:
    """As a conversation grows, what the size says is the count or more, and exact above the limit."""
    size = PromptSize(tokenizer)
    messages: list[dict[str, Any]] = []
    for i, text in enumerate(texts):
        messages.append({"role": "assistant" if i % 2 else "user", "content": text})
        told = size.tokens(messages, tools=None, limit=limit)
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
    size = PromptSize(tokenizer)
    system: list[dict[str, Any]] = [{"role": "system", "content": "You are a robot."}]
    said: list[dict[str, Any]] = []
    for text in turns:
        asked = [*system, *said, {"role": "user", "content": text}]
        counted = tokenizer.count(asked, tools=TOOLS)
        bound = size.bound(asked, tools=TOOLS, limit=0)
        if said:
            assert bound is not None
            assert counted <= bound <= counted + 40 + 2 * sum(map(text.count, "<[>"))
            shorter = [*system, *said[-2:], {"role": "user", "content": text}]
            bound = size.bound(shorter, tools=TOOLS, limit=1e6)
            assert bound is not None
            assert bound >= tokenizer.count(shorter, tools=TOOLS)
        else:
            assert bound is None
        said += [asked[-1], {"role": "assistant", "content": text[::-1]}]
        size.settle([*system, *said], tools=TOOLS, limit=0)


def test_no_words_are_kept() -> None:
    """Of texts that were measured nothing is left but numbers, and after a forgetting not even these."""
    sizes = TokenCache(WordTokenizer())
    sizes.tokens("secret")
    assert "secret" not in repr(vars(sizes))
    sizes.forget()
    assert sizes.counted("secret") is None
