"""A model that says what a script says, and tells how many tokens it had to read for it.

What is real: every prompt is rendered, tokenised and handed to llama.cpp through the same `ChatModel` that a robot uses;
it reuses what it has in its cache, evaluates the rest, samples one token, and counts (`n_p_eval`, or the timings of a
server). What is not: the reply. The weights are random, so what is sampled means nothing and is taken back; the script's
reply stands in the cache as a model's own would: its ids as generated, all but the last of them evaluated. A real model
evaluates these one by one while it speaks, and no prompt is charged for them; here they are evaluated at once, between
two prompts, and no prompt is charged either. The last one, sampled and never evaluated, is read with the next prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.report import timed_ms
from edgemem.llama import backend
from edgemem.llama.chat import LlamaChat
from edgemem.llama.tokenlog import common_prefix

if TYPE_CHECKING:
    from edgemem.llama.prompt import Prompt
    from edgemem.llama.protocols import ChatModel, Tokenizer
    from edgemem.loop import LoopModel, Reply
    from edgemem.records import Message


class Read(msgspec.Struct, frozen=True):
    """What one call of the model had to read."""

    counted: int
    """Tokens of the prompt that are no common prefix with what the model has read and said before."""
    evaluated: int
    """What llama.cpp says that it evaluated; without a model, `counted`."""
    first_ms: float
    """Until the first token was there; without a model, 0."""
    ids: list[int]
    """The whole prompt."""


class ReadingModel:
    """Says what `script` says; keeps a `Read` of each call until it is taken.

    Args:
        script: decides on the replies.
        tokenizer: renders what is counted; that of `chat`, if there is one.
        chat: reads each prompt; None: tokens are only counted.
    """

    def __init__(self, script: LoopModel, tokenizer: Tokenizer, chat: ChatModel | None = None) -> None:
        self._reads: list[Read] = []
        self._script = script
        self._tokenizer = tokenizer
        self._chat = chat
        self._before: Prompt | None = None

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        """Read the prompt, and return the script's next reply."""
        prompt = self._tokenizer.render(messages, tools=tools, now=now)
        said, ids = _said(self._before, prompt), prompt.ids
        seen = self._before.ids if self._before is not None else []
        # The newest token was sampled and is read only now.
        known = len(seen) + len(said) - 1 if said else common_prefix(seen, ids)
        counted = len(ids) - known
        evaluated, first_ms = counted, 0.0
        chat = self._chat
        if chat is not None:
            spoken = _speak(chat, said)
            first_ms = timed_ms(lambda: _read(chat, messages, tools, now))
            evaluated = chat.last.evaluated_tokens - spoken
            if self._before is None and not isinstance(chat, LlamaChat):
                # Its slot may hold the prompt of a loop before this one, which begins with the same instructions.
                counted = evaluated
        self._reads.append(Read(counted, evaluated, first_ms, ids))
        self._before = prompt
        return self._script.complete(messages, tools=tools, stop=stop, on_text=on_text, now=now)

    def taken(self) -> list[Read]:
        """Return what was read since the last call of this."""
        reads, self._reads = self._reads, []
        return reads

    def cut(self, heard_text: str) -> None:
        """Do nothing: nobody interrupts a script."""


def _read(
    chat: ChatModel, messages: Sequence[Message], tools: Sequence[dict[str, Any]], now: float | None
) -> None:
    """Have a prompt read and a token sampled, and take the token back."""
    for _ in chat.stream(messages, tools=tools or None, max_tokens=1, now=now):
        pass
    chat.cut("")


def _speak(chat: ChatModel, said: Sequence[int]) -> int:
    """Put a reply into the model's cache; return how many of its tokens are charged to the next prompt all the same.

    A server takes no replies from elsewhere: it reads this one as part of the next prompt.
    """
    if not isinstance(chat, LlamaChat):
        return max(0, len(said) - 1)
    for token in said:
        chat.log.append(token, chat.tokenizer.vocabulary.piece(token))
    with chat.if_quiet() as llama:
        if len(said) > 1 and llama is not None:
            llama.eval(said[:-1])
            # What is not waited for, llama.cpp would book with the next prompt.
            backend.llama().llama_synchronize(llama.ctx)
    return 0


def _said(before: Prompt | None, prompt: Prompt) -> Sequence[int]:
    """Return the ids of the reply to one prompt as they stand in the next; none if it does not go on from there."""
    if before is None or len(before.segments) > len(prompt.segments):
        return ()
    *kept, asked = before.segments
    answered = prompt.segments[len(kept)]
    if tuple(kept) != prompt.segments[: len(kept)] or answered.ids[: len(asked.ids)] != asked.ids:
        return ()
    return answered.ids[len(asked.ids) :]
