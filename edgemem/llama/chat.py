"""A chat model in a GGUF, answering token by token: its conversation, whose text is evaluated once, and a second context."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from edgemem.errors import ModelError
from edgemem.llama import backend
from edgemem.llama.backend import CachedContext, Interrupt, watching
from edgemem.llama.context import ChatContext, Reply, SinglePrompts
from edgemem.llama.header import read_header
from edgemem.llama.protocols import Generation, common_prefix
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.preload import np

if TYPE_CHECKING:
    from edgemem.llama.protocols import Prompt
    from edgemem.llama.tokens.vocabulary import FileVocabulary
    from edgemem.records import Message

AHEAD_BATCH = 32
"""Tokens read ahead at a time: the most that speech loses; one to three seconds of a Pi."""
_SIDE_BATCH = 128  # tokens at a time; the scratch space grows with it, and on a GPU the time until a stop
_OPENINGS = ("0", "<memory>\n")  # they begin differently: the start they share is in every prompt


class LlamaChat(ChatContext):
    """One loaded model and its one conversation.

    The window has `n_ctx` tokens, of which `batch` are evaluated at a time; `threads` None lets llama.cpp choose. With
    `gpu_layers`, -1 for all, `stop` waits for the batch that is running. `template` takes the place of the GGUF's own.
    """

    larger = "open the model with a larger n_ctx"

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
    def wrap(cls, model: Any, *, template: str | None = None) -> LlamaChat:
        """Talk through a `llama_cpp.Llama` that somebody else has loaded, and will close after this.

        It is not thread-safe: nobody else may use it while a reply streams. Text that others evaluate with it costs the prefix.
        """
        chat = cls.__new__(cls)
        chat._setup(model, template, owned=False)
        return chat

    def _setup(self, model: Any, template: str | None, *, owned: bool) -> None:
        self._ahead: tuple[object, list[int]] = None, []
        self._api = backend.llama()
        self._llama = model
        self._owned = owned
        self._stop = Interrupt()
        self._stop.attach(self._llama.ctx)
        self.n_ctx = int(model.n_ctx())
        self.tokenizer = LlamaTokenizer.wrap(self._llama, template=template)
        self.tokenizer.n_ctx = self.n_ctx
        self.tokenizer.warm()  # the template is asked what it takes now, not in the first turn
        super().__init__(self._stop.ask, self._stop.reset)

    @property
    def vocabulary(self) -> FileVocabulary:
        """The vocabulary of the loaded model."""
        return cast("FileVocabulary", self.tokenizer.vocabulary)

    @contextmanager
    def if_quiet(self) -> Iterator[Any | None]:
        """Hold the `Llama` itself while no reply streams; yields None, at once, where one does or the model is closed."""
        if not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            # Its owner may have closed it: its context is gone then.
            yield None if self._closing or not self._llama.ctx else self._llama
        finally:
            self._lock.release()

    def head_ids(self) -> list[int]:
        """Return the ids that every prompt with the newest head begins with."""
        messages, tools, now = self.head
        first, second = (
            self.tokenizer.render([*messages, {"role": "user", "content": text}], tools=tools, now=now).ids
            for text in ("0", "1")
        )
        return first[: common_prefix(first, second)]

    def side_chat(self, *, n_ctx: int = 1024, threads: int = 1) -> SideChat:
        """Return a second context on these weights, apart from the conversation's; closed with this model."""
        self._check_open()
        side = SideChat(self._llama, self.tokenizer, n_ctx=n_ctx, threads=threads)
        self.before_close(side.close)
        return side

    def read_ahead(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None,
        now: float | None,
        stop: Callable[[], bool],
    ) -> bool:
        """Evaluate a batch more of the prompt that these messages begin; return whether one was evaluated.

        It replaces what the model has evaluated before. `stop` is asked every 5 ms, and loses that batch only.
        """
        asked = list(messages), list(tools) if tools else None, now
        with self.if_quiet() as llama:
            # A lent one may be in its owner's use, and not every model can keep a prefix.
            if llama is None or not self._owned or backend.why_unfit(llama):
                return False
            if self._ahead[0] != asked:
                prompts = (
                    self.tokenizer.render(
                        [*messages, {"role": "user", "content": text}], tools=tools, now=now
                    )
                    for text in _OPENINGS
                )
                first, second = map(self.log.foresee, prompts)
                self._ahead = asked, first[: min(common_prefix(first, second), self.n_ctx)]
            ids = self._ahead[1]
            same = common_prefix(backend.held_by(llama), ids)
            if same == len(ids) or stop():
                return False
            llama.n_tokens = same  # `eval` takes the rest out of the cache
            self._stop.reset()
            with watching(lambda: stop() or self._closing, self._stop.ask):
                try:
                    llama.eval(ids[same : same + AHEAD_BATCH])
                except RuntimeError:  # stopped; of a model that failed the next turn tells
                    return False
            self._api.llama_synchronize(llama.ctx)  # or its tokens are counted with those of the next turn
            return True

    def _generate(
        self,
        ids: list[int],
        budget: int,
        stop: Callable[[], bool] | None,
        temperature: float,
        seed: int,
        opened: str,
    ) -> Generator[str]:
        vocabulary, context = self.vocabulary, self._llama.ctx
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        reply = Reply(self.log, opened=opened)
        evaluated = 0
        self._llama.set_seed(seed)
        self._api.llama_perf_context_reset(context)
        tokens = self._llama.generate(ids, temp=temperature)
        try:
            token = None
            if stop is None or not stop():
                with watching(stop, self._interrupt):  # evaluating the prompt may take long
                    token = self._next(tokens)
                evaluated = int(self._api.llama_perf_context(context).n_p_eval)
            while token is not None:
                if vocabulary.ends_reply(token):
                    reply.stopped = "eos"
                    break
                piece = vocabulary.piece(token)
                reply.keep(token, piece)
                text = reply.show(decoder.decode(piece))
                if text:
                    yield text
                if len(reply.ids) == budget:
                    reply.stopped = "length"
                    break
                token = None if self._closing or (stop is not None and stop()) else self._next(tokens)
        finally:
            tokens.close()
            self.last = reply.generation(len(ids), evaluated)

    def _next(self, tokens: Iterator[int]) -> int | None:
        try:
            return next(tokens)
        except RuntimeError as error:
            if self._stop.asked:
                return None
            raise ModelError(f"The model failed ({error}); open it again, with a smaller n_ctx") from error

    def _free(self) -> None:
        self.tokenizer.close()
        if self._owned:
            self._llama.close()


class SideChat(SinglePrompts):
    """Answers single prompts in a second context; the `llama_cpp.Llama` stays loaded until this is closed."""

    larger = "the second context {}; raise [compaction] summary_ctx"

    def __init__(self, model: Any, tokenizer: LlamaTokenizer, *, n_ctx: int, threads: int = 1) -> None:
        self._stop = Interrupt()
        super().__init__(tokenizer, self._stop.ask, self._stop.reset)
        self._model, self.n_ctx, self._threads = model, n_ctx, threads
        self._context: CachedContext | None = None

    def rest(self) -> None:
        """Give the context's memory back until it is needed again."""
        with self._lock:
            self._free()

    def _free(self) -> None:
        if self._context is not None:
            self._context.close()
        self._context = None

    def _generate(self, prompt: Prompt, budget: int, stop: Callable[[], bool] | None) -> Generation:
        if self._context is None:
            self._context = CachedContext(
                self._model.model, self._stop, n_ctx=self.n_ctx, n_batch=_SIDE_BATCH, threads=self._threads
            )
        context = self._context
        vocabulary, ids = cast("FileVocabulary", self.tokenizer.vocabulary), prompt.ids
        generated: list[int] = []
        raw = b""
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"

        def ended() -> bool:
            return self._stop.asked or (stop is not None and stop())

        with watching(stop, self._stop.ask):
            same = context.keep(ids)
            read = all(
                not ended() and context.read(ids[at : at + _SIDE_BATCH])
                for at in range(same, len(ids), _SIDE_BATCH)
            )
            while read and not ended():
                logits = backend.llama().llama_get_logits_ith(context.context, -1)
                token = int(np.ctypeslib.as_array(logits, shape=(vocabulary.size,)).argmax())
                if vocabulary.ends_reply(token):
                    stopped = "eos"
                    break
                generated.append(token)
                raw += vocabulary.piece(token)
                if len(generated) == budget:
                    stopped = "length"
                    break
                if not context.read([token]):
                    break
        text = raw.decode("utf-8", "replace").strip()
        return Generation(text, tuple(generated), len(ids), len(ids) - same if read else 0, stopped)
