"""Pairing: the tokens of a question and a text, laid out as the model that ranks them was trained to read them.

BERT reads `[CLS] question [SEP] text [SEP]`, models of RoBERTa's kind `<s> question </s></s> text </s>`; a decoder carries a
template of its own, called `rerank`, which llama.cpp's conversion writes.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from edgemem.llama.forward import Forward

_WPM = 3  # llama.cpp's number of BERT's kind of vocabulary
_MARKER = re.compile(r"<\|[^|<>\s]{1,60}\|>|</?s>|\[(?:CLS|SEP)\]")
_QUERY, _TEXT = "{query}", "{document}"
_LEAST = 32  # tokens that a window must leave for a pair: a short question and a sentence


class _Template(NamedTuple):
    """A template, cut where questions and texts stand in it."""

    before: list[int]
    query: str
    """What stands before the question, in one piece with it."""
    text: str
    """What stands between the question and the text."""
    after: list[int]


class Pairing:
    """Lays out pairs for one model.

    Text that looks like a special token stays text. Of a pair that is too long, the end of the text is left out; of a
    question that takes more than half of the room, its beginning.
    """

    def __init__(self, forward: Forward) -> None:
        """Look at how the model wants it; raise ModelError where its window is too small for it."""
        self._forward = forward
        api, vocabulary = forward.api, forward.vocabulary
        begin, end, separator = (
            [token] if (token := int(ask(vocabulary))) >= 0 else []
            for ask in (api.llama_vocab_bos, api.llama_vocab_eos, api.llama_vocab_sep)
        )
        end, separator = end or separator, separator or end
        wordpiece = api.llama_vocab_type(vocabulary) == _WPM
        self._begin = begin
        self._between = separator if wordpiece else [*end, *separator]
        self._end = separator if wordpiece else end
        self._template = self._read_template()
        if self._room < _LEAST:
            raise ModelError(
                f"{forward.path.name} puts so much around a pair that {forward.n_ctx} tokens leave no room for it; "
                "raise embed_context under [llama]"
            )

    def ids(self, query: str, text: str) -> list[int]:
        """Return the ids of a pair, at most as many as the window holds."""
        tokenize, room = self._forward.tokenize, self._room
        query, text = query.strip(), text.strip()
        asked, told = tokenize(query), tokenize(text)
        most = max(room // 2, room - len(told))
        if self._template is None:
            asked = asked[-most:]
            return [*self._begin, *asked, *self._between, *told[: room - len(asked)], *self._end]
        before, ahead, between, after = self._template
        if len(asked) > most:
            query = self._spell(asked[-most:])
        # In one piece: at its ends, a text may share a token with what stands beside it.
        pair = tokenize(f"{ahead}{query}{between}{text}")
        return [*before, *pair[: self._forward.n_ctx - len(before) - len(after)], *after]

    @property
    def _room(self) -> int:
        """Tokens that question and text may take together."""
        if self._template is None:
            around = len(self._begin) + len(self._between) + len(self._end)
        else:
            before, ahead, between, after = self._template
            around = len(before) + len(self._forward.tokenize(ahead + between)) + len(after)
        return self._forward.n_ctx - around

    def _read_template(self) -> _Template | None:
        found = self._forward.api.llama_model_chat_template(self._forward.model, b"rerank")
        template = found.decode("utf-8", "replace") if found else ""
        head, asks, rest = template.partition(_QUERY)
        between, tells, tail = rest.partition(_TEXT)
        if not template:
            return None
        if not (asks and tells):
            raise ModelError(
                f"{self._forward.path.name} has a template without a place for question and text; name another reranker"
            )
        ends = [marker.end() for marker in _MARKER.finditer(head)]
        cut = ends[-1] if ends else 0
        tokenize = self._forward.tokenize
        return _Template(
            tokenize(head[:cut], special=True), head[cut:], between, tokenize(tail, special=True)
        )

    def _spell(self, ids: list[int]) -> str:
        """Return the text of some ids."""
        api, size = self._forward.api, 16 * len(ids)
        given = (api.llama_token * len(ids))(*ids)
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = int(
                api.llama_detokenize(self._forward.vocabulary, given, len(ids), buffer, size, False, False)
            )
            if count >= 0:
                return buffer.raw[:count].decode("utf-8", "replace")
            size = -count
