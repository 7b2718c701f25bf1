"""A chat model in another process, a llama-server: the same promises, kept across a socket."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from edgemem.config import ChatSettings
from edgemem.errors import ClosedError, ConfigError, ContextOverflowError, InvalidInputError, ServerError
from edgemem.llama.http_reply import Reply
from edgemem.llama.http_server import SLOTS, LlamaServer
from edgemem.llama.http_side import HttpSide, why_no_slot
from edgemem.llama.http_tokenizer import HttpTokenizer
from edgemem.llama.markup import opened_thought
from edgemem.llama.protocols import Generation
from edgemem.llama.stop import watching
from edgemem.llama.tokenlog import SPARE, TokenLog
from edgemem.llama.window import overflow

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from typing_extensions import Self

    from edgemem.llama.http_server import Holding
    from edgemem.llama.prompt import Prompt
    from edgemem.records import Message

_log = logging.getLogger(__name__)
_LIKE_LLAMA_CHAT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0}
"""How `LlamaChat` samples, whatever the server was started with."""


class HttpLlama:
    """One conversation with the model of a llama-server, in a slot of its own.

    Prompts are rendered and tokenised as exactly as with `LlamaChat`, handed over as ids, and what the server evaluated
    is read from its own timings. A barge-in closes the connection, which the server notices at the next token, or
    within a second while it evaluates a prompt.

    Conversations of one process take different slots while the server has some: start it with `-np` and their number,
    because one that finds the number itself empties the slots that rest. With one slot they wait for one another,
    and each change from one to the other evaluates the prompt again from where the two differ. `lost_tokens` and a
    warning in the log tell of either.

    Args:
        server: `http://127.0.0.1:8080` or `unix:///run/llama.sock`; another host only if the settings name it.
        settings: `[chat]` of the profile.
        template: a chat template in place of the server's.
    """

    def __init__(
        self, server: str, *, settings: ChatSettings | None = None, template: str | None = None
    ) -> None:
        self._settings = settings or ChatSettings()
        self._server = LlamaServer(server, self._settings)
        try:
            self.tokenizer = HttpTokenizer(self._server, template=template)
            slots, wanted = self._server.holds.slots, self._settings.slot
            if wanted >= slots:
                raise ConfigError(
                    f"The server at {server} has {slots} slots, so [chat] slot cannot be {wanted}; they count from 0"
                )
        except BaseException:
            self._server.close()
            raise
        self._slot = SLOTS.take(
            self._server.address.place, slots=slots, wanted=wanted if wanted >= 0 else None
        )
        self.last = Generation()
        self.lost_tokens = 0
        """Tokens that the server had seen and evaluated again in the last call: it was restarted, or the slot was shared."""
        self._log = TokenLog(self._continue_text, spare=self.n_ctx // SPARE)
        self._logged = self._server.holds
        self._evaluated = 0
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._running: Generator[str, None, None] | None = None
        self._closing = False
        self._beside: list[HttpSide] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what is being generated and leave the server; a second call does nothing."""
        first, self._closing = not self._closing, True
        for side in self._beside:
            side.close()
        self._server.talking.cut()
        if self._owner == threading.get_ident() and self._running is not None:
            self._running.close()
        with self._lock:
            self._server.close()
            if first:
                SLOTS.free(self._server.address.place, self._slot)

    @property
    def n_ctx(self) -> int:
        """Return the size of the context window in tokens."""
        return self._server.holds.n_ctx

    @property
    def requests(self) -> int:
        """Return how many requests this conversation has sent to the server."""
        return self._server.asked

    def beside(self, *, n_ctx: int = 1024, threads: int = 1) -> HttpSide | None:
        """Return what answers in another slot of the server, closed with this model; None where none may be used.

        Args:
            threads: the server's own setting counts.
        """
        self._check_open()
        if why_no_slot(self._settings, self._server.holds.slots):
            return None
        self._beside.append(side := HttpSide(self._server, self.tokenizer, n_ctx=n_ctx))
        return side

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
        """Yield the reply as it is made, never half a character, without leading space, with its thoughts and calls.

        The server does not wait for the reader: what it makes ahead of a reader that is slow, and that nobody reads any
        more, is no part of the reply. Arguments as with `LlamaChat.stream`.

        Raises:
            ServerError: the server cannot be reached, is stuck or went away; `last` then holds what came.
        """
        if max_tokens < 1:
            raise InvalidInputError(f"max_tokens is {max_tokens}; ask for at least one")
        self._check_open()
        prompt = self.tokenizer.render(messages, tools=tools, now=now)
        holds = self._server.holds
        if prompt.n >= holds.n_ctx:
            raise self._overflow(messages, tools, prompt.n)

        def run() -> Generator[str, None, None]:
            with self._held():
                self._running = running
                ids, known = self._take(prompt, holds, max_tokens)
                if len(ids) >= holds.n_ctx:
                    raise self._overflow(messages, tools, len(ids))
                asked = {
                    "prompt": ids,
                    "n_predict": min(max_tokens, holds.n_ctx - len(ids)),
                    "temperature": temperature,
                    "seed": seed & 0xFFFFFFFF,
                    **_LIKE_LLAMA_CHAT,
                    "id_slot": self._slot,
                    "cache_prompt": True,
                }
                yield from self._generate(asked, known, stop, opened_thought(prompt.text))

        running = run()
        return running

    def cut(self, heard_text: str) -> None:
        """Forget what was generated beyond `heard_text`: a barge-in stopped the voice there."""
        with self._held():
            self._log.cut(heard_text)

    def _continue_text(self, text: str) -> tuple[int, ...]:
        return self.tokenizer.vocabulary.continue_text(text)

    def _take(self, prompt: Prompt, holds: Holding, max_tokens: int) -> tuple[list[int], int]:
        """Return the prompt's ids, and how many of them the server has evaluated as far as is known."""
        self._server.talking.touch()
        if self._server.refresh() != holds:
            raise ServerError(f"The server now holds another model ({self._server.holds.model}); ask again")
        if self._logged != holds:
            self._log.clear()
            self._logged, self._evaluated = holds, 0
        taken = self._log.take(prompt, most=holds.n_ctx - max_tokens)
        return taken.ids, min(taken.common, self._evaluated)

    def _generate(
        self, asked: dict[str, Any], known: int, stop: Callable[[], bool] | None, opened: str
    ) -> Generator[str, None, None]:
        evaluated = self.lost_tokens = 0
        reply = Reply(self._log, self.tokenizer.vocabulary, opened=opened)
        steps = self._server.steps(asked)
        try:
            if stop is None or not stop():
                with watching(stop, self._server.talking.cut) if stop is not None else nullcontext():
                    step = next(steps, None)
                    if step is not None:
                        evaluated = step.timings.prompt_n
                        self._note_loss(known, step.timings.cache_n)
                    while step is not None:
                        said = reply.take(step)
                        if said:
                            yield said
                        done = step.stop or self._closing or (stop is not None and stop())
                        step = None if done else next(steps, None)
        finally:
            steps.close()
            if reply.ids:
                self._evaluated = reply.sure
            self.last = Generation(
                reply.text, tuple(reply.ids), len(asked["prompt"]), evaluated, reply.stopped
            )

    def _note_loss(self, known: int, reused: int) -> None:
        """Say so if the server had lost some of the tokens that are `known` to have been in its cache."""
        # the newest of them was chosen, but is evaluated only now
        self.lost_tokens = max(0, known - 1 - reused)
        if self.lost_tokens:
            _log.warning(
                "the server at %s had lost %d tokens of the conversation and evaluated them again: it was restarted, its slot "
                "%d is shared, or it empties slots that rest (start it with -np and a number)",
                self._server.address.text,
                self.lost_tokens,
                self._slot,
            )

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._owner == threading.get_ident():
            raise InvalidInputError("A reply is still being streamed; use it up or close it first")
        with self._lock:
            self._server.talking.mend()
            self._check_open()  # after the mending, so that a close() at this moment is not overlooked
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = None

    def _check_open(self) -> None:
        if self._closing:
            raise ClosedError("The chat model was closed; open it again")

    def _overflow(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None, tokens: int
    ) -> ContextOverflowError:
        larger = "start the server with a larger window (-c)"
        return overflow(
            self.tokenizer, messages, tools=tools, tokens=tokens, window_tokens=self.n_ctx, larger=larger
        )
