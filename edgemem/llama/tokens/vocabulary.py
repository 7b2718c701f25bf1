"""A vocabulary: text to ids, ids to bytes, and where a prompt may be cut; of a GGUF, or of a model behind a server."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import re
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ClosedError, ModelError, ServerError
from edgemem.llama import backend
from edgemem.llama.models.gguf import read_header
from edgemem.llama.replies import MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from edgemem.llama.server.client import LlamaServer


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


class Vocabulary(ABC):
    """Text to ids and back; safe from several threads."""

    bos_text: str
    eos_text: str
    """How the two are spelled in a template; empty for none."""
    begins: tuple[int, ...]
    """The token that a prompt begins with, if the model wants one."""
    template: str
    """The chat template that came with the model; empty for none."""
    digest: str
    """Differs between vocabularies that would give other ids."""

    def __init__(self, controls: Sequence[Special]) -> None:
        """Learn the special tokens that prompts are cut before, and whether a space is put before text."""
        texts = [special.text for special in controls if special.control and is_markup(special)]
        self.markers = re.compile("|".join(map(re.escape, texts))) if texts else None
        """What nobody may say: markers that steer the model."""
        self._cutter = cutter(controls)
        line_feed = self.tokenize("\n", special=False)
        self._spacer = line_feed if len(line_feed) > 1 else ()

    @abstractmethod
    def tokenize_all(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Return the ids of each text without a beginning-of-sequence token; `special` parses special tokens."""

    @abstractmethod
    def piece(self, token: int) -> bytes:
        """Return the bytes that a generated token adds to the text; of control tokens, only those that mark a thought or call."""

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
        """Return the ids of prompt text that goes on in the middle of a word: no space is put in front."""
        if not text or not self._spacer:
            return self.tokenize(text, special=True) if text else ()
        ids = self.tokenize("\n" + text, special=True)
        at = len(self._spacer)
        return ids[at:] if ids[:at] == self._spacer else self.tokenize(text, special=True)

    def close(self) -> None:
        """Free what it takes; a second call does nothing."""
        return


class FileVocabulary(Vocabulary):
    """The vocabulary of a GGUF, loaded alone, or borrowed from a model that is loaded anyway."""

    def __init__(self, model: Any, *, free: Callable[[Any], None] | None = None) -> None:
        self._api = backend.llama()
        self._lock = threading.Lock()
        self.model = model
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
        self.bos = int(self._api.llama_vocab_bos(self._vocab))
        self.eos = int(self._api.llama_vocab_eos(self._vocab))
        self.bos_text, self.eos_text = self._text_of(self.bos), self._text_of(self.eos)
        self.begins = (self.bos,) if self._api.llama_vocab_get_add_bos(self._vocab) else ()
        self.template = self._metadata("tokenizer.chat_template") or ""
        self.specials = self._find_specials()
        self._marks = {
            special.id: special.text.encode() for special in self.specials if special.text in MARKS
        }
        self.digest = self._hash()
        super().__init__(self.specials)

    @classmethod
    def load(cls, path: Path) -> FileVocabulary:
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
            model, self.model = self.model, None
            if model is not None and self._free is not None:
                self._free(model)

    def tokenize_all(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Return the ids of each text without a beginning-of-sequence token; `special` parses special tokens."""
        with self._open():
            parts = (short_runs(text) if self.kind == _BPE and len(text) > _RUN else [text] for text in texts)
            return [
                tuple(itertools.chain.from_iterable(self._tokenize(part, special) for part in cut))
                for cut in parts
            ]

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
        """Return one value of the GGUF's metadata."""
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

    def _tokenize(self, text: str, special: bool) -> list[int]:
        raw = text.encode("utf-8", "replace")  # a lone surrogate becomes a question mark
        if len(raw) + 2 > len(self._buffer):
            self._buffer = (self._api.llama_token * (len(raw) + 2))()
        count = self._api.llama_tokenize(
            self._vocab, raw, len(raw), self._buffer, len(self._buffer), False, special
        )
        if count < 0:  # normalising made the text longer
            self._buffer = (self._api.llama_token * -count)()
            count = self._api.llama_tokenize(self._vocab, raw, len(raw), self._buffer, -count, False, special)
        return list(self._buffer[:count])

    def _text_of(self, token: int) -> str:
        """Return how a token is spelled in a template; empty for none (-1)."""
        text: bytes | None = self._api.llama_vocab_get_text(self._vocab, token) if token >= 0 else None
        return (text or b"").decode("utf-8", "replace")

    def _find_specials(self) -> tuple[Special, ...]:
        """Collect what llama.cpp's own cache of special tokens holds."""
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
    alternatives = [(_SPACE + "*" if special.lstrip else "") + re.escape(special.text) for special in chosen]
    return re.compile("|".join(alternatives)) if alternatives else None


def short_runs(text: str) -> list[str]:
    """Cut a text inside its overlong runs of one kind of character."""
    parts, at = [], 0
    for run in _LONG_RUN.finditer(text):
        parts.append(text[at : run.end()])
        at = run.end()
    return [*parts, text[at:]]


_BETWEEN = -1
"""Put between texts that one request tokenises: the server hands ids back as they are, and this is none."""
_PIECES = 1 << 15
"""Ids whose bytes are asked for at a time: about a megabyte of JSON."""
_PROBE = "The robot's 12 cups,\n\tthe cat … Straße über 好的，七分钟 кошка 🙂!?"
_BLANK = "a \n"


class _Piece(msgspec.Struct):
    id: int
    piece: str | list[int]


class ServerVocabulary(Vocabulary):
    """The vocabulary of a model in another process.

    It learns every token's bytes when it is made, some megabytes of JSON, and keeps what prompts need.
    """

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        holds = server.holds
        self.bos_text, self.eos_text, self.template = holds.bos, holds.eos, holds.template
        self._is_bpe = holds.figures[0] == _BPE
        (bare,), (begun,) = self._ask(["a"]), self._ask(["a"], add_special=True)
        self.begins = begun[:1] if begun[1 : 1 + len(bare)] == bare else ()
        state = hashlib.sha256(repr((bare, begun, self._ask([_PROBE]))).encode())
        markup: list[Special] = []
        self._halves: dict[bytes, list[int]] = {}
        for token, piece in self._pieces(holds.n_vocab):
            state.update(piece + b"\0")
            try:
                special = Special(token, piece.decode(), control=True, lstrip=False)
            except UnicodeDecodeError:
                self._halves.setdefault(piece, []).append(token)
            else:
                if is_markup(special):
                    markup.append(special)
        self.digest = state.hexdigest()[:16]
        controls = self._controls(markup)
        self.controls = {special.id: special.text for special in controls}
        """Tokens that steer the model and are never printed."""
        super().__init__(controls)

    def tokenize_all(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Return the ids of each text, without a beginning-of-sequence token, with one request for all."""
        return self._ask(texts, special=special)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token."""
        if token in self.controls:
            return self.mark(token).encode()
        ((_, piece),) = self._pieces_of([token])
        return piece

    def mark(self, token: int) -> str:
        """Return how a control token that marks a thought or a call is spelled; empty for any other token."""
        text = self.controls.get(token, "")
        return text if text in MARKS else ""

    def untold(self, shown: bytes, last: bytes, count: int) -> tuple[tuple[int, bytes], ...]:
        """Return the tokens that the server kept back until a character was whole.

        It then sends the text of all of them, `shown`, and the id of the last. Each of the others ends within a
        character, and few tokens do, so mostly just one row of `count` of them spells what is missing: they are returned
        with their bytes. No row does where the character was broken: its bytes were not sent.
        """
        missing = shown.removesuffix(last) if last else shown
        return next(self._rows(missing, count), ())

    def _rows(self, spelt: bytes, count: int) -> Iterator[tuple[tuple[int, bytes], ...]]:
        """Yield each row of `count` half tokens that spells the bytes, the longest first token first."""
        if count == 0:
            if not spelt:
                yield ()
            return
        for end in range(len(spelt) - count + 1, 0, -1):
            for token in self._halves.get(spelt[:end], ()):
                for rest in self._rows(spelt[end:], count - 1):
                    yield ((token, spelt[:end]), *rest)

    def _controls(self, markup: Sequence[Special]) -> tuple[Special, ...]:
        """Return those that are tokens only where special tokens are parsed; words such as `<tool_call>` always are."""
        texts = [special.text for special in markup]
        parsed, plain = self._ask(texts), self._ask(texts, special=False)
        controls = [
            special
            for special, ids, plain_ids in zip(markup, parsed, plain, strict=True)
            if ids == (special.id,) and special.id not in plain_ids
        ]
        (bare,), behind = self._ask(["a"]), self._ask([_BLANK + special.text for special in controls])
        return tuple(
            msgspec.structs.replace(special, lstrip=ids == (*bare, special.id))
            for special, ids in zip(controls, behind, strict=True)
        )

    def _pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        for begin in range(0, size, _PIECES):
            yield from self._pieces_of(range(begin, min(begin + _PIECES, size)))

    def _pieces_of(self, ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        answer = self._server.ask("/tokenize", {"content": list(ids), "with_pieces": True})
        for piece in msgspec.convert(answer["tokens"], list[_Piece]):
            yield piece.id, piece.piece.encode() if isinstance(piece.piece, str) else bytes(piece.piece)

    def _ask(
        self, texts: Sequence[str], *, special: bool = True, add_special: bool = False
    ) -> list[tuple[int, ...]]:
        if not texts:
            return []
        content: list[str | int] = []
        for text in texts:
            clean = text.encode("utf-8", "replace").decode()  # a lone surrogate becomes a question mark
            # the overlong runs that would kill this process would kill the server
            content += [_BETWEEN, *(short_runs(clean) if self._is_bpe else [clean])]
        asked = {"content": content[1:], "parse_special": special, "add_special": add_special}
        rows: list[list[int]] = [[]]
        for token in msgspec.convert(self._server.ask("/tokenize", asked)["tokens"], list[int]):
            if token == _BETWEEN:
                rows.append([])
            else:
                rows[-1].append(token)
        if len(rows) != len(texts):
            raise ServerError(
                "The server tokenises one text at a time, so it is from before 2025; start a new one"
            )
        return [tuple(ids) for ids in rows]
