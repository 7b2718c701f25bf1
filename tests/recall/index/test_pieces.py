"""Pieces: no word of a long text is left out, and each piece fits the window of the model."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.llama.embedder import LlamaEmbedder
from edgemem.recall.index.embedding import Window, window_of

SENTENCE = "The ladder stands behind the green boat in the garage."


@given(
    st.lists(st.sampled_from(["x", "xx ", " ", "\n", "x. ", "x! ", "x。", "x" * 40, "x…” "]), max_size=200),
    st.integers(10, 40),
)
def test_every_character_is_in_a_piece_and_every_piece_fits(parts, size):
    """Whatever the text is made of: pieces follow one another, and leave nothing out."""
    numbers = itertools.count(0x10000)
    text = "".join(chr(next(numbers)) if letter == "x" else letter for letter in "".join(parts))
    count = Window(size, lambda texts: [len(text) + 2 for text in texts], 0)
    pieces = count.split(text, 10_000)
    if len(text) + 2 <= size:
        assert pieces[0] == text
        assert all(piece in text for piece in pieces)
        return
    assert all(len(piece) + 2 <= size for piece in pieces)
    end = 0
    for piece in pieces:
        at = text.index(piece, end)
        assert not text[end:at].strip()
        end = at + len(piece)
    assert not text[end:].strip()
    assert len(pieces) <= 2 + 5 * len(text) // (size - 2)


def test_a_hostile_text_takes_no_time():
    """Points, quotation marks and spaces by the thousand do not make the search for ends slow."""
    for text in ("." * 8000, '."' * 4000, " " * 8000, ". " * 4000, ".\n" * 4000):
        count = Window(100, lambda texts: [len(text) for text in texts], 0)
        assert count.split(text + "end", 100)


@pytest.mark.parametrize("prefix", ["", "passage: " * 5])
def test_the_real_model_embeds_each_piece_whole(minilm: Path, prefix: str) -> None:
    """Tokens are the model's own, with its prefix: no piece is cut, and what stands at the end of a text is found."""
    told = " ".join(
        f"{SENTENCE} Zephyr number {n} sails at {n} o'clock — naïve, isn't it? 价格{n}元。" for n in range(40)
    )
    end = "My grandmother keeps the spare key under the flower pot."
    with LlamaEmbedder(minilm, n_ctx=128, text_prefix=prefix) as embedder:
        pieces = window_of(embedder).split(f"{told} {end}", 99)
        counts = embedder.count_tokens(pieces)
        assert max(counts) <= 128
        assert min(counts) > 40
        assert pieces[-1].endswith(end)
        query = embedder.embed_query("Where is the spare key?")
        near = embedder.embed_texts(pieces) @ query
        assert int(np.argmax(near)) == len(pieces) - 1
        assert near[-1] > 0.15 + float(embedder.embed_texts([f"{told} {end}"])[0] @ query)


def test_tokens_are_counted_as_they_are_embedded(minilm: Path) -> None:
    """With the prefix, the begin and the end, beyond the window too; special tokens in a text are text."""
    with LlamaEmbedder(minilm, n_ctx=64) as plain, LlamaEmbedder(minilm, text_prefix="a b ") as prefixed:
        assert plain.count_tokens(["", "cat", "cat " * 500, "[SEP]"]) == [2, 3, 502, 5]
        assert prefixed.count_tokens(["cat"]) == [5]
        assert plain.count_tokens([]) == []
        assert plain.n_ctx == 64
