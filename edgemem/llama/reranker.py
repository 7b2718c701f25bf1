"""Reranking by llama.cpp: one thread owns the model, reads question and text together, and serves the newest question first."""

from __future__ import annotations

import ctypes
import math
import re
from concurrent.futures import TimeoutError as WaitTimeoutError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.header import read_header
from edgemem.llama.models.catalog import path_of
from edgemem.llama.protocols import Reranker
from edgemem.llama.worker import Forward, Job, ModelHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.backend import Interrupt
    from edgemem.llama.header import Header

_WPM = 3  # llama.cpp's number of BERT's kind of vocabulary
_MARKER = re.compile(r"<\|[^|<>\s]{1,60}\|>|</?s>|\[(?:CLS|SEP)\]")
_QUERY, _TEXT = "{query}", "{document}"
_LEAST = 32  # tokens that a window must leave for a pair: a short question and a sentence
_POOLING_RANK = 4
_TANH = ("jina-bert-v2",)  # llama.cpp bends their head's number, the models themselves do not
_TWO = ("qwen3", "qwen3vl")  # their head tells the shares of yes and of no
_LEAST_SHARE = 1e-12
_MOST_BENT = 1 - 1e-7


class CrossEncoderInput:
    """Lays out pairs for one model: its template's text, or the tokens of its kind, around them and between.

    Text never becomes a special token. A pair too long loses the text's end, a question above half of the room its beginning.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        api, vocabulary, tokenize = forward.api, forward.vocabulary, forward.tokenize
        self._ahead = self._between = ""  # what a template has before the question, and before the text
        raw = api.llama_model_chat_template(forward.model, b"rerank")
        if raw:
            head, asks, rest = raw.decode("utf-8", "replace").partition(_QUERY)
            self._between, tells, tail = rest.partition(_TEXT)
            if not (asks and tells):
                raise ModelError(
                    f"{forward.path.name} has a template without a place for question and text; name another reranker"
                )
            cut = max((marker.end() for marker in _MARKER.finditer(head)), default=0)
            self._ahead = head[cut:]
            self._begin, self._end = tokenize(head[:cut], special=True), tokenize(tail, special=True)
            self._middle: list[int] = []
            taken = len(tokenize(self._ahead + self._between))
        else:
            self._begin, end, separator = (
                [token] if (token := int(ask(vocabulary))) >= 0 else []
                for ask in (api.llama_vocab_bos, api.llama_vocab_eos, api.llama_vocab_sep)
            )
            end, separator = end or separator, separator or end
            wordpiece = api.llama_vocab_type(vocabulary) == _WPM
            self._middle = separator if wordpiece else [*end, *separator]
            self._end = separator if wordpiece else end
            taken = len(self._middle)
        self._has_template = bool(raw)
        self._most = forward.n_ctx - len(self._begin) - len(self._end)
        self._room = self._most - taken
        if self._room < _LEAST:
            raise ModelError(
                f"{forward.path.name} puts so much around a pair that {forward.n_ctx} tokens leave no room for it; "
                "raise embed_context under [llama]"
            )

    def ids(self, query: str, text: str) -> list[int]:
        """Return the ids of a pair, cut to the window."""
        tokenize = self._forward.tokenize
        query, text = query.strip(), text.strip()
        query_ids, text_ids = tokenize(query), tokenize(text)
        most = max(self._room // 2, self._room - len(text_ids))
        if self._has_template:
            if len(query_ids) > most:
                query = self._spell(query_ids[-most:])
            # In one piece: at its ends, a text may share a token with its neighbour.
            pair = tokenize(f"{self._ahead}{query}{self._between}{text}")
        else:
            pair = [*query_ids[-most:], *self._middle, *text_ids]
        return [*self._begin, *pair[: self._most], *self._end]

    def _spell(self, ids: list[int]) -> str:
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


class CrossEncoder:
    """Loads a model that ranks and reads one pair at a time; not thread-safe."""

    def __init__(self, path: Path, header: Header, *, n_ctx: int, threads: int, interrupt: Interrupt) -> None:
        """Load the model; `n_ctx` must not exceed the tokens it was trained for."""
        self._architecture = header.architecture
        self.forward = forward = Forward(
            path, n_ctx=n_ctx, threads=threads, interrupt=interrupt, pooling=_POOLING_RANK
        )
        try:
            self._yes = self._find_yes()
            self._input = CrossEncoderInput(forward)
        except BaseException:
            forward.close()
            raise

    def encode(self, pair: tuple[str, str]) -> float | None:
        """Return the logit of a pair, or None if the interrupt was raised meanwhile."""
        count = 2 if self._architecture in _TWO else 1
        read = self.forward.run(self._input.ids(*pair), count, reuse=True)
        if read is None:
            return None
        outs = read.tolist()
        if not all(map(math.isfinite, outs)):
            raise ModelError(
                "The reranking model computes no finite numbers; check it with: edgemem models verify"
            )
        if self._architecture in _TWO:
            yes, no = (max(outs[at], _LEAST_SHARE) for at in (self._yes, 1 - self._yes))
            return math.log(yes / no)
        if self._architecture in _TANH:
            return math.atanh(max(-_MOST_BENT, min(outs[0], _MOST_BENT)))
        return float(outs[0])

    def _find_yes(self) -> int:
        """Return which of the head's numbers speaks for a text; refuse a head that tells something else."""
        api, model = self.forward.api, self.forward.model
        count, outputs = int(api.llama_model_n_cls_out(model)), 2 if self._architecture in _TWO else 1
        if count != outputs:
            raise ModelError(
                f"{self.forward.path.name} sorts texts into {count} classes, and ranks none; name a reranker"
            )
        labels = [api.llama_model_cls_label(model, at) for at in range(count)]
        return labels.index(b"yes") if b"yes" in labels else 0


class LlamaReranker(ModelHandle, Reranker):
    """Tells how well texts answer a question, with a reranking model in GGUF format; safe from any thread.

    The model is loaded when first needed, or by `warm()`. A newer question interrupts an older one, which goes on behind it while
    somebody waits: the newest is about to be answered.
    """

    def __init__(self, path: str | Path, *, n_ctx: int = 256, threads: int = 1) -> None:
        """Check the file, without loading it yet; a pair longer than `n_ctx` tokens loses the text's end."""
        if n_ctx < 32 or threads < 1:
            raise InvalidInputError("A reranker needs n_ctx of at least 32 tokens and at least one thread")
        path = Path(path).expanduser()
        header = read_header(path)
        if not (header.tensors and header.classifies):
            raise ModelError(
                f"{path} ranks no texts: it has no head that does; name a reranker, see: edgemem models"
            )
        # beyond its rows of positions llama.cpp ends the process
        self.n_ctx = min(n_ctx, header.number("context_length", n_ctx))
        """Tokens of a pair, with those that the model puts around it."""
        super().__init__(
            path, "reranker", partial(CrossEncoder, path, header, n_ctx=self.n_ctx, threads=threads)
        )

    def score(
        self,
        query: str,
        texts: Sequence[str],
        *,
        timeout_s: float | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> list[float] | None:
        """Return each text's logit, the higher the better, 0 where it is open.

        After `timeout_s` seconds those of the first texts only, None when there is none. `stop` is asked before each text.
        """
        self._check_open()
        if not texts:
            return []
        job = Job(CrossEncoder.encode, [(query, text) for text in texts], stop)
        self._worker.put(job, query=True)
        try:
            return self._worker.wait(job, timeout_s) or None
        except WaitTimeoutError:
            return job.rows[: len(texts)] or None


def open_reranker(
    model: str, *, home: Path | None = None, n_ctx: int | None = None, threads: int = 1
) -> LlamaReranker:
    """Open a reranker by its name or path; `n_ctx` None takes 256 tokens a pair."""
    return LlamaReranker(path_of(model, home=home), n_ctx=n_ctx or 256, threads=threads)
