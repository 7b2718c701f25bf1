"""Beside Cognitia: the same random calls through the real package and through ours; what differs, and what of that is meant."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import edgemem.aio
from edgemem.bench.ground import at_most, report, scratch
from edgemem.fence import clean_result
from lab.beside_calls import CLASSES, USERS, Opened, Sequence, opened_with, play, sequences
from lab.peers import PEERS
from lab.side_by_side import Came, Meant, Pair, PeerScript, Without, compare, raised, reasons_of

TABLES = Path(__file__).parent.parent / "data" / "swarmline_tables.sql"
WRITES = re.compile("save|upsert|store|write|append|delete|ensure|record|memory_[wad]")
FOUND_BY = ("summary", "tags", "key_decisions", "name", "trigger", "description")
STOP = frozenset({"the", "and", "a", "say"})

REFUSED = {
    "empty": "an empty name, role or summary", "with a role": "an empty name, role or summary",
    "text, not": "what is no text where a text belongs", "character": "a control character in a name",
    "at most": "a name over 256 characters, a fact or payload over 4 kB, a text over 16 KiB", "JSON": "what JSON cannot hold",
    "0 or more": "a negative number", "with a dot": "a path that is empty, or has a name that is or begins with a dot",
    "is a text such as": "a path that is empty, or has a name that is or begins with a dot",
    "would make": "what is over the limits of a bank", "more than 240 bytes": "a name of a path over 240 bytes",
    "there is no '": "a tool called with what it does not take", "needs content": "a tool called without what it needs",
}  # fmt: skip
"""What ours refuses and the real package takes, by words of our message."""
TAKEN = {"delete": "deleting what can be no file does nothing", "memory_": "a tool reads a number as text"}
"""What the real package refuses and ours takes, by a word of the method."""


def stored(pair: Pair) -> list[Any]:
    """Return the records that were stored where a call looks, the same id perhaps twice."""
    return [one.arguments[0] for one in pair.earlier if one[:2] == (pair.call.of, "store")]


def by_words(pair: Pair, ours: Any, theirs: Any) -> Any:
    """Return what ours finds, if all have a word of the query or one like it, and none is left out that has all its words."""
    query = words([pair.call.arguments[0]])
    last = {one.id: words(vars(one).get(name, "") for name in FOUND_BY) for one in stored(pair)}
    names = [one["id"] for one in ours]
    alike = all({word[:2] for word in query} & {word[:2] for word in last[name]} for name in names)
    whole = [had for had in last.values() if query - STOP and query - STOP <= had]
    full = len(names) >= pair.call.keywords.get("top_k", 5 if pair.call.of == "episodes" else 3)
    return ours if alike and (full or all(had in map(last.get, names) for had in whole)) else theirs


def words(texts: Iterable[object]) -> set[str]:
    return set(re.findall(r"\w+", " ".join(map(str, texts)).lower()))


def stored_again(pair: Pair, ours: Any, theirs: Any) -> Any:
    ids = [one.id for one in stored(pair)]
    twice = {
        name
        for name in ids
        if ids.count(name) > 1 and (pair.call.form == "memory" or pair.call.of == "procedures")
    }
    return ours if twice and (pair.call.method != "get" or pair.call.arguments[0] in twice) else theirs


def by_trust(pair: Pair, ours: Any, theirs: Any) -> Any:
    weighed = pair.call.form == "memory" and any("source" in call.keywords for call in pair.earlier)
    return ours if weighed else theirs


def without_title(_pair: Pair, _ours: Any, theirs: Any) -> Any:
    return theirs and {name: value for name, value in theirs.items() if name != "title"}


def of_unknown(pair: Pair, ours: Any, theirs: Any) -> Any:
    of, _method, arguments, _keywords, form = pair.call
    return ours if form == "file" and of == "memory" and arguments[0] not in USERS else theirs


MEANT: tuple[Meant, ...] = (
    ("get_session_state", "a session state has no title", without_title),
    ("get_user_profile", "a profile tells since when there is the user", lambda _, ours, theirs: {**theirs, "created_at": ours["created_at"]}),
    ("record_outcome", "record_outcome tells whether there is a procedure", lambda pair, *_: pair.call.arguments[0] in [one.id for one in stored(pair)]),
    ("summarize asummarize", "a message is one line of a list", lambda _pair, _ours, theirs: theirs.replace("two\nlines", "two lines")),
    ("get_messages recall_recent", "a negative number asks for nothing", lambda pair, _, theirs: [] if pair.call.arguments[-1] == -1 else theirs),
    ("get_facts get_user_profile", "what sources are trusted with holds in memory too", by_trust),
    ("recall recall_recent recall_by_tag count get suggest", "what is stored again replaces itself, and keeps its outcomes", stored_again),
    ("recall_by_tag", "episodes of a tag come newest first", lambda _pair, _ours, theirs: sorted(theirs, key=lambda one: one["timestamp"], reverse=True)),
    ("recall suggest", "each word finds for itself, in forms alike, by how rare it is", by_words),
    ("memory_read", "a tool gives stored text back without markers of roles", lambda _pair, _ours, theirs: json.loads(clean_result(json.dumps(theirs, ensure_ascii=False)))),
    ("", "control characters are taken out of texts", lambda _pair, _ours, theirs: json.loads(json.dumps(theirs).replace("\\u0000", ""))),
    ("", "ensure_user need not come first", of_unknown),
)  # fmt: skip


def reasons(pair: Pair) -> list[str] | None:
    """Return what `reasons_of` does, also where the real package raises."""
    if raised(pair.theirs) and raised(pair.ours):
        return None if pair.theirs["raised"] == "MemoryBankViolation" != pair.ours["raised"] else []
    if raised(pair.theirs):
        return next(([why] for word, why in TAKEN.items() if word in pair.call.method), None)
    return reasons_of(pair, REFUSED, MEANT)


def run(
    *, count: int = 2000, seed: int = 1, python: Path | None = None, home: Path | None = None
) -> dict[str, Any]:
    """Play random sequences of calls through Cognitia (swarmline 1.6.10) and through ours, and compare what came of each.

    Args:
        count: of sequences, of 1 to 30 calls.
        seed: of chance.
        python: one that has the package; default: an environment in the cache, made by pip.
        home: where scratch files go; default: the temporary files.
    """
    drawn, rounds = dict(enumerate(sequences(count, seed, vars(edgemem.aio)))), itertools.count()
    with scratch(home) as folder:

        def both(without: Without) -> tuple[Came, Came]:
            here = folder / str(next(rounds))
            here.mkdir()
            told = PeerScript("beside_calls.py", PEERS["swarmline"], python, here)
            came = told(count=count, seed=seed, tables=str(TABLES), without=without)
            theirs = {int(n): results for n, results in came.items()}
            return asyncio.run(_ours(here, {n: drawn[n] for n in without}, without)), theirs

        figures = compare({n: one.calls for n, one in drawn.items()}, both, reasons, WRITES.match)
    return report("beside", figures, {"different": at_most(figures["different"], 0)})


async def _ours(folder: Path, some: dict[int, Sequence], without: Without) -> Came:
    names: dict[str, Any] = vars(edgemem.aio)

    async def open_(n: int, sequence: Sequence) -> Opened:
        base = folder / f"ours-{n}"
        base.mkdir()
        *classes, bank = (names[name] for name in CLASSES[sequence.form].split())
        file = [] if sequence.form == "memory" else [base / "agent.db"]  # one for all
        config = names["MemoryBankConfig"](enabled=True, root_path=base, **sequence.limits)
        files = bank(*file, "ann", "boats", config) if file else bank(config, "ann", "boats")
        providers = [*(kind(*file) for kind in classes), files]

        async def close() -> None:
            for provider in providers:
                await provider.close()

        return opened_with(names, close, *providers)

    return await play(some, open_, without)
