"""The vocabulary of a GGUF: text to ids, ids to bytes, and where a prompt may be cut."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import re
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ClosedError, ModelError
from edgemem.llama import backend
from edgemem.llama.gguf import read_header
from edgemem.llama.markup import MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_UNKNOWN, _CONTROL, _USER_DEFINED, _LSTRIP = 1 << 0, 1 << 3, 1 << 4, 1 << 7
_NONE, _BPE = 0, 2
_SPACE = r"[ \t\n\v\f\r]"  # what C's isspace() takes for one
# llama.cpp splits some BPE vocabularies with std::regex, which recurses once a character of a match:
# about 20,000 letters, digits or dots in a row overflow an 8 MB stack and kill the process
_RUN = 2048
_LONG_RUN = re.compile(rf"\w{{{_RUN}}}|\s{{{_RUN}}}|[^\w\s]{{{_RUN}}}")


class Special(msgspec.Struct, frozen=True):
    """A token that llama.cpp looks for in the text before it tokenises the rest."""

    id: int
    text: str
    control: bool
    """It steers the model and is never printed; the others are words such as `<tool_call>`."""
    lstrip: bool
    """It swallows the whitespace in front of it."""


class Vocabulary:
    """A vocabulary loaded alone, or borrowed from a model that is loaded anyway; safe from several threads."""

    def __init__(self, model: Any, *, free: Callable[[Any], None] | None = None) -> None:
        self._api = backend.llama()
        self._lock = threading.Lock()
        self._model = model
        self._free = free
        self._vocab = self._api.llama_model_get_vocab(model)
        self._buffer = (self._api.llama_token * 4096)()
        self._piece = ctypes.create_string_buffer(1024)
        self.kind = int(self._api.llama_vocab_type(self._vocab))
        if self.kind == _NONE:
            self.close()
            raise ModelError(
                "The model has no vocabulary, so its tokens cannot be counted; name another model"
            )
        self.size = int(self._api.llama_vocab_n_tokens(self._vocab))
        self.adds_bos = bool(self._api.llama_vocab_get_add_bos(self._vocab))
        self.bos = int(self._api.llama_vocab_bos(self._vocab))
        self.eos = int(self._api.llama_vocab_eos(self._vocab))
        self.specials = self._find_specials()
        self._marks = {one.id: one.text.encode() for one in self.specials if one.text in MARKS}
        self._cutter = cutter(self.specials)
        self._spacer = self._find_spacer()

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Load the vocabulary of a GGUF file, without its weights."""
        read_header(path)
        api = backend.llama()
        options = api.llama_model_default_params()
        options.vocab_only = True
        backend.forget_complaints()
        model = api.llama_model_load_from_file(str(path).encode(), options)
        if not model:
            reason = backend.last_complaint() or "it is damaged"
            raise ModelError(f"The vocabulary of {path} cannot be loaded ({reason}); name another model")
        return cls(model, free=api.llama_model_free)

    def close(self) -> None:
        """Free the vocabulary; a second call does nothing."""
        with self._lock:
            model, self._model = self._model, None
            if model is not None and self._free is not None:
                self._free(model)

    def tokenize(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Return the ids of `text` without a beginning-of-sequence token; `special` parses special tokens."""
        with self._open():
            if self.kind == _BPE and len(text) > _RUN and _LONG_RUN.search(text):
                return tuple(token for part in short_runs(text) for token in self._tokenize(part, special))
            return self._tokenize(text, special)

    def continue_text(self, text: str) -> tuple[int, ...]:
        """Return the ids of prompt text that goes on in the middle of a word: no space is put in front."""
        if not text or not self._spacer:
            return self.tokenize(text, special=True)
        ids = self.tokenize("\n" + text, special=True)
        at = len(self._spacer)
        return ids[at:] if ids[:at] == self._spacer else self.tokenize(text, special=True)

    def piece(self, token: int) -> bytes:
        """Return the bytes that a generated token adds to the text; of control tokens, only those that mark a thought or call."""
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

    def text_of(self, token: int) -> str:
        """Return how a token is spelled in a template; empty for none (-1)."""
        with self._open():
            return self._text_of(token) if token >= 0 else ""

    def metadata(self, key: str) -> str | None:
        """Return one value of the GGUF's metadata."""
        with self._open():
            size = self._api.llama_model_meta_val_str(self._model, key.encode(), None, 0)
            if size < 0:
                return None
            value = ctypes.create_string_buffer(size + 1)
            self._api.llama_model_meta_val_str(self._model, key.encode(), value, size + 1)
            return value.value.decode("utf-8", "replace")

    def cut(self, text: str) -> list[str]:
        """Cut a rendered prompt before each special token that nothing can overlap."""
        return cut_before(self._cutter, text)

    def digest(self) -> str:
        """Return a short string that differs between vocabularies that would give other ids."""
        with self._open():
            state = hashlib.sha256(f"{self.kind} {self.size} {self.adds_bos} {self.bos} {self.eos}".encode())
            for token in [*range(0, self.size, 37), *(special.id for special in self.specials)]:
                state.update(self._text_of(token).encode() + b"\0")
        state.update((self.metadata("tokenizer.ggml.pre") or "").encode())
        return state.hexdigest()[:16]

    def _open(self) -> threading.Lock:
        if self._model is None:
            raise ClosedError("The tokenizer was closed; open its model again")
        return self._lock

    def _tokenize(self, text: str, special: bool) -> tuple[int, ...]:
        if self._model is None:  # closed while this thread waited for the lock
            raise ClosedError("The tokenizer was closed; open its model again")
        raw = text.encode("utf-8", "replace")  # a lone surrogate becomes a question mark
        if len(raw) + 2 > len(self._buffer):
            self._buffer = (self._api.llama_token * (len(raw) + 2))()
        count = self._api.llama_tokenize(
            self._vocab, raw, len(raw), self._buffer, len(self._buffer), False, special
        )
        if count < 0:  # normalising made the text longer
            self._buffer = (self._api.llama_token * -count)()
            count = self._api.llama_tokenize(self._vocab, raw, len(raw), self._buffer, -count, False, special)
        return tuple(self._buffer[:count])

    def _text_of(self, token: int) -> str:
        text: bytes | None = self._api.llama_vocab_get_text(self._vocab, token)
        return (text or b"").decode("utf-8", "replace")

    def _find_specials(self) -> tuple[Special, ...]:
        """Collect what llama.cpp's own cache of special tokens holds."""
        attribute, vocab, wanted = (
            self._api.llama_vocab_get_attr,
            self._vocab,
            _UNKNOWN | _CONTROL | _USER_DEFINED,
        )
        found = ((token, attribute(vocab, token)) for token in range(self.size))
        return tuple(
            Special(token, self._text_of(token), bool(flags & _CONTROL), bool(flags & _LSTRIP))
            for token, flags in found
            if flags & wanted
        )

    def _find_spacer(self) -> tuple[int, ...]:
        """Return the ids of a line feed where the vocabulary puts a space before text, else nothing."""
        with_space = self._tokenize("\n", special=False)
        return with_space if len(with_space) > 1 else ()


def is_markup(special: Special) -> bool:
    """Tell a marker such as `<|im_start|>` or `[INST]` from a letter or a run of spaces that is special too."""
    text = special.text
    return len(text) > 2 and not text[0].isalnum() and not text[-1].isalnum() and not re.search(r"\s", text)


def cutter(specials: Sequence[Special]) -> re.Pattern[str] | None:
    """Return a pattern for the special tokens that are found wherever they stand.

    llama.cpp looks for the longest special token first, over the whole text. A token that no other one
    overlaps or contains is always found, so a cut before it leaves the ids as they are.
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
    alternatives = [(_SPACE + "*" if one.lstrip else "") + re.escape(one.text) for one in chosen]
    return re.compile("|".join(alternatives)) if alternatives else None


def cut_before(markers: re.Pattern[str] | None, text: str) -> list[str]:
    """Cut a text before each marker."""
    if markers is None:
        return [text] if text else []
    places = [0, *(match.start() for match in markers.finditer(text) if match.start()), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(places) if begin < end]


def short_runs(text: str) -> list[str]:
    """Cut a text inside its overlong runs of one kind of character."""
    parts, at = [], 0
    for run in _LONG_RUN.finditer(text):
        parts.append(text[at : run.end()])
        at = run.end()
    return [*parts, text[at:]] if at < len(text) else parts
