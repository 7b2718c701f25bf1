"""The vocabulary of a model in another process: what is asked of its server once, and what each time."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import ServerError
from edgemem.llama.markup import MARKS
from edgemem.llama.vocabulary import Special, cut_before, cutter, is_markup, short_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.llama.http_server import LlamaServer

_BPE = 2
_BETWEEN = -1
"""Put between texts that one request tokenises: the server hands ids back as they are, and this is none."""
_PIECES = 1 << 15
"""Ids whose bytes are asked for at a time: about a megabyte of JSON."""
_PROBE = "The robot's 12 cups,\n\tthe cat … Straße über 好的，七分钟 кошка 🙂!?"
_BLANK = "a \n"


class _Piece(msgspec.Struct):
    id: int
    piece: str | list[int]


class HttpVocabulary:
    """Learns every token's bytes when it is made, some megabytes of JSON, and keeps what prompts need."""

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        self._is_bpe = server.holds.figures[0] == _BPE
        (bare,), (begun,) = self._ask(["a"]), self._ask(["a"], add_special=True)
        self.bos = begun[:1] if begun[1 : 1 + len(bare)] == bare else ()
        """The token that a prompt begins with, if the model wants one."""
        state = hashlib.sha256(repr((bare, begun, self._ask([_PROBE]))).encode())
        markup: list[Special] = []
        self._halves: dict[bytes, list[int]] = {}
        for token, piece in self._pieces(server.holds.n_vocab):
            state.update(piece + b"\0")
            try:
                special = Special(token, piece.decode(), control=True, lstrip=False)
            except UnicodeDecodeError:
                self._halves.setdefault(piece, []).append(token)
            else:
                if is_markup(special):
                    markup.append(special)
        self.digest = state.hexdigest()[:16]
        """A short string that differs between vocabularies that would give other ids."""
        controls = self._controls(markup)
        self.controls = {special.id: special.text for special in controls}
        """Tokens that steer the model and are never printed."""
        self._cutter = cutter(controls)
        (line_feed,) = self._ask(["\n"], special=False)
        self._spacer = line_feed if len(line_feed) > 1 else ()

    def cut(self, text: str) -> list[str]:
        """Cut a rendered prompt before each special token that nothing can overlap."""
        return cut_before(self._cutter, text)

    def tokenize(self, texts: Sequence[str], *, special: bool) -> list[tuple[int, ...]]:
        """Return the ids of each text, without a beginning-of-sequence token, with one request for all."""
        return self._ask(texts, special=special) if texts else []

    def continue_text(self, text: str) -> tuple[int, ...]:
        """Return the ids of prompt text that goes on in the middle of a word: no space is put in front."""
        if not text:
            return ()
        (ids,) = self._ask(["\n" + text if self._spacer else text])
        at = len(self._spacer)
        if ids[:at] == self._spacer:
            return ids[at:]
        (ids,) = self._ask([text])
        return ids

    def piece(self, token: int) -> bytes:
        """Return the bytes that a generated token adds to the text; of control tokens, only those that mark a thought or call."""
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

        It then sends the text of all of them and the id of the last. Each of the others ends within a character, and
        few tokens do, so mostly just one row of `count` of them spells what is missing.

        Args:
            shown: the bytes of them all.
            last: the bytes of the last one.

        Returns:
            The tokens and their bytes; none if no row does, because the character was broken: its bytes were not sent.
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
        found = [
            special
            for special, one, other in zip(markup, parsed, plain, strict=True)
            if one == (special.id,) and special.id not in other
        ]
        (bare,), behind = self._ask(["a"]), self._ask([_BLANK + special.text for special in found])
        return tuple(
            msgspec.structs.replace(special, lstrip=ids == (*bare, special.id))
            for special, ids in zip(found, behind, strict=True)
        )

    def _pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        for begin in range(0, size, _PIECES):
            yield from self._pieces_of(range(begin, min(begin + _PIECES, size)))

    def _pieces_of(self, ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        told = self._server.ask("/tokenize", {"content": list(ids), "with_pieces": True})
        for one in msgspec.convert(told["tokens"], list[_Piece]):
            yield one.id, one.piece.encode() if isinstance(one.piece, str) else bytes(one.piece)

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
        found: list[list[int]] = [[]]
        for token in msgspec.convert(self._server.ask("/tokenize", asked)["tokens"], list[int]):
            if token == _BETWEEN:
                found.append([])
            else:
                found[-1].append(token)
        if len(found) != len(texts):
            raise ServerError(
                "The server tokenises one text at a time, so it is from before 2025; start a new one"
            )
        return [tuple(ids) for ids in found]
