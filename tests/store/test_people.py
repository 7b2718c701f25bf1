"""People are renamed, merged and split, and turns given to another: all that is theirs follows, and comes back once."""

import json
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgemem.config import Profile
from edgemem.errors import BusyError, InvalidInputError
from edgemem.memory import Memory
from edgemem.records import Heard, Reader, StoredMessage, Turn
from edgemem.scopes import name_key
from edgemem.store import turns
from edgemem.store.bank.files import BankFolder
from edgemem.store.kinds import KINDS
from edgemem.store.people import People
from edgemem.store.users import put_goal, put_summary, read_goals, read_summary
from support.cli import refused, run
from support.homes import files_with, opened, turns_of
from support.kinds import add_row
from support.loops import speak
from support.refusals import refusal
from support.selection import cases

STEPS = 3_000

Row = dict[str, Any]


def key_of(name: str) -> str:
    return name_key(name).replace(" ", "_")


class Model:
    """The naive model: rows with their kind, whom each name means, and the cells that the newest move changed."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.names: Row = {}
        self.moved: list[tuple[Row, Row, Row]] | None = None

    def at(self, kind: str, scope: str | None, key: str | None) -> list[Row]:
        return [row for row in self.rows if (row["kind"], row["scope"], row["key"]) == (kind, scope, key)]

    def theirs(self, name: str) -> list[Row]:
        head = f"{key_of(name)}."
        return [
            r for r in self.rows if name in (r["speaker"], r["owner"]) or (r["key"] or "").startswith(head)
        ]

    def move(self, rows: list[Row], old: str, new: str, names: list[str]) -> None:
        self.moved = []
        self.change(self.names, dict.fromkeys(names, new))
        self.names[name_key(new)] = new
        for kind, scope, key in sorted({(row["kind"], row["scope"] or "", row["key"] or "") for row in rows}):
            there = [row for row in self.at(kind, scope or None, key or None) if any(row is r for r in rows)]
            place = self.place(there[0], old, new) if key else {}
            for row in there:
                people = {name: new for name in ("speaker", "owner") if row[name] == old}
                self.change(row, people | place)

    def change(self, row: Row, cells: Row) -> None:
        if self.moved is not None:
            self.moved.append((row, {name: row[name] for name in cells}, cells))
        row.update(cells)

    def place(self, row: Row, old: str, new: str) -> Row:
        """Return where a value goes, after another one has made room for it."""
        kind, key, was, now = row["kind"], row["key"], f"{key_of(old)}.", f"{key_of(new)}."
        to = f"user:{new}" if row["scope"] == f"user:{old}" else row["scope"]
        name = now + key.removeprefix(was) if key.startswith(was) else key
        others = self.at(kind, to, name)
        if (to, name) == (row["scope"], key) or not others or (kind == "fact" and "allergy" not in key):
            return {"scope": to, "key": name}
        is_older, rest = kind == "fact" or row["n"] < others[0]["n"], name.removeprefix(now)
        head = (now if kind == "fact" or rest != name else "") + (was if is_older else now)
        while self.at(kind, to, head + rest):
            head += was
        if not is_older:
            self.change(others[0], {"key": head + rest})
        return {"scope": to, "key": head + rest if is_older else name}

    def undo(self) -> None:
        for row, before, after in reversed(self.moved or ()):
            there = row | {name: value for name, value in before.items() if row.get(name) == after[name]}
            is_names = row is self.names
            is_free = is_names or row["kind"] != "wish" or not self.at("wish", there["scope"], there["key"])
            if is_free and (is_names or any(row is other for other in self.rows)):
                row.update(there)
        self.moved = None

    def drop_unused(self, people: set[str]) -> None:
        used = {row[name] for row in self.rows for name in ("speaker", "owner")}
        for key in [key for key, name in self.names.items() if name in people - used]:
            del self.names[key]


class Walk:
    """Random steps, in a memory and in the model."""

    def __init__(self, memory: Memory, dice: random.Random) -> None:
        self.memory, self.people, self.dice, self.model, self.n = memory, memory.people, dice, Model(), 0

    def step(self) -> None:
        say, tell, wish = (partial(self.speak, kind) for kind in ("turn", "fact", "wish"))
        steps = (say, tell, wish, self.rename, self.merge, self.split, self.give, self.undo, self.forget)
        self.n += 1
        self.dice.choices(steps, (8, 8, 4, 2, 2, 2, 2, 3, 1))[0]()
        self.check()

    def name(self) -> str:
        name: str = self.dice.choice([*self.model.names, "ines", "Zoë", "speaker_3"])
        return self.dice.choice((name, name.upper(), name.title()))

    def speak(self, kind: str) -> None:
        name, store, key = self.name(), self.memory.store, None
        heard = Heard(name, device=self.dice.choice(("hall", "bath")), event_time=float(self.n))
        speaker = self.model.names.setdefault(name_key(name), name)
        owner = speaker if kind == "wish" or self.dice.random() < 0.5 else None
        scope = f"user:{name}" if owner else "household"
        if kind == "turn":
            message, level = StoredMessage("user", "word"), "private" if owner else "household"
            turn = Turn("hall", self.n, (message,), level=level, owner=owner and name, heard=heard)  # type: ignore[arg-type]
            store.database.write(lambda tx: turns.commit_turn(tx, turn))
        elif kind == "fact":
            key = self.dice.choice(("", f"{key_of(speaker)}.")) + self.dice.choice(("allergy", "size"))
            store.add_fact(key, f"{self.n}", scope=scope, heard=heard, trust=3)
        else:
            key = "music"
            store.set_preference(key, f"{self.n}", scope=scope)
        place = None if key is None else f"user:{speaker}" if owner else scope
        row = {
            "kind": kind, "n": self.n, "speaker": speaker, "owner": owner, "voice": heard.device, "scope": place,
        }  # fmt: skip
        gone = self.model.at("wish", place, key)
        self.model.rows = [other for other in self.model.rows if other not in gone]
        self.model.rows.append({**row, "key": key, "speaker": None if kind == "wish" else speaker})

    def move(
        self, call: Callable[..., Any], names: tuple[str, str], rows: list[Row], is_right: bool, **how: Any
    ) -> None:
        old, new = (self.model.names.get(name_key(name)) for name in names)
        if old is None or not rows or not is_right:
            with pytest.raises(InvalidInputError):
                call(*names, **how)
            return
        call(*names, **how)
        theirs = [key for key, name in self.model.names.items() if name == old]
        keys = [key for key in theirs if not how or key == name_key(names[1])]
        self.model.move(rows, old, str(new) if call == self.people.merge else names[1], keys)

    def rename(self) -> None:
        name, new = self.name(), self.dice.choice((f"Guest {self.n}", self.name()))
        old = self.model.names.get(name_key(name), "-")
        is_free = old != new and self.model.names.get(name_key(new), old) == old
        self.move(self.people.rename, (name, new), self.model.theirs(old), is_free)

    def merge(self) -> None:
        names = self.name(), self.name()
        old, new = (self.model.names.get(name_key(name), "-") for name in names)
        self.move(self.people.merge, names, self.model.theirs(old), new not in ("-", old))

    def split(self) -> None:
        name, voice, since = self.name(), self.dice.choice(("hall", "bath")), self.dice.randrange(self.n + 1)
        new = self.dice.choice([f"Guest {self.n}", *self.model.names])
        old = self.model.names.get(name_key(name), "-")
        rows = [r for r in self.model.rows if r["speaker"] == old and r["voice"] == voice and r["n"] >= since]
        is_free = self.model.names.get(name_key(new), old) == old and name_key(new) != name_key(old)
        self.move(self.people.split, (name, new), rows, is_free, voice=voice, since=since)

    def give(self) -> None:
        if said := [row for row in self.model.rows if row["kind"] == "turn"]:
            row, name = self.dice.choice(said), self.name()
            (number,) = (t.messages[0].id for t in turns_of(self.memory, "hall") if t.n == row["n"])
            if row["speaker"] == (new := self.model.names.get(name_key(name), name)):
                with pytest.raises(InvalidInputError):
                    self.people.give(number, name)
            else:
                self.people.give(number, name)
                self.model.move([row], row["speaker"], new, [])

    def undo(self) -> None:
        if self.model.moved is None:
            with pytest.raises(InvalidInputError):
                self.people.undo()
            return
        undone = self.people.undo()
        self.model.undo()
        if undone.deed in ("rename", "split"):
            self.model.move(self.model.theirs(undone.new), undone.new, str(undone.old), [])
            self.model.moved = None
        self.model.drop_unused({undone.new})

    def forget(self) -> None:
        if facts := [row for row in self.model.rows if row["kind"] == "fact"]:
            row = self.dice.choice(facts)
            assert self.memory.store.forget_fact(row["key"], scope=row["scope"])
            gone = self.model.at("fact", row["scope"], row["key"])
            self.model.rows = [row for row in self.model.rows if row not in gone]
            self.model.drop_unused({row[name] for row in gone for name in ("speaker", "owner")} - {None})

    def check(self) -> None:
        store, there = self.memory.store, self.model.rows
        assert {(fact.scope, fact.key) for fact in store.facts()} == {
            (r["scope"], r["key"]) for r in there if r["kind"] == "fact"
        }
        rows = [
            ("turn", None, None, t.n, t.heard and t.heard.speaker, t.owner)
            for t in turns_of(self.memory, "hall")
        ]
        rows += [("wish", p.scope, p.key, int(p.value), None, p.owner) for p in store.preferences()]
        for now in store.facts():
            history = store.fact_history(now.key, scope=now.scope)
            rows += [
                ("fact", f.scope, f.key, int(f.value), f.heard and f.heard.speaker, f.owner) for f in history
            ]
            assert now.value == history[-1].value == max((f.value for f in history), key=int)
        names = ("kind", "scope", "key", "n", "speaker", "owner")
        assert sorted(rows, key=str) == sorted((tuple(row[name] for name in names) for row in there), key=str)
        assert dict(store.database.query("select key, name from names")) == self.model.names


def test_random_moves(memory: Memory) -> None:
    """Random moves and their undoing equal a naive model; 3,000 steps with EDGEMEM_LONG=1."""
    walk = Walk(memory, random.Random(30))
    for _ in range(cases(STEPS)):
        walk.step()


def tell(memory: Memory, name: str, key: str, value: str, *, scope: str = "household") -> None:
    memory.store.add_fact(key, value, scope=scope, heard=Heard(name))


def say(memory: Memory, name: str, text: str) -> None:
    speak(memory.session("hall", speaker=name), text, "Good.", private=True)


def values(memory: Memory) -> set[tuple[str, str]]:
    return {(fact.key, fact.value) for fact in memory.store.facts()}


def stored(memory: Memory, *words: str) -> list[str]:
    return [word for word in words if files_with(memory.home, word)]


def test_every_kind_follows(memory: Memory) -> None:
    """A kind that is added later is among them: its declaration says how."""
    kinds, database = [kind for kind in KINDS if kind.of_person()], memory.store.database

    def holding(name: str) -> list[str]:
        sql = {kind.table: f"select 1 from {kind.table} where {kind.of_person()}" for kind in kinds}
        return [table for table in sql if database.query(sql[table], {"name": name})]

    database.write(lambda tx: tx.execute("insert into names values ('ann', 'Ann'), ('mia', 'Mia')"))
    for kind in kinds:
        columns = {"person": "Ann", "scope": "user:Ann"}
        people = {column.name: columns[column.role] for column in kind.columns if column.role in columns}
        database.write(lambda tx, kind=kind, people=people: add_row(tx, kind, **people))
    before = holding("Ann")
    memory.people.rename("ann", "Zoë")
    assert (holding("Ann"), holding("Zoë")) == ([], before)
    memory.people.merge("zoë", "Mia")
    assert (holding("Zoë"), holding("Mia")) == ([], before)
    memory.people.undo()
    assert (holding("Mia"), holding("Zoë")) == ([], before)


def test_a_voice_gets_its_name(memory: Memory) -> None:
    """All that a voice said is hers who gets the name, and what it says from then on."""
    say(memory, "speaker_3", "My dentist is Dr Amara.")
    tell(memory, "speaker_3", "shoe.size", "42", scope="user:speaker_3")
    memory.people.rename("SPEAKER_3", "Ines")
    for name in ("ines", "speaker_3"):
        assert "Amara" in memory.recall("Who is my dentist?", speaker=name)[0].text
        assert memory.store.facts(reader=Reader(name))[0].owner == "Ines"
    assert memory.recall("Who is my dentist?", speaker="Bob") == []
    say(memory, "speaker_3", "I moved to Bonn.")
    assert {turn.owner for turn in turns_of(memory, "hall")} == {"Ines"}


def test_former_names_go_to_another_robot(memory: Memory, tmp_path: Path) -> None:
    """Who is heard under one there is that person, also by their own export; a name that is somebody's there stays theirs."""
    say(memory, "speaker_3", "My dentist is Dr Amara.")
    say(memory, "Bob\nBo", "I moved to Bonn.")
    memory.people.rename("speaker_3", "Ines")
    for name, lines in (("whole", memory.export()), ("own", memory.export(speaker="Ines"))):
        data = [line.encode() for line in lines]
        with opened(tmp_path / name) as other:
            assert other.import_lines(data).added["names"] == 1
            assert "names" not in other.import_lines(data).added
            say(other, "SPEAKER_3", "I like tea.")
            assert turns_of(other, "hall")[-1].owner == "Ines"
    with opened(tmp_path / "taken") as other:
        tell(other, "speaker_3", "tea", "green")
        assert other.import_lines(data).refused == [
            "The name 'speaker_3' is that of 'speaker_3' here, and stays."
        ]


def test_a_prompt_hears_of_a_new_name(memory: Memory) -> None:
    """What it holds under the former name is not called forgotten, and is told once under the new one."""
    tell(memory, "speaker_3", "speaker_3.dentist", "Dr Amara")
    kitchen, heard = memory.session("kitchen"), ""
    for name in ("Speaker_3", "Ines", "INES"):
        memory.people.rename("speaker_3", name)
        heard += str(kitchen.turn(f"Who is {name}'s dentist?", speaker="Bob").messages[-1]["content"])
    assert [heard.count(text) for text in ("speaker_3.dentist: Dr", "ines.dentist: Dr", "known")] == [1, 1, 0]


def test_values_of_two_people(memory: Memory) -> None:
    """Of two people both safety facts stay; of other values the newer holds, and the older is its history."""
    tell(memory, "Ines", "ines.allergy", "walnuts")
    for name, size in (("Ines", "41"), ("speaker_3", "42")):
        tell(memory, name, "shoe.size", size, scope=f"user:{name}")
        memory.store.database.write(partial(put_goal, person=name, name="run", title=size, data={}))
    tell(memory, "speaker_3", "speaker_3.allergy", "milk")
    before = values(memory)
    memory.people.merge("speaker_3", "Ines")
    safe = {("ines.allergy", "walnuts"), ("ines.speaker_3.allergy", "milk")}
    assert values(memory) == {*safe, ("shoe.size", "42")}
    assert [fact.value for fact in memory.store.fact_history("shoe.size", scope="user:ines")] == ["41", "42"]
    goals = read_goals(memory.store.database, person="Ines")
    assert {goal.name: goal.title for goal in goals} == {"ines.run": "41", "run": "42"}
    memory.people.undo()
    assert values(memory) == before
    assert {goal.name for goal in read_goals(memory.store.database)} == {"run"}


def test_undoing_after_a_forgetting(memory: Memory) -> None:
    """Undoing revives nothing forgotten, and a forgotten person takes the record along."""
    tell(memory, "speaker_3", "shoe.size", "42", scope="user:speaker_3")
    tell(memory, "speaker_3", "door", "4711", scope="user:speaker_3")
    memory.people.rename("speaker_3", "Ines")
    memory.forget("door", scope="user:Ines")
    memory.people.undo()
    assert {(fact.scope, fact.value) for fact in memory.store.facts()} == {("user:speaker_3", "42")}
    memory.bank.for_person("speaker_3").write_file("door.md", "4711")
    memory.people.rename("speaker_3", "Ines")
    memory.forget(person="speaker_3")
    refusal(InvalidInputError, memory.people.undo, match="no move to undo")
    assert not stored(memory, "speaker_3", "Ines", "4711")


def test_a_replaced_summary_leaves_no_byte(memory: Memory) -> None:
    """Of two summaries of one conversation the merged person's replaces the other, which the index forgets too."""
    for name, words in (("Ines", "quince marmalade"), ("speaker_3", "the tall ladder")):
        put = partial(put_summary, session="hall", person=name, summary=words, covered=1)
        memory.store.database.write(put)
    memory.idle()
    memory.people.merge("speaker_3", "Ines")
    assert read_summary(memory.store.database, "hall", "ines") == "the tall ladder"
    memory.forget(person="Ines")
    assert not stored(memory, "quince", "marmalad", "ladder")


def test_files_of_the_bank(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files follow, whenever the power goes, and come back."""

    def files() -> set[tuple[str, str]]:
        return {(file.place, text) for file, _, text in memory.bank.texts()}

    for name in ("Ines", "speaker_3"):
        memory.bank.for_person(name, "hall").write_file("a.md", name)
    memory.bank.for_person("speaker_3", "bath").write_file("b.md", "soap")
    before = files()
    monkeypatch.setattr(BankFolder, "move", lambda *_: sys.exit())
    with pytest.raises(SystemExit):
        memory.people.merge("speaker_3", "Ines")
    monkeypatch.undo()
    assert files() == before
    People(memory.store.database, memory.sessions.journal, memory.bank, follow=print)  # of the next start
    moved = {("Ines/hall.speaker_3/a.md", "speaker_3"), ("Ines/bath/b.md", "soap")}
    assert files() == {("Ines/hall/a.md", "Ines"), *moved}
    memory.people.undo()
    assert files() == before


def test_a_turn_is_given(memory: Memory) -> None:
    """A turn is given to who spoke, with what came of it."""
    with memory.session("hall", speaker="Ann").turn("I like rye bread.") as turn:
        assert turn.messages
        tell(memory, "Ann", "ann.bread", "rye")
        turn.reply("Good.")
    tell(memory, "Ann", "ann.tea", "mint")
    memory.people.give(turns_of(memory, "hall")[0].messages[0].id, "Bob")
    assert values(memory) == {("bob.bread", "rye"), ("ann.tea", "mint")}
    assert turns_of(memory, "hall")[0].heard == Heard("Bob")


def test_bad_input(memory: Memory) -> None:
    """What cannot be moved is refused in a sentence that says what to do."""
    people = memory.people
    for name in ("Ines", "Bob"):
        tell(memory, name, f"{name}.tea", "mint")
    refused: dict[str, Callable[[], object]] = {
        "somebody already.*merge": lambda: people.rename("Ines", "bob"),
        "one person": lambda: people.merge("ines", "INES"), "Did you mean Ines": lambda: people.merge("Inez", "Bob"),
        "no turn": lambda: people.give("7", "Bob"), "what to split off": lambda: people.split("Ines", "Mia"),
        "Nothing was heard": lambda: people.split("Ines", "Mia", voice="cellar"), "no move": people.undo,
        "a name must not be empty": lambda: people.rename("Ines", " "),
        "no name of a person": lambda: people.rename("Ines", "household"),
        "must be text": lambda: people.merge("Ines", None),  # type: ignore[arg-type]
        "since the epoch": lambda: people.split("Ines", "Mia", since=float("nan")),
    }  # fmt: skip
    for sentence, call in refused.items():
        refusal(InvalidInputError, call, match=sentence)
    people.merge("Ines", "Bob")
    refusal(InvalidInputError, people.merge, "Bob", "Ines", match="one person")
    with memory.session("hall", speaker="Bob").turn("Hello.") as turn:
        assert turn.messages
        for call in (lambda: people.rename("bob", "Mia"), lambda: memory.forget(session="hall", turn=0)):
            with pytest.raises(BusyError, match="open"):  # its end would write the turn again
                call()


def test_voices_of_the_profile(memory: Memory) -> None:
    """A voice that the profile names later is merged once, and `check` tells one without a name."""
    tell(memory, "speaker_3", "speaker_3.tea", "mint")
    (people,) = (check for check in memory.check() if check.name == "people")
    assert "edgemem people rename speaker_3 NAME" in people.advice
    memory.diagnostics.settings.next = Profile(speakers={"Ines": ("speaker_3",)})
    memory.idle()
    assert values(memory) == {("ines.tea", "mint")}
    memory.people.undo()
    memory.idle()
    assert values(memory) == {("speaker_3.tea", "mint")}


def test_the_command_line(memory: Memory) -> None:
    """The command line lists people, moves them and takes that back."""
    tell(memory, "speaker_3", "speaker_3.tea", "mint")
    home = memory.home
    memory.close()
    for words in ("rename speaker_3 Ines", "split Ines --since 2020-01-01 --as Bob", "undo"):
        told = run("people", *words.split(), "--home", home).stdout
        assert told.startswith("Taken back: split" if words == "undo" else f"Done: {words[:5]}")
    (person,) = json.loads(run("people", "--json", "--home", home).stdout)
    assert person == {"name": "Ines", "also": ["speaker_3"], "records": {"facts": 1}, "voices": []}
    assert "Did you mean Ines" in refused(run("people", "rename", "Inez", "Bob", "--home", home))


def test_ten_thousand_names(memory: Memory) -> None:
    """Names that differ by marks and case are people of their own, found by an index."""
    names = [f"Zo{mark}e{n}" for n in range(5_000) for mark in ("\u0308", "\u0301")]
    rows = [(name_key(name), name) for name in names]
    memory.store.database.write(lambda tx: tx.executemany("insert into names values (?, ?)", rows))
    tell(memory, names[0].upper(), "tea", "mint")
    assert len(memory.people.list()) == 10_000
    assert [person.name for person in memory.people.list() if person.records] == [names[0]]
    plan = memory.store.database.query("explain query plan select name from names where key = ?", ("x",))
    assert "USING PRIMARY KEY" in plan[0][3]
