"""One reply of a server, put together from its events: text for the voice, ids for the token log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from edgemem.llama.http_vocabulary import HttpVocabulary
    from edgemem.llama.tokenlog import TokenLog


class Timings(msgspec.Struct, frozen=True):
    """What the server says of its work on the prompt."""

    prompt_n: int
    """Tokens that it evaluated."""
    cache_n: int
    """Tokens that it had evaluated before."""


class Step(msgspec.Struct, frozen=True):
    """One event: a token that was made, or the end of the reply."""

    timings: Timings
    content: str = ""
    tokens: tuple[int, ...] = ()
    tokens_predicted: int = 0
    stop: bool = False
    stop_type: str = ""


class Reply:
    """Takes steps as they come and writes their tokens into the log.

    The server sends text by whole characters. Of the tokens that share one it tells the last, so the others are found
    again from their bytes; those of a character that never became whole cannot be, and are left out.
    """

    def __init__(self, log: TokenLog, vocabulary: HttpVocabulary, *, opened: str = "") -> None:
        """Make one.

        Args:
            opened: the marker with which the prompt opened a thought; the text begins with it.
        """
        self._opened = opened
        self._log = log
        self._vocabulary = vocabulary
        self._made = 0
        # the newest token, if it printed nothing: perhaps the one that ends the reply, which is no part of it
        self._silent: int | None = None
        self.text = ""
        self.ids: list[int] = []
        self.stopped: Literal["eos", "length", "interrupted"] = "interrupted"
        self._gap: int | None = None

    @property
    def sure(self) -> int:
        """Return how many tokens of the log the server holds just as the log does."""
        return len(self._log.ids) if self._gap is None else self._gap

    def take(self, step: Step) -> str:
        """Take a step and return what is to be said."""
        silent, self._silent = self._silent, None
        if silent is not None and step.stop_type != "eos":
            self._keep(silent, b"")
        if step.stop:
            self.stopped = "length" if step.stop_type == "limit" else "eos"
            return ""
        if not step.tokens:
            return ""  # a sign of life
        kept_back, self._made = step.tokens_predicted - self._made - 1, step.tokens_predicted
        token = step.tokens[-1]
        content = step.content or self._vocabulary.mark(token)
        if not content:
            self._silent = token
            return ""
        raw = content.encode()
        if kept_back or "\ufffd" in content:
            last = self._vocabulary.piece(token)
            found = self._vocabulary.untold(raw, last, kept_back)
            for each, piece in found:
                self._keep(each, piece)
            if len(found) < kept_back:
                self._gap = self.sure
            self._keep(token, last)
        else:
            self._keep(token, raw)
        said = content if self.text else content.lstrip()
        if said and not self.text:
            said = self._opened + said
        self.text += said
        return said

    def _keep(self, token: int, piece: bytes) -> None:
        self._log.append(token, piece)
        self.ids.append(token)
