"""The vocabulary of a model behind a llama-server."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import ServerError
from edgemem.llama.replies import MARKS
from edgemem.llama.tokens.vocabulary import BPE, Special, Vocabulary, is_markup, short_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.llama.server.client import LlamaServer

_log = logging.getLogger(__name__)
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

    is_remote = True

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        holds = self._holds = server.holds
        self.n_ctx = holds.n_ctx
        self.bos_text, self.eos_text, self.template = holds.bos, holds.eos, holds.template
        self._is_bpe = holds.figures[0] == BPE
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

    def refresh(self) -> Vocabulary:
        """Return this vocabulary, or that of the model that the server holds now."""
        holds = self._server.refresh()
        if holds == self._holds:
            return self
        _log.warning(
            "the server at %s now holds %s; the tokens of the model before are dropped",
            self._server.address.text,
            holds.model,
        )
        return ServerVocabulary(self._server)

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
        character, and few tokens do, so mostly just one row of `count` of them spells the missing bytes: they are returned
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
