"""A second context on the weights of a chat model: it answers or reads ahead, and leaves the conversation's cache alone.

What it costs is its own key-value cache and scratch space. It is made when it is first needed, and its memory can be
given back until the next time.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Literal, cast

from edgemem.errors import EdgememError, InvalidInputError, ModelError
from edgemem.llama import backend
from edgemem.llama.backend import copy_of, copy_out, held_by, make_alike, put_in, set_state, why_unfit
from edgemem.llama.conversation import SinglePrompts
from edgemem.llama.forward import Interrupt, watching
from edgemem.llama.protocols import Generation
from edgemem.llama.tokens.log import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.conversation import Conversation
    from edgemem.llama.protocols import Prompt
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer
    from edgemem.llama.tokens.vocabulary import FileVocabulary
    from edgemem.records import Message

    Tools = Sequence[dict[str, Any]] | None

_log = logging.getLogger(__name__)
_ABORTED = 2  # what llama_decode returns after its abort callback said so
_SEQUENCE = 0


class SideContext:
    """Evaluates ids one batch after the other; used by one thread at a time, stopped from any.

    The `llama_cpp.Llama` stays loaded until this is freed. With `batch` grows the scratch space, and on a GPU the time until
    a stop. `setting` says what to change where there is no memory; `alike`, that the model's own context can take its state.
    """

    def __init__(
        self, model: Any, *, n_ctx: int, batch: int, threads: int, setting: str, alike: bool = False
    ) -> None:
        self._api = backend.llama()
        self._model = model
        self._threads = threads
        self._setting = setting
        self._alike = alike
        self._batch: Any = None
        self.pointer: Any = None
        """The `llama_context`; None while it has no memory."""
        self.stop = Interrupt()
        """Ends, from any thread, what is computed."""
        self.n_ctx = n_ctx
        self.batch = batch
        self.held: list[int] = []
        """The ids in the cache."""

    def open(self) -> Interrupt:
        """Take the memory, if it has none, and return what stops the context."""
        if self.pointer is not None:
            return self.stop
        api = self._api
        options = api.llama_context_default_params()
        if self._alike:
            make_alike(options, self._model)
        options.n_ctx, options.n_batch, options.n_ubatch = self.n_ctx, self.batch, self.batch
        options.n_threads = options.n_threads_batch = self._threads
        options.n_seq_max = 1
        backend.forget_complaints()
        context = api.llama_init_from_model(self._model.model, options)
        if not context:
            reason = backend.last_complaint() or "it gave no reason"
            raise ModelError(
                f"No second context of {self.n_ctx} tokens could be made ({reason}); {self._setting}"
            )
        self.pointer, self._batch = context, api.llama_batch_init(self.batch, 0, 1)
        self.stop.attach(context)
        return self.stop

    def load(self, ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        """Hold `ids`, whose state was copied out of a context that is alike; nothing if llama.cpp does not take it."""
        self.held = list(ids) if set_state(self.pointer, len(ids), data) else []

    def cut(self, tokens: int) -> int:
        """Keep the first `tokens` at most, and return how many were kept: 0 where the model cannot forget a part."""
        tokens = min(tokens, len(self.held))
        if tokens == len(self.held):
            return tokens
        memory = self._api.llama_get_memory(self.pointer)
        if tokens and not self._api.llama_memory_seq_rm(memory, _SEQUENCE, tokens, -1):
            tokens = 0  # a recurrent model
        if not tokens:
            self._api.llama_memory_clear(memory, True)
        del self.held[tokens:]
        return tokens

    def decode(self, ids: Sequence[int]) -> bool:
        """Evaluate at most a batch behind what is held, which stays; False where that was stopped in the middle."""
        batch = self._batch
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, len(self.held) + i, False
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, _SEQUENCE
        batch.logits[len(ids) - 1] = True
        batch.n_tokens = len(ids)
        code = self._api.llama_decode(self.pointer, batch)
        if code == 0:
            self.held += ids
            return True
        if code == _ABORTED:  # llama.cpp takes all of a batch of its own size out of the cache again
            return False
        self.cut(0)
        raise ModelError(f"The model failed in its second context (llama_decode returned {code})")

    def logits(self, size: int) -> NDArray[np.float32]:
        """Return the logits behind the newest token; they are overwritten with the next."""
        import numpy as np

        return np.ctypeslib.as_array(self._api.llama_get_logits_ith(self.pointer, -1), shape=(size,))

    def free(self) -> None:
        """Give the memory back; a second call does nothing."""
        context, self.pointer = self.pointer, None
        batch, self._batch = self._batch, None
        self.held.clear()
        if context is not None:
            self._api.llama_free(context)
        if batch is not None:
            self._api.llama_batch_free(batch)


LEAST_CTX = 256
"""Tokens of context below which not even a prompt fits."""
_SIDE_BATCH = 128


class SideChat(SinglePrompts):
    """A second context that answers single prompts; the `llama_cpp.Llama` stays loaded until this is closed."""

    larger = "the second context {}; raise [compaction] summary_ctx"

    def __init__(self, model: Any, tokenizer: LlamaTokenizer, *, n_ctx: int, threads: int = 1) -> None:
        if n_ctx < LEAST_CTX:
            raise InvalidInputError(f"n_ctx is {n_ctx}; a second context needs at least {LEAST_CTX} tokens")
        super().__init__(tokenizer)
        self._vocabulary = cast("FileVocabulary", tokenizer.vocabulary)
        self._context = SideContext(
            model, n_ctx=n_ctx, batch=_SIDE_BATCH, threads=threads, setting="lower [compaction] summary_ctx"
        )
        self.n_ctx = n_ctx

    def rest(self) -> None:
        """Give the context's memory back until it is needed again."""
        with self._lock:
            self._context.free()

    def close(self) -> None:
        """Stop what is being written and free the context; a second call does nothing."""
        self._closing = True
        self._context.stop.ask()
        self.rest()

    def _open(self) -> None:
        self._context.open().reset()

    def _generate(self, prompt: Prompt, budget: int, stop: Callable[[], bool] | None) -> Generation:
        vocabulary, context, ids = self._vocabulary, self._context, prompt.ids
        generated: list[int] = []
        raw = b""
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"

        def ended() -> bool:
            return context.stop.asked or (stop is not None and stop())

        with watching(stop, context.stop.ask):
            evaluated = self._take(ids, ended)
            while evaluated is not None and not ended():
                token = int(context.logits(vocabulary.size).argmax())
                if vocabulary.ends_reply(token):
                    stopped = "eos"
                    break
                generated.append(token)
                raw += vocabulary.piece(token)
                if len(generated) == budget:
                    stopped = "length"
                    break
                if not context.decode([token]):
                    break
        text = raw.decode("utf-8", "replace").strip()
        return Generation(text, tuple(generated), len(ids), evaluated or 0, stopped)

    def _take(self, ids: list[int], stop: Callable[[], bool]) -> int | None:
        """Evaluate a prompt as far as the cache does not hold it; return how much that was, None when stopped."""
        context = self._context
        same = context.cut(common_prefix(context.held, ids[:-1]))  # the last one's logits are needed
        for at in range(same, len(ids), _SIDE_BATCH):
            if stop() or not context.decode(ids[at : at + _SIDE_BATCH]):
                return None
        return len(ids) - same


BATCH = 32
"""Tokens read at a time: what is lost when somebody speaks, at most; one to three seconds of a Pi."""

_SPARE = 4
"""The context has room for the prefix and for a fourth of the window."""

_OPENINGS = ("0", "<memory>\n")
"""Two utterances that begin differently: what their prompts share stands before every one."""


class WarmPrefix:
    """Reads the prefix of the next epoch in idle time, then moves it into the conversation's cache.

    A new epoch changes the head of the prompt, so the first turn behind it would read all of it again. Used by one thread
    at a time; `drop` and `close` may come from any.
    `if_quiet` holds the `llama_cpp.Llama` while no reply streams; somebody else may use one that was `lent` between turns.
    """

    def __init__(
        self,
        chat: Conversation,
        model: Any,
        if_quiet: Callable[[], AbstractContextManager[Any | None]],
        *,
        lent: bool,
    ) -> None:
        self._chat = chat
        self._if_quiet = if_quiet
        self._model = model
        self._lock = threading.Lock()
        self.side: SideContext | None = None
        """Where the prefix is being read; None: nowhere at the moment."""
        self._asked: tuple[list[Message], Tools, float | None] | None = None
        self.ids: list[int] = []
        """What every prompt of the next epoch begins with."""
        self._read: tuple[list[int], NDArray[np.uint8]] | None = None
        """What was read to the end, taken out of its context."""
        self._dropped = 0
        self._closing = False
        self.lent = lent
        """Whether only the thread of a turn may `put`."""
        self.tokens_read = 0
        """Tokens that were read ahead in this process."""
        self.moved = 0
        """How many prefixes were moved into the conversation's cache."""
        self.off = ""
        """Why nothing is read ahead with this model; empty if it is."""
        self._turn_off(why_unfit(model))

    def fits(self, system: Sequence[Message], *, tools: Tools, now: float | None) -> bool:
        """Tell whether the model's newest prompt began like this: another conversation's would lose its cache."""
        return not (self.off or self._closing) and self._chat.head == (list(system), tools or None, now)

    def read(
        self, messages: Sequence[Message], *, tools: Tools, now: float | None, stop: Callable[[], bool]
    ) -> Literal["reading", "ready", "stopped"]:
        """Read a batch more of what every prompt begins with that these messages, up to the newest reply, make.

        `stop` is asked every 5 ms; what was read before this batch is kept.
        """
        with self._lock:
            dropped = self._dropped

            def stopped() -> bool:
                return stop() or self._closing or self._dropped != dropped

            try:
                if self.off or stopped() or not self._aim(list(messages), tools, now):
                    return "stopped"
                return self._step(stopped)
            except EdgememError as error:
                self._turn_off(str(error))
                return "stopped"

    def put(self) -> bool:
        """Let the conversation's cache hold what was read in place of what it holds; return whether it does now.

        What was read only in part is put in too: the rest is read with the next prompt.
        """
        with self._lock, self._if_quiet() as llama:
            if self.off or self._closing or llama is None:
                return False
            ids, data = self._read or self._taken_out()
            if common_prefix(held_by(llama), ids) < len(ids):
                if data is None or not put_in(llama, ids, data):
                    self._turn_off("llama.cpp did not take what was read")
                    return False
                self.moved += 1
            self._free()
            return bool(ids)

    def give_way(self) -> None:
        """Stop the batch that is being read, from any thread, without waiting for the next look at `stop`."""
        side = self.side
        if side is not None:
            side.stop.ask()

    def drop(self) -> None:
        """Throw away what was read and give its memory back; what is being read is stopped."""
        self._dropped += 1
        with self._lock:
            self._free()

    def close(self) -> None:
        """Stop, and free the context; a second call does nothing."""
        self._closing = True
        self.drop()

    def _aim(self, messages: list[Message], tools: Tools, now: float | None) -> bool:
        """Find the ids to be read; return False where the model answers at this moment."""
        if self._asked == (messages, tools, now):
            return True
        render = self._chat.tokenizer.render
        prompts = [
            render([*messages, {"role": "user", "content": opening}], tools=tools or None, now=now)
            for opening in _OPENINGS
        ]
        with self._if_quiet() as llama:
            if llama is None:
                return False
            first, second = (self._chat.log.foresee(prompt) for prompt in prompts)
        self.ids = first[: min(common_prefix(first, second), self._chat.n_ctx)]
        self._asked = (messages, tools, now)
        return True

    def _step(self, stop: Callable[[], bool]) -> Literal["reading", "ready", "stopped"]:
        if self._read is not None and self._read[0] == self.ids:
            return "ready"
        side = self.side
        if side is None:
            # A step of its own, as the next: each takes as long as it takes to touch its memory.
            self.side = self._opened()
            return "reading"
        side.stop.reset()
        ids = self.ids[: side.n_ctx]
        if not side.held and self._take_over(side, ids):
            return "reading"
        same = side.cut(common_prefix(side.held, ids))
        if same == len(ids):
            taken, data = self._taken_out()
            if data is None:
                self._turn_off("llama.cpp could not copy what was read")
                return "stopped"
            self._read, self.side = (taken, data), None
            side.free()
            # More was said than it had room for: what it read goes on in a larger one.
            return "ready" if taken == self.ids else "reading"
        batch = ids[same : same + BATCH]
        with watching(stop, side.stop.ask):
            done = side.decode(batch)
        if not done:
            return "stopped"
        self.tokens_read += len(batch)
        return "reading"

    def _taken_out(self) -> tuple[list[int], NDArray[np.uint8] | None]:
        """Return the ids that were read, and their state."""
        side = self.side
        return ([], None) if side is None or not side.held else (list(side.held), copy_of(side.pointer))

    def _opened(self) -> SideContext:
        """Return a context with room for the prefix, and for turns that are spoken while it is read."""
        window = self._chat.n_ctx
        side = SideContext(
            self._model,
            n_ctx=min(window, len(self.ids) + window // _SPARE),
            batch=BATCH,
            threads=int(self._model.context_params.n_threads_batch),
            setting="switch [compaction] warm off",
            alike=True,
        )
        side.open()
        return side

    def _take_over(self, side: SideContext, ids: list[int]) -> bool:
        """Begin with what is known of these ids: read before, or the head in the conversation's cache; return whether."""
        known, self._read = self._read, None
        if known is None and not self.lent:
            with self._if_quiet() as llama:
                shared = 0 if llama is None else common_prefix(held_by(llama), ids)
                data = copy_out(llama, shared) if shared else None
            known = None if data is None else (ids[:shared], data)
        if known is not None:
            side.load(*known)
        return bool(side.held)

    def _turn_off(self, why: str) -> None:
        if why:
            _log.warning("The next prompt is not read ahead: %s", why)
            self._free()
        self.off = why

    def _free(self) -> None:
        side, self.side = self.side, None
        self._asked = self._read = None
        self.ids = []
        if side is not None:
            side.free()
