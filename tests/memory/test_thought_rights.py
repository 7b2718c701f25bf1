"""Rights over the graph: whatever hangs together, nobody is shown what an end, an edge or a source would not show them."""

import os
import random
from pathlib import Path

import pytest

from edgemem.cli.thoughts import filtered
from edgemem.memory import Memory
from edgemem.records import Reader
from edgemem.thoughts import EdgeType
from support.homes import ALICE, BOB, STRANGER, opened
from support.thoughts import an_edge, thought

GRAPHS_IN_A_HOME = 25
GRAPHS = 5000 if os.environ.get("EDGEMEM_LONG") else 50
READERS = {"alice": ALICE, "bob": BOB, "both": Reader("alice", frozenset({"bob"})), "stranger": STRANGER}
RIGHTS = {  # level and owner: who may read
    ("shared", None): {"alice", "bob", "both", "stranger"}, ("household", None): {"alice", "bob", "both"},
    ("private", "alice"): {"alice"}, ("private", "bob"): {"bob"}, ("private", None): set(),
}  # fmt: skip
VISIBLE = {"shared": "public", "household": "selective"}
SCOPES = {("shared", None): "global", ("household", None): "household", ("private", "alice"): "user:alice",
          ("private", "bob"): "user:bob"}  # fmt: skip


def visibility_of(rights: tuple[str, str | None]) -> dict[str, str | None]:
    level, owner = rights
    return {
        "visibility": "private" if rights == ("private", None) else VISIBLE.get(level, "selective"),
        "owner": owner,
    }


def put(memory: Memory, name: str, random_: random.Random) -> tuple[str, set[str]]:
    """Store a thought, a fact or a preference with random rights; return its id, and who may read it."""
    rights = random_.choice([*RIGHTS])
    if rights in SCOPES and random_.random() < 0.5:
        memory.store.add_fact(name, f"secret {name}", scope=SCOPES[rights])
        return f"fact:{memory.store.fact_history(name, scope=SCOPES[rights])[-1].id}", RIGHTS[rights]
    memory.thoughts.create_thought(thought(name, content=f"secret {name}", **visibility_of(rights)))
    return name, RIGHTS[rights]


@pytest.mark.long
def test_no_reader_is_shown_more_than_they_may_read(tmp_path: Path) -> None:
    """In random graphs with owners and levels mixed, edges, relations, reasons and queries show each reader what both ends do."""
    random_ = random.Random(31)
    for home in range(GRAPHS // GRAPHS_IN_A_HOME):
        with opened(tmp_path / str(home)) as memory:
            for graph in range(GRAPHS_IN_A_HOME):
                readers = dict(put(memory, f"g{graph}n{n}", random_) for n in range(6))
                edges: dict[
                    str, tuple[str, str, set[str]]
                ] = {}  # both ends, and who may read it if they may read those
                for n in range(8):
                    source, target = random_.sample([*readers], 2)
                    level, owner = random_.choice([*RIGHTS])
                    edge = an_edge(
                        f"g{graph}e{n}", source, target, edge_type=random_.choice([*EdgeType]), level=level, owner=owner,
                        metadata={"note": f"secret {n}"},
                    )  # fmt: skip
                    if not any(edge_.from_thought_id == source and edge_.to_thought_id == target
                               and edge_.edge_type == edge.edge_type for edge_ in memory.thoughts.get_edges(source)):  # fmt: skip
                        memory.thoughts.create_edge(edge)
                        edges[edge.edge_id] = (
                            source,
                            target,
                            RIGHTS[level, owner] & readers[source] & readers[target],
                        )
                for node in [
                    node for node in readers if not node.startswith("fact:") and random_.random() < 0.3
                ]:
                    rights = random_.choice([*RIGHTS])
                    memory.thoughts.update_thought(node, **visibility_of(rights))
                    readers[node] = RIGHTS[rights]
                check(memory, readers, edges)


def check(memory: Memory, readers: dict[str, set[str]], edges: dict[str, tuple[str, str, set[str]]]) -> None:
    """Compare what each reader is shown with who may read it."""
    for name, reader in READERS.items():
        nodes = {node for node, may in readers.items() if name in may}
        mine = {edge for edge, (*ends, may) in edges.items() if name in may and nodes.issuperset(ends)}
        for node in readers:
            shown = memory.thoughts.get_thought(node, reader=reader)
            assert (shown is not None) == (node in nodes)
            around = memory.thoughts.related(node, 2, reader=reader)
            assert {edge.edge_id for _, edge in around} <= mine
            direct = {edge.edge_id for edge in memory.thoughts.get_edges(node, reader=reader)}
            assert direct == {edge for edge in mine if node in edges[edge][:2]}
            why = memory.why(node, reader=reader)
            assert (why is not None) == (node in nodes)
            if why is not None:
                others = {
                    other.thought_id for group in (why.said, why.before, why.contested) for other in group
                }
                assert others <= nodes
        rows = filtered(memory, "select id from thoughts", reader).rows
        assert {node for (node,) in rows} & readers.keys() == nodes
        rows = filtered(memory, "select id from edges", reader).rows
        assert {edge for (edge,) in rows} & edges.keys() == mine
