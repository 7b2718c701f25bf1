"""Evenings in a kitchen, written by hand: twenty facts, four of them change, a tool call and a note in each turn.

The amounts are those of a real robot: spoken sentences, tools that answer in JSON, at most 4,000 tokens that a loop without
memory must read in forty turns. Every second turn asks for a stored fact in words of its own. A fact changes because somebody
says so and the model stores it with a tool, or elsewhere, unsaid. Facts are in `evening.toml`, two evenings in `evening.jsonl`.
"""

from __future__ import annotations

import json
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec

from edgemem.bench.corpus import SPEAKER, Known
from edgemem.bench.ground import tool
from edgemem.inspect.replay import Line, ScriptedCall
from edgemem.records import REMEMBER_FACT

NOTE = "note"
TURNS = 40
TOOLS = (
    tool("timer", "Start a timer.", "minutes"),
    tool("light", "Set a light.", "room", "percent"),
    tool("list_add", "Add to the shopping list.", "item"),
    tool("look", "Look something up.", "what"),
    tool("face", "Turn the head to a voice.", "who"),
    tool(NOTE, "Write a note for later.", "text"),
    tool(REMEMBER_FACT, "Keep a fact.", "key", "value"),
)
_FOLDER = Path(__file__).parent
FACTS = tuple(Known(*fact) for fact in msgspec.toml.decode((_FOLDER / "evening.toml").read_bytes())["facts"])


class Moment(msgspec.Struct, frozen=True):
    """One turn, and the facts around it."""

    line: Line
    needs: Known | None = None
    """The fact that its question needs, as it is by then."""
    changed: tuple[Known, ...] = ()
    """Facts with another value once the turn is over."""

    @property
    def notes(self) -> list[str]:
        """Return the notes of the model in this turn."""
        return [str(call.arguments["text"]) for call in self.line.tools if call.name == NOTE]


class _Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `evening.jsonl`."""

    say: str
    reply: str
    tools: list[tuple[str, dict[str, Any], str]]
    note: str
    needs: tuple[str, str] | None = None
    changed: list[tuple[str, str]] = []


def evening(turns: int = TURNS) -> list[Moment]:
    """Return so many turns, evening after evening; facts that change in one change back in the next."""
    written = msgspec.json.Decoder(_Turn).decode_lines((_FOLDER / "evening.jsonl").read_bytes())
    return [_moment(n, turn) for n, turn in enumerate(islice(cycle(written), turns))]


def _moment(n: int, turn: _Turn) -> Moment:
    calls = [ScriptedCall(*call) for call in turn.tools]
    # No note has the text of another one.
    note = {"text": f"{turn.note}, evening {n // TURNS + 1}"}
    calls.append(ScriptedCall(NOTE, note, json.dumps({"note": n + 1, "file": "NOTES.md"})))
    line = Line(turn.say, speaker=SPEAKER, reply=turn.reply, tools=tuple(calls))
    needs = None if turn.needs is None else Known(*turn.needs, turn.say)
    return Moment(line, needs, tuple(Known(key, value, "") for key, value in turn.changed))
