"""Safety: what may hurt somebody who speaks or listens is told asked or not, and to nobody who may not read it."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import HandClock

import edgemem
from edgemem.config import ContextSettings, LlamaSettings
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, ToolCall
from support.homes import patient
from support.loops import Listener, block_before

OTHERS = {
    "alice.birthday": "4 May", "alice.bicycle": "a blue one", "ben.job": "teacher", "wifi.password": "turnip soup",
    "car.parking": "level two",
}  # fmt: skip


@pytest.fixture(params=["all-minilm-l6-v2", ""], ids=["with MiniLM", "by words"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, hand: HandClock, minilm: Path) -> Iterator[Memory]:
    """Return a memory that knows what hurts Alice and the dog, and much else."""
    assert minilm
    profile = patient()
    if not request.param:
        profile = edgemem.Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        alice = Heard("alice")
        memory.store.add_fact("allergy", "hazelnuts", heard=alice, level="private")
        memory.store.add_fact("alice.intolerance", "lactose")
        memory.store.add_fact("rex.medication", "one tablet at breakfast")
        for key, value in OTHERS.items():
            memory.store.add_fact(key, value)
        memory.idle(60)
        yield memory


def tell(memory: Memory, text: str, speaker: str, session: str = "told", audience: Sequence[str] = ()) -> str:
    """Have a turn; return what stood before the utterance."""
    loop = AgentLoop(Listener(), hooks=memory.hooks(session_id=session), speaker=speaker)
    told: str = loop.prepare(text, audience=list(audience)).handed[0][-1]["content"]
    loop.abort()
    loop.run(text, audience=list(audience))
    return told.removesuffix(text)


DANGERS = ("hazelnuts", "lactose", "tablet")


@pytest.mark.parametrize(
    ("spoken", "speaker", "values"),
    [
        *((spoken, "alice", {"hazelnuts", "lactose"}) for spoken in ("Can I eat this cake?", "Good morning!", "What's the weather like?")),
        *((spoken, "ben", {"lactose", "tablet"}) for spoken in ("What can I cook for dinner?", "I'm baking brownies tonight.", "Would you order us a curry?")),
        *((spoken, "ben", set()) for spoken in ("Tell me a joke.", "Where did I park the car?", "Good night.")),
    ],
)  # fmt: skip
def test_an_allergy_is_told_to_whom_it_hurts_and_with_food(
    memory: Memory, spoken: str, speaker: str, values: set[str]
) -> None:
    """The speaker's own always stands there, that of others with food, and what is private reaches nobody else."""
    block = block_before(memory, spoken, speaker)
    assert {value for value in DANGERS if value in block} - {"tablet"} == values - {"tablet"}
    assert ("tablet" in block) == ("tablet" in values) or speaker == "alice"


def test_the_speaker_s_own_is_told_once_and_anew_where_it_changes(memory: Memory, hand: HandClock) -> None:
    """An epoch has it once, and a change of it as of any other fact."""
    assert "lactose" in tell(memory, "Good morning!", "alice")
    assert "lactose" not in tell(memory, "What's the weather like?", "alice")
    hand.advance(60)
    memory.store.add_fact("alice.intolerance", "gluten")
    assert "now gluten" in tell(memory, "Tell me a joke.", "alice")


@pytest.mark.parametrize(
    ("said", "danger", "food"),
    [
        ("I'm allergic to walnuts.", "walnuts", "What shall we cook tonight?"),
        ("Von Sellerie schwillt mir die Zunge an, den darf ich nicht essen.", "Sellerie", "Soll ich uns eine Suppe kochen?"),
        ("Soy alérgica a las gambas.", "gambas", "¿Qué cocinamos esta noche?"),
        ("Tôi bị dị ứng với tôm.", "tôm", "Tối nay nấu món gì?"),
        ("我对花生过敏。", "花生", "今晚做什么菜？"),
        ("Codeine makes me throw up.", "Codeine", "The pharmacy gave us a painkiller."),
        ("Seit der Operation nehme ich Marcumar.", "Marcumar", "Was kochen wir heute Abend?"),
        ("No puedo tomar lácteos, me sientan fatal.", "lácteos", "Un café con leche, por favor."),
        ("We are all allergic to peanuts.", "peanuts", "What shall we cook tonight?"),
        ("Wir sind alle gegen Sellerie allergisch.", "Sellerie", "Soll ich uns eine Suppe kochen?"),
        ("I'm allergic to penicillin. Tell me if the doctor calls.", "penicillin", "The pharmacy gave us a painkiller."),
        ("One pistachio and my throat shuts.", "pistachio", "What shall we cook tonight?"),
        ("keep me away from prawns please", "prawns", "What shall we cook tonight?"),
        ("I think I'm allergic to mustard.", "mustard", "What shall we cook tonight?"),
        ("My son is allergic to kiwi and so am I.", "kiwi", "What shall we cook tonight?"),
        ("Meine Tochter ist gegen Sellerie allergisch und ich auch.", "Sellerie", "Soll ich uns eine Suppe kochen?"),
        ("I'm allergic to nothing except bees.", "bees", "I'm planting flowers for the bees."),
        ("I never had an allergy until I ate shrimps.", "shrimps", "What shall we cook tonight?"),
        ("Con dos gambas se me cierra el pecho.", "gambas", "¿Qué cocinamos esta noche?"),
        ("I have no allergies to nuts; I have one to milk.", "milk", "What shall we cook tonight?"),
        ("No tengo alergia a las nueces, a la leche sí.", "leche", "¿Qué cocinamos esta noche?"),
        ("我对花生没有过敏，对牛奶有。", "牛奶", "今晚做什么菜？"),
        ("La última vez que comí mejillones acabé en urgencias.", "mejillones", "¿Qué cocinamos esta noche?"),
        ("Eine Haselnuss, und Hals und Zunge schwellen an.", "Haselnuss", "Soll ich uns eine Suppe kochen?"),
        ("Comí dos gambas y acabé en urgencias.", "gambas", "¿Qué cocinamos esta noche?"),
        ("Uống sữa là nổi mẩn.", "sữa", "Tối nay nấu món gì?"),
        ("Chị ăn tôm là sưng môi liền.", "tôm", "Tối nay nấu món gì?"),
        ("上次吃了几只虾，直接送急诊了。", "虾", "今晚做什么菜？"),
    ],
)  # fmt: skip
def test_what_was_said_of_oneself_counts_alone(memory: Memory, said: str, danger: str, food: str) -> None:
    """In five languages, with an embedder and by words alone: to the speaker always, to others with food."""
    tell(memory, said, "ines")
    memory.idle(60)
    assert danger in block_before(memory, "Wake me at seven.", "ines")
    assert danger in block_before(memory, food, "karl")
    assert danger not in block_before(memory, "Wake me at seven.", "karl")


@pytest.mark.parametrize(
    ("said", "danger", "food"),
    [
        ("I must tell you that my son can't eat eggs.", "eggs", "What shall we cook tonight?"),
        ("Mein Mann ist gegen Sellerie allergisch.", "Sellerie", "Soll ich uns eine Suppe kochen?"),
        ("Cuando viene mi sobrina, nada de gambas, se le hincha la cara.", "gambas", "¿Qué cocinamos esta noche?"),
        ("Chồng tôi bị dị ứng với tôm.", "tôm", "Tối nay nấu món gì?"),
        ("我女儿对花生过敏。", "花生", "今晚做什么菜？"),
        ("I think Ben is allergic to mustard.", "mustard", "What shall we cook tonight?"),
        ("Ich glaube, Ben ist gegen Senf allergisch.", "Senf", "Soll ich uns eine Suppe kochen?"),
        ("Creo que Ben es alérgico a la mostaza.", "mostaza", "¿Qué cocinamos esta noche?"),
        ("Bob has asthma.", "asthma", "What shall we cook tonight?"),
        ("Milo can't eat eggs.", "eggs", "What shall we cook tonight?"),
        ("Pedro es alérgico a las nueces.", "nueces", "¿Qué cocinamos esta noche?"),
        ("Lan bị dị ứng tôm.", "tôm", "Tối nay nấu món gì?"),
        ("小明对花生过敏。", "花生", "今晚做什么菜？"),
        ("Mein Sohn ist gegen Kiwi allergisch, das sag ich auch jedem Gast.", "Kiwi", "Soll ich uns eine Suppe kochen?"),
        ("Pedro ist gegen Haselnuss allergisch.", "Haselnuss", "Soll ich uns eine Suppe kochen?"),
    ],
)  # fmt: skip
def test_what_was_said_of_another_waits_for_food(memory: Memory, said: str, danger: str, food: str) -> None:
    """Who tells of a child's allergy has none: it is the household's."""
    tell(memory, said, "ines")
    memory.idle(60)
    assert danger in block_before(memory, food, "ines")
    assert danger not in block_before(memory, "Wake me at seven.", "ines")


@pytest.mark.parametrize("memory", ["all-minilm-l6-v2"], indirect=True)
def test_a_danger_is_known_by_what_it_means(memory: Memory) -> None:
    """A vector tells what happened to somebody without a word of illness; and what is no danger, whatever its words told."""
    tell(memory, "I had one cashew and woke up in intensive care.", "ines")
    tell(memory, "The cashews are in the blue tin.", "ines", "again")
    tell(memory, "I need my coffee with milk and my bread with butter before eight or I am no use.", "ines")
    tablets = "Can I take two of these tablets?"
    assert "butter" in block_before(memory, tablets, "ines")  # less sure: waits until medicine comes up
    assert "butter" not in block_before(memory, "Wake me at seven.", "ines")
    walk = "We walked along the river. The sun came out at noon. A train went by with old carriages. The bus was late again. "
    walk += "The shop was shut. We sang all the way home. "
    tell(memory, f"{walk}Cheap earrings make my ears weep, it's the nickel.", "ines")
    memory.idle(60)
    block = block_before(memory, "Wake me at seven.", "ines")
    assert "intensive care" in block
    assert "earrings" in block
    assert "blue tin" not in block
    assert "butter" not in block_before(memory, tablets, "ines")


def test_a_fact_of_another_is_told_with_food_alone(memory: Memory, hand: HandClock) -> None:
    """So is what a parent stores in private of a child, which hides nobody else's; a fact that names nobody is that of who told it."""
    tell(memory, "One egg and my throat shuts.", "karl", "before")
    hand.advance(600)
    memory.store.add_fact("noah.allergy", "eggs", scope="user:ines")
    memory.store.add_fact("allergy", "celery", scope="household", heard=Heard(speaker="ines"))
    memory.idle(60)
    block = tell(memory, "What shall we cook tonight?", "ines")
    assert "eggs" in block
    assert "throat" in block
    block = block_before(memory, "Wake me at seven.", "ines")
    assert "celery" in block
    assert "eggs" not in block


@pytest.mark.parametrize("memory", [""], indirect=True)
def test_the_end_of_a_long_utterance_tells_what_comes_up(memory: Memory) -> None:
    """As it tells what is asked: a turn reads no more of a text that was pasted."""
    walk = "We walked along the river and back again. " * 60
    assert "lactose" in tell(memory, f"{walk}What shall we cook for dinner?", "ben")
    assert "lactose" not in tell(memory, f"What shall we cook for dinner? {walk}", "ben", "again")


def test_a_name_from_private_talk_hides_no_danger(memory: Memory) -> None:
    """Somebody called Hazel may live here: a hazel nut is no person."""
    memory.store.add_fact("allergy", "hazel nuts", scope="user:ines")
    AgentLoop(Listener(), hooks=memory.hooks(session_id="secret"), speaker="hazel").run("Hi.", private=True)
    memory.idle(60)
    assert "hazel nuts" in block_before(memory, "Wake me at seven.", "ines")


def test_who_listens_comes_before_the_household(memory: Memory) -> None:
    """In a house full of allergies the guest who is there comes first."""
    for n, name in enumerate(("ada", "bo", "cy", "dee", "eve", "fay")):
        memory.store.add_fact(f"{name}.allergy", f"nut number {n}")
    memory.idle(60)
    block = tell(memory, "I'm baking a cake tonight.", "ben", audience=["ada"])
    assert block.count("nut number") + block.count("lactose") + block.count("tablet") == 8
    assert block.index("nut number 0") == block.index("nut number")


def test_no_line_takes_another_s_place(tmp_path: Path, hand: HandClock) -> None:
    """A block of few tokens still has what was asked for, and six long lines; what is less sure is none of them, though newer."""
    profile = edgemem.Profile(llama=LlamaSettings(embedder=""), context=ContextSettings(block_tokens=40))
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        for nut in ("hazelnuts", "almonds", "cashews", "pecans", "walnuts", "peanuts"):
            so_they = f"and so they keep {nut} away from me, " * 6
            tell(memory, f"I am allergic to {nut}, {so_they}always.", "ines")
        tell(memory, "One bite of kiwi and my lips go numb.", "ines")
        for danger in ("allergy", "medication", "intolerance"):
            memory.store.add_fact(f"karl.{danger}", f"what the doctor wrote on the {danger} card in March")
        memory.store.add_fact("door.code", "4711")
        memory.idle(60)
        block = block_before(memory, "What is the door code?", "karl")
        assert "4711" in block
        assert block.count("card in March") == 3
        block = tell(memory, "What is the door code?", "ines", "asked")
        assert block.count("I am allergic to") == 6
        assert "4711" in block


def test_what_was_told_in_confidence_stays_there(memory: Memory) -> None:
    """Food opens no secret, neither to another speaker nor where somebody else listens."""
    loop = AgentLoop(Listener(), hooks=memory.hooks(session_id="secret"), speaker="ines")
    loop.run("I'm allergic to walnuts.", private=True)
    memory.idle(60)
    assert "walnuts" in block_before(memory, "What shall we cook tonight?", "ines")
    for audience in ([], ["ines"]):
        assert "walnuts" not in tell(memory, "What shall we cook tonight?", "karl", f"k{audience}", audience)
    assert "walnuts" not in tell(memory, "What shall we cook tonight?", "ines", "both", ["karl"])


def test_a_lost_index_hides_no_danger(tmp_path: Path, hand: HandClock) -> None:
    """An allergy is told before idle time has made the index anew."""
    profile = edgemem.Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("ines.allergy", "walnuts", scope="household")
        memory.idle(5)
    for file in (tmp_path / "db").glob("index*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        assert "walnuts" in block_before(memory, "What shall we cook tonight?", "karl")


@pytest.mark.parametrize(
    "said",
    [
        "The queue at the pharmacy took an hour.", "I mustn't forget to post the letter.", "My sister studies medicine.",
        "Ich darf den Brief nicht vergessen.", "Am Ring bauen sie ein Krankenhaus.", "Nhà thuốc lại đóng cửa khi tôi đến.",
        "La farmacia estaba cerrada cuando fui.", "我妹妹在学医。", "I'm allergic to nothing.", "Ich bin gegen nichts allergisch.", "Wir haben keine Allergien, zum Glück.",
        "No soy alérgica a nada.", "Tôi không bị dị ứng gì cả.", "我对什么都不过敏。", "Am I allergic to eggs?",
        "who is allergic to eggs here",
    ],
)  # fmt: skip
def test_what_only_touches_medicine_is_no_danger(memory: Memory, said: str) -> None:
    """What nobody suffers from, takes or must leave is chat, and who only asks about an allergy has none."""
    tell(memory, said, "ines")
    memory.idle(60)
    assert block_before(memory, "Good morning!", "ines").count("\n") == 1  # what day it is, and no more


def test_the_profile_adds_words(tmp_path: Path, hand: HandClock) -> None:
    """What a robot's owner calls dangerous is told like the rest."""
    profile = patient(safety_keys=["magnet"])
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("grandpa.magnet", "stay away from the workshop")
        memory.store.add_fact("grandpa.chair", "the green one")
        memory.idle(60)
        assert "workshop" in block_before(memory, "Good morning!", "grandpa")


@pytest.mark.parametrize("count", [9, 22])
def test_no_danger_is_left_out_in_silence(memory: Memory, count: int) -> None:
    """Facts of a household all stand before a cook; of more, and of what was only said, one line tells how many and whose."""
    for n in range(count):
        memory.store.add_fact(f"guest{n}.alergia", f"food{n}", scope="household")
        tell(memory, f"I'm allergic to plant{n}.", f"said{n}")
    memory.idle(60)
    block = block_before(memory, "I want to cook for everybody tonight.", "ben")
    for n in range(count):
        assert f"food{n}\n" in block or f"guest{n}" in block
        assert f"plant{n}." in block or f"said{n}" in block
    assert block.count("more dangers") == 1
    if count > 20:
        tell(memory, "I want to cook for everybody tonight.", "ben", "cooking")
        (turn,) = memory.sessions.journal.read_turns("cooking")
        assert "more dangers" in turn.block
        for fact in memory.store.facts(scope="household"):
            if f"{fact.value}\n" not in block:
                memory.forget(key=fact.key, scope=fact.scope)
        assert not memory.sessions.journal.read_turns("cooking")[0].block
    assert "more dangers" not in block_before(memory, "Where did I park the car?", "ben")
    session = memory.session("search", speaker="ben", tools=memory.tools())
    with session.turn("Who is allergic to what?") as turn:
        found = turn.call(ToolCall("search_memory", {"query": "allergies"}))
        turn.reply("Much.")
    assert str(found).count("food") >= 9
