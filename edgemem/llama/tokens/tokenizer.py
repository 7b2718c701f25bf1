"""Messages through a model's own chat template to exact ids, tokenising only new segments."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, TemplateError
from edgemem.llama.protocols import Prompt, Segment, Tokenizer
from edgemem.llama.template.chat_template import ChatTemplate, neutralise
from edgemem.llama.tokens.vocabulary import FileVocabulary, Vocabulary
from edgemem.store.db.files import Closable

if TYPE_CHECKING:
    from edgemem.records import Message

_CACHE_BYTES = 4 << 20  # of known segments
_BYTES_PER_ID = 36  # a Python integer and its place in a tuple


class LlamaTokenizer(Closable, Tokenizer):
    """Counts a model's tokens exactly; loaded when first used, safe from several threads.

    Text of users, replies and tools is never a control token: a spoken `<|im_end|>` is sent and counted as `< |im_end|>`.
    """

    exact = True

    def __init__(self, source: str | Path | Vocabulary, *, template: str | None = None) -> None:
        """Take a GGUF, or a vocabulary, which is closed with this."""
        self._source = source
        self._vocabulary: Vocabulary | None = None
        self._given_template = template
        self._template: ChatTemplate | None = None
        self._segments: OrderedDict[tuple[str, bool], Segment] = OrderedDict()
        self._weight = 0
        self._lock = threading.RLock()
        self._closed = False
        self.n_ctx: int | None = None
        """Tokens of its chat model's window; None where it was loaded by itself."""
        self.tokenised_bytes = 0

    @classmethod
    def wrap(cls, model: Any, *, template: str | None = None) -> LlamaTokenizer:
        """Share the vocabulary of a loaded `llama_cpp.Llama`; close this before the model."""
        return cls(FileVocabulary(model.model), template=template)

    def close(self) -> None:
        """Free the vocabulary; a second call does nothing."""
        with self._lock:
            self._closed = True
            self._segments.clear()
            if self._vocabulary is not None:
                self._vocabulary.close()

    def warm(self) -> None:
        """Load everything now, and find out the chat template's limits."""
        if self._template_source():
            _ = self.template.append_only

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, loaded if it was not yet."""
        with self._lock:
            if self._closed:
                raise ClosedError("The tokenizer was closed; open its model again")
            if self._vocabulary is None:
                given = self._source
                self._vocabulary = (
                    given if isinstance(given, Vocabulary) else FileVocabulary.load(Path(given).expanduser())
                )
            return self._vocabulary

    @property
    def template(self) -> ChatTemplate:
        """The chat template: the one given, or the model's own."""
        with self._lock:
            vocabulary, source = self.vocabulary, self._template_source()
            if self._template is None:
                if not source:
                    raise TemplateError(
                        "The model carries no chat template; take one that was made to chat, or pass template="
                    )
                self._template = ChatTemplate(source, bos=vocabulary.bos_text, eos=vocabulary.eos_text)
            return self._template

    def _template_source(self) -> str:
        return self._given_template or self.vocabulary.template

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the same messages would get other tokens."""
        return f"{self.vocabulary.digest}-{hashlib.sha256(self._template_source().encode()).hexdigest()[:8]}"

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokenise bare text, without a beginning-of-sequence token; `special` parses special tokens."""
        with self._lock:
            if not self.vocabulary.is_remote:
                return list(self.vocabulary.tokenize(text, special=special))
            (segment,) = self._tokenised([text], special=special)
            return list(segment.ids)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> Prompt:
        """Render messages; the ids equal those of the whole text tokenised at once."""
        with self._lock:
            vocabulary, markers = self.vocabulary, self.vocabulary.markers
            text = self.template.render(
                messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                now=now,
                clean=None if markers is None else lambda content: neutralise(content, markers),
            )
            segments = self._tokenised(vocabulary.cut(text))
            if vocabulary.begins and not text.startswith(vocabulary.bos_text):
                segments.insert(0, Segment("", vocabulary.begins))
            return Prompt(text, tuple(segments))

    def _tokenised(self, texts: Sequence[str], *, special: bool = True) -> list[Segment]:
        kept, vocabulary = self._segments, self.vocabulary
        segments: dict[str, Segment] = {}
        new: list[str] = []
        for text in dict.fromkeys(texts):
            segment = kept.get((text, special))
            if segment is None:
                new.append(text)
            else:
                kept.move_to_end((text, special))
                segments[text] = segment
        for text, ids in zip(new, vocabulary.tokenize_all(new, special=special), strict=True):
            segments[text] = kept[text, special] = Segment(text, ids)
            self._weight += _weight(segments[text])
            self.tokenised_bytes += len(text.encode("utf-8", "replace"))
        while self._weight > _CACHE_BYTES and kept:
            self._weight -= _weight(kept.popitem(last=False)[1])
        return [segments[text] for text in texts]


def _weight(segment: Segment) -> int:
    return 4 * len(segment.text) + _BYTES_PER_ID * len(segment.ids)
