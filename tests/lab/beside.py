"""Beside Cognitia: the same random calls through the real package and through ours; what differs, and what of that is meant."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import edgemem.aio
from edgemem.bench.ground import at_most, report, say, scratch
from edgemem.fence import clean_result
from edgemem.inspect.replay import cache_folder
from lab.beside_calls import CLASSES, USERS, Call, Opened, Sequence, opened_with, play, sequences
from lab.peers import PEERS, call_peer, python_of

TABLES = Path(__file__).parent.parent / "data" / "swarmline_tables.sql"
SCRIPT = str(Path(__file__).with_name("beside_calls.py"))
RUN_S = 3600.0
SHOWN = 10  # differences that are told in full
WRITES = re.compile("save|upsert|store|write|append|delete|ensure|record|memory_[wad]")
FOUND_BY = ("summary", "tags", "key_decisions", "name", "trigger", "description")
STOP = frozenset({"the", "and", "a", "say"})
Came = dict[int, list[Any]]
"""What came of each call of the sequences, by their numbers."""


class Pair(NamedTuple):
    """What came of one call in both; `earlier` are those of its sequence before it that both took."""

    form: str
    call: Call
    ours: Any
    theirs: Any
    earlier: list[Call]

    def stored(self) -> list[Any]:
        """Return the records that were stored where this call looks, the same id perhaps twice."""
        return [one.arguments[0] for one in self.earlier if one[:2] == (self.call.of, "store")]


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


def by_words(pair: Pair, theirs: Any) -> Any:
    """Return what ours finds, if all have a word of the query or one like it, and none is left out that has all its words."""
    query = words([pair.call.arguments[0]])
    last = {one.id: words(vars(one).get(name, "") for name in FOUND_BY) for one in pair.stored()}
    ours = [one["id"] for one in pair.ours]
    alike = all({word[:2] for word in query} & {word[:2] for word in last[name]} for name in ours)
    whole = [had for had in last.values() if query - STOP and query - STOP <= had]
    full = len(ours) >= pair.call.keywords.get("top_k", 5 if pair.call.of == "episodes" else 3)
    return pair.ours if alike and (full or all(had in map(last.get, ours) for had in whole)) else theirs


def words(texts: Iterable[object]) -> set[str]:
    return set(re.findall(r"\w+", " ".join(map(str, texts)).lower()))


def stored_again(pair: Pair, theirs: Any) -> Any:
    ids = [one.id for one in pair.stored()]
    twice = {
        name
        for name in ids
        if ids.count(name) > 1 and (pair.form == "memory" or pair.call.of == "procedures")
    }
    return pair.ours if twice and (pair.call.method != "get" or pair.call.arguments[0] in twice) else theirs


def by_trust(pair: Pair, theirs: Any) -> Any:
    weighed = pair.form == "memory" and any("source" in call.keywords for call in pair.earlier)
    return pair.ours if weighed else theirs


def without_title(_: Pair, theirs: Any) -> Any:
    return theirs and {name: value for name, value in theirs.items() if name != "title"}


def of_unknown(pair: Pair, theirs: Any) -> Any:
    unknown = pair.form == "file" and pair.call.of == "memory" and pair.call.arguments[0] not in USERS
    return pair.ours if unknown else theirs


MEANT: tuple[tuple[str, str, Callable[[Pair, Any], Any]], ...] = (
    ("get_session_state", "a session state has no title", without_title),
    ("get_user_profile", "a profile tells since when there is the user", lambda pair, theirs: {**theirs, "created_at": pair.ours["created_at"]}),
    ("record_outcome", "record_outcome tells whether there is a procedure", lambda pair, _: pair.call.arguments[0] in [one.id for one in pair.stored()]),
    ("summarize asummarize", "a message is one line of a list", lambda _, theirs: theirs.replace("two\nlines", "two lines")),
    ("get_messages recall_recent", "a negative number asks for nothing", lambda pair, theirs: [] if pair.call.arguments[-1] == -1 else theirs),
    ("get_facts get_user_profile", "what sources are trusted with holds in memory too", by_trust),
    ("recall recall_recent recall_by_tag count get suggest", "what is stored again replaces itself, and keeps its outcomes", stored_again),
    ("recall_by_tag", "episodes of a tag come newest first", lambda _, theirs: sorted(theirs, key=lambda one: one["timestamp"], reverse=True)),
    ("recall suggest", "each word finds for itself, in forms alike, by how rare it is", by_words),
    ("memory_read", "a tool gives stored text back without markers of roles", lambda _, theirs: json.loads(clean_result(json.dumps(theirs, ensure_ascii=False)))),
    ("", "control characters are taken out of texts", lambda _, theirs: json.loads(json.dumps(theirs).replace("\\u0000", ""))),
    ("", "ensure_user need not come first", of_unknown),
)  # fmt: skip
"""For some methods or all: what is meant to differ, and what ours gives where the real package gives something."""


def reasons_of(pair: Pair) -> list[str] | None:
    """Return why ours gives something else, nothing where it does not; None: nobody knows."""
    ours, theirs = pair.ours, pair.theirs
    if raised(ours) and raised(theirs):
        return None if theirs["raised"] == "MemoryBankViolation" != ours["raised"] else []
    if raised(ours):
        return next(([f"refused: {what}"] for word, what in REFUSED.items() if word in ours["message"]), None)
    if raised(theirs):
        return next(([why] for word, why in TAKEN.items() if word in pair.call.method), None)
    reasons = []
    for methods, why, instead in MEANT:
        if theirs != ours and pair.call.method in (methods.split() or [pair.call.method]):
            reasons += [why] if instead(pair, theirs) != theirs else []
            theirs = instead(pair, theirs)
    return reasons if theirs == ours else None


def raised(came: Any) -> bool:
    return isinstance(came, dict) and "raised" in came


def one_sided(one: Sequence, ours: list[Any], theirs: list[Any]) -> list[int]:
    """Return which writes of a sequence only one of both refused."""
    writes = [m for m, call in enumerate(one.calls) if WRITES.match(call.method)]
    return [m for m in writes if raised(ours[m]) != raised(theirs[m])]


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
    peer, drawn = PEERS["swarmline"], dict(enumerate(sequences(count, seed, vars(edgemem.aio))))
    python = python or python_of(peer, cache_folder() / "peers")
    say(f"{count} sequences …")
    with scratch(home) as folder:

        def both(without: dict[int, list[int]]) -> tuple[Came, Came]:
            job = {"count": count, "seed": seed, "tables": str(TABLES), "without": without}
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            printed = call_peer([str(python), "-B", SCRIPT, str(folder)], peer, "it failed", RUN_S)
            theirs = {int(n): came for n, came in json.loads(printed.splitlines()[-1]).items()}
            played = {n: drawn[n] for n in theirs}
            return asyncio.run(_ours(folder / f"ours-{len(without)}", played, without)), theirs

        first = both({})
        # A write that only one refuses is left out of both, so that later calls are of the same things.
        left_out = {n: some for n, one in drawn.items() if (some := one_sided(one, first[0][n], first[1][n]))}
        second = both(left_out) if left_out else first
    kinds, reasons, differences = Counter[str](), Counter[str](), list[str]()
    for n, one in drawn.items():
        kind = "equal"
        for m, call in enumerate(one.calls):
            without = left_out.get(n, [])
            earlier = [one.calls[k] for k in range(m) if k not in without and not raised(first[0][n][k])]
            ours, theirs = (came[n][m] for came in (second if without and m not in without else first))
            why = reasons_of(Pair(one.form, call, ours, theirs, earlier))
            if why is None:
                before = [each[1:] for each in earlier if each.of == call.of][-4:]
                differences.append(f"{one.form} {call} ours {ours} theirs {theirs} after {before}"[:2000])
            reasons.update(why or ())
            kind = "different" if why is None or kind == "different" else "listed" if why else kind
        kinds[kind] += 1
    figures = {
        "calls": sum(len(one.calls) for one in drawn.values()),
        **kinds,
        "list": dict(reasons.most_common()),
    }
    shown = {str(n): told for n, told in enumerate(differences[:SHOWN], 1)}
    return report("beside", {**figures, "differences": shown}, {"different": at_most(kinds["different"], 0)})


async def _ours(folder: Path, some: dict[int, Sequence], without: dict[int, list[int]]) -> Came:
    names: dict[str, Any] = vars(edgemem.aio)

    async def open_(n: int, sequence: Sequence) -> Opened:
        base = folder / str(n)
        base.mkdir(parents=True)
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
