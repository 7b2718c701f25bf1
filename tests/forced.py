"""Lets a real model say what a test wants: the tokens are chosen for it, everything else is llama.cpp's own work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.llama.chat import LlamaChat


class Forced:
    """Makes a chat model say what `queue` holds, and notes how much of each prompt its cache held already."""

    def __init__(self, chat: LlamaChat) -> None:
        self.queue: list[str] = []
        self.held: list[int] = []
        """Tokens in the cache when the model was asked, call by call."""
        self.common: list[int] = []
        """How many of them the prompt began with."""
        self.ids: list[list[int]] = []
        with chat.if_quiet() as llama:
            self._llama = llama
        self._generate = self._llama.generate
        self.vocabulary = chat.tokenizer.vocabulary
        self._end = self.vocabulary.eos
        assert self.vocabulary.ends_reply(self._end)
        self._llama.generate = self.generate

    def generate(self, ids: list[int], **options: Any) -> Iterator[int]:
        """Stand in for `Llama.generate`."""
        import llama_cpp

        text = self.queue.pop(0) if self.queue else "Fine."
        wanted = [*self.vocabulary.tokenize(text, special=True), self._end]
        held = [int(token) for token in self._llama.input_ids[: self._llama.n_tokens]]
        same = 0
        while same < min(len(held), len(ids)) and held[same] == ids[same]:
            same += 1
        self.held.append(len(held))
        self.common.append(same)
        self.ids.append(list(ids))

        def choose(seen: Any, scores: Any) -> Any:
            at = len(seen) - len(ids)
            only = np.full_like(scores, -1e9)
            only[wanted[at] if at < len(wanted) else self._end] = 1e9
            return only

        tokens: Iterator[int] = self._generate(
            ids, logits_processor=llama_cpp.LogitsProcessorList([choose]), **options
        )
        return tokens
