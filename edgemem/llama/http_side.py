"""A second slot of a llama-server: single prompts are answered there, so that the conversation's slot keeps its prefix."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import ClosedError, ConfigError, ContextOverflowError, ServerError
from edgemem.llama.http_reply import Reply
from edgemem.llama.http_server import SLOTS, LlamaServer
from edgemem.llama.markup import opened_thought
from edgemem.llama.protocols import Generation
from edgemem.llama.stop import watching
from edgemem.llama.tokenlog import TokenLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from edgemem.config import ChatSettings
    from edgemem.llama.http_tokenizer import HttpTokenizer
    from edgemem.records import Message


def why_no_slot(settings: ChatSettings, slots: int) -> str:
    """Return why no slot of a server may be used beside the conversations, or nothing if one may.

    Args:
        slots: how many the server has.
    """
    if slots < 2:
        return "the server has one slot, the conversation's; start it with -np 2"
    if settings.summary_slot >= slots:
        return f"the server has {slots} slots, and [chat] summary_slot is {settings.summary_slot}; they count from 0"
    if settings.slot >= 0 and settings.summary_slot < 0:
        return "[chat] slot is named, so others may use the rest of the server; name summary_slot too"
    if settings.slot == settings.summary_slot >= 0:
        return "[chat] slot and summary_slot are the same"
    return ""


def find_no_slot(settings: ChatSettings) -> str:
    """Ask the server that the profile names, and return why it has no slot beside the conversations, or nothing."""
    try:
        server = LlamaServer(settings.server, msgspec.structs.replace(settings, load_s=0.0))
    except (ServerError, ConfigError) as error:
        return str(error)
    try:
        return why_no_slot(settings, server.holds.slots)
    finally:
        server.close()


class HttpSide:
    """Answers single prompts, the likeliest token each time; safe to close from another thread.

    Args:
        server: the conversation's; this one has connections of its own.
        n_ctx: tokens of the prompt and the answer together, if the server's window is that large.
    """

    def __init__(self, server: LlamaServer, tokenizer: HttpTokenizer, *, n_ctx: int = 1024) -> None:
        self.tokenizer = tokenizer
        self.last = Generation()
        self._server = LlamaServer(server.address.text, server.settings)
        self._n_ctx = n_ctx
        self._lock = threading.Lock()
        self._closing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def n_ctx(self) -> int:
        """Return how many tokens prompt and answer may have together."""
        return min(self._n_ctx, self._server.holds.n_ctx)

    def answer(
        self, messages: Sequence[Message], *, max_tokens: int, stop: Callable[[], bool] | None = None
    ) -> Generation:
        """Return the answer to a prompt of its own; `stopped` says whether `stop` or `max_tokens` cut it off.

        Args:
            stop: asked before every token, and every 5 ms while the server computes.

        Raises:
            ContextOverflowError: prompt and answer together do not fit `n_ctx`.
            ClosedError: this was closed.
            ServerError: the server cannot be reached or went away, or conversations have all of its slots.
        """
        with self._lock:
            self._server.talking.mend()
            if self._closing:  # after the mending, so that a close() at this moment is not overlooked
                raise ClosedError("The chat model was closed; open it again")
            slot = self._slot()
            prompt = self.tokenizer.render(messages)
            if prompt.n + max_tokens > self.n_ctx:
                raise ContextOverflowError(
                    f"The prompt has {prompt.n} tokens and the answer up to {max_tokens}, the slot {self.n_ctx}; raise"
                    " [compaction] summary_ctx, or start the server with a larger window (-c)"
                )
            log = TokenLog(self.tokenizer.vocabulary.continue_text)
            asked = {
                "prompt": log.take(prompt).ids,
                "n_predict": max_tokens,
                "temperature": 0.0,
                "repeat_penalty": 1.0,
                "id_slot": slot,
                "cache_prompt": True,
            }
            reply = Reply(log, self.tokenizer.vocabulary, opened=opened_thought(prompt.text))
            evaluated = 0
            steps = self._server.steps(asked)
            try:
                with watching(stop, self._server.talking.cut) if stop is not None else nullcontext():
                    for n, step in enumerate(steps if stop is None or not stop() else ()):
                        evaluated = evaluated if n else step.timings.prompt_n
                        reply.take(step)
                        if step.stop or (stop is not None and stop()):
                            break
            finally:
                steps.close()
            self.last = Generation(reply.text.strip(), tuple(reply.ids), prompt.n, evaluated, reply.stopped)
            return self.last

    def rest(self) -> None:
        """Do nothing: the memory of a slot is the server's, and stays."""

    def close(self) -> None:
        """Stop what is being written and leave the server; a second call does nothing."""
        self._closing = True
        self._server.talking.cut()
        with self._lock:
            self._server.close()

    def _slot(self) -> int:
        """Return the slot that is named for this, or else one that no conversation in this process has now."""
        place, slots = self._server.address.place, self._server.refresh().slots
        named = self._server.settings.summary_slot
        slot = SLOTS.spare(place, slots=slots, wanted=named if named >= 0 else None)
        if slot is None:
            raise ServerError(
                f"The server at {self._server.address.text} has no slot without a conversation among its {slots}; start"
                f" it with -np {slots + 1}"
            )
        return slot
