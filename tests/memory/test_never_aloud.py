"""What is never aloud: a value that the robot knows, and that no line of memory or of its tools tells."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import edgemem
import edgemem.aio
from edgemem.memory import Memory
from edgemem.records import Heard, ToolCall, text_of
from support.homes import WORDS_ONLY, home_of, opened, tell
from support.loops import look_late, on_loop
from support.selection import LONG
from support.thoughts import thought

PROFILE = '[bank]\nbackend = "files"\n[context]\nwindow_tokens = 2600\n[privacy]\nnever_aloud = ["safe.*", "*.pin"]\n'
ASK, CODE, NEXT, FILE = "What is the gate code?", "47-11 Zulu", "5522 Yankee", "household/MEMORY.md"
CALLS = {
    "recall_fact": {"key": "gate.code"}, "list_facts": {}, "search_memory": {"query": "gate code"}, "memory_list": {},
    "remember_fact": {"key": "gate.code", "value": NEXT}, "memory_append": {"path": FILE, "content": f"A code is {CODE}"},
    "memory_read": {"path": FILE}, "notes": {"action": "read"}, "forget_fact": {"key": "gate.code"},
}  # fmt: skip


def hear(m: Memory, text: str = ASK, tool: str = "", who: str | None = "alice", **more: str) -> str:
    """Return what memory and its tools wrote into the prompt of a turn, without what people and the robot said."""
    with m.session("hall", speaker=who, tools=m.tools()).turn(text) as turn:
        assert turn.messages
        if tool:
            turn.call(ToolCall(tool, CALLS[tool] | more))
        blocks = re.findall(r"(?s)<memory>.*?</memory>", "\n".join(map(text_of, turn.messages)))
        results = [text_of(message) for message in turn.messages if message["role"] == "tool"]
        turn.reply(f"You said: {text}")
    return "\n".join([*blocks, *results])


PLACES: dict[str, Callable[[Memory], object]] = {  # where alice may read what only bob may know to be the gate's
    "message": lambda m: tell(m, f"I think the gate code is {CODE}.", "old"),
    "note": lambda m: m.notes.append(f"- gate code {CODE}"),
    "bank": lambda m: m.bank.household.write_file("MEMORY.md", f"The gate code:\n{CODE}"),
    "episode": lambda m: m.store.add_episode("gate code", {"result": CODE}, "ok", level="household"),
    "thought": lambda m: m.thoughts.create_thought(thought("t", content="Gate code", essence=f"gate code {CODE}")),
    "danger": lambda m: m.store.add_fact("alice.allergy", f"nuts, gate code {CODE}", scope="household"),
    "change": lambda m: m.store.add_fact("gate.code", NEXT, scope="household"),
    "doubt": lambda m: m.store.add_fact("gate.code", NEXT, scope="household", heard=Heard("bob", asr_confidence=0.1)),
    "late": lambda m: (look_late(m.session("hall")), m.session("hall").result("c1", f"The gate code is {CODE}")),
}  # fmt: skip
DOORS: dict[str, Callable[[Memory], str]] = {
    "epoch": lambda m: "".join(hear(m, f"{ASK} I typed {CODE} {n} times.") + str(m.idle(5)) for n in range(40)),
    "block": hear, "render_for_prompt": lambda m: m.store.render_for_prompt(),
    **{kind: lambda m, kind=kind: f"{hear(m)}{PLACES[kind](m)}{hear(m)}" for kind in ("change", "doubt", "late")},  # type: ignore[misc]
    **{tool: lambda m, tool=tool: hear(m, "Go.", tool) for tool in [*CALLS][:3]},  # type: ignore[misc]
    "forget_fact": lambda m: hear(m, "Forget it.", "forget_fact") + hear(m, "Yes.", "forget_fact"),
    "notes": lambda m: f"{PLACES['note'](m)}{hear(m, 'Go.', 'notes')}",
    "memory_read": lambda m: f"{PLACES['bank'](m)}{hear(m, 'Go.', 'memory_read')}",
}  # fmt: skip


@pytest.mark.parametrize("aloud", [True, False])
@pytest.mark.parametrize("door", [*DOORS, *[*PLACES][:6]])
def test_no_door_tells_it(tmp_path: Path, door: str, aloud: bool) -> None:
    """Each tells the value where it may be said; where not, only its key, and of somebody else's not even that."""
    scope, label = ("household", "gate code") if door in DOORS else ("user:bob", "something")
    with opened(tmp_path / "home", PROFILE) as m:
        m.store.add_fact("gate.code", CODE, scope=scope, aloud=aloud)
        if door not in DOORS:
            PLACES[door](m)
        told = DOORS.get(door, hear)(m)
        assert any(value in told for value in (CODE, NEXT)) is aloud
        assert (f"{label}: known, not to be said aloud" in told) is not aloud
        assert door != "epoch" or "Earlier in this conversation" in told
        with m.session("new", speaker="alice").turn(ASK) as turn:
            assert door in DOORS or (turn.messages and turn.display == ())


def test_a_value_that_changes_stays_as_it_is(tmp_path: Path) -> None:
    """Later values, and a doubt, are never aloud where one before them is; all may be said once one may. A screen shows them."""
    with opened(tmp_path / "home") as m:
        m.store.add_fact("gate.code", CODE, scope="household", aloud=False)
        assert "gate code: known" in DOORS["change"](m) + DOORS["doubt"](m)
        history = m.store.fact_history("gate.code", scope="household")
        names = [f"{'doubt' if fact.doubtful else 'fact'}:{fact.id}" for fact in history]
        for said in (False, True):
            assert {one.aloud for name in names if (one := m.thoughts.get_thought(name))} == {said}
            with m.session(f"{said}", speaker="alice").turn(ASK) as turn:
                assert (NEXT in str(turn.messages), f"- gate.code: {NEXT}" in turn.display) == (
                    said,
                    not said,
                )
            m.thoughts.update_thought(names[1], aloud=True)
            assert m.recall("gate code", speaker="alice")[0].value == NEXT


@pytest.mark.parametrize(("value", "line", "held"), [
        ("4711", "it is 4 7 1 1", True), ("4711", "４７-１１", True), ("47 11", "PIN4711x", True), ("4711", "471 or 1", False),
        ("Öl Zweig", "OLZWEIG", True), ("Sesamio", "sesamio's", True), ("anna", "a banana", False), ("no", "no", False),
        ("金庫の番号", "彼の金庫の番号です", True), ("4711", "it is four seven, one one.", True), ("47 11 Zulu", "forty seven eleven zulu", True),
        ("4711", "es ist siebenundvierzig elf", True), ("4711", "cuarenta y siete, once", True), ("four seven double one", "47 11", True),
        ("4711", "four men and seven dogs, eleven in all", False),
        ("open sesame", "say open ses…", True), ("open sesame", "…n sesame", True),
        ("open sesame", "say ope… or …ame", False), ("anna berta", "Johanna…", False),
])  # fmt: skip
def test_it_is_known_in_every_spelling(tmp_path: Path, value: str, line: str, held: bool) -> None:
    """Case, accents, spaces, signs and numbers in words make no difference; letters within a word, and less than four, are no value."""
    with opened(tmp_path / "home", PROFILE) as m:
        m.store.add_fact("Safe word 2", value)
        m.store.add_fact("tea", line)
        assert ("tea" not in m.store.render_for_prompt()) is held
        assert "Sesamio" not in m.hints()


def test_a_line_that_is_cut_within_it_tells_no_part(tmp_path: Path) -> None:
    """Wherever a line of the block or of a tool ends, an answer was cut off, and where a file breaks the value over two lines."""
    told, value = "", "4711 Zulu 0815 Yankee"
    with opened(tmp_path / "home", PROFILE) as m:
        m.store.add_fact("gate.code", value, scope="household", aloud=False)
        for words in range(40, 64, 2):
            m.store.add_fact("gate.note", f"{'bla ' * words}{value}{' so' * 90}", scope="household")
            told += hear(m, "What is the gate note?")
        said = f"It is {value}{' so' * 34}"  # the last 120 signs are told as what was cut off
        with m.session("hall", speaker="alice").turn("Well?") as turn:
            turn.reply(said)
        m.session("hall").interrupt(said)
        told += hear(m, "Go on.")
        m.bank.household.write_file("MEMORY.md", "Gate:\n4711 Zulu\n0815 Yankee")
        told += hear(m, "Go.", "memory_read").rpartition("</memory>")[2]
    assert "bla…" in told
    assert [part for part in value.split() if part in told] == []


@pytest.mark.long
def test_no_line_of_random_turns_tells_it(tmp_path: Path) -> None:
    """Whoever says, keeps, changes, asks and forgets what: what was told under such a key, and not forgotten, no line has."""
    dice, scopes = random.Random(31), ("household", "user:alice")

    def secrets() -> set[str]:
        keys = {(fact.key, fact.scope) for fact in m.store.facts() if fact.key.endswith(("code", "pin"))}
        return {fact.value for key, scope in keys for fact in m.store.fact_history(key, scope=scope)}

    with opened(tmp_path / "home", PROFILE) as m:
        for n in range(2000 if LONG else 200):
            if (step := dice.randrange(8)) < 2:
                m.store.add_fact("gate.code", f"{n} Zulu {n + 7}", scope=scopes[step], aloud=False)
            before, old = secrets(), dice.choice(sorted(secrets()) or ["nothing"])
            if step == 2:
                m.notes.append(f"- the code is {old}")
            text, who = dice.choice([ASK, f"The code is {old}.", "Yes."]), dice.choice(["alice", "bob", None])
            tool, keep = dice.choice(["", *CALLS]), {"key": "gate.pin", "value": f"{n} Kilo {n + 7}"}
            given = {"remember_fact": keep, "memory_append": {"content": old}}.get(tool, {})
            told = re.sub(r"\W", "", hear(m, text, tool, who, **given) + m.store.render_for_prompt())
            assert [value for value in before | secrets() if re.sub(r"\W", "", value) in told] == []
        assert m.session("hall").failures() == []


@on_loop
async def test_an_event_loop_has_the_same_lines_for_a_screen(tmp_path: Path) -> None:
    """A turn that is awaited shows what it left out; the tools of one bank tell no such value."""
    async with edgemem.aio.open(home_of(tmp_path / "home", WORDS_ONLY + PROFILE), worker=False) as m:
        await m.store.add_fact("gate.code", CODE, scope="household", aloud=False)
        hall = await m.session("hall", speaker="alice")
        async with hall.turn(ASK) as turn:
            assert CODE not in str(await turn.messages)
            assert turn.display == (f"- gate.code: {CODE}",)
            await turn.reply("It is on the screen.")
        bank = m.bank.for_person("alice")
        await bank.write_file("MEMORY.md", f"The gate code is {CODE}.")
        _, run = edgemem.aio.create_memory_bank_tools(bank)
        assert "known, not to be said aloud" in await run["memory_read"]({"path": "MEMORY.md"})
        assert await bank.read_file("MEMORY.md") == f"The gate code is {CODE}."
