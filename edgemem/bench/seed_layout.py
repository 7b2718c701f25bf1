"""EdgeVox's layout, rebuilt from its description: memory and notes at the end of the system message, before all history.

Its `MemoryInjectionHook`, `NotesInjectorHook` and `EpisodeLoggerHook` with their defaults, as `research/edgevox.md`
tells of them: what is remembered is rendered at a turn's first call of the model, stands under its headings behind the
instructions, and stays there for the other calls of the turn. Each tool call becomes an episode at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.hooks.points import AFTER_TOOL, BEFORE_LLM, HookResult
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from edgemem.bench.corpus import Known

MEMORY_HEADER = "\n\n## Memory\n"
NOTES_HEADER = "\n\n## Notes\n"
MAX_FACTS = 20
MAX_EPISODES = 5
NOTES_CHARS = 1500


class SeedLayoutHook:
    """Keep what a robot with EdgeVox's three hooks keeps, and put it where they put it.

    Args:
        folder: where its store and its notes are made.
        facts: what it knows from the beginning.
    """

    points = frozenset({BEFORE_LLM, AFTER_TOOL})
    priority = 0

    def __init__(self, folder: Path, facts: Iterable[Known]) -> None:
        self.store = SQLiteMemoryStore(folder / "seed.db")
        self.notes = NotesFile(folder / "seed-notes.md")
        self._remembered = ""
        for fact in facts:
            self.change(fact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self.store.close()

    def change(self, fact: Known) -> None:
        """Store what holds from now on."""
        self.store.add_fact(fact.key, fact.value)

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Log a tool's outcome, or put what is remembered into the system message."""
        if point == AFTER_TOOL:
            record = {"name": payload.name, "args": payload.arguments, "result": payload.result}
            self.store.add_episode("tool_call", record, "ok" if payload.error is None else "failed")
            return None
        if payload["hop"] == 0:
            rendered = self.store.render_for_prompt(max_facts=MAX_FACTS, max_episodes=MAX_EPISODES)
            noted = self.notes.tail(NOTES_CHARS)
            self._remembered = f"{MEMORY_HEADER}{rendered}" if rendered else ""
            self._remembered += f"{NOTES_HEADER}{noted}" if noted else ""
        head, *rest = payload["messages"]
        told = {**head, "content": f"{head['content']}{self._remembered}"}
        return HookResult.replace(
            {**payload, "messages": [told, *rest]}, reason="memory in the system message"
        )
