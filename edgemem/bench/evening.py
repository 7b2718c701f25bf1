"""Forty turns of one evening in a kitchen, written by hand: twenty facts, a tool call in each turn.

The seed's own scenario: short spoken sentences, so that forty turns without memory stay below 4,000 tokens.
Every second turn asks something that needs a stored fact, in words of its own.
"""

from __future__ import annotations

from edgemem.bench.corpus import SPEAKER, Known
from edgemem.bench.ground import tool
from edgemem.script import Line, ScriptedCall

TOOLS = (
    tool("timer", "Start a timer.", "minutes"),
    tool("light", "Set a light.", "room", "percent"),
    tool("list_add", "Add to the shopping list.", "item"),
    tool("look", "Look something up.", "what"),
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

_REPLIES = (
    "No, hazelnuts are not for Anna.", "Rooibos, no sugar.", "Until half past seven.", "Under the blue pot behind the shed.",
    "On Friday at ten.", "Seven green frogs.", "Salmon, twice a day.", "On Tuesday morning.", "On the ninth of March.",
    "250 degrees, nine minutes.", "In the lowest drawer in the hall.", "No, she eats no meat.", "One cup every Sunday.",
    "Four four one seven nine.", "Size forty four.", "At ten past eight.", "On level three, near the lift.",
    "The vacuum cleaner scares him.", "Mrs Okafor.", "Step four.",
)  # fmt: skip

_ORDERS = (
    ("Set a timer for the noodles, nine minutes.", "timer", {"minutes": "9"}, "running", "Nine minutes."),
    ("A bit more light over the stove.", "light", {"room": "stove", "percent": "80"}, "80", "There you go."),
    ("We are out of rice.", "list_add", {"item": "rice"}, "3 items", "Rice is on the list."),
    ("Will it rain tomorrow?", "look", {"what": "rain"}, "dry, 14 degrees", "No, it stays dry."),
    ("Dim the hall, please.", "light", {"room": "hall", "percent": "20"}, "20", "Done."),
    ("Add two lemons.", "list_add", {"item": "lemons"}, "4 items", "Two lemons added."),
    ("The eggs need six minutes.", "timer", {"minutes": "6"}, "running", "Six minutes from now."),
    ("How late is it in Lisbon?", "look", {"what": "Lisbon"}, "18:40", "Twenty to seven."),
    ("Lights off in the cellar.", "light", {"room": "cellar", "percent": "0"}, "0", "The cellar is dark."),
    ("Put washing powder on the list.", "list_add", {"item": "powder"}, "5 items", "It is on it."),
    ("Remind me in half an hour.", "timer", {"minutes": "30"}, "running", "I will."),
    ("Who won the match?", "look", {"what": "match"}, "two to one", "The home side, two to one."),
    ("Brighter on the balcony.", "light", {"room": "balcony", "percent": "90"}, "90", "Brighter now."),
    ("We need oats as well.", "list_add", {"item": "oats"}, "6 items", "Oats too."),
    ("Give the dough an hour.", "timer", {"minutes": "60"}, "running", "One hour for the dough."),
    ("Is the library open?", "look", {"what": "library"}, "until six", "Yes, until six."),
    ("Turn the desk lamp down.", "light", {"room": "desk", "percent": "30"}, "30", "It is softer now."),
    ("Add a bag of flour.", "list_add", {"item": "flour"}, "7 items", "Flour is noted."),
    ("Tea for four minutes.", "timer", {"minutes": "4"}, "running", "Four minutes."),
    ("When does the sun set?", "look", {"what": "sunset"}, "16:21", "At twenty past four."),
)


def evening(turns: int = 40) -> list[tuple[Line, Known | None]]:
    """Return the turns, each with the fact that its question needs."""
    out: list[tuple[Line, Known | None]] = []
    for (say, name, arguments, result, reply), fact, answer in zip(_ORDERS, FACTS, _REPLIES, strict=True):
        out.append((_line(say, name, dict(arguments), result, reply), None))
        out.append((_line(fact.question, "light", {"room": "sink", "percent": "50"}, "50", answer), fact))
    return out[:turns]


def _line(say: str, name: str, arguments: dict[str, str], result: str, reply: str) -> Line:
    return Line(say, speaker=SPEAKER, reply=reply, tools=(ScriptedCall(name, arguments, result),))
