"""What people said of where a thing is, or how, becomes one sentence for those who may know it; each test says it by the way."""

from __future__ import annotations

import random
from contextlib import closing
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

import edgemem
from edgemem.config import LearnSettings, Settings
from edgemem.learn.chains import ChainLearner
from edgemem.learn.learning import Learning
from edgemem.recall.text.analyse import language_in
from edgemem.records import Reader
from edgemem.store.erase.delete_rows import erase_person, erase_session
from edgemem.store.kinds import open_truth
from support.cli import run
from support.homes import BY_WORDS, at_day, tell
from support.selection import LONG

_DAY = 86_400.0
_MAY = at_day("2026-05-12")


@pytest.fixture
def memory(tmp_path):
    profile = replace(BY_WORDS, learn=LearnSettings(("chains",)))  # it is all said at the same time of day
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        yield memory


def said(memory, *texts: str, session: str = "s", later: int = 0, **more) -> None:
    for n, text in enumerate(texts):
        tell(memory, text, session, n, at=_MAY + (n + later) * _DAY, **more)
    memory.idle(5)


def learnt(memory, speaker: str | None = "alice") -> list[str]:
    return [thought.content for thought in memory.learning.log(reader=Reader(speaker))]


_SAID = """
Moved the ladder behind the shed. | The ladder's in the cellar now. | ladder: in the cellar now; behind the shed
The rent is 900 euros. | The rent went up from 900 to 950 euros. | rent: went up from 900 to 950 euros; 900 euros
my bike leans on the lamp post | The bike's at the repair shop. | alice's bike: at the repair shop; leans on the lamp post
The coffee grinder is set to twelve. | new bolt, grinder at four | grinder: at four; set to twelve
The pressure is 1.5 bar. | the pressure went up to 1.75 bar at 7:30 | pressure: went up to 1.75 bar at 7:30; 1.5 bar
Der Luftdruck ist 1,5 bar. | der luftdruck ist jetzt 1.75 bar | luftdruck: jetzt 1.75 bar; 1,5 bar
The boiler has been repaired. | the boiler has been repaired | boiler: repaired
mum's quilt is at Kessler's | the quilt's on the spare bed | quilt: on the spare bed; at Kessler's
The projector is at work till May. | I fetched the projector home | projector: home; at work, till May
our car key is on the hook | we sold the good car key | car key: we sold; on the hook
my locker is red. | I've got a new locker, a blue one | alice's locker: a blue one; red
mein Spind ist rot | ich hab einen anderen Spind, einen blauen | alice's Spind: einen blauen; rot
Papas Insulin im Butterfach | Insulin liegt jetzt in der Tür | Insulin: liegt jetzt in der Tür; im Butterfach
I loaded the rake into the van. | The rake is lying behind the barn. | rake: lying behind the barn; into the van
ich hab die Leiter hinter den Schuppen gestellt | die leiter steht jetzt im keller | leiter: steht jetzt im keller; hinter den Schuppen gestellt
"""
_NOT_SAID = """
The neighbour's ladder is in the garden. | Tom's ladder leans against the fence. | his ladder is in the cellar
is the ladder in the cellar | Put the ladder in the cellar, please. | If the ladder is in the cellar, we can use it.
Maybe the ladder is in the attic. | In the film the ladder is behind the barn. | Tom says the ladder is in the attic.
I fell off the ladder in the garden. | A ladder stands in the park.
The ladder of the neighbours is broken. | At school the ladder is broken. | They ladder their tights. | Do ladder rungs break
die leiter vom nachbarn steht im garten | stell die leiter in den keller | früher stand die leiter im keller
"""


@pytest.mark.parametrize("line", _SAID.strip().splitlines())
def test_what_is_said_of_one_thing_becomes_one_sentence(memory, line: str) -> None:
    """The newest first, in the words that were said, old values with until when, in their language; of no more than the span that says it."""
    first, then, told = line.split(" | ")
    now, *before = told.split("; ")
    said(memory, first, then)
    month = ". Mai" if language_in(now) == "de" else " May"
    old = f", before: {before[0]} (until 13{month})" if before else ""
    assert learnt(memory) == [f"{now} (since {13 if before else 12}{month}){old}"]


@pytest.mark.parametrize("text", _NOT_SAID.strip().replace("\n", " | ").split(" | "))
def test_what_says_nothing_of_the_thing_joins_no_chain(memory, text: str) -> None:
    """Another's thing, another sense, a question, a wish, a story, hearsay, a remark."""
    said(memory, "moved the ladder behind the shed", "the ladder stands in the carport")
    before = learnt(memory)
    said(memory, text, session="t")
    assert learnt(memory) == before == [
        "ladder: stands in the carport (since 13 May), before: behind the shed (until 13 May)"
    ]  # fmt: skip


@pytest.mark.parametrize("texts", [
    ("the shed key is on the nail", "he took the shed key to work", "the shed door is red"),
    ("die Leiter hängt im Keller", "die Leiter hängt im Flur", "die Leiter vom Nachbarn hängt am Dach"),
])  # fmt: skip
def test_what_has_a_longer_name_is_another_thing(memory, texts) -> None:
    """The shed is not its key, nor the ladder that of a neighbour; each thing is told once."""
    said(memory, *texts)
    (thought,) = memory.learning.log()
    assert len(thought.consolidated_from) == 2
    assert "(since 13 May)" in thought.content


def test_two_people_have_a_bike_each(memory) -> None:
    """What each calls theirs is another thing, and no voice that nobody recognised tells of one."""
    said(memory, "my bike is in the hall", "my bike is in the shed", "my bike is in the yard")
    said(memory, "my bike is in the garage", session="t", speaker="bob")
    said(memory, "the bike is in the river", "the bike is on the roof", session="u", speaker=None)
    assert [essence.partition(",")[0] for essence in learnt(memory)] == [
        "alice's bike: in the yard (since 14 May)"
    ]


def test_when_it_was_said_counts_not_when_it_was_stored(memory) -> None:
    """A turn that is stored late is told in its place."""
    tell(memory, "the ladder is in the cellar", "a", at=_MAY)
    tell(memory, "the ladder is in the shed", "b", at=_MAY - 9 * _DAY)
    memory.idle(5)
    assert learnt(memory) == ["ladder: in the cellar (since 12 May), before: in the shed (until 12 May)"]


def test_a_forgotten_member_leaves_a_chain_of_the_others(memory) -> None:
    """Nothing is told of it, and of one that is left alone there is none."""
    for n, place in enumerate(("cellar", "shed", "attic")):
        said(memory, f"the ladder is in the {place}", session=place, speaker=f"p{n}")
    memory.forget(person="p1")
    memory.idle(5)
    assert learnt(memory) == ["ladder: in the attic (since 12 May), before: in the cellar (until 12 May)"]
    memory.forget(session="attic")
    memory.idle(5)
    assert learnt(memory) == []


def test_an_undone_chain_is_not_made_again(memory) -> None:
    """Whatever else is said of the thing."""
    said(memory, "the ladder is in the cellar", "the ladder is in the shed")
    (thought,) = memory.learning.log()
    memory.learning.undo(thought.thought_id)
    said(memory, "the ladder is in the attic", session="t")
    assert learnt(memory) == []


def test_a_block_tells_a_chain_in_place_of_its_messages(memory) -> None:
    """One line, and a new one when it has changed."""
    said(memory, "moved the ladder behind the shed", "the ladder's in the cellar now")
    conversation = memory.session("kitchen")
    for place, before in (("in the cellar now", "behind the shed"), ("up to the attic", "in the cellar now")):
        with conversation.turn("where is the ladder?", speaker="alice") as turn:
            block = turn.messages[-1]["content"]
            assert f"ladder: {place} (since" in block
            assert f"before: {before} (until" in block
            assert block.count("ladder") == 2, "the line and the question"
            turn.reply("I see.")
        said(memory, "we carried the ladder up to the attic", session=place, later=9)


def test_why_tells_the_members_of_a_chain_and_a_fact_in_the_same_form(memory, tmp_path) -> None:
    """Who said what; and the values of a fact, the newest first."""
    said(memory, "moved the ladder behind the shed", "the ladder's in the cellar now")
    name = memory.learning.log()[0].thought_id
    memory.store.add_fact("gate.code", "4471", valid_from=_MAY)
    memory.store.add_fact("gate.code", "9020", valid_from=_MAY + _DAY)
    memory.close()
    told = run("why", name, "--home", tmp_path / "home").output
    assert "said: moved the ladder behind the shed (alice" in told
    assert "said: the ladder's in the cellar now (alice" in told
    told = run("why", "gate.code", "--home", tmp_path / "home").output
    assert "gate.code: 9020 (since 13 May), before: 4471 (until 13 May)" in told


def learn(truth, steps: int | None = None) -> bool:
    """Learn as a process does that ends after some steps; tell whether it came to the end."""
    learner = ChainLearner(truth, Settings())
    while steps is None or (steps := steps - 1) >= 0:
        if not learner.step(lambda: False):
            return True
    return False


def essences(truth, speaker: str | None = "alice") -> list[str]:
    log = Learning(truth, Settings(), [], []).log(reader=Reader(speaker))
    return sorted(f"{thought.content} {len(thought.consolidated_from)}" for thought in log)


def test_a_kill_in_any_step_loses_and_repeats_nothing(tmp_path) -> None:
    """Each process goes on with what stands in the file."""
    with closing(open_truth(tmp_path / "memory.db")) as truth:
        home = SimpleNamespace(diagnostics=SimpleNamespace(database=truth))
        for n in range(14):
            tell(home, f"the {('ladder', 'tent')[n % 2]} is in room {n // 4}", n=n, at=_MAY)
        done = [learn(truth, steps) for steps in range(9)]
        assert not done[0]
        assert done[-1]
        assert learn(truth, 1), "there is nothing left"
        assert [essence.partition(" (")[0] for essence in essences(truth)] == [
            "ladder: in room 3",
            "tent: in room 3",
        ]


def test_a_chain_that_is_dropped_makes_nothing_else_read_again(tmp_path) -> None:
    """The learner's own doing is no forgetting: a step or two a message, however many there are."""
    with closing(open_truth(tmp_path / "memory.db")) as truth:
        home = SimpleNamespace(diagnostics=SimpleNamespace(database=truth))
        learner = ChainLearner(truth, Settings())
        for n in range(99):
            tell(home, ("good evening", "my bike is in the hall")[n < 2], n=n, at=_MAY)
        while learner.step(lambda: False):
            pass
        tell(home, "my bike is in the shed", n=99, speaker="bob", at=_MAY)
        steps = sum(1 for _ in iter(lambda: learner.step(lambda: False), False))
        assert essences(truth) == ["alice's bike: in the hall (since 12 May) 2"]
        assert steps < 8


_PEOPLE = ("alice", "bob", "carol")
_THINGS = ("ladder", "tent", "my bike")
_PLACES = ("in the cellar", "behind the shed", "at Tom's garage", "in the film", "by the door")


@pytest.mark.parametrize("part", range(20))
def test_for_each_reader_all_is_as_if_the_rest_had_never_been_stored(tmp_path, part: int) -> None:
    """Random homes of three people and a stranger: 20 of them, and 5,000 with EDGEMEM_LONG=1."""
    for seed in range(part, 5000 if LONG else 20, 20):
        dice = random.Random(seed)
        turns = []
        for n in range(dice.randint(4, 14)):
            speaker, level = dice.choice((*_PEOPLE, None)), dice.choice(("shared", "household", "private"))
            owner = speaker if level == "private" else None
            text = f"the {dice.choice(_THINGS)} is {dice.choice(_PLACES)}".replace("the my", "my")
            level = "shared" if speaker is None else level
            turns.append((n, text, speaker, {"level": level, "owner": owner}))
        gone = dice.choice((None, *_PEOPLE, 1, 2))
        homes = {
            reader: [
                turn for turn in turns if reader == "all" or turn[3]["level"] == "shared"
                or (reader and (turn[3]["level"] == "household" or turn[3]["owner"] == reader))
            ] for reader in ("all", *_PEOPLE, None)
        }  # fmt: skip
        told = {}
        for reader, mine in homes.items():
            with closing(open_truth(tmp_path / f"{seed}-{reader}.db")) as truth:
                home = SimpleNamespace(diagnostics=SimpleNamespace(database=truth))
                for n, text, speaker, more in mine:
                    tell(home, text, f"s{n % 3}", n, speaker=speaker, at=_MAY + n * _DAY, **more)
                    if n % 4 == 0:
                        learn(truth)
                learn(truth)
                if isinstance(gone, str):
                    truth.write(lambda tx, gone=gone: erase_person(tx, gone))
                elif gone is not None:
                    truth.write(lambda tx, gone=gone: erase_session(tx, f"s{gone}"))
                learn(truth)
                told[reader] = {one: essences(truth, one) for one in (*_PEOPLE, None)}
        for reader in (*_PEOPLE, None):
            assert told["all"][reader] == told[reader][reader], seed
