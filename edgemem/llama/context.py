"""A chat model's context, in this process or behind a server: the tokens it has seen, its conversation, single prompts beside."""

from __future__ import annotations

import codecs
import threading
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.errors import ClosedError, ContextOverflowError, InvalidInputError
from edgemem.llama.protocols import Generation
from edgemem.llama.replies import all_hidden, behind, opened_thought
from edgemem.store.db.files import Closable

if TYPE_CHECKING:
    from edgemem.llama.protocols import Prompt, Segment
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer
    from edgemem.records import Message

    Stop = Callable[[], bool] | None

SPARE = 8
"""One part in so many of the window may be taken by kept thoughts; what plans a prompt knows nothing of them."""


class _Entry(msgspec.Struct):
    """A segment of a prompt, and the reply generated behind it."""

    text: str
    ids: tuple[int, ...]
    reply: bytes = b""
    reply_ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    """Where in `reply` each generated token ends."""
    extra: int = 0
    """Tokens that the rendered prompt does not have: thoughts, mostly."""

    @property
    def all_ids(self) -> tuple[int, ...]:
        return self.ids + self.reply_ids


class TokenLog:
    """Turns prompts into ids that begin with what the model has already evaluated.

    Generated text may tokenise to other ids than were generated, and history holds a reply without thoughts, and its calls in the
    template's spelling. The log keeps the generated ids as long as the prompt says the same and the extra tokens fit `spare`
    (None: any number); beyond that a reply is read again without its thought, cheaper than reading all again when the window is
    full. `continue_text` tokenises text behind a reply that was cut in the middle of a word.
    """

    def __init__(self, continue_text: Callable[[str], Sequence[int]], *, spare: int | None = None) -> None:
        self._continue_text = continue_text
        self._spare = spare
        self._entries: list[_Entry] = []

    @property
    def ids(self) -> list[int]:
        """Every id in the log."""
        return [token for entry in self._entries for token in entry.all_ids]

    def set_prompt(self, prompt: Prompt, *, most: int | None = None) -> list[int]:
        """Set the content, keeping ids wherever the meaning is the same, and return all ids; beyond `most` tokens thoughts go."""
        self._entries = self._entries_for(prompt)
        if most is not None and prompt.n <= most < sum(len(entry.all_ids) for entry in self._entries):
            self._entries = [_Entry(segment.text, segment.ids) for segment in prompt.segments]
        return self.ids

    def foresee(self, prompt: Prompt) -> list[int]:
        """Return the ids that `set_prompt` would give, and leave the log as it is."""
        return [token for entry in self._entries_for(prompt) for token in entry.all_ids]

    def append(self, token: int, piece: bytes) -> None:
        """Add a generated token and its bytes."""
        last = self._entries[-1]
        last.reply += piece
        last.reply_ids = (*last.reply_ids, token)
        last.ends = (*last.ends, len(last.reply))

    def cut(self, heard_text: str) -> None:
        """End the log at the last token of the newest reply that lies wholly within `heard_text`; a thought before it stays."""
        if not self._entries:
            return
        last = self._entries[-1]
        heard = _length_heard(
            last.reply.decode("utf-8", "replace"), heard_text, opened=opened_thought(last.text)
        )
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        begin = shown = kept = 0
        for n, end in enumerate(last.ends, 1):
            shown += len(decoder.decode(last.reply[begin:end]))
            begin = end
            if shown > heard:
                break
            if not decoder.getstate()[0]:  # no half character behind this token
                kept = n
        if heard == 0:
            kept = 0
        last.reply_ids, last.ends = last.reply_ids[:kept], last.ends[:kept]
        last.reply = last.reply[: last.ends[-1]] if kept else b""

    def dump(self) -> bytes:
        """Return the log as bytes."""
        return msgspec.msgpack.encode(self._entries)

    def restore(self, dumped: bytes) -> None:
        """Take over a log that another process dumped; raise msgspec.DecodeError where these bytes are none."""
        self._entries = msgspec.msgpack.decode(dumped, type=list[_Entry])

    def _entries_for(self, prompt: Prompt) -> list[_Entry]:
        segments = prompt.segments
        kept: list[_Entry] = []
        at = extra = 0
        for old in self._entries:
            entry, used = self._match(old, segments[at:])
            if entry is None:
                break
            extra += entry.extra
            if old.reply_ids and entry.extra and self._spare is not None and extra > self._spare:
                break
            kept.append(entry)
            at += used
        return [*kept, *(_Entry(segment.text, segment.ids) for segment in segments[at:])]

    def _match(self, old: _Entry, segments: Sequence[Segment]) -> tuple[_Entry | None, int]:
        """Return the entry for the first of `segments`, and how many of them it covers."""
        # special tokens in a reply may have cut it into several segments
        if not old.reply_ids:
            shown, used = _joined(segments, len(old.text))
            rest = shown[len(old.text) :]
            # a reply was to follow the newest text: the model has not seen the text that follows now
            if not used or not shown.startswith(old.text) or (rest and old is not self._entries[-1]):
                return None, 0
            ids = (*old.ids, *self._continue_text(rest)) if rest else old.ids
            return _Entry(shown, ids, extra=old.extra), used
        whole = "".join(segment.text for segment in segments)
        if not whole.startswith(old.text):
            return None, 0
        # a reply that ended within a character was said without it
        reply = codecs.getincrementaldecoder("utf-8")("replace").decode(old.reply)
        left = behind(reply, whole[len(old.text) :], opened=opened_thought(old.text))
        if left is None:
            return None, 0
        end = len(whole) - len(left)
        shown, used = _joined(segments, end)
        ids = (*old.all_ids, *self._continue_text(shown[end:]))
        rendered = sum(len(segment.ids) for segment in segments[:used])
        return _Entry(shown, ids, extra=max(0, len(ids) - rendered)), used


def _joined(segments: Sequence[Segment], length: int) -> tuple[str, int]:
    """Return the text of the fewest segments that hold so many characters, at least one, and how many they are."""
    texts: list[str] = []
    got = 0
    for segment in segments:
        texts.append(segment.text)
        got += len(segment.text)
        if got >= length:
            break
    return "".join(texts), len(texts)


def _length_heard(reply: str, heard: str, *, opened: str) -> int:
    """Return how many characters of `reply`, behind a thought that the prompt `opened`, the heard text covers.

    Only speech counts, without white space.
    """
    begin = len(opened)
    whole = opened + reply
    silent = {hidden.begin: hidden.end for hidden in all_hidden(whole)}
    at = 0
    for character in "".join(heard.split()):
        while at < len(whole) and (whole[at].isspace() or at in silent):
            at = silent.get(at, at + 1)
        if at == len(whole) or whole[at] != character:
            break
        at += 1
    return max(0, at - begin) if heard.strip() else 0


class Reply:
    """One reply in the making: text for the voice, ids for the token log; the marker that the prompt `opened` comes first."""

    def __init__(self, log: TokenLog, *, opened: str = "") -> None:
        self._log = log
        self._opened = opened
        self.text = ""
        self.ids: list[int] = []
        self.stopped: Literal["eos", "length", "interrupted"] = "interrupted"

    def keep(self, token: int, piece: bytes) -> None:
        """Take a generated token and its bytes."""
        self._log.append(token, piece)
        self.ids.append(token)

    def show(self, text: str) -> str:
        """Return the new text, without space at the beginning of the reply."""
        if not self.text:
            text = text.lstrip()
            text = text and self._opened + text
        self.text += text
        return text

    def generation(self, prompt_tokens: int, evaluated_tokens: int) -> Generation:
        """Return the record of the call."""
        return Generation(self.text, tuple(self.ids), prompt_tokens, evaluated_tokens, self.stopped)


class OneCaller(Closable):
    """A model that computes for one caller at a time, and may be closed from any thread.

    `interrupt` ends the computation, from any thread; `mend` lets the next one run.
    """

    def __init__(self, interrupt: Callable[[], None], mend: Callable[[], None]) -> None:
        self.last = Generation()
        self._interrupt, self._mend = interrupt, mend
        self._lock = threading.Lock()
        self._closing = False

    @abstractmethod
    def _free(self) -> None:
        """Leave the model; nothing computes."""

    def _check_open(self) -> None:
        if self._closing:
            raise ClosedError("The chat model was closed; open it again")


class ChatContext(OneCaller):
    """One conversation with one model.

    A streaming reply holds the model: other threads wait, the same thread closes the iterator or uses it up before asking again.
    """

    larger: str
    """How the model gets a larger window."""
    tokenizer: LlamaTokenizer
    n_ctx: int

    def __init__(self, interrupt: Callable[[], None], mend: Callable[[], None]) -> None:
        super().__init__(interrupt, mend)
        self.log = TokenLog(self._continue_text, spare=self.n_ctx // SPARE)
        self.head: tuple[list[Message], list[dict[str, Any]] | None, float | None] = ([], None, None)
        """System messages, tools and date of the newest prompt."""
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

        It shows markers of thoughts and calls only, and begins with one that the prompt opened. It has at most `max_tokens`,
        fewer if the window is nearly full. `stop` is asked before every token, and from another thread while the prompt is
        evaluated. A `temperature` of 0 takes the likeliest token; `seed` is for random choice above. A template may print `now`.
        """
        if max_tokens < 1:
            raise InvalidInputError(f"max_tokens is {max_tokens}; ask for at least one")
        self._check_open()
        prompt = self.tokenizer.render(messages, tools=tools, now=now)
        if prompt.n >= self.n_ctx:
            raise self._overflow(messages, tools, prompt.n)
        instructions = list(takewhile(lambda message: message["role"] == "system", messages))

        def run() -> Generator[str]:
            with self._held():
                self._running = running
                self._check_model()
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
        """Yield the reply to a prompt, and leave the outcome in `last`."""

    def _check_model(self) -> None:
        """Raise where the model is no longer the one that was opened."""

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
    """Answers single prompts beside a conversation, the likeliest token each time; any thread may close it."""

    n_ctx: int
    """Tokens of prompt and answer together."""
    larger: str
    """Advice: the context's name, its size, and how to get a larger one."""

    def __init__(
        self, tokenizer: LlamaTokenizer, interrupt: Callable[[], None], mend: Callable[[], None]
    ) -> None:
        super().__init__(interrupt, mend)
        self.tokenizer = tokenizer

    def close(self) -> None:
        """Stop the writing and leave the model; a second call does nothing."""
        self._closing = True
        self._interrupt()
        with self._lock:
            self._free()

    def rest(self) -> None:
        """Give memory back until it is needed again, where there is any to give."""

    def answer(self, messages: Sequence[Message], *, max_tokens: int, stop: Stop = None) -> Generation:
        """Return the answer, perhaps `stopped` by `max_tokens` or by `stop`, asked at every token and every 5 ms of computing."""
        with self._lock:
            self._check_open()
            prompt = self.tokenizer.render(messages)
            if prompt.n + max_tokens > self.n_ctx:
                raise ContextOverflowError(
                    f"The prompt has {prompt.n} tokens and the answer up to {max_tokens}, "
                    + self.larger.format(self.n_ctx)
                )
            self._mend()
            self._check_open()  # after the mending, so that a close() at this moment is not overlooked
            self.last = self._generate(prompt, max_tokens, stop)
            return self.last

    @abstractmethod
    def _generate(self, prompt: Prompt, budget: int, stop: Stop) -> Generation:
        """Return the answer to a prompt, of at most `budget` tokens."""
