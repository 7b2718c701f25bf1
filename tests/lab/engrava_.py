"""Beside Engrava: the same random calls through the real package and through ours, and its frozen questions put to both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import edgemem.aio.engrava as annex
from edgemem.bench.ground import at_least, at_most, real_embedder, report, say, scratch
from edgemem.config import LlamaSettings, Profile, RecallSettings
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.memory import Memory
from lab.engrava_calls import ask, play, sequences
from lab.lent import Lent
from lab.peers import PEERS
from lab.side_by_side import Came, Meant, Pair, PeerScript, Without, compare, raised, reasons_of

PLACES = 5
WRITES = frozenset({
    "remember", "create_thought", "get_or_create", "upsert_by_hash", "bulk_store", "update_thought", "restore_thought",
    "invalidate_thought", "delete_thought", "create_edge", "update_edge", "invalidate_edge", "delete_edge", "cleanup_expired",
})  # fmt: skip
NOW = "2026"

REFUSED = {
    "with something in it": "a text of spaces", "256": "an id over 256 characters", "edgemem's own": "an id such as fact:1",
    "Only learning": "a REFLECTION that a caller makes", "both ends are": "an edge from a thought to itself",
    "cannot become": "a lifecycle given as a string that may not follow", "direction must be": "a direction that is none",
    "must be text": "an id that is no text", "must be a time": "a time that is none", "no ThoughtType": "a type that is none",
    "no Priority": "a priority that is none", "no LifecycleStatus": "a status that is none",
}  # fmt: skip
"""What ours refuses and the real package takes, by words of our message."""
DREAMS = annex.DreamingExtension(annex.DreamingConfig(enabled=True, promote_threshold=0.4))
"""So that one of twenty thoughts is promoted: none of the frozen set reaches the default."""
AGAIN = "content is the same for the same readers, in other case too, and not in the archive"


def archived(_: Pair, ours: Any, theirs: Any) -> Any:
    """Return their records with what ours tells of the archive."""
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [archived(_, mine, their) for mine, their in zip(ours, theirs, strict=True)]
    if not (isinstance(theirs, dict) and isinstance(ours, dict) and "archived_at" in theirs):
        return theirs
    given = {name: ours.get(name) for name in ("archived_at", "archived_at_cycle")}
    is_archived = ours["lifecycle_status"] == "ARCHIVED"
    return {**theirs, **given} if is_archived else theirs


def in_order(pair: Pair, ours: Any, theirs: Any) -> Any:
    """Return their list in our order where it is of the same things, or as a limit cuts them, of the same cycles."""
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return theirs
    key = "thought_id" if pair.call.method == "list_thoughts" else "edge_id"
    by_id = {one[key]: one for one in theirs}
    if by_id.keys() == {one[key] for one in ours}:
        return [by_id[one[key]] for one in ours]
    cut = {"limit", "offset"} & pair.call.keywords.keys()
    cycles = [[one.get("updated_cycle") for one in some] for some in (ours, theirs)]
    return ours if cut and cycles[0] == cycles[1] else theirs


def asks_again(pair: Pair) -> bool:
    """Tell whether a call looks for the same content."""
    return "deduplicate" in pair.call.keywords or pair.call.method in ("get_or_create", "upsert_by_hash")


def met_again(pair: Pair, ours: Any, theirs: Any) -> Any:
    return ours if asks_again(pair) else theirs


def cycles(pair: Pair, ours: Any, theirs: Any) -> Any:
    """Return their records with our cycles, where those are higher."""
    # A clean-up changes what it archives.
    if {"min_cycle", "max_cycle"} & pair.call.keywords.keys() and "cleanup_expired" in {
        call.method for call in pair.earlier
    }:
        return ours
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [cycles(pair, mine, their) for mine, their in zip(ours, theirs, strict=True)]
    if not (isinstance(ours, dict) and isinstance(theirs, dict) and "created_cycle" in theirs):
        return theirs
    names = [name for name in ("created_cycle", "updated_cycle") if name in theirs]
    return {**theirs, **{name: max(ours[name], theirs[name], key=float) for name in names}}


def found(pair: Pair, ours: Any, theirs: Any) -> Any:
    """Return ours, if each thought that only theirs finds is private, not true now or told once more, and that only ours does linked."""
    mine, here = set(ours["ranked"]), ours["stored"]
    edges = [call.arguments[0] for call in pair.earlier if call.method == "create_edge"]
    linked = {edge[end] for edge in edges for end in ("from_thought_id", "to_thought_id")}
    if here.keys() != theirs["stored"].keys():  # something before differed
        return theirs
    told = {(here[name]["content"], here[name]["essence"]) for name in mine}
    for name in set(theirs["ranked"]) - mine:
        one = here[name]
        is_over = (one["valid_until"] or "9") < NOW or (one["valid_from"] or "0") > NOW
        if not (one["visibility"] == "private" or is_over or (one["content"], one["essence"]) in told):
            return theirs
    return {**theirs, **ours} if mine - linked <= set(theirs["ranked"]) else theirs


def higher(_: Pair, ours: Any, theirs: Any) -> Any:
    return max(ours, theirs, key=int)


MEANT: tuple[Meant, ...] = (
    ("list_thoughts get_edges list_edges", "of one cycle the newest come first; edges in the order of writing", in_order),
    ("", "what is archived tells when, and in which cycle", archived),
    ("search_hybrid search_fts search_reflections_only", "a search leaves out what is private, over or not yet true, tells the same words once, follows one edge, and ranks otherwise", found),
    ("remember create_thought bulk_store get_or_create upsert_by_hash", AGAIN, met_again),
    ("", "a cycle of 0 takes the counter's, and a change stamps it", cycles),
    ("max_cycle", "an edge lifts the counter, and nothing lets it fall", higher),
)  # fmt: skip


def reasons(pair: Pair) -> list[str] | None:
    """Return what `reasons_of` does, also where the real package raises."""
    ours, theirs = pair.ours, pair.theirs
    if raised(ours) and raised(theirs):
        # Errors of pydantic and sqlite3 have no name of Engrava's.
        alias: Any = vars(annex).get(theirs["raised"])
        named = (
            alias is None
            or alias.__name__ == ours["raised"]
            or any(word in ours["message"] for word in ("both ends", "256", "must be text"))
        )
        return [] if named else [AGAIN] if asks_again(pair) else None
    if asks_again(pair) and (raised(theirs) or (raised(ours) and "already;" in ours["message"])):
        return [AGAIN]
    return None if raised(theirs) else reasons_of(pair, REFUSED, MEANT)


def run(
    *, count: int = 2000, seed: int = 1, python: Path | None = None, home: Path | None = None
) -> dict[str, Any]:
    """Play random sequences of calls through Engrava 0.7.2 and through ours, compare them, and put its frozen questions to both.

    Args:
        count: of sequences, of 3 to 30 calls.
        seed: of chance.
        python: one that has the package; default: an environment in the cache, made by pip.
        home: where scratch files go; default: the temporary files.
    """
    drawn = dict(enumerate(sequences(count, seed)))
    with scratch(home) as folder:
        told = PeerScript("engrava_calls.py", PEERS["engrava"], python, folder)

        def both(without: Without) -> tuple[Came, Came]:
            played = {n: drawn[n] for n in without}
            theirs = told(do="play", sequences=played, without=without)
            ours = asyncio.run(play(played, _open, vars(annex), without))
            return ours, {int(n): came for n, came in theirs.items()}

        figures = compare(drawn, both, reasons, WRITES.__contains__)
        sides, bars = asked(told)
    bars["different"] = at_most(figures["different"], 0)
    return report("engrava", {"side_by_side": sides, **figures}, bars)


async def _open() -> tuple[Any, Callable[[], Any]]:
    store = annex.SqliteEngravaCore(":memory:")
    return store, store.close


def asked(told: PeerScript) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    """Put the frozen questions to both, by words and with MiniLM; return figures beside each other, and bars of ours.

    Each conversation has a store; or, as in Engrava's own benchmark, all have one, where several answer the same question.
    """
    conversations = told(do="frozen")
    texts = [turn["text"] for one in conversations for turn in one["turns"]]
    texts += [question["question_text"] for one in conversations for question in one["questions"]]
    sides, bars = {}, {}
    with LlamaEmbedder(real_embedder()) as model:
        vectors = {text: model.embed_query(text) for text in texts}
        plain = {text: [] if vector is None else vector.tolist() for text, vector in vectors.items()}
        for how, embedder in (("words", None), ("MiniLM", model)):
            for each in (False, True):
                say(f"the frozen questions, by {how} …")
                stores = [[one] for one in conversations] if each else [conversations]
                ours = [answer for some in stores for answer in _ask_ours(some, embedder)]
                dreamt = [answer for some in stores for answer in _ask_ours(some, embedder, dreams=DREAMS)]
                theirs = told(do="ask", stores=stores, vectors=None if embedder is None else plain)
                where = "a store each" if each else "one store"
                sides[f"ours, {how}, {where}"] = row = _figures(ours)
                sides[f"ours after dreaming, {how}, {where}"] = slept = _figures(dreamt)
                sides[f"Engrava, {how}, {where}"] = _figures(theirs)
                for figure in ("hits", "share"):
                    bars[f"{figure} after dreaming, {how}, {where}"] = at_least(slept[figure], row[figure])
                if each:
                    bars[f"hits, {how}"] = at_least(row["hits"], row["questions"])
                    bars[f"share, {how}"] = at_least(row["share"], 0.82)
    return sides, bars


def _figures(answers: list[Any]) -> dict[str, float]:
    """Return how many questions have an expected turn among the five, the mean share of these turns, and of those that find a place."""
    hits = [(len(set(turns) & set(found)), len(turns)) for turns, found in answers]
    return {
        "questions": len(hits),
        "hits": sum(hit > 0 for hit, _ in hits),
        "share": sum(hit / turns for hit, turns in hits) / len(hits),
        "of five places": sum(hit / min(turns, PLACES) for hit, turns in hits) / len(hits),
    }


def _ask_ours(
    conversations: list[Any], real: LlamaEmbedder | None, *, dreams: Any = None
) -> list[list[list[str]]]:
    profile = Profile(llama=LlamaSettings(embedder=""), recall=RecallSettings(query_embed_ms=60_000.0))
    embedder = None if real is None else Lent(real)
    with (
        scratch(None) as folder,
        Memory(folder / "home", profile=profile, embedder=embedder, worker=False) as memory,
    ):

        async def answers() -> list[list[list[str]]]:
            async with annex.SqliteEngravaCore(memory) as store:

                async def ready() -> None:
                    if dreams is not None:
                        await dreams.run_consolidation(store, await store.max_cycle() + 1)
                    memory.idle(60.0, thorough=False)

                return await ask(store, conversations, vars(annex), ready)

        return asyncio.run(answers())
