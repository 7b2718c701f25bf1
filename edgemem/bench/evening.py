"""Evenings in a kitchen, written by hand: twenty facts, four of them change, a tool call and a note in each turn.

The seed's own scenario, in the amounts of a real robot: spoken sentences, tools that answer in JSON, and no more than
4,000 tokens that a loop without memory must read in forty turns. Every second turn asks something that needs a stored
fact, in words of its own. A fact changes because somebody says so, and the model stores it with a tool; or somewhere
else, and nobody says a word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from edgemem.bench.corpus import SPEAKER, Known
from edgemem.bench.ground import tool
from edgemem.inspect.script import Line, ScriptedCall
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

FACTS = (
    Known("anna.allergy", "hazelnuts", "Can Anna eat this nut cake?"),
    Known("jonas.tea", "rooibos without sugar", "What shall I brew for Jonas?"),
    Known("emil.bedtime", "half past seven", "How long may Emil stay up?"),
    Known("spare_key.place", "blue pot behind the shed", "I locked myself out. How do I get in?"),
    Known("doctor.appointment", "Friday at ten", "When do I have to see the doctor?"),
    Known("wifi.password", "seven green frogs", "A guest wants to go online. What do I tell her?"),
    Known("cat.food", "salmon twice a day", "What does the cat get to eat?"),
    Known("bin.day", "Tuesday morning", "When is the rubbish collected?"),
    Known("grandma.birthday", "the ninth of March", "When do we bake a cake for grandma?"),
    Known("pizza.oven", "250 degrees for nine minutes", "How hot do I bake the pizza?"),
    Known("torch.place", "lowest drawer in the hall", "The power is out. Where is the torch?"),
    Known("paula.diet", "no meat since June", "Would Paula like a steak tonight?"),
    Known("orchid.water", "one cup every Sunday", "How often does the orchid need a drink?"),
    Known("plumber.phone", "four four one seven nine", "The sink leaks. Which number do I call?"),
    Known("jonas.shoes", "size forty four", "Boots for Jonas are on sale. Which fit him?"),
    Known("school.start", "ten past eight", "When do the kids have to be in class?"),
    Known("car.parking", "level three, near the lift", "Where did we leave the car?"),
    Known("emil.fear", "the vacuum cleaner", "Why does Emil cry when I clean?"),
    Known("neighbour.name", "Mrs Okafor", "What is the lady next door called?"),
    Known("coffee.grind", "step four", "How fine do I set the mill for espresso?"),
)

OTHER = {
    "bin.day": "Thursday evening",
    "pizza.oven": "230 degrees for twelve minutes",
    "jonas.shoes": "size forty five",
    "emil.fear": "the loud blender",
}
"""What some facts change to; in the next evening they change back."""

SILENT = {10: "pizza.oven", 12: "jonas.shoes"}
"""What changes elsewhere, by the order after which it does."""

ANNOUNCED = {8: "bin.day", 14: "emil.fear"}
"""What the speaker says has changed, by the order in whose place that is said."""

AGAIN = {18: "bin.day"}
"""What is asked once more, by the order in whose place that is asked."""

_TELLINGS = {
    "bin.day": "By the way, the rubbish is collected on {value} from now on.",
    "emil.fear": "These days what frightens Emil is {value}, so be gentle.",
}
_ONCE_MORE = {"bin.day": "Tell me again on which day the rubbish is collected."}

_ORDERS: tuple[tuple[str, str, dict[str, str], dict[str, object], str], ...] = (
    ("Set a timer for the noodles, please, nine minutes.", "timer", {"minutes": "9"},
     {"timer": 1, "state": "running", "rings_at": "18:09"}, "Nine minutes."),
    ("A bit more light over the stove, I can hardly see the pan.", "light", {"room": "stove", "percent": "80"},
     {"lamp": "stove", "percent": 80, "warm": True, "watts": 7}, "There you go."),
    ("We are out of rice, so put some on the list.", "list_add", {"item": "rice"},
     {"items": ["milk", "candles", "rice"], "shop": "corner"}, "Rice is on the list."),
    ("Will it rain tomorrow when we walk to the market?", "look", {"what": "rain"},
     {"sky": "dry", "high": 14, "low": 6, "wind": "light, from the west"}, "No, it stays dry."),
    ("Dim the hall, please, the little one is asleep.", "light", {"room": "hall", "percent": "20"},
     {"lamp": "hall", "percent": 20, "warm": True, "watts": 3}, "Done."),
    ("Add two lemons and tell me how long the list is.", "list_add", {"item": "lemons"},
     {"items": ["milk", "candles", "rice", "lemons"], "shop": "corner"}, "Two lemons added, four things now."),
    ("The eggs are in the water now and need six minutes.", "timer", {"minutes": "6"},
     {"timer": 2, "state": "running", "rings_at": "18:31"}, "Six minutes from now."),
    ("How late is it in Lisbon at the moment?", "look", {"what": "Lisbon"},
     {"place": "Lisbon", "time": "18:40", "offset": "one hour behind"}, "Twenty to seven."),
    ("", "", {}, {}, "I will keep that in mind."),
    ("Put washing powder on the list, the big box.", "list_add", {"item": "powder"},
     {"items": ["rice", "lemons", "powder"], "shop": "corner"}, "It is on it."),
    ("Remind me in half an hour to call my sister.", "timer", {"minutes": "30"},
     {"timer": 3, "state": "running", "rings_at": "19:10"}, "I will."),
    ("Who won the match this afternoon?", "look", {"what": "match"},
     {"home": 2, "away": 1, "minute": 90, "state": "finished"}, "The home side, two to one."),
    ("Make it brighter on the balcony, I want to read there.", "light", {"room": "balcony", "percent": "90"},
     {"lamp": "balcony", "percent": 90, "warm": False, "watts": 9}, "Brighter now."),
    ("We need oats as well, the fine ones.", "list_add", {"item": "oats"},
     {"items": ["rice", "lemons", "powder", "oats"], "shop": "corner"}, "Oats too."),
    ("", "", {}, {}, "Thanks for telling me."),
    ("Is the library still open this late?", "look", {"what": "library"},
     {"open": True, "until": "six", "desk": "first floor"}, "Yes, until six."),
    ("Turn the desk lamp down, it blinds me.", "light", {"room": "desk", "percent": "30"},
     {"lamp": "desk", "percent": 30, "warm": True, "watts": 2}, "It is softer now."),
    ("Add a bag of flour, we want to bake on Sunday.", "list_add", {"item": "flour"},
     {"items": ["lemons", "powder", "oats", "flour"], "shop": "corner"}, "Flour is noted."),
    ("", "", {}, {}, ""),
    ("When does the sun set today?", "look", {"what": "sunset"},
     {"sunset": "16:21", "sunrise": "07:48", "moon": "half"}, "At twenty past four."),
)  # fmt: skip


_NOTES = (
    "noodles on the stove", "cake for a birthday party", "stove light set to bright", "Jonas came in from the cold",
    "shopping planned for Saturday", "children still awake", "they plan a walk", "somebody stood outside",
    "the little one sleeps", "a call to make this week", "lemonade is planned", "visitors in the house",
    "soft eggs for two", "the cat meowed at the bowl", "a call abroad is planned", "kitchen smells of garbage",
    "pickup dates talked over", "a family party is near", "laundry is piling up", "dough on the counter",
    "sister to be called", "lights went out for a minute", "football on the radio", "steaks from the butcher",
    "reading on the balcony", "flowers look dry", "porridge is back in fashion", "water under the cupboard",
    "the boy was frightened today", "shoe sale in town", "books to give back", "satchels packed for tomorrow",
    "late work at the desk", "drive planned, engine cold", "baking planned for Sunday", "cleaning was loud",
    "dates asked twice", "somebody rang the bell", "curtains stay open", "beans from a new bag",
)  # fmt: skip
"""What the model writes down of each turn."""


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
    for n, (order, fact) in enumerate(zip(_ORDERS, FACTS, strict=True)):
        say, name, arguments, result, reply = order
        write = _note(2 * n, number)
        if n in ANNOUNCED:
            new = _turned(facts[ANNOUNCED[n]], values)
            keep = ScriptedCall(REMEMBER_FACT, {"key": new.key, "value": new.value}, "kept")
            line = _line(_TELLINGS[new.key].format(value=new.value), reply, keep, write)
            out.append(Moment(line, changed=(new,)))
        elif n in AGAIN:
            out.append(_asked(facts[AGAIN[n]], values, _ONCE_MORE[AGAIN[n]], write))
        else:
            call = ScriptedCall(name, dict(arguments), json.dumps(result))
            changed = (_turned(facts[SILENT[n]], values),) if n in SILENT else ()
            out.append(Moment(_line(say, reply, call, write), changed=changed))
        out.append(_asked(fact, values, fact.question, _note(2 * n + 1, number)))
    return out


def _turned(fact: Known, values: dict[str, str]) -> Known:
    """Change a fact to its other value."""
    values[fact.key] = OTHER[fact.key] if values[fact.key] == fact.value else fact.value
    return _now(fact, values)


def _asked(fact: Known, values: Mapping[str, str], question: str, write: ScriptedCall) -> Moment:
    value = values[fact.key]
    face = ScriptedCall("face", {"who": SPEAKER}, json.dumps({"who": SPEAKER, "metres": 1.4, "sees": "yes"}))
    line = _line(question, f"{value[:1].upper()}{value[1:]}.", face, write)
    return Moment(line, _now(fact, values))


def _note(n: int, evening: int) -> ScriptedCall:
    """Return the call that writes a turn's note, with a text that no other turn has."""
    text = f"{_NOTES[n]}, evening {evening + 1}"
    return ScriptedCall(NOTE, {"text": text}, json.dumps({"note": 40 * evening + n + 1, "file": "NOTES.md"}))


def _now(fact: Known, values: Mapping[str, str]) -> Known:
    return msgspec.structs.replace(fact, value=values[fact.key])


def _line(say: str, reply: str, *calls: ScriptedCall) -> Line:
    return Line(say, speaker=SPEAKER, reply=reply, tools=calls)
