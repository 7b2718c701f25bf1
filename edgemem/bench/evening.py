"""Evenings in a kitchen, written by hand: twenty facts, four of them change, a tool call and a note in each turn.

The amounts are those of a real robot: spoken sentences, tools that answer in JSON, at most 4,000 tokens that a loop without
memory must read in forty turns. Every second turn asks for a stored fact in words of its own. A fact changes because somebody
says so and the model stores it with a tool, or elsewhere, unsaid. Texts are in `evening.toml`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from edgemem.bench.corpus import SPEAKER, Known
from edgemem.bench.ground import tool
from edgemem.inspect.replay import Line, ScriptedCall
from edgemem.records import REMEMBER_FACT

NOTE = "note"

TOOLS = (
    tool("timer", "Start a timer.", "minutes"),
    tool("light", "Set a light.", "room", "percent"),
    tool("list_add", "Add to the shopping list.", "item"),
    tool("look", "Look something up.", "what"),
    tool("face", "Turn the head to a voice.", "who"),
    tool(NOTE, "Write a note for later.", "text"),
    tool(REMEMBER_FACT, "Keep a fact.", "key", "value"),
)


class _Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `evening.toml` holds."""

    notes: list[str]
    """What the model writes down of each turn."""
    facts: list[tuple[str, str, str]]
    orders: list[tuple[str, str, str, str, str]]
    """What is said, the tool, its arguments and its result as JSON, the reply."""
    other: dict[str, str]
    """What some facts change to; in the next evening they change back."""
    tellings: dict[str, str]
    once_more: dict[str, str]


_TEXTS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Texts)
FACTS = tuple(Known(*fact) for fact in _TEXTS.facts)

SILENT = {10: "pizza.oven", 12: "jonas.shoes"}
"""What changes elsewhere, by the order after which it does."""

ANNOUNCED = {8: "bin.day", 14: "emil.fear"}
"""What the speaker says has changed, by the order in whose place that is said."""

AGAIN = {18: "bin.day"}
"""What is asked once more, by the order in whose place that is asked."""


class Moment(msgspec.Struct, frozen=True):
    """One turn, and what belongs to it."""

    line: Line
    needs: Known | None = None
    """The fact that its question needs, as it is by then."""
    changed: tuple[Known, ...] = ()
    """What is another than before once the turn is over."""

    @property
    def notes(self) -> list[str]:
        """Return what the model writes down in this turn."""
        return [str(call.arguments["text"]) for call in self.line.tools if call.name == NOTE]


def evening(turns: int = 40) -> list[Moment]:
    """Return so many turns, evening after evening of forty."""
    values = {fact.key: fact.value for fact in FACTS}
    out: list[Moment] = []
    while len(out) < turns:
        out += _moments(len(out) // 40, values)
    return out[:turns]


def _moments(number: int, values: dict[str, str]) -> list[Moment]:
    """Return the turns of one evening, and leave `values` as they are at its end."""
    facts = {fact.key: fact for fact in FACTS}
    out: list[Moment] = []
    for n, (order, fact) in enumerate(zip(_TEXTS.orders, FACTS, strict=True)):
        say, name, arguments, result, reply = order
        write = _note(2 * n, number)
        if n in ANNOUNCED:
            new = _turned(facts[ANNOUNCED[n]], values)
            keep = ScriptedCall(REMEMBER_FACT, {"key": new.key, "value": new.value}, "kept")
            line = _line(_TEXTS.tellings[new.key].format(value=new.value), reply, keep, write)
            out.append(Moment(line, changed=(new,)))
        elif n in AGAIN:
            out.append(_asked(facts[AGAIN[n]], values, _TEXTS.once_more[AGAIN[n]], write))
        else:
            call = ScriptedCall(name, json.loads(arguments), result)
            changed = (_turned(facts[SILENT[n]], values),) if n in SILENT else ()
            out.append(Moment(_line(say, reply, call, write), changed=changed))
        out.append(_asked(fact, values, fact.question, _note(2 * n + 1, number)))
    return out


def _turned(fact: Known, values: dict[str, str]) -> Known:
    """Change a fact to its other value."""
    values[fact.key] = _TEXTS.other[fact.key] if values[fact.key] == fact.value else fact.value
    return _now(fact, values)


def _asked(fact: Known, values: Mapping[str, str], question: str, write: ScriptedCall) -> Moment:
    value = values[fact.key]
    face = ScriptedCall("face", {"who": SPEAKER}, json.dumps({"who": SPEAKER, "metres": 1.4, "sees": "yes"}))
    line = _line(question, f"{value[:1].upper()}{value[1:]}.", face, write)
    return Moment(line, _now(fact, values))


def _note(n: int, evening: int) -> ScriptedCall:
    """Return the call that writes a turn's note, with a text that no other turn has."""
    text = f"{_TEXTS.notes[n]}, evening {evening + 1}"
    return ScriptedCall(NOTE, {"text": text}, json.dumps({"note": 40 * evening + n + 1, "file": "NOTES.md"}))


def _now(fact: Known, values: Mapping[str, str]) -> Known:
    return msgspec.structs.replace(fact, value=values[fact.key])


def _line(say: str, reply: str, *calls: ScriptedCall) -> Line:
    return Line(say, speaker=SPEAKER, reply=reply, tools=calls)
