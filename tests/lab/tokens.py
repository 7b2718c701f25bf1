"""How much is tokenised in a turn once a conversation is long: only what is new, or the history again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.corpus import household_facts
from edgemem.bench.ground import (
    KEEP_PLAN,
    Robot,
    at_most,
    median,
    real_embedder,
    real_tokenizer,
    report,
    say,
    scratch,
    store_facts,
    ticking,
)
from edgemem.bench.session import conversation, own_words

if TYPE_CHECKING:
    from edgemem.llama.protocols import Prompt
    from edgemem.records import Message

IDLE_S = 600.0
WINDOW = 20


class _Counted:
    """The real tokenizer, counting also the bare text that hooks measure to stay within budgets."""

    exact = True

    def __init__(self, tokenizer: Any) -> None:
        self.inner = tokenizer
        self.fingerprint: str = tokenizer.fingerprint
        self.bare_bytes = 0

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        self.bare_bytes += len(text.encode("utf-8", "replace"))
        ids: list[int] = self.inner.encode(text, special=special)
        return ids

    def render(self, messages: Sequence[Message], **options: Any) -> Prompt:
        prompt: Prompt = self.inner.render(messages, **options)
        return prompt

    def count(self, messages: Sequence[Message], **options: Any) -> int:
        return self.render(messages, **options).n

    def bytes(self) -> tuple[int, int]:
        """Return the bytes tokenised so far: of rendered segments, and of bare text."""
        return self.inner.tokenised_bytes, self.bare_bytes


def run(*, turns: int = 400, facts: int = 500, home: Path | None = None) -> dict[str, Any]:
    """Count the bytes tokenised in a turn by all default hooks and the model's prompt, against those that are new.

    The profile is the default, with its embedder and its worker.

    Args:
        turns: of 4 messages; the newest 20 are counted.
        facts: stored before, so that each turn has a block.
    """
    real_embedder()
    tokenizer = _Counted(real_tokenizer())
    rendered: list[int] = []
    bare: list[int] = []
    idle: list[int] = []
    new: list[int] = []
    seen: set[str] = set()
    stored = household_facts(facts)
    with scratch(home) as folder:
        try:
            with edgemem.open(folder / "home", tokenizer=tokenizer, clock=ticking()) as memory:
                store_facts(memory.diagnostics.database, stored)
                memory.idle(IDLE_S)
                robot = Robot(memory.hooks(), tools=[KEEP_PLAN])
                say(f"{turns} turns …")
                for n, line in enumerate(conversation(turns)):
                    # Asking for something in each turn gives each its block.
                    asked = f"{stored[n % facts].question} ({own_words(n)[0]})"
                    before = tokenizer.bytes()
                    handed = robot.turn(msgspec.structs.replace(line, say=asked)).handed
                    for messages in handed:  # what the chat model does with the prompt, on the same tokenizer
                        tokenizer.count(messages, tools=robot.schemas)
                    after = tokenizer.bytes()
                    rendered.append(after[0] - before[0])
                    bare.append(after[1] - before[1])
                    new.append(_new_bytes(tokenizer, handed, robot.schemas, seen))
                    if n + 1 in (turns - WINDOW, turns):
                        # A reply is tokenised at its turn's end or with the next prompt; the count ends behind both.
                        answered = [*handed[-1], {"role": "assistant", "content": line.reply}]
                        before = tokenizer.bytes()
                        new[-1] += _new_bytes(tokenizer, [answered], robot.schemas, seen)
                        rendered[-1] += tokenizer.bytes()[0] - before[0]
                        after = tokenizer.bytes()
                    memory.idle(IDLE_S, thorough=False)
                    idle.append(sum(tokenizer.bytes()) - sum(after))
                robot.check()
        finally:
            tokenizer.inner.close()
    last = slice(-WINDOW, None)
    ratio = sum(rendered[last]) / sum(new[last])
    figures = {
        "turns": turns,
        "new_segments_bytes_per_turn": median(new[last]),
        "rendered_bytes_per_turn": median(rendered[last]),
        "bare_text_bytes_per_turn": median(bare[last]),
        "idle_bytes_per_turn": median(idle[last]),
        "rendered_ratio": round(ratio, 4),
        "all_ratio": round((sum(rendered[last]) + sum(bare[last])) / sum(new[last]), 4),
    }
    return report("tokens", figures, {"rendered_ratio": at_most(ratio, 1.0)})


def _new_bytes(
    tokenizer: _Counted, handed: Sequence[list[Message]], schemas: list[dict[str, Any]], seen: set[str]
) -> int:
    """Return the bytes of the segments that no prompt before had."""
    total = 0
    for messages in handed:
        for segment in tokenizer.render(messages, tools=schemas).segments:
            if segment.text not in seen:
                seen.add(segment.text)
                total += len(segment.text.encode())
    return total
