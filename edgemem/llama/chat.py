"""A chat model in a GGUF, answering token by token; it never evaluates twice what it has seen."""

from __future__ import annotations

import codecs
import itertools
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, ContextOverflowError, InvalidInputError, ModelError
from edgemem.llama import backend
from edgemem.llama.gguf import read_header
from edgemem.llama.markup import opened_thought
from edgemem.llama.protocols import Generation
from edgemem.llama.side_chat import SideChat
from edgemem.llama.stop import Stop
from edgemem.llama.tokenizer import LlamaTokenizer
from edgemem.llama.tokenlog import SPARE, TokenLog, common_prefix
from edgemem.llama.warm_prefix import WarmPrefix
from edgemem.llama.window import overflow

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from typing import Literal

    from typing_extensions import Self

    from edgemem.records import Message


class LlamaChat:
    """One loaded model and its one conversation.

    A reply that is streaming holds the model: another thread waits for it, the same thread is told to end it
    first. Close the iterator (or use it up) before asking again.

    Args:
        path: a GGUF file.
        n_ctx: size of the context window in tokens.
        threads: threads to compute with; None lets llama.cpp choose.
        gpu_layers: layers to put on a GPU, -1 for all; `stop` then waits for the batch that is running.
        batch: tokens evaluated at a time.
        template: a chat template in place of the GGUF's own.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_ctx: int = 4096,
        threads: int | None = None,
        gpu_layers: int = 0,
        batch: int = 512,
        template: str | None = None,
    ) -> None:
        path = Path(path).expanduser()
        header = read_header(path)
        if header.metadata.get(f"{header.architecture}.attention.causal") is False:
            raise ModelError(f"{path} is a model that embeds texts and cannot talk; name a chat model")
        api = backend.llama()
        backend.forget_complaints()
        size = min(batch, n_ctx)
        try:
            model = api.Llama(
                str(path),
                n_ctx=n_ctx,
                n_batch=size,
                n_ubatch=size,
                n_gpu_layers=gpu_layers,
                n_threads=threads or None,
                n_threads_batch=threads or None,
                verbose=False,
            )
        except (ValueError, RuntimeError, OSError) as error:
            reason = backend.last_complaint() or str(error)
            raise ModelError(f"The model {path} cannot be loaded ({reason}); name another model") from error
        self._setup(model, template, owned=True)

    @classmethod
    def of(cls, model: Any, *, template: str | None = None) -> LlamaChat:
        """Talk through a `llama_cpp.Llama` that somebody else has loaded, and will close after this.

        While a reply streams nobody else may use it: a `Llama` is not thread-safe. Text that others evaluate with it in
        between costs the prefix.
        """
        chat = cls.__new__(cls)
        chat._setup(model, template, owned=False)
        return chat

    def _setup(self, model: Any, template: str | None, *, owned: bool) -> None:
        self._api = backend.llama()
        self._llama = model
        self._owned = owned
        self._stop = Stop(self._llama.ctx)
        self.n_ctx = int(model.n_ctx())
        self.tokenizer = LlamaTokenizer.of(self._llama, template=template)
        self.tokenizer.n_ctx = self.n_ctx
        self.tokenizer.warm()  # the template is asked what it takes now, not in the first turn
        self.last = Generation()
        self.first: Generation | None = None
        """What the first call of `stream` did: whether a kept state was really used shows there."""
        self._log = TokenLog(self.tokenizer.vocabulary.continue_text, spare=self.n_ctx // SPARE)
        self._head: tuple[list[Message], list[dict[str, Any]] | None, float | None] = ([], None, None)
        self._leaving: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._running: Generator[str] | None = None
        self._closing = False
        self._beside: list[SideChat | WarmPrefix] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what is being generated and free the model; a second call does nothing."""
        while self._leaving:
            self._leaving.pop()()
        self._closing = True
        self._stop.ask()
        if self._owner == threading.get_ident() and self._running is not None:
            self._running.close()
        for side in self._beside:  # they compute with these weights
            side.close()
        with self._lock:
            self.tokenizer.close()
            if self._owned:
                self._llama.close()

    def before_close(self, callback: Callable[[], None]) -> None:
        """Call something once, before the model is freed."""
        self._leaving.append(callback)

    @contextmanager
    def if_quiet(self) -> Iterator[Any | None]:
        """Hold the `Llama` itself while no reply streams; yields None, at once, where one does or the model is closed."""
        if not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            # One that was lent may have been closed by its owner: its context is gone then.
            yield None if self._closing or not self._llama.ctx else self._llama
        finally:
            self._lock.release()

    @property
    def log(self) -> TokenLog:
        """Return the log of what the model has seen."""
        return self._log

    @property
    def head(self) -> tuple[list[Message], list[dict[str, Any]] | None, float | None]:
        """Return what the newest prompt began with: its system messages, tools and date."""
        return self._head

    def head_ids(self) -> list[int]:
        """Return the ids that every prompt with the newest head begins with, whatever is said."""
        messages, tools, now = self._head
        one, other = (
            self.tokenizer.render([*messages, {"role": "user", "content": said}], tools=tools, now=now).ids
            for said in ("0", "1")
        )
        return one[: common_prefix(one, other)]

    def beside(self, *, n_ctx: int = 1024, threads: int = 1) -> SideChat:
        """Return a second context on these weights, which never touches the conversation's; closed with this model."""
        self._check_open()
        side = SideChat(self._llama, self.tokenizer, n_ctx=n_ctx, threads=threads)
        self._beside.append(side)
        return side

    def ahead(self) -> WarmPrefix:
        """Return what reads the beginning of a later prompt in idle time; closed with this model."""
        self._check_open()
        self._beside.append(prefix := WarmPrefix(self, self._llama, lent=not self._owned))
        return prefix

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
        """Yield the reply as it is made, never half a character, without leading space.

        Of markers it shows those of thoughts and calls alone. A reply within a thought that the prompt opened begins with
        the marker that opened it.

        Args:
            messages: the conversation so far.
            tools: schemas to offer.
            max_tokens: at most so many; fewer if the context window is nearly full.
            stop: asked before every token, and from another thread while the prompt is evaluated; when it
                is true, the reply ends within one token.
            temperature: 0 takes the likeliest token each time.
            seed: of the random choice at a temperature above 0.
            now: what a template that prints a date sees, seconds since the epoch, UTC.
        """
        if max_tokens < 1:
            raise InvalidInputError(f"max_tokens is {max_tokens}; ask for at least one")
        self._check_open()
        prompt = self.tokenizer.render(messages, tools=tools, now=now)
        if prompt.n >= self.n_ctx:
            raise self._overflow(messages, tools, prompt.n)
        instructions = list(itertools.takewhile(lambda message: message["role"] == "system", messages))

        def run() -> Generator[str]:
            with self._held():
                self._running = running
                self._head = (instructions, list(tools) if tools else None, now)
                taken = self._log.take(prompt, most=self.n_ctx - max_tokens)
                if len(taken.ids) >= self.n_ctx:
                    raise self._overflow(messages, tools, len(taken.ids))
                self._llama.set_seed(seed)
                budget = min(max_tokens, self.n_ctx - len(taken.ids))
                yield from self._generate(taken.ids, budget, stop, temperature, opened_thought(prompt.text))

        running = run()
        return running

    def cut(self, heard_text: str) -> None:
        """Forget what was generated beyond `heard_text`: a barge-in stopped the voice there."""
        with self._held():
            self._log.cut(heard_text)

    def _generate(
        self,
        ids: list[int],
        budget: int,
        stop: Callable[[], bool] | None,
        temperature: float,
        opened: str,
    ) -> Generator[str]:
        vocabulary, context = self.tokenizer.vocabulary, self._llama.ctx
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        generated: list[int] = []
        text = ""
        evaluated = 0
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"
        self._api.llama_perf_context_reset(context)
        tokens = self._llama.generate(ids, temp=temperature)
        try:
            token = None
            if stop is None or not stop():
                token = self._first(tokens, stop)
                evaluated = int(self._api.llama_perf_context(context).n_p_eval)
            while token is not None:
                if vocabulary.ends_reply(token):
                    stopped = "eos"
                    break
                piece = vocabulary.piece(token)
                self._log.append(token, piece)
                generated.append(token)
                shown = decoder.decode(piece)
                shown = shown if text else shown.lstrip()
                if shown and not text:
                    shown = opened + shown
                if shown:
                    text += shown
                    yield shown
                if len(generated) == budget:
                    stopped = "length"
                    break
                token = None if self._closing or (stop is not None and stop()) else self._next(tokens)
        finally:
            tokens.close()
            self.last = Generation(text, tuple(generated), len(ids), evaluated, stopped)
            self.first = self.first or self.last

    def _first(self, tokens: Iterator[int], stop: Callable[[], bool] | None) -> int | None:
        """Evaluate the prompt, which may take long: `stop` is asked all the while."""
        with self._stop.watching(stop) if stop is not None else nullcontext():
            return self._next(tokens)

    def _next(self, tokens: Iterator[int]) -> int | None:
        """Return the next token, None when the work was aborted."""
        try:
            return next(tokens)
        except RuntimeError as error:
            if self._stop.asked:
                return None
            raise ModelError(f"The model failed ({error}); open it again, with a smaller n_ctx") from error

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._owner == threading.get_ident():
            raise InvalidInputError("A reply is still being streamed; use it up or close it first")
        with self._lock:
            self._stop.reset()
            self._check_open()  # after the reset, so that a close() at this moment is not overlooked
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
        larger = "open the model with a larger n_ctx"
        return overflow(
            self.tokenizer, messages, tools=tools, tokens=tokens, window_tokens=self.n_ctx, larger=larger
        )
