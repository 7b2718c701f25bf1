"""The tokenizer of a GGUF: messages through its own chat template to exact ids, tokenising only what is new."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, TemplateError
from edgemem.llama.prompt import Prompt, Segment
from edgemem.llama.template import ChatTemplate, neutralise
from edgemem.llama.vocabulary import Vocabulary, is_markup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from edgemem.records import Message

_BYTES_PER_ID = 36  # a Python integer and its place in a tuple


class LlamaTokenizer:
    """Counts exactly what a model will be shown; loaded when first used, safe from several threads.

    Text in user, assistant and tool messages cannot become a control token: `<|im_end|>` said aloud is
    spelled `< |im_end|>` before rendering, and counted as it is sent.
    """

    exact = True

    def __init__(
        self, path: str | Path, *, template: str | None = None, cache_bytes: int = 4 << 20, clean: bool = True
    ) -> None:
        self._setup(lambda: Vocabulary.load(Path(path).expanduser()), template, cache_bytes, clean)

    @classmethod
    def of(
        cls, model: Any, *, template: str | None = None, cache_bytes: int = 4 << 20, clean: bool = True
    ) -> LlamaTokenizer:
        """Share the vocabulary of a loaded `llama_cpp.Llama`; close this before the model."""
        tokenizer = cls.__new__(cls)
        tokenizer._setup(lambda: Vocabulary(model.model), template, cache_bytes, clean)
        return tokenizer

    def _setup(
        self, load: Callable[[], Vocabulary], template: str | None, cache_bytes: int, clean: bool
    ) -> None:
        self._load = load
        self._given_template = template
        self._cache_bytes = cache_bytes
        self._clean = clean
        self._lock = threading.RLock()
        self._closed = False
        self._vocabulary: Vocabulary | None = None
        self._template: ChatTemplate | None = None
        self._markers: re.Pattern[str] | None = None
        self._cache: OrderedDict[str, Segment] = OrderedDict()
        self._cached_bytes = 0
        self.n_ctx: int | None = None
        """The window of the chat model that this came with, in tokens; None where it was loaded by itself."""
        self.tokenised_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the vocabulary; a second call does nothing."""
        with self._lock:
            self._closed = True
            self._cache.clear()
            if self._vocabulary is not None:
                self._vocabulary.close()

    def warm(self) -> None:
        """Load now what would be loaded at first use, and find out what the chat template can take."""
        if self._given_template or self.vocabulary.metadata("tokenizer.chat_template"):
            self.template.check()
            _ = self.template.habits

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary itself, loaded if it was not yet."""
        with self._lock:
            if self._closed:
                raise ClosedError("The tokenizer was closed; open its model again")
            if self._vocabulary is None:
                self._vocabulary = self._load()
                control = [one.text for one in self._vocabulary.specials if one.control and is_markup(one)]
                self._markers = re.compile("|".join(map(re.escape, control))) if control else None
            return self._vocabulary

    @property
    def template(self) -> ChatTemplate:
        """Return the chat template: the one given, or the one in the GGUF."""
        with self._lock:
            vocabulary = self.vocabulary
            if self._template is None:
                source = self._given_template or vocabulary.metadata("tokenizer.chat_template")
                if not source:
                    raise TemplateError(
                        "The model carries no chat template; take one that was made to chat, or pass template="
                    )
                bos, eos = vocabulary.text_of(vocabulary.bos), vocabulary.text_of(vocabulary.eos)
                self._template = ChatTemplate(source, bos=bos, eos=eos)
            return self._template

    @property
    def fingerprint(self) -> str:
        """Return a string that changes whenever the same messages would get other tokens."""
        import hashlib

        template = self._given_template or self.vocabulary.metadata("tokenizer.chat_template") or ""
        return f"{self.vocabulary.digest()}-{hashlib.sha256(template.encode()).hexdigest()[:8]}"

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokenise bare text, without a beginning-of-sequence token; `special` parses special tokens."""
        return list(self.vocabulary.tokenize(text, special=special))

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> Prompt:
        """Render messages; the ids equal those of the whole text tokenised at once.

        `now` is what a template that prints a date sees, in seconds since the epoch, UTC.
        """
        with self._lock:
            vocabulary = self.vocabulary
            text = self.template.render(
                messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                now=now,
                clean=self._neutral if self._clean else None,
            )
            segments = [self._segment(vocabulary, piece) for piece in vocabulary.cut(text)]
            if vocabulary.adds_bos and not text.startswith(vocabulary.text_of(vocabulary.bos)):
                segments.insert(0, Segment("", (vocabulary.bos,)))
            return Prompt(text, tuple(segments))

    def count(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> int:
        """Count the tokens of the rendered messages."""
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt, now=now).n

    def _neutral(self, text: str) -> str:
        return neutralise(text, self._markers) if self._markers is not None else text

    def _segment(self, vocabulary: Vocabulary, text: str) -> Segment:
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return known
        segment = Segment(text, vocabulary.tokenize(text, special=True))
        self.tokenised_bytes += len(text.encode("utf-8", "replace"))
        self._cache[text] = segment
        self._cached_bytes += _weight(segment)
        while self._cached_bytes > self._cache_bytes and self._cache:
            self._cached_bytes -= _weight(self._cache.popitem(last=False)[1])
        return segment


def _weight(segment: Segment) -> int:
    return 4 * len(segment.text) + _BYTES_PER_ID * len(segment.ids)
