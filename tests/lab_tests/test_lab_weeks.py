"""The weeks of a household: large enough, right in what they say, the same everywhere, and in two sets of words."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from datetime import date, datetime, timedelta, timezone

import msgspec
import pytest

from lab import weeks_days
from lab.recall_cases import longmemeval
from lab.weeks import Question, Turn, Weeks, weeks
from lab.weeks_world import FormSet, facts, filled, forms_of, lines, world

BOTH: tuple[FormSet, FormSet] = ("learnt", "unseen")
BYTES = {
    "learnt": "c73b95b69cf131c5d8435afc53783d5abf6e53325a850324b7affe2b814304d2",
    "unseen": "ef69e8c98ba6a3027697e0c2c0691147bf7ff7b2d7fcdebd3f2d8d54762934ea",
}
"""Hashes of the weeks of seed 1. Whoever changes a word changes them, and every figure that was measured before."""

MONTHS = ["January", "February", "March", "April", "May", "June", "July"]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TENS = [
    "tenth",
    "eleventh",
    "twelfth",
    *(f"{n}teenth" for n in ["thir", "four", "fif", "six", "seven", "eigh", "nine"]),
]
ONES = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
ORDINALS = [*ONES, *TENS, "twentieth", *(f"twenty {n}" for n in ONES), "thirtieth", "thirty first"]
DATED = re.compile(rf"({'|'.join(WEEKDAYS)}) \d+ ({'|'.join(MONTHS)})")
"""An answer that is a day."""


@pytest.fixture(scope="module", params=BOTH)
def forms(request: pytest.FixtureRequest) -> FormSet:
    """Return the name of one set of forms, then of the other."""
    name: FormSet = request.param
    return name


@pytest.fixture(scope="module")
def made(forms: FormSet) -> Weeks:
    """Return the weeks of seed 1."""
    return weeks(1, forms)


def day(at: int) -> date:
    """Return the date of a moment, as UTC has it."""
    return datetime.fromtimestamp(at, timezone.utc).date()


def written(when: date) -> str:
    """Return a date as an answer gives it."""
    return f"{WEEKDAYS[when.weekday()]} {when.day} {MONTHS[when.month - 1]}"


def meant(text: str, today: date) -> date:
    """Read the one day that a sentence speaks of, on the day on which it is spoken."""
    low = text.lower()
    for words, days in (("today", 0), ("this morning", 0), ("an hour ago", 0), ("yesterday", -1),
                        ("last night", -1), ("tomorrow", 1)):  # fmt: skip
        if re.search(rf"(?<!weeks ago )(?<!week ago )\b{words}\b", low):
            return today + timedelta(days=days)
    monday = today - timedelta(days=today.weekday())
    names, numbers = "|".join(WEEKDAYS), "|".join(NUMBERS)
    if found := re.search(rf"\bon ({names}) in ({numbers}) weeks", text, re.IGNORECASE):
        weekday = WEEKDAYS.index(found[1].title())
        return monday + timedelta(weeks=NUMBERS.index(found[2].lower()), days=weekday)
    if found := re.search(
        rf"\b(on|this coming|this past|this|next|last) ({names})\b(?! the)", text, re.IGNORECASE
    ):
        weekday, word = WEEKDAYS.index(found[2].title()), found[1].lower()
        if word == "on":
            assert "of last week" in low
        week = {"next": 1, "last": -1, "on": -1}.get(word, 0)
        return monday + timedelta(weeks=week, days=weekday)
    if found := re.search(rf"\b(?:({numbers}) weeks|(a) week) ago today", low):
        return today - timedelta(weeks=1 if found[2] else NUMBERS.index(found[1]))
    if found := re.search(rf"\bin ({numbers}|a) (days?|weeks?)\b", low):
        count = 1 if found[1] == "a" else NUMBERS.index(found[1])
        return today + timedelta(days=count * (7 if found[2].startswith("week") else 1))
    ordinals = "|".join(sorted(ORDINALS, key=len, reverse=True))
    months = "|".join(MONTHS)
    found = re.search(rf"\bthe ({ordinals})(?! aid)(?: of ({months}))?", text, re.IGNORECASE)
    assert found, text
    number = ORDINALS.index(found[1].lower()) + 1
    if found[2]:
        return date(today.year, MONTHS.index(found[2].title()) + 1, number)
    # Without a month it is the next such day; it is told with its weekday.
    return next(d for d in (today + timedelta(days=n) for n in range(1, 32)) if d.day == number)


def evidence(made: Weeks, question: Question) -> list[Turn]:
    """Return the messages that answer a question."""
    turns = {turn.id: turn for turn in made.turns}
    return [turns[id_] for id_ in question.evidence]


def _about_people_alone(kind: str) -> bool:
    known = world().kinds[kind]
    return bool(known.people) and not known.things


def test_the_same_seed_gives_the_same_bytes(forms: FormSet, made: Weeks) -> None:
    """Whatever Python makes them, the weeks are the same to the byte; another seed makes others."""
    assert hashlib.sha256(msgspec.json.encode(made)).hexdigest() == BYTES[forms]
    assert weeks(2, forms).turns != made.turns


def test_both_sets_say_the_same_facts() -> None:
    """What is true does not depend on the words it is said in."""
    for category in ("present", "updated", "superseded"):
        answers = [
            sorted(q.answer for q in weeks(1, name).questions if q.category == category) for name in BOTH
        ]
        assert answers[0] == answers[1]


def frames_of(name: FormSet) -> list[str]:
    """Return all frames of a set, without those that are slots alone."""
    forms = forms_of(name)
    texts = [getattr(kind, field) for kind in forms.kinds.values() for field in kind.__struct_fields__
             if field not in {"things", "never"}]  # fmt: skip
    texts += [getattr(forms.talk, field) for field in forms.talk.__struct_fields__]
    return [frame for text in texts for frame in lines(text) if re.sub(r"\{\w+\}|\W", "", frame)]


def test_the_sets_share_no_sentence_frame() -> None:
    """No frame is in both, slots and signs aside, nor any five words in a row between slots."""
    alike = [{" ".join(re.findall(r"[\w']+", re.sub(r"\{\w+\}", "_", frame).lower())) for frame in frames_of(name)}
             for name in BOTH]  # fmt: skip
    assert not alike[0] & alike[1]
    runs: list[set[tuple[str, ...]]] = [set(), set()]
    for name, found in zip(BOTH, runs, strict=True):
        for frame in frames_of(name):
            for part in re.split(r"\{\w+\}", frame.lower()):
                words = re.findall(r"[\w']+", part)
                found.update(tuple(words[i : i + 5]) for i in range(len(words) - 4))
    assert min(map(len, runs)) > 1000
    assert not runs[0] & runs[1]


def test_the_sets_share_no_name_of_a_thing() -> None:
    """Neither what a thing is told by nor what it is asked by is in both sets."""
    names = [
        {name for kind in forms_of(one).kinds.values() for pair in lines(kind.things, " / ") for name in pair.split(" = ")}
        for one in BOTH
    ]  # fmt: skip
    assert min(map(len, names)) > 200
    assert not names[0] & names[1]


def test_evidence_contains_the_answer(made: Weeks) -> None:
    """The words that answer stand in a message of the evidence, and it was said before anybody asks."""
    for question in made.questions:
        found = evidence(made, question)
        assert len(found) == len(question.evidence)
        assert all(turn.at < question.at for turn in found)
        if question.said:
            assert any(question.said.lower() in turn.text.lower() for turn in found), question
        if question.category in {"present", "updated", "superseded"} and not DATED.match(question.answer):
            assert question.said == question.answer
        assert bool(question.evidence) == bool(question.answer) == (question.category != "off_topic")


def test_who_said_or_did_it_is_told_by_the_evidence(made: Weeks) -> None:
    """The answer is whoever speaks, or whom the message names."""
    for question in made.questions:
        if question.category == "who":
            (*_, last) = evidence(made, question)
            assert question.answer == last.speaker or question.answer in last.text


def without_small_talk(text: str, forms: FormSet) -> str:
    """Return a message without the line of small talk before it, which may speak of a day of its own."""
    for small in lines(forms_of(forms).talk.small):
        pattern = ".+?".join(map(re.escape, re.split(r"\{\w+\}", small)))
        text = re.sub(rf"^{pattern} ", "", text)
    return text


def test_dates_are_right(forms: FormSet, made: Weeks) -> None:
    """A day as it was spoken, read on the day of the telling, is the day of the answer."""
    counted: Counter[str] = Counter()
    for question in made.questions:
        if question.category not in {"when", "on_day", "superseded"}:
            continue
        told = evidence(made, question)[-1]
        if question.category == "on_day":
            counted["on_day"] += 1
            assert meant(question.text, day(question.at)) == meant(
                without_small_talk(told.text, forms), day(told.at)
            ), (question, told)
        elif not question.said:
            counted["told"] += 1
            assert question.answer == written(day(told.at))
        elif DATED.match(question.answer):
            counted["spoken"] += 1
            assert question.answer.split(",")[0] == written(meant(question.said, day(told.at))), (
                question,
                told,
            )
    assert counted["on_day"] == 40
    assert min(counted.values()) >= 20


def test_superseded_facts_are_answered_by_the_right_version(made: Weeks) -> None:
    """What is true now stands in the last telling, what was true in one before it, and not the other way round."""
    known = [
        (weeks_days.day_of(version.told), version.value, version is fact.versions[-1], len(fact.versions) > 1)
        for fact in facts(1)
        for version in fact.versions
        if version.date is None
    ]
    wanted = {"present": (True, False), "updated": (True, True), "superseded": (False, True)}
    for question in made.questions:
        if question.category in wanted and question.said == question.answer:
            when = day(evidence(made, question)[-1].at)
            assert (when, question.answer, *wanted[question.category]) in known, question


def test_off_topic_things_were_never_told(forms: FormSet, made: Weeks) -> None:
    """What is asked without an answer is a thing nobody named, an attribute nobody has, or told of others only."""
    texts = " ".join(turn.text for turn in made.turns).lower()
    told = {(fact.kind, fact.holder) for fact in facts(1)}
    someone, *_ = world().people
    strange, lacking = set(), set()
    for name, kind in forms_of(forms).kinds.items():
        for frame in lines(kind.ask):
            if kind.never:
                assert kind.never.lower() not in texts
                strange.add(filled(frame, speaker=someone, thing=kind.never, **{"is": "is", "does": "does"}))
            elif _about_people_alone(name):
                lacking.update(filled(frame, speaker=asker, holder=who) for who in world().people
                               for asker in world().people if (name, who) not in told)  # fmt: skip
    unknown = {filled(frame, speaker=asker, holder=who) for frame in lines(forms_of(forms).talk.off)
               for who in world().people for asker in world().people}  # fmt: skip
    asked = {question.text for question in made.questions if question.category == "off_topic"}
    assert asked <= strange | lacking | unknown
    assert all(len(asked & some) >= 10 for some in (strange, lacking, unknown))


def test_sessions_go_forward_in_time(made: Weeks) -> None:
    """Two sessions a day, each message after the one before; no slot is left, and what goes into it fits."""
    assert [turn.at for turn in made.turns] == sorted(turn.at for turn in made.turns)
    assert len({turn.id for turn in made.turns}) == len(made.turns)
    assert len({turn.session for turn in made.turns}) == 140
    assert all((turn.speaker is None) == (turn.role != "user") for turn in made.turns)
    assert {turn.role for turn in made.turns} == {"user", "assistant", "tool"}
    broken = r"[{}]|\b(for|to|than|of|has|until|by) (on|in|at|next|tomorrow|today|behind)\b|\b(the|an?|my) (the|an?|my)\b"
    assert [turn.text for turn in made.turns if turn.role != "tool" and re.search(broken, turn.text)] == []
    assert all(turn.text[0].isupper() or turn.role == "tool" for turn in made.turns)


def test_the_form_of_longmemeval() -> None:
    """A record for each question has the official fields, ids by which the scorer knows evidence, and no tools."""
    at = int(datetime(2026, 3, 2, 7, 5, tzinfo=timezone.utc).timestamp())
    made = Weeks(
        (
            Turn("s1.1", "s1", at, "Jo", "user", "The saw is in the shed."),
            Turn("s1.2", "s1", at + 9, None, "tool", "{}"),
            Turn("s1.3", "s1", at + 10, None, "assistant", "Noted."),
            Turn("s2.1", "s2", at + 86_400, "Oleg", "user", "Hello."),
        ),
        (
            Question("q1", "Where is it?", "Oleg", at + 2 * 86_400, "updated", ("s1.1",), "in the shed", "in the shed"),
            Question("q2", "Who?", "Jo", at + 2 * 86_400, "off_topic", (), ""),
        ),
    )  # fmt: skip
    dates = ["2026/03/02 (Mon) 07:05", "2026/03/03 (Tue) 07:05"]
    other = [{"role": "user", "content": "Oleg: Hello."}]
    assert longmemeval(made) == [
        {
            "question_id": "q1",
            "question_type": "knowledge-update",
            "question": "Oleg: Where is it?",
            "answer": "in the shed",
            "question_date": "2026/03/04 (Wed) 07:05",
            "haystack_session_ids": ["answer_s1", "s2"],
            "haystack_dates": dates,
            "haystack_sessions": [
                [
                    {"role": "user", "content": "Jo: The saw is in the shed.", "has_answer": True},
                    {"role": "assistant", "content": "Noted.", "has_answer": False},
                ],
                other,
            ],
            "answer_session_ids": ["answer_s1"],
        },
        {
            "question_id": "q2_abs",
            "question_type": "single-session-user",
            "question": "Jo: Who?",
            "answer": "Nobody has said so.",
            "question_date": "2026/03/04 (Wed) 07:05",
            "haystack_session_ids": ["s1", "s2"],
            "haystack_dates": dates,
            "haystack_sessions": [
                [
                    {"role": "user", "content": "Jo: The saw is in the shed."},
                    {"role": "assistant", "content": "Noted."},
                ],
                other,
            ],
            "answer_session_ids": [],
        },
    ]
