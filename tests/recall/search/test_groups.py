"""Groups: enough of each, nothing read twice, and nothing that tells nothing."""

from __future__ import annotations

from typing import Any

from edgemem.inspect.replay import Line, Player
from edgemem.memory import Memory
from edgemem.recall.recall import Request
from edgemem.recall.search.selection import name_of
from edgemem.records import Heard, Reader, Recalled

ANYBODY = Reader("alice")


def test_kinds_apart_compete_only_among_themselves(memory: Memory) -> None:
    """Each group gets its own k, in the order of the groups, however good the others are."""
    player = Player(memory)
    for n in range(6):
        player.turn(Line(say=f"The tea is in tin {n}.", speaker="alice", session="kitchen"))
    memory.store.add_fact("tea.kind", "green")
    memory.store.add_fact("tea.price", "four euro")
    groups = (("turn",), ("fact", "preference"))
    items = memory.diagnostics.search.recall("Where is the tea?", Request(reader=ANYBODY, k=2, apart=groups))
    assert [item.kind for item in items] == ["turn", "turn", "fact", "fact"]


def test_what_is_excluded_known_or_too_poor(memory: Memory) -> None:
    """The next best replaces what is excluded; what is known comes besides the k; what is too poor does not fill up."""
    for n in range(4):
        memory.store.add_fact(f"tea.tin{n}", f"tea of sort {n}", heard=Heard("alice"))
    memory.store.add_fact("flour.tin", "nearly empty")

    def recall(**more: Any) -> list[Recalled]:
        return memory.diagnostics.search.recall("Which tea is there?", Request(reader=ANYBODY, **more))

    best, second, *_ = recall(k=3)
    assert recall(k=1, exclude=[name_of(best)])[0].id == second.id
    items = recall(k=2, known=[name_of(best)])
    assert (items[0].id, len(items)) == (best.id, 3)
    assert best.id in [item.id for item in recall(min_score=best.score)]
    assert recall(min_score=best.score + 1e-6) == []


def test_a_greeting_finds_nothing_where_nobody_asks(memory: Memory) -> None:
    """Who thanks or greets wants no memory, whatever it sounds like; who asks the memory gets what it holds."""
    for n in range(4):
        memory.store.add_fact(f"thank.you{n}", "a word of thanks")
    for text in ("Thank you.", "Good morning, hello!", "Danke, gute Nacht", "谢谢"):
        assert memory.recall(text, asked=False) == []
    assert memory.recall("Thank you.")
    assert memory.recall("Thank you?", asked=False)
