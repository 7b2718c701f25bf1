"""What a hop along edges would buy and cost: questions whose answer hangs by one edge on what matches them, and others beside.

`tests/data/hops.toml` is for whoever builds hops; nobody may learn on `hops_kept.toml`, or read it while building them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

import edgemem
from edgemem.bench.ground import EMBEDDER, at_most, report, say, scratch
from edgemem.clock import RELEASED
from edgemem.config import LlamaSettings, Profile, RecallSettings
from edgemem.recall.search import selection
from edgemem.records import Heard, Reader
from edgemem.scopes import level_of_scope
from edgemem.thoughts import EdgeRecord, EdgeType
from lab.bootstrap import gains, interval, read_scores, write_scores
from lab.judge import SetClock

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.records import Recalled

FILE = Path(__file__).parents[1] / "data" / "hops.toml"
TABLES = {"fact": "facts where id = origin", "doubt": "doubts", "preference": "preferences", "episode": "episodes"}  # fmt: skip
_FIRST, _DEPTH = 5, 50  # places in which an answer counts, and in which what is closed is looked for
_IDLE_S, _DAY_S = 3600.0, 86_400.0


class Question(NamedTuple):
    """What somebody asks; `wrong` is what must not be found for it, though an edge may lead there."""

    kind: Literal["hop", "direct", "none", "rights"]
    asker: str  # empty: an unknown voice
    text: str
    expected: tuple[str, ...]
    wrong: tuple[str, ...]


class Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A home. Each row begins with its name; the reply to `x` is `x.reply`."""

    name: str
    language: str
    people: tuple[str, ...]
    said: tuple[tuple[str, str, str, str, str], ...]  # name, session, speaker, the words, and the reply
    records: tuple[tuple[str, str, str, str, str], ...]
    """Name, kind (of TABLES, or a type of thoughts), scope, key (of an episode its kind, of a thought none), and what it says."""
    edges: tuple[tuple[str, EdgeType, str, float, str], ...]
    """From, type, to, weight, and the scope that closes it further than its ends."""
    questions: tuple[Question, ...]
    private: tuple[str, ...] = ()  # what was said for the robot alone
    told: dict[str, str] = {}
    """Of facts, in which turn the model kept them; all others are the owner's."""


def read_homes(path: Path) -> list[Home]:
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Home]])["home"]


def run(
    *,
    file: Path = FILE,
    words: bool = False,
    share: float = selection.EDGE_SHARE,
    save: Path | None = None,
    against: Path | None = None,
) -> dict[str, Any]:
    """Ask homes whose records hang together by edges for what is an edge away, what is not, what nothing answers, and what is closed.

    Args:
        words: find by words alone.
        share: of its score that an item hands over an edge; 0: none.
        save: keep what became of each question in this file.
        against: what `save` wrote of another run; differences are told by figure and question by question.
    """
    selection.EDGE_SHARE = share
    recall = RecallSettings(deadline_ms=20_000.0, query_embed_ms=20_000.0)
    profile = Profile(llama=LlamaSettings(embedder="" if words else EMBEDDER), recall=recall)
    scores: dict[str, dict[str, float]] = {}
    for home in read_homes(file):
        say(f"{home.name} …")
        with scratch(None) as folder:
            clock = SetClock()
            with edgemem.open(folder / "home", profile=profile, clock=clock, worker=False) as memory:
                ids = fill(memory, clock, home)
                scores |= {
                    f"{home.name}: {asked.text}": judge(memory, asked, ids) for asked in home.questions
                }
    names = sorted({name for each in scores.values() for name in each})
    values = {name: [each[name] for each in scores.values() if name in each] for name in names}
    figures: dict[str, Any] = {"file": file.name, "embedder": profile.llama.embedder}
    figures |= {name: msgspec.to_builtins(interval(values[name])) for name in names}
    if against is not None:
        before = read_scores(against)
        figures["against"] = msgspec.to_builtins(gains(before, scores))
        figures["changed"] = {
            f"{text} {name}": f"{before[text][name]:.3g} → {now:.3g}"
            for text, each in scores.items() for name, now in each.items() if before.get(text, {}).get(name, now) != now
        }  # fmt: skip
    if save is not None:
        write_scores(save, scores)
    return report("hops", figures, {name: at_most(sum(values[name]), 0) for name in ("closed seen", "moved")})


def judge(memory: Memory, asked: Question, ids: dict[str, str]) -> dict[str, float]:
    """Return what became of a question, by figure."""
    asker, thoughts = asked.asker or None, memory.thoughts
    deep = memory.recall(asked.text, speaker=asker, k=_DEPTH)
    found = [id_of(item) for item in memory.recall(asked.text, speaker=asker, k=_FIRST)]
    shown = {id_of(item) for item in deep if item.score >= memory.profile.injection.floor}
    scores: dict[str, float] = {}
    for what, names in (("", asked.expected), ("wrong ", asked.wrong)):
        if some := {ids[name] for name in names}:
            scores[f"{asked.kind}: {what}R@1"] = bool(some & {*found[:1]})
            scores[f"{asked.kind}: {what}R@5"] = bool(some & {*found})
            scores[f"{asked.kind}: {what}above the bar"] = bool(some & shown)
    if asked.kind == "none":
        scores["none: anything above the bar"] = bool(shown)
    closed = {id_ for id_ in ids.values() if thoughts.get_thought(id_, reader=Reader(asker)) is None}
    scores["closed seen"] = bool(closed & {id_of(item) for item in deep})
    # What hangs on an edge that the asker may not read must be found as if that edge were not there.
    readable = thoughts.list_edges(reader=Reader(asker))
    shut = [edge for edge in thoughts.list_edges() if edge not in readable]
    for edge in shut:
        thoughts.delete_edge(edge.edge_id)
    memory.idle(_IDLE_S)
    scores["moved"] = memory.recall(asked.text, speaker=asker, k=_DEPTH) != deep
    for edge in reversed(shut):
        thoughts.create_edge(edge)
    memory.idle(_IDLE_S)
    return {name: float(score) for name, score in scores.items()}


def fill(memory: Memory, clock: SetClock, home: Home) -> dict[str, str]:
    """Store and index what a home holds, and return the id of each record, as of a thought, by its name."""
    ids: dict[str, str] = {}
    query, clock.at = memory.diagnostics.database.query, RELEASED

    def store(name: str, kind: str, scope: str, key: str, text: str, heard: Heard | None = None) -> None:
        level, owner = level_of_scope(scope)
        if kind in ("fact", "doubt"):
            memory.store.add_fact(
                key, text, scope=scope, source="llm" if name in home.told else "", heard=heard
            )
        elif kind == "preference":
            memory.store.set_preference(key, text, scope=scope)
        elif kind == "episode":
            memory.store.add_episode(key, {}, "ok", summary=text, level=level, owner=owner)
        else:
            ids[name] = memory.thoughts.remember(text).thought_id
            visibility = {"shared": "public", "household": "selective"}.get(
                level, "selective" if owner else "private"
            )
            memory.thoughts.update_thought(ids[name], thought_type=kind, visibility=visibility, owner=owner)
        if kind in TABLES:
            ids[name] = f"{kind}:{query(f'select max(id) from {TABLES[kind]}')[0][0]}"

    for name, session, speaker, words, reply in home.said:
        clock.at += _DAY_S / len(home.said)
        with memory.session(session).turn(
            words, speaker=speaker or None, private=name in home.private
        ) as turn:
            for row in (row for row in home.records if home.told.get(row[0]) == name):
                assert turn.messages  # a model that keeps a fact has read them, so the turn is accepted
                store(*row, heard=Heard(speaker=speaker or None))
            turn.reply(reply)
        (ids[f"{name}.reply"],), (ids[name],) = query(
            "select 'turn:' || id from messages order by id desc limit 2"
        )
    for row in home.records:
        if row[0] not in home.told:
            store(*row, heard=Heard() if row[1] == "doubt" else None)
    for n, (source, kind, target, weight, scope) in enumerate(home.edges):
        ends: dict[str, Any] = {"from_thought_id": ids[source], "to_thought_id": ids[target]}
        level, owner = level_of_scope(scope) if scope else (None, None)
        edge = EdgeRecord(
            edge_id=f"edge {n}", edge_type=kind, weight=weight, level=level, owner=owner, **ends
        )
        memory.thoughts.create_edge(edge)
    clock.at += _DAY_S
    memory.idle(_IDLE_S)
    return ids


def id_of(item: Recalled) -> str:
    """Return the id under which something recalled is a thought."""
    return str(item.key) if item.kind == "thought" else f"{item.kind}:{item.id}"
