"""The doors to a language model, small enough that a test or a user can bring their own, and the records that pass through."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from edgemem.preload import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records import Message


class Segment(msgspec.Struct, frozen=True):
    """A stretch of a prompt that begins at a special token and is tokenised by itself."""

    text: str
    ids: tuple[int, ...]


class Prompt(msgspec.Struct, frozen=True):
    """A rendered prompt; the ids of its segments, one after the other, are the ids of the whole."""

    text: str
    segments: tuple[Segment, ...]

    @property
    def ids(self) -> list[int]:
        """The token ids to hand to the model."""
        return [token for segment in self.segments for token in segment.ids]

    @property
    def n(self) -> int:
        """The number of tokens."""
        return sum(len(segment.ids) for segment in self.segments)


class Generation(msgspec.Struct, frozen=True):
    """The record of a chat model's last call."""

    text: str = ""
    ids: tuple[int, ...] = ()
    """The reply's token ids as generated, without the one that ended it."""
    prompt_tokens: int = 0
    evaluated_tokens: int = 0
    """Prompt tokens that were really evaluated; the others were a common prefix with what came before."""
    stopped: Literal["eos", "length", "interrupted"] = "eos"


class Encoding(NamedTuple):
    """What an embedder makes of a text."""

    vector: NDArray[np.float32]
    """Of unit length."""
    tokens: NDArray[np.int8] | None = None
    """`int8[tokens, k]`: unit vectors times 127 of the first tokens that are words; None: the embedder gives none."""


@runtime_checkable
class Embedder(Protocol):
    """Turns text into unit vectors. Derive your own from this: all methods but three have a default."""

    dimensions: int
    fingerprint: str
    """Changes whenever the same text would get another vector."""
    languages: tuple[str, ...] = ()
    """Two letters each; empty: many."""
    n_ctx: int = 0
    """Tokens that one vector can be made of, with those around the text; 0: unknown."""

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> NDArray[np.float32] | None:
        """Embed a question; None after `timeout_s` seconds."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed stored text, one row each; queries go first."""
        ...

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[NDArray[np.float32]]:
        """Embed stored text in order, and return the rows made before `stop()` became true."""
        rows: list[NDArray[np.float32]] = []
        for text in texts:
            if stop():
                break
            rows.extend(self.embed_texts([text]))
        return rows

    def encode_query(self, text: str, *, timeout_s: float | None = None) -> Encoding | None:
        """Embed a question as `embed_query` does, with its tokens if the model tells them."""
        vector = self.embed_query(text, timeout_s=timeout_s)
        return None if vector is None else Encoding(vector)

    def encode_texts(
        self, texts: Sequence[str], stop: Callable[[], bool] | None = None
    ) -> Sequence[Encoding]:
        """Embed stored text as `embed_texts` does, or as `embed_until`, with the tokens of each if the model tells them."""
        rows = self.embed_texts(texts) if stop is None else self.embed_until(texts, stop)
        return [Encoding(row) for row in rows]

    def yield_to_speech(self) -> None:
        """Stop at once what `embed_until` computes, wherever its `stop()` is true by now."""
        return

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each stored text, with those around it; asked where `n_ctx` is known."""
        return [len(text) for text in texts]

    def warm(self) -> None:
        """Begin to load the model, and return at once."""
        return

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        ...


def common_prefix(items: Sequence[object], other: Sequence[object]) -> int:
    """Count the items, such as token ids, that two sequences begin with in common."""
    return sum(1 for _ in itertools.takewhile(lambda same: same, map(operator.eq, items, other)))


def model_file(model: Embedder | None) -> Path | None:
    """Return the file of a model, if there is one."""
    path = getattr(model, "path", None)
    return path if isinstance(path, Path) else None


@runtime_checkable
class Tokenizer(Protocol):
    """Counts tokens as a model will see them; derive your own from this."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the same messages would get other tokens."""
        ...

    @property
    def exact(self) -> bool:
        """Whether counts are those of a loaded model, or an estimate."""
        ...

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Tokenise bare text, without a beginning-of-sequence token; `special` parses special tokens."""
        ...

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> Prompt:
        """Render messages through the chat template, which may print `now`, seconds since the epoch, UTC."""
        ...

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


@runtime_checkable
class ChatModel(Protocol):
    """Answers messages, one piece of text after the other."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of this very model."""
        ...

    @property
    def n_ctx(self) -> int:
        """The size of the context window in tokens."""
        ...

    @property
    def last(self) -> Generation:
        """The outcome of the last `stream`; complete once its iterator has ended."""
        ...

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        max_tokens: int,
        stop: Callable[[], bool] | None = None,
        temperature: float = 0.0,
        seed: int = 0,
        now: float | None = None,
    ) -> Iterator[str]:
        """Yield the reply as it is made; it ends within one token once `stop()` is true."""
        ...

    def cut(self, heard_text: str) -> None:
        """Forget the tokens generated behind `heard_text`: a barge-in stopped the voice there."""
        ...
