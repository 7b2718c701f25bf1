"""A chat model's context, in this process or behind a server: one conversation in it, and single prompts beside it."""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

from edgemem.errors import ClosedError, ContextOverflowError, InvalidInputError
from edgemem.llama.protocols import Generation
from edgemem.llama.replies import opened_thought
from edgemem.llama.tokens.log import SPARE, TokenLog
from edgemem.store.db.files import Closable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from edgemem.llama.protocols import Prompt
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer
    from edgemem.records import Message

    Stop = Callable[[], bool] | None


class Reply:
    """One reply as it is put together: text for the voice, ids for the token log.

    Its text begins with `opened`, the marker with which the prompt opened a thought.
    """

    def __init__(self, log: TokenLog, *, opened: str = "") -> None:
        self._log = log
        self._opened = opened
        self.text = ""
        self.ids: list[int] = []
        self.stopped: Literal["eos", "length", "interrupted"] = "interrupted"

    def keep(self, token: int, piece: bytes) -> None:
        """Take a generated token and the bytes that it adds to the text."""
        self._log.append(token, piece)
        self.ids.append(token)

    def show(self, text: str) -> str:
        """Return the new text without space at the beginning of the reply."""
        if not self.text:
            text = text.lstrip()
            text = text and self._opened + text
        self.text += text
        return text

    def generation(self, prompt_tokens: int, evaluated_tokens: int) -> Generation:
        """Return the record of the call."""
        return Generation(self.text, tuple(self.ids), prompt_tokens, evaluated_tokens, self.stopped)


class OneCaller(Closable):
    """A model that computes for one caller at a time, and may be closed from any thread."""

    def __init__(self) -> None:
        self.last = Generation()
        self._lock = threading.Lock()
        self._closing = False

    def _check_open(self) -> None:
        if self._closing:
            raise ClosedError("The chat model was closed; open it again")


class ChatContext(OneCaller):
    """One conversation with one model.

    A reply that is streaming holds the model: another thread waits for it, the same thread has to end it
    first. Close the iterator (or use it up) before asking again.
    """

    larger: str
    """How the model gets a larger window."""
    tokenizer: LlamaTokenizer
    n_ctx: int

    def __init__(self) -> None:
        super().__init__()
        self.log = TokenLog(self._continue_text, spare=self.n_ctx // SPARE)
        """The tokens that the model has seen."""
        self.head: tuple[list[Message], list[dict[str, Any]] | None, float | None] = ([], None, None)
        """The head of the newest prompt: its system messages, tools and date."""
        self._leaving: list[Callable[[], None]] = []
        self._owner: int | None = None
        self._running: Generator[str] | None = None

    def close(self) -> None:
        """Stop generating and leave the model; a second call does nothing."""
        while self._leaving:
            self._leaving.pop()()
        first, self._closing = not self._closing, True
        self._interrupt()
        if self._owner == threading.get_ident() and self._running is not None:
            self._running.close()
        with self._lock:
            if first:
                self._free()

    def before_close(self, callback: Callable[[], None]) -> None:
        """Call something once, before the model is freed."""
        self._leaving.append(callback)

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        max_tokens: int,
        stop: Stop = None,
        temperature: float = 0.0,
        seed: int = 0,
        now: float | None = None,
    ) -> Iterator[str]:
        """Yield the reply as it is made, never half a character, without leading space.

        Of markers it shows those of thoughts and calls alone. A reply within a thought that the prompt opened begins with
        the marker that opened it. A reply has at most `max_tokens`, fewer if the window is nearly full. `stop` is asked
        before every token, and from another thread while the prompt is evaluated. A `temperature` of 0 takes the
        likeliest token; `seed` is of the random choice above it. `now` is what a template that prints a date sees.
        """
        if max_tokens < 1:
            raise InvalidInputError(f"max_tokens is {max_tokens}; ask for at least one")
        self._check_open()
        prompt = self.tokenizer.render(messages, tools=tools, now=now)
        if prompt.n >= self.n_ctx:
            raise self._overflow(messages, tools, prompt.n)
        made_with = self._made_with()
        instructions = list(takewhile(lambda message: message["role"] == "system", messages))

        def run() -> Generator[str]:
            with self._held():
                self._running = running
                self._check_model(made_with)
                self.head = (instructions, list(tools) if tools else None, now)
                ids = self.log.set_prompt(prompt, most=self.n_ctx - max_tokens)
                room = self.n_ctx - len(ids)
                if room <= 0:
                    raise self._overflow(messages, tools, len(ids))
                opened = opened_thought(prompt.text)
                yield from self._generate(ids, min(max_tokens, room), stop, temperature, seed, opened)

        running = run()
        return running

    def cut(self, heard_text: str) -> None:
        """Forget the tokens generated behind `heard_text`: a barge-in stopped the voice there."""
        with self._held():
            self.log.cut(heard_text)

    @abstractmethod
    def _generate(
        self, ids: list[int], budget: int, stop: Stop, temperature: float, seed: int, opened: str
    ) -> Generator[str]:
        """Yield the reply to a prompt, of at most `budget` tokens, and leave the outcome in `last`."""

    @abstractmethod
    def _interrupt(self) -> None:
        """End the computation, from any thread."""

    @abstractmethod
    def _mend(self) -> None:
        """Let the next computation run after an interrupt."""

    @abstractmethod
    def _free(self) -> None:
        """Leave the model; nothing computes."""

    def _made_with(self) -> object:
        """Return a value that changes with the ids of a prompt."""
        return None

    def _check_model(self, made_with: object) -> None:
        """Raise where the model is no longer the one that a prompt was made for."""

    def _continue_text(self, text: str) -> tuple[int, ...]:
        return self.tokenizer.vocabulary.continue_text(text)

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._owner == threading.get_ident():
            raise InvalidInputError("A reply is still being streamed; use it up or close it first")
        with self._lock:
            self._mend()
            self._check_open()  # after the mending, so that a close() at this moment is not overlooked
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = None

    def _overflow(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None, tokens: int
    ) -> ContextOverflowError:
        """Return the error for a prompt of so many tokens, which names the part that is too large."""
        window, count = self.n_ctx, self.tokenizer.count
        system = list(takewhile(lambda message: message.get("role") == "system", messages))
        newest = max((n for n, message in enumerate(messages) if message.get("role") == "user"), default=0)
        head = count([*system, {"role": "user", "content": "Hello."}], tools=tools)
        turn = count([*system, *messages[max(newest, len(system)) :]], tools=tools)
        if head >= window:
            advice = f"the instructions{' and the tools' if tools else ''} alone take {head}: shorten them"
        elif turn < window:
            advice = "compact the conversation"
        else:
            advice = f"what was said last takes {turn} with the instructions: say it shorter"
        return ContextOverflowError(
            f"The prompt has {tokens} tokens, the context window {window}; {advice}, or {self.larger}"
        )


class SinglePrompts(OneCaller):
    """Answers single prompts beside a conversation, the likeliest token each time; safe to close from another thread."""

    n_ctx: int
    """Tokens that prompt and answer may have together."""
    larger: str
    """Advice: the name of its context, its size, and how to get a larger one."""

    def __init__(self, tokenizer: LlamaTokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def answer(self, messages: Sequence[Message], *, max_tokens: int, stop: Stop = None) -> Generation:
        """Return the answer to a prompt of its own; `stopped` says whether `stop` or `max_tokens` cut it off.

        `stop` is asked before every token, and every 5 ms while the model computes.
        """
        with self._lock:
            self._check_open()
            prompt = self.tokenizer.render(messages)
            if prompt.n + max_tokens > self.n_ctx:
                raise ContextOverflowError(
                    f"The prompt has {prompt.n} tokens and the answer up to {max_tokens}, "
                    + self.larger.format(self.n_ctx)
                )
            self._open()
            self._check_open()  # after the opening, so that a close() at this moment is not overlooked
            self.last = self._generate(prompt, max_tokens, stop)
            return self.last

    @abstractmethod
    def rest(self) -> None:
        """Give memory back until it is needed again."""

    @abstractmethod
    def _open(self) -> None:
        """Take the memory that is needed, and let the next computation run."""

    @abstractmethod
    def _generate(self, prompt: Prompt, budget: int, stop: Stop) -> Generation:
        """Return the answer to a prompt, of at most `budget` tokens."""
