"""A vocabulary: text to ids, ids to bytes, and where a prompt may be cut."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from edgemem.errors import ClosedError, ModelError
from edgemem.llama import backend
from edgemem.llama.header import read_header
from edgemem.llama.replies import MARKS

_UNKNOWN, _CONTROL, _USER_DEFINED, _LSTRIP = 1 << 0, 1 << 3, 1 << 4, 1 << 7
_NONE, BPE = 0, 2
_SPACE = r"[ \t\n\v\f\r]"  # C's isspace()
# llama.cpp splits some BPE vocabularies with std::regex, which recurses for each character of a match: some 20,000
# letters, digits or dots in a row overflow an 8 MB stack and kill the process
_RUN = 2048
_LONG_RUN = re.compile(rf"\w{{{_RUN}}}|\s{{{_RUN}}}|[^\w\s]{{{_RUN}}}")


class Special(msgspec.Struct, frozen=True):
    """A token that llama.cpp looks for before it tokenises the rest of a text."""

    id: int
    text: str
    control: bool
    """Steers the model and is never printed; the others are words such as `<tool_call>`."""
    lstrip: bool
    """Swallows the whitespace in front of it."""


class Vocabulary(ABC):
    """Text to ids and back; safe from several threads."""

    bos_text: str
    eos_text: str
    """Spelling of the two in a template; empty for none."""
    begins: tuple[int, ...]
    """The token before a prompt, if the model wants one."""
    template: str
    """The model's own chat template; empty for none."""
    digest: str
    """Differs between vocabularies that give other ids."""
    is_remote = False
    """Whether another process is asked for ids."""

    def __init__(self, controls: Sequence[Special]) -> None:
        """Learn the special tokens that prompts are cut before, and whether a space is put before text."""
        texts = [special.text for special in controls if special.control and is_markup(special)]
        self.markers = re.compile("|".join(map(re.escape, texts))) if texts else None
        """Markers that steer the model, and that nobody may say."""
        self._cutter = cutter(controls)
        line_feed = self.tokenize("\n", special=False)
        self._spacer = line_feed if len(line_feed) > 1 else ()

    @abstractmethod
    def tokenize_all(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Return the ids of each text without a beginning-of-sequence token; `special` parses special tokens."""

    @abstractmethod
    def piece(self, token: int) -> bytes:
        """Return the bytes that a generated token adds; of control tokens, only those that mark a thought or call have any."""

    def tokenize(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Return the ids of one text."""
        (ids,) = self.tokenize_all([text], special=special)
        return ids

    def cut(self, text: str) -> list[str]:
        """Cut a rendered prompt before each special token that nothing can overlap."""
        if self._cutter is None:
            return [text] if text else []
        places = [0, *(match.start() for match in self._cutter.finditer(text) if match.start()), len(text)]
        return [text[begin:end] for begin, end in itertools.pairwise(places) if begin < end]

    def continue_text(self, text: str) -> tuple[int, ...]:
        """Return the ids of text that goes on in the middle of a word: without a space in front."""
        if not text or not self._spacer:
            return self.tokenize(text, special=True) if text else ()
        ids = self.tokenize("\n" + text, special=True)
        at = len(self._spacer)
        return ids[at:] if ids[:at] == self._spacer else self.tokenize(text, special=True)

    def close(self) -> None:
        """Free its memory; a second call does nothing."""
        return


class FileVocabulary(Vocabulary):
    """The vocabulary of a GGUF, loaded alone, or borrowed from a loaded model."""

    def __init__(self, model: Any, *, free: Callable[[Any], None] | None = None) -> None:
        self._api = backend.llama()
        self._lock = threading.Lock()
        self.model = model
        self._free = free
        self._vocab = self._api.llama_model_get_vocab(model)
        self._tokens = backend.TokenBuffer(self._vocab)
        self._piece = ctypes.create_string_buffer(1024)
        self.kind = int(self._api.llama_vocab_type(self._vocab))
        if self.kind == _NONE:
            self.close()
            raise ModelError("The model has no vocabulary, so its tokens cannot be counted; name another")
        self.size = int(self._api.llama_vocab_n_tokens(self._vocab))
        self.bos = int(self._api.llama_vocab_bos(self._vocab))
        self.eos = int(self._api.llama_vocab_eos(self._vocab))
        self.bos_text, self.eos_text = self._text_of(self.bos), self._text_of(self.eos)
        self.begins = (self.bos,) if self._api.llama_vocab_get_add_bos(self._vocab) else ()
        self.template = self._metadata("tokenizer.chat_template") or ""
        self.specials = self._find_specials()
        self._marks = {mark.id: mark.text.encode() for mark in self.specials if mark.text in MARKS}
        self.digest = self._hash()
        super().__init__(self.specials)

    @classmethod
    def load(cls, path: Path) -> FileVocabulary:
        """Load the vocabulary of a GGUF file, without its weights."""
        read_header(path)
        return cls(backend.load_model(path, vocab_only=True), free=backend.llama().llama_model_free)

    def close(self) -> None:
        """Free the vocabulary; a second call does nothing."""
        with self._lock:
            model, self.model = self.model, None
            if model is not None and self._free is not None:
                self._free(model)

    def tokenize_all(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Return the ids of each text without a beginning-of-sequence token; `special` parses special tokens."""
        with self._open():
            return [tuple(itertools.chain.from_iterable(self._pieces(text, special))) for text in texts]

    def _pieces(self, text: str, special: bool) -> Iterator[list[int]]:
        for part in short_runs(text) if self.kind == BPE and len(text) > _RUN else [text]:
            # a lone surrogate becomes a question mark
            yield self._tokens.ids(part.encode("utf-8", "replace"), special=special)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token."""
        if token in self._marks:
            return self._marks[token]
        with self._open():
            size = self._api.llama_token_to_piece(self._vocab, token, self._piece, len(self._piece), 0, False)
            if size < 0:
                self._piece = ctypes.create_string_buffer(-size)
                size = self._api.llama_token_to_piece(self._vocab, token, self._piece, -size, 0, False)
            return self._piece.raw[:size]

    def ends_reply(self, token: int) -> bool:
        """Tell whether the model ends its reply with this token."""
        with self._open():
            return bool(self._api.llama_vocab_is_eog(self._vocab, token))

    def _metadata(self, key: str) -> str | None:
        with self._open():
            size = self._api.llama_model_meta_val_str(self.model, key.encode(), None, 0)
            if size < 0:
                return None
            value = ctypes.create_string_buffer(size + 1)
            self._api.llama_model_meta_val_str(self.model, key.encode(), value, size + 1)
            return value.value.decode("utf-8", "replace")

    def _hash(self) -> str:
        head = f"{self.kind} {self.size} {bool(self.begins)} {self.bos} {self.eos}"
        state = hashlib.sha256(head.encode())
        for token in [*range(0, self.size, 37), *(special.id for special in self.specials)]:
            state.update(self._text_of(token).encode() + b"\0")
        state.update((self._metadata("tokenizer.ggml.pre") or "").encode())
        return state.hexdigest()[:16]

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self.model is None:
                raise ClosedError("The tokenizer was closed; open its model again")
            yield

    def _text_of(self, token: int) -> str:
        """Return a token's spelling in a template; empty for none (-1)."""
        text: bytes | None = self._api.llama_vocab_get_text(self._vocab, token) if token >= 0 else None
        return (text or b"").decode("utf-8", "replace")

    def _find_specials(self) -> tuple[Special, ...]:
        """Collect llama.cpp's own cache of special tokens."""
        flagged = ((token, self._api.llama_vocab_get_attr(self._vocab, token)) for token in range(self.size))
        return tuple(
            Special(token, self._text_of(token), bool(flags & _CONTROL), bool(flags & _LSTRIP))
            for token, flags in flagged
            if flags & (_UNKNOWN | _CONTROL | _USER_DEFINED)
        )


def is_markup(special: Special) -> bool:
    """Tell a marker such as `<|im_start|>` or `[INST]` from a letter or a run of spaces that is special too."""
    text = special.text
    return len(text) > 2 and not text[0].isalnum() and not text[-1].isalnum() and not re.search(r"\s", text)


def cutter(specials: Sequence[Special]) -> re.Pattern[str] | None:
    """Return a pattern for the special tokens that are found anywhere.

    llama.cpp looks for the longest special token first, over the whole text: one that no other overlaps or contains is always
    found, so a cut before it leaves the ids as they are.
    """
    texts = {special.text for special in specials}
    everything = "\0".join(texts)
    heads = {text[:end] for text in texts for end in range(1, len(text))}
    tails = {text[begin:] for text in texts for begin in range(1, len(text))}

    def stands_alone(text: str) -> bool:
        overlapped = any(text[begin:] in heads for begin in range(1, len(text)))
        overlapping = any(text[:end] in tails for end in range(1, len(text)))
        return not overlapped and not overlapping and everything.count(text) == 1

    chosen = [special for special in specials if is_markup(special) and stands_alone(special.text)]
    alternatives = [(_SPACE + "*" if special.lstrip else "") + re.escape(special.text) for special in chosen]
    return re.compile("|".join(alternatives)) if alternatives else None


def short_runs(text: str) -> list[str]:
    """Cut a text inside its overlong runs of one kind of character."""
    parts, at = [], 0
    for run in _LONG_RUN.finditer(text):
        parts.append(text[at : run.end()])
        at = run.end()
    return [*parts, text[at:]]
