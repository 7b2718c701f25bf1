"""Small talk: what people say that needs nothing of the memory, of another household and in everyday life.

That of a household is the talk of the weeks of another seed, in the same forms: nobody has said it word for word to the memory that is
tried, and it speaks of the same people and things. What tells or asks for anything is left out. That of everyday life stands in
`talk.toml`, beside questions that do need a memory.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from edgemem.bench.weeks_facts import facts
from edgemem.bench.weeks_forms import FormSet, forms_of, lines
from edgemem.bench.weeks_talk import Talk

HALVES = ("seen", "unseen")
"""Of what is said in everyday life: rules were made by looking at the first half alone."""


def small_talk(seed: int, forms: FormSet) -> list[tuple[str, str]]:
    """Return who says what, in order."""
    talk = Talk(forms_of(forms), facts(seed), seed)
    telling = {name for one in talk.tellings for name in one.ids}
    out = []
    for number, turn in enumerate(talk.turns):
        after = talk.turns[number + 1] if number + 1 < len(talk.turns) else None
        # An order to a tool, a request to look something up, a question that came too early.
        works = turn.id in talk.unanswered or (after is not None and after.role == "tool")
        if turn.role == "user" and turn.speaker is not None and turn.id not in telling and not works:
            out.append((turn.speaker, turn.text))
    return out


@lru_cache(maxsize=1)
def _everyday() -> dict[str, dict[str, str]]:
    return msgspec.toml.decode(
        Path(__file__).with_name("talk.toml").read_bytes(), type=dict[str, dict[str, str]]
    )


def phrases(need: str, half: str) -> list[str]:
    """Return what is said to assistants all day.

    Args:
        need: `idle` needs nothing of a memory, `needed` does.
        half: one of `HALVES`.
    """
    return lines(_everyday()[need][half])
