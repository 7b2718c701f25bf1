"""Extractive summaries: sentences that were said, picked in idle time or within a turn."""

import functools
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.compaction.extractive import ExtractiveSummarizer
from edgemem.context.sentences import split_sentences, tool_lines
from edgemem.fence import fence
from support.tokenizers import WordTokenizer


def utterance(text: str, name: str = "Alice") -> dict[str, Any]:
    return {"role": "user", "name": name, "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def summary_of(*turns: list[dict[str, Any]], max_tokens: int = 200, previous: str = "") -> str:
    return ExtractiveSummarizer(WordTokenizer()).summarize(turns, max_tokens=max_tokens, previous=previous)


KITCHEN = [
    [utterance("Good morning! How are you?"), reply("Hello Alice! I am fine.")],
    [utterance("I'm allergic to peanuts. Please remember that."), reply("I will remember it.")],
    [utterance("My dentist appointment is on Tuesday at 3 pm with Dr. Brown."), reply("Noted.")],
    [utterance("Bob and I decided to cook lasagna on Saturday.", "Bob"), reply("That sounds tasty!")],
    [utterance("What is the capital of France?"), reply("Paris is the capital of France.")],
    [utterance("No, the dentist appointment moved to Thursday."), reply("Changed.")],
]


def test_facts_stay_and_small_talk_goes() -> None:
    """A tight summary holds the allergy and the plan, attributed, in the order in which they were said."""
    summary = summary_of(*KITCHEN, max_tokens=40)
    lines = summary.splitlines()
    assert "Alice: I'm allergic to peanuts." in lines[0]
    assert "Bob: Bob and I decided to cook lasagna on Saturday." in lines
    assert "morning" not in summary
    assert "?" not in summary


def test_the_newest_wins_over_what_it_corrects() -> None:
    """The moved appointment stands in the summary, the old date does not; another number needs no cue."""
    summary = summary_of(*KITCHEN)
    assert "Alice: No, the dentist appointment moved to Thursday." in summary
    assert "Tuesday" not in summary
    summary = summary_of([utterance("My locker code is 4711.")], [utterance("My locker code is 1234.")])
    assert summary == "Alice: My locker code is 1234."


def test_two_people_do_not_correct_each_other_about_themselves() -> None:
    """What Bob says of himself leaves Alice's words alone, even the same sentence; so does a wrong echo by the robot."""
    mine, bobs = utterance("I take 2 pills each day."), utterance("I take 3 pills each day.", "Bob")
    summary = summary_of([mine], [bobs])
    assert summary.splitlines() == ["Alice: I take 2 pills each day.", "Bob: I take 3 pills each day."]
    same = summary_of([utterance("I'm allergic to nuts.")], [utterance("I'm allergic to nuts.", "Bob")])
    assert len(same.splitlines()) == 2
    summary = summary_of([utterance("Alice's locker code is 4711."), reply("Alice's locker code is 4712.")])
    assert "Alice: Alice's locker code is 4711." in summary


def test_what_is_said_twice_stands_once() -> None:
    """Of two equal sentences the newest stays; neither a question nor the robot's echo displaces it."""
    fact = "The spare key hangs behind the blue door."
    friend = utterance("Anna, a friend, is here.")
    assert summary_of([utterance(fact)], [friend], [utterance(fact)]).count(fact) == 1
    question = utterance("The spare key hangs behind the blue door?")
    asked = summary_of([utterance(fact), reply(fact)], [question])
    assert asked.splitlines()[0] == f"Alice: {fact}"
    assert "Robot" not in asked


def test_injected_blocks_and_thoughts_are_never_picked() -> None:
    """What memory put into a message, and what a model thought, was said by nobody."""
    block = fence(["- bob's pin: 9999", "- alice likes figs"], header="Known:")
    thought = reply("<think>The user has 3 cats in Rome.</think>Welcome to Bonn!")
    summary = summary_of([utterance(block + "I moved to Bonn in 2019."), thought])
    assert "9999" not in summary
    assert "cats" not in summary
    assert "Alice: I moved to Bonn in 2019." in summary


def test_tool_calls_take_one_line() -> None:
    """A call and its result become `name -> outcome`, clipped; one that was cut off says so."""
    calls = [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "oven", "arguments": "{}"}},
    ]
    turn = [
        utterance("Is it warm?"),
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "18 degrees\n" + "sunny " * 100},
    ]
    lines = tool_lines(turn)
    assert lines[0].startswith("weather -> 18 degrees sunny")
    assert len(lines[0]) < 120
    assert lines[1:] == ["oven -> no result: interrupted"]
    assert "oven -> no result: interrupted" in summary_of(turn).splitlines()


def test_an_earlier_summary_competes_and_does_not_pile_up() -> None:
    """Fifty rounds on top of each other stay within the budget, and the allergy survives them all."""
    tokenizer = WordTokenizer()
    summarizer = ExtractiveSummarizer(tokenizer)
    summary = summarizer.summarize(KITCHEN, max_tokens=80)
    for n in range(50):
        said = utterance(f"Today the neighbour's cat number {n} sat on the red sofa.")
        turns = [[said, reply("How nice!")]]
        summary = summarizer.summarize(turns, max_tokens=80, previous=summary)
        assert len(tokenizer.encode(summary)) <= 80
    assert "I'm allergic to peanuts." in summary
    assert "number 49" in summary


def test_nothing_in_nothing_out() -> None:
    """Empty turns, empty phrases, no room and a stop flag, wherever it is raised, all give an empty text."""
    summarizer = ExtractiveSummarizer(WordTokenizer())
    assert summarizer.summarize([], max_tokens=100) == ""
    assert summarizer.summarize([[]], max_tokens=100) == ""
    assert summarizer.summarize([[utterance("  "), reply("Okay.")]], max_tokens=100) == ""
    assert summarizer.summarize(KITCHEN, max_tokens=1) == ""
    for after in range(12):
        looks = itertools.count()
        stop = functools.partial(lambda looks, after: next(looks) >= after, looks, after)
        assert ExtractiveSummarizer(WordTokenizer()).summarize(KITCHEN, max_tokens=100, stop=stop) == ""


texts = st.text(st.sampled_from("ab Ñ日本 \n.!?。…'\"0123:->/<|"), max_size=60) | st.sampled_from(
    ["I live in Bonn. My cat is 3.", "No, on Friday.", "Dr. Who is in.", "user: hi", "x" * 700, "word " * 200]
)
messages = st.builds(
    lambda role, text: {"role": role, "content": text},
    st.sampled_from(["user", "assistant", "tool", "system"]),
    texts,
)
turns = st.lists(st.lists(messages, max_size=4), max_size=5)


@given(turns, st.integers(0, 60))
def test_a_summary_is_word_for_word_within_its_budget_and_repeatable(
    conversation: list[list[dict[str, Any]]], max_tokens: int
) -> None:
    """Whatever was said: each sentence stands in the source, tokens are exact, the same input gives the same text."""
    tokenizer = WordTokenizer()
    summary = ExtractiveSummarizer(tokenizer).summarize(conversation, max_tokens=max_tokens)
    assert len(tokenizer.encode(summary)) <= max_tokens
    assert ExtractiveSummarizer(WordTokenizer()).summarize(conversation, max_tokens=max_tokens) == summary
    sources = [str(m["content"]) for turn in conversation for m in turn if m["role"] in ("user", "assistant")]
    for line in summary.splitlines():
        speaker, _, text = line.partition(": ")
        assert speaker in ("Somebody", "Robot")
        for sentence in split_sentences(text):
            assert any(sentence in source for source in sources)


def test_a_megabyte_of_speech_is_summarised_within_its_budget() -> None:
    """The comparison of all pairs is bounded, so a huge utterance costs a bounded time."""
    flood = " ".join(f"I put box {n} on shelf {n % 7} in room {n % 3}." for n in range(6_000))
    tokenizer = WordTokenizer()
    summary = ExtractiveSummarizer(tokenizer).summarize([[utterance(flood)]], max_tokens=120)
    assert 60 < len(tokenizer.encode(summary)) <= 120


@pytest.mark.parametrize(
    "text",
    [
        "Der Termin ist am 3. Mai um acht.", "Am 3. 5. um acht Uhr kommt Herr Weber.", "Es sind ca. 10 km bis zur Hütte.",
        "Obst, z. B. Birnen, mag sie.", "Wir nehmen z.B. Birnen.", "Dr. Weber wohnt schon im 2. Stock.",
        "Das war der 3. Versuch.", "Im 19. Jahrhundert stand hier eine Mühle, d. h. Ruinen gibt es.",
        "Seit dem 1. Januar gilt das, inkl. Samstag.", "Zimmer Nr. 12 ist frei.",
        "Frau Weber, geb. Müller, wohnt in der Str. 5.", "El Sr. Ortega y la Dra. Ruiz viven en la Avda. Colón.",
        "Trae fruta, p. ej. Manzanas.", "Está en la pág. 12 del libro.", "Ud. Sabe que EE. UU. Ganó.",
        "Chúng tôi sống ở TP. Hồ Chí Minh với BS. Lan.", "Room no. 12 is free, says Mrs. Hill.", "三月三号下午3.5小时",
    ],
)  # fmt: skip
def test_dates_and_abbreviations_do_not_end_a_sentence(text: str) -> None:
    """A full stop after an ordinal or an abbreviation of any of the five languages is none."""
    assert split_sentences(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Ich bin 30. Morgen gehe ich aus.", "Der Code ist 4711. Bring Milch mit.", "Der Bus kommt um 8. Wir müssen los.",
        "Komm bis zum 15. Dann gehen wir.", "Der Versuch gelang am 3. Es war schön.", "I am 30. May I come in?",
        "The code is 12. April told me.", "The answer was a clear no. Ask me again.", "Tengo 30. Mañana salgo.",
        "Tôi 30 tuổi. Mai tôi đi.", "I like art. Do you?", "I met Max. He was late.",
        "Con chào bà ạ. Con đi học đây.", "我三十岁。明天我出门。",
    ],
)  # fmt: skip
def test_a_number_ends_a_sentence_all_the_same(text: str) -> None:
    """A number that counts nothing, and a word that is only written like an abbreviation, end a sentence."""
    assert len(split_sentences(text)) == 2
