"""What idle time counts in an agent's episodes."""

from __future__ import annotations

import edgemem
from edgemem.config import LearnSettings, LlamaSettings, Profile
from edgemem.memory.users import Episode


def did(memory, *names: str, outcome: str = "success") -> None:
    for name in names:
        summary = f"Cleaned the kitchen, round {name}"
        memory.episodes.store(
            Episode(id=name, summary=summary, tools_used=("broom",), outcome=outcome, tags=("cleaning",))
        )
    memory.idle(5)


def counted(memory) -> list[str]:
    return sorted(fact.value for fact in memory.store.facts() if fact.source == "consolidation")


def opened(folder, *learners: str):
    profile = Profile(llama=LlamaSettings(embedder=""), learn=LearnSettings(learners))
    return edgemem.open(folder / "home", profile=profile, worker=False)


def test_idle_time_counts_in_place_and_follows_what_is_forgotten(tmp_path) -> None:
    """One fact a regularity, by a name that people can read; its count goes up and down, and a restart adds nothing."""
    with opened(tmp_path, "regularities") as memory:
        did(memory, "a", "b", "c")
        assert counted(memory)[0] == "Tasks tagged 'cleaning' succeed 3/3 times"
        assert (
            memory.store.get_fact("learnt.counted.tag cleaning")
            == "Tasks tagged 'cleaning' succeed 3/3 times"
        )
        did(memory, "d", outcome="failure")
        assert counted(memory)[0] == "Tasks tagged 'cleaning' succeed 3/4 times"
        memory.forget(episode=next(row.id for row in memory.store.episodes() if row.name == "d"))
        memory.idle(5)
        facts = counted(memory)
    with opened(tmp_path, "regularities") as memory:
        memory.idle(5)
        assert (
            counted(memory)
            == facts
            == [
                "Tasks tagged 'cleaning' succeed 3/3 times",
                "Tool 'broom' is frequently used in successful tasks",
            ]
        )


def test_a_learner_that_the_profile_leaves_out_learns_nothing(tmp_path) -> None:
    """And what was learnt stays."""
    with opened(tmp_path) as memory:
        did(memory, "a", "b", "c")
        assert counted(memory) == []
