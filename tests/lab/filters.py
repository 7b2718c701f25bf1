"""Recall with a filter beside recall without one: ms among so many messages, each of which has metadata."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from edgemem.bench.ground import NearlyReal, at_most, median, report, say, scratch
from edgemem.config import Profile
from edgemem.store.thoughts import put_mark
from lab.compare import many
from lab.recall_cases import form_set
from lab.recall_home import filled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.memory import Memory
    from edgemem.store.db.transaction import Transaction

SLOWER = 1.2
K = 10
_AT_ONCE = 2_000
_SECONDS = 3_600.0  # until the index has all


def run(
    *,
    rows: int = 100_000,
    asked: int = 60,
    times: int = 3,
    of: int = 100,
    forms: str = "unseen",
    home: Path | None = None,
) -> dict[str, Any]:
    """Ask the same questions with and without a filter that one message in `of` passes, by turns; without the question's embedding."""
    embedder, case = NearlyReal(), many(rows, form_set(forms))
    step = max(1, len(case.asked) // asked)
    questions = [one.text for one in case.asked[::step]][:asked]
    spent: dict[str, list[float]] = {"without": [], "with": []}
    with scratch(home) as folder, filled(case, folder, embedder=embedder, profile=Profile()) as here:
        say(f"metadata of {rows} messages …")
        _mark(here.memory, of)
        here.memory.idle(_SECONDS)
        left = here.memory.diagnostics.search.pending()
        for n in range(times + 1):
            for text, (name, filters) in _by_turns(questions):
                before, begun = embedder.query_ms, perf_counter()
                here.memory.recall(text, k=K, kinds={"turn"}, filters=filters)
                if n:  # the first round reads the index
                    spent[name].append((perf_counter() - begun) * 1e3 - (embedder.query_ms - before))
    ms = {name: median(values) for name, values in spent.items()}
    bars = {"times as long with a filter": at_most(ms["with"] / ms["without"], SLOWER)}
    return report(
        "filters",
        {"rows": rows, "passing": 1 / of, "questions": len(questions), "ms": ms, "waiting": left},
        bars,
    )


def _by_turns(questions: Sequence[str]) -> Iterator[tuple[str, tuple[str, dict[str, Any] | None]]]:
    for text in questions:
        yield text, ("without", None)
        yield text, ("with", {"place.shelf": 7})


def _mark(memory: Memory, of: int) -> None:
    """Give each message one of so many values, in its turn."""
    database = memory.diagnostics.database
    messages = [number for (number,) in database.query("select id from messages order by id")]
    for first in range(0, len(messages), _AT_ONCE):

        def work(tx: Transaction, first: int = first) -> None:
            for n, number in enumerate(messages[first : first + _AT_ONCE], first):
                put_mark(tx, f"turn:{number}", metadata={"place": {"shelf": n % of}})

        database.write(work)
