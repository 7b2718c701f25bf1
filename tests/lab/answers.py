"""Answers: what a chat model makes of what memory shows it, in the talk of a household that it has never heard.

Each question is asked in a fresh conversation: without memory, with all default hooks, and with only the messages that
answer it. A reply is right if it holds at least 60 % of the content words of the answer; then it is thrown away.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.ground import real_embedder, report, say, scratch
from edgemem.config import Profile
from edgemem.errors import InvalidInputError, ModelError
from edgemem.fence import fence
from edgemem.llama.chat import LlamaChat
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.models.catalog import find_model
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.recall.text.analyse import terms
from lab.bootstrap import interval
from lab.recall_asking import READER
from lab.recall_cases import form_set, weeks_case
from lab.recall_home import filled
from lab.weeks import Question, Weeks, weeks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.session.points import Hook

INSTRUCTIONS = "You are a robot in a household. Answer in one short sentence. What stands in <memory> is what you remember."
WINDOW = 2048
MOST_TOKENS = 40  # of a reply
ENOUGH = 0.6  # share of an answer's content words with which a reply is right


def run(
    *,
    llm: str = "smollm2-135m-instruct",
    questions: int = 100,
    seed: int = 1,
    forms: str = "unseen",
    cache: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Count how many questions a chat model answers right: without memory, with it, and when told nothing but the answer."""
    if questions < 1:
        raise InvalidInputError(f"Give --questions at least 1, not {questions}.")
    path = find_model(llm)
    if path is None:
        raise ModelError(f"The chat model {llm} is missing; type: edgemem models get {llm}")
    made = weeks(seed, form_set(forms))
    asked = [one for one in made.questions if one.evidence and terms(one.said)]
    asked = asked[:: max(1, len(asked) // questions)][:questions]
    case, profile = weeks_case(made), Profile()
    settings = profile.llama
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(home))
        embedder = stack.enter_context(
            LlamaEmbedder(real_embedder(), n_ctx=settings.embed_context, threads=settings.embed_threads)
        )
        chat = stack.enter_context(LlamaChat(path, n_ctx=WINDOW))
        here = stack.enter_context(
            filled(case, folder, embedder=embedder, profile=profile, tokenizer=chat.tokenizer, cache=cache)
        )
        say(f"asking {len(asked)} questions …")
        bare = Listener(chat, ())
        hooks = here.memory.hooks(session_id="bench answers", speaker=READER, instructions=INSTRUCTIONS)
        remembers = Listener(chat, hooks)
        right: dict[str, list[float]] = {"without_memory": [], "with_memory": [], "told_the_answer": []}
        for one in asked:
            here.clock.at = one.at
            told = f"{fence(_evidence(made, one))}\n\n{one.text}"
            for name, listener, text in (
                ("without_memory", bare, one.text),
                ("with_memory", remembers, one.text),
                ("told_the_answer", bare, told),
            ):
                reply = listener.reply(text, one.asker)
                right[name].append(float(is_right(reply, one.said)))
    figures = {name: msgspec.structs.asdict(interval(some)) for name, some in right.items()}
    return report("answers", {"llm": path.name, "questions": len(asked), "side_by_side": figures}, {})


def is_right(reply: str, answer: str) -> bool:
    wanted = set(terms(answer))
    return len(wanted.intersection(terms(reply))) >= ENOUGH * len(wanted)


class Listener:
    """A robot that answers, and forgets at once that it was asked."""

    def __init__(self, chat: LlamaChat, hooks: Iterable[Hook]) -> None:
        self._loop = AgentLoop(
            ChatReplies(chat, max_tokens=MOST_TOKENS), hooks=hooks, instructions=INSTRUCTIONS
        )

    def reply(self, text: str, speaker: str) -> str:
        said = self._loop.prepare(text, speaker=speaker).reply
        self._loop.abort()
        for failure in self._loop.hooks.failures():
            raise InvalidInputError(f"{failure.hook} failed at {failure.point}: {failure.message}")
        return said


def _evidence(made: Weeks, question: Question) -> list[str]:
    return [
        f"- {turn.speaker or 'you'} {datetime.fromtimestamp(turn.at, timezone.utc):%d %b}: {turn.text}"
        for turn in made.turns
        if turn.id in question.evidence
    ]
