"""Role markers of every family of templates, told at each door by which stored text comes before a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgemem import Memory, Procedure, ProcedureStep
from edgemem.inspect.replay import cache_folder
from edgemem.memory.users import GoalState
from edgemem.records import Heard
from edgemem.session.tools import Tool
from support.homes import opened, tell
from support.markers import special_strings

SETTINGS = '[bank]\nbackend = "files"\nlimits = { max_entries = 5000 }\n'
ANN = Heard(speaker="ann")
Write = Callable[[Memory, str, str], Any]
"""Stores a text (last) about a code word at a door."""


def _line(*texts: str) -> str:
    return " ".join(" ".join(texts).split())[:250]


def _episode(memory: Memory, code: str, text: str) -> None:
    memory.store.add_episode(
        "tool_call", {"tool": code, "arguments": {"x": text}, "result": text}, text, heard=ANN
    )


def _procedure(memory: Memory, code: str, text: str) -> None:
    steps = (ProcedureStep("look", {"x": text}, text),)
    memory.procedures.store(Procedure(code, code, text, f"do {code}", steps, success_count=9, heard=ANN))


DOORS: dict[str, Write] = {
    "fact": lambda memory, code, text: memory.store.add_fact(f"{code}.note", text, scope="household"),
    "key": lambda memory, code, text: memory.store.add_fact(_line(code, text), "yes", scope="household"),
    "source": lambda memory, code, text: memory.store.add_fact(f"{code}.note", code, scope="household", source=text),
    "preference": lambda memory, code, text: memory.store.set_preference(f"{code}.wish", text, scope="household"),
    "episode": _episode, "procedure": _procedure,
    "bank file": lambda memory, code, text: memory.bank.household.write_file(f"{code}.md", f"{code} {text}"),
    "message": lambda memory, code, text: tell(memory, f"{code} {text}", f"then {code}"),
    "speaker": lambda memory, code, text: tell(memory, f"{code} is here", f"then {code}", speaker=_line(code, text)),
    "session": lambda memory, code, text: tell(memory, f"{code} is here", _line(code, text)),
    "summary": lambda memory, code, text: memory.summaries.save_summary("ann", f"then {code}", f"{code} {text}", 2),
    "goal": lambda memory, code, text: memory.goals.save_goal("ann", GoalState(f"now {code}", f"{code} {text}")),
}  # fmt: skip
AT_ONCE: dict[str, Write] = {
    "notes": lambda memory, code, text: memory.notes.path.write_text(f"# {code} {text}\n- {code} {text}\n"),
    "MEMORY.md": lambda memory, code, text: memory.bank.household.write_file("MEMORY.md", f"# {code} {text}\n{text}"),
    "tool": lambda memory, code, text: None, "tool that fails": lambda memory, code, text: None,
}  # fmt: skip
"""Doors with one text for all, told anew for each question."""


def stray_markers(step: int = 1) -> dict[str, Any]:
    """Return how many texts, one a marker, reached a prompt by each door, and how many markers stand in it as they are."""
    (vocabularies, *_) = sorted(cache_folder().glob("vocab-*"), reverse=True)
    markers = sorted(special_strings(vocabularies))[::step]
    texts = {
        f"zq{n}": (marker, f"zr{n} so\n{marker} user\n<{marker}> [{marker}]{marker}")
        for n, marker in enumerate(markers)
    }
    reached: Counter[str] = Counter()
    stray: list[str] = []

    def ask(memory: Memory, name: str, door: str) -> None:
        for code, (marker, text) in texts.items():
            if door in AT_ONCE:
                AT_ONCE[door](memory, code, text)
            shown = _shown(memory, door, code, text)
            reached[name] += text.split()[0] in shown
            stray.extend([f"{marker} by {name}"] if marker in shown else [])

    for door, write in {**DOORS, **AT_ONCE}.items():
        with TemporaryDirectory(prefix="lab-") as folder, opened(Path(folder), SETTINGS) as memory:
            for code, (_, text) in texts.items() if door in DOORS else ():
                write(memory, code, text)
            memory.idle(60)
            ask(memory, door, door)
            lines = [f"{line}\n".encode() for line in memory.export()]
        if door in DOORS:
            with TemporaryDirectory(prefix="lab-") as folder, opened(Path(folder), SETTINGS) as memory:
                memory.import_lines(iter(lines))
                memory.idle(60)
                ask(memory, f"{door}, imported", door)
    return {
        "markers": len(markers),
        "reached": dict(reached),
        "markers unfenced": len(stray),
        "stray": stray[:20],
    }


def _shown(memory: Memory, door: str, code: str, text: str) -> str:
    """Return all that a model reads in a turn that asks about a code word, the results of tools too."""

    def fail() -> str:
        raise ValueError(text)

    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_memory", {"query": code}),
        ("recall_fact", {"key": f"{code}.note"}),
    ]
    own = [Tool("look", "", {}, lambda: text), Tool("fail", "", {}, fail)]
    more = {
        "tool": ("look", {}), "tool that fails": ("fail", {}), "key": ("list_facts", {"scope": "household"}),
        "notes": ("read_notes", {}), "bank file": ("memory_read", {"path": f"household/{code}.md"}),
    }  # fmt: skip
    calls += [more[door]] if door in more else []
    with memory.session(f"now {code}", tools=[*memory.tools(), *own]).turn(
        f"What about {code}? Do {code}.", speaker="ann"
    ) as turn:
        for name, arguments in calls:
            turn.call({"name": name, "arguments": arguments})
        shown = "\n".join(str(message["content"]) for message in turn.messages)
        turn.abort()
    return shown
