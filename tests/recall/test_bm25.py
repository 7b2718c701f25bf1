"""Words, questions and full text."""

from __future__ import annotations

from collections import Counter
from math import log
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.sources import EPISODE, FACT, KINDS, TURN
from edgemem.recall.index.state import FIRST_OTHER
from edgemem.recall.people.phonetics import TermWeight
from edgemem.recall.query import parse_query
from edgemem.recall.search.table import DocTable, Row
from edgemem.recall.search.view import Filter, View
from edgemem.recall.search.words import (
    K1,
    MAX_MATCHES,
    MAX_TERMS,
    B,
    Statistics,
    note_bm25,
)
from edgemem.recall.text.analyse import MAX_CHARS, stem
from edgemem.records import Reader


def test_in_a_small_memory_a_common_word_still_finds():
    """Where one of two texts holds a word, the word is worth something; where nothing is known, nothing breaks."""
    assert Statistics(docs=2, terms=9, counts={"cup": 1}).idf(1) > 0.5
    assert Statistics(docs=1, terms=9, counts={"cup": 1}).idf(1) > 0.1
    assert Statistics(docs=0, terms=0, counts={}).idf(0) > 0


def test_common_words_are_left_out_when_others_tell_more():
    """Terms are taken from the rarest on until they match too much; one is always taken."""
    stats = Statistics(docs=50_000, terms=500_000, counts={"rare": 3, "known": 900, "common": MAX_MATCHES})
    assert stats.informative(["common", "nowhere", "known", "rare"]) == ["rare", "known"]
    assert stats.informative(["common"]) == ["common"]
    many = [f"t{n}" for n in range(99)]
    assert len(Statistics(99, 99, dict.fromkeys(many, 1)).informative(many)) == MAX_TERMS


def test_names_of_speakers_are_not_looked_for():
    """The name of a person who speaks here matches everything; it says whom the question is about instead."""
    question = parse_query("What did Alice's doctor say?").resolved(people={"alice", "Bob Miller"})
    assert question.terms == (stem("doctor"), stem("say"))
    assert question.people == {"alice"}
    assert question.meaning == "What did doctor say?"
    assert parse_query("Call Bob Miller").resolved(people={"Bob Miller"}).people == {"Bob Miller"}
    assert parse_query("Call Bob").resolved(people={"Bob Miller"}).people == frozenset()


def test_a_question_of_a_name_alone_keeps_it():
    """Where nothing else is said, the name is what is looked for."""
    question = parse_query("And Alice?").resolved(people={"alice"})
    assert question.terms == ("alic",)
    assert question.meaning == "And Alice?"


def test_who_says_i_is_meant():
    """A question with "my" in it is about the reader, if the voice is known."""
    assert parse_query("what are my allergies").resolved(reader="alice").people == {"alice"}
    assert parse_query("what are allergies").resolved(reader="alice").people == frozenset()


def test_words_of_a_date_that_stand_nowhere_are_not_looked_for():
    """Else they would be the rarest words of a question, and no text could have much of it; alone they are all that was said."""
    question = parse_query("What was the safe code in March?", 1.79e9).resolved()
    assert question.terms == ("safe", "code", "march")
    assert question.but({"march"}).terms == ("safe", "code")
    assert question.but({"safe"}).terms == question.terms
    alone = parse_query("Where was it in March?", 1.79e9).resolved()
    assert alone.but({"march"}).terms == alone.terms == ("march",)


@pytest.mark.parametrize("text", ["", "   ", "\0", "?!", "what is it", "\ud800"])
def test_questions_that_say_nothing(text):
    """Nothing is looked for, and nothing breaks."""
    assert parse_query(text).resolved().terms == ()


def test_of_a_long_text_the_end_counts():
    """A megabyte is cut; people ask at the end."""
    question = parse_query("noise " * 200_000 + "where is the key").resolved()
    assert len(question.meaning) <= MAX_CHARS
    assert question.terms[-1] == stem("key")


@pytest.mark.parametrize(
    ("text", "past"),
    [
        ("Where do we keep the drill these days?", False),
        ("Who told you most recently?", False),
        ("Where did it use to be, and not now?", True),
        ("Where was it?", True),
        ("Wo war der Bohrer früher?", True),
        ("以前在哪里?", True),
        ("Where is the drill?", False),
        ("The nowhere wash", False),
    ],
)
def test_whether_a_question_asks_for_the_past(text, past):
    """Words tell it, in each language."""
    assert parse_query(text).resolved().in_past == past


WORDS = ("cup", "kettle", "peanut", "garden")
READERS = (None, Reader("ann"), Reader("ann", frozenset({"bob"})), Reader("bob"), Reader(None))


class Text(NamedTuple):
    """A text, as far as matching looks at it."""

    id: int
    kind: int
    session: int | None
    turn: int | None
    level: int
    owner: str | None
    past: bool
    words: tuple[str, ...]
    shown: bool = True
    """Whether it may be found."""

    @property
    def length(self) -> int:
        """Return how many words it has; none where it may not be found, so that those of others do not count."""
        return len(self.words) if self.shown else 0


def saturated(times, length, average):
    """Return the heart of BM25."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * length / average))


def columns_of(texts):
    """Return texts as columns."""
    columns = DocTable()
    for t in texts:
        who = t.owner
        columns.append(
            Row(t.id, t.kind, t.id, t.level, t.owner, who, t.session, t.turn, 0.0, int(t.past), None, None, 0, None, None, t.length)
        )  # fmt: skip
    return columns


def seen(columns):
    """Return columns as the operator sees them."""
    return View(columns, Filter(None))


def occurrences(columns, texts, asked):
    """Return where terms stand."""
    places = []
    for term in asked:
        some = {t.id: t.words.count(term) for t in texts if term in t.words}
        if some:
            places.append((term, columns.slots_of(some), np.array(list(some.values()), np.float32)))
    return places


def matched_in(view, where, statistics, weight=1.0):
    """Return the BM25 of terms that were each said, by text, window and session."""
    asked = {name: TermWeight(weight, statistics.counts[name]) for name, _, _ in where}
    note_bm25(view, where, asked, statistics)
    return view.words, view.window, view.session


def statistics_of(texts):
    """Return how common words are in texts."""
    counts = Counter(word for t in texts for word in set(t.words))
    return Statistics(docs=len(texts), terms=sum(len(t.words) for t in texts), counts=counts)


def beside(texts, of, step):
    """Return the message so many after another one of its session, if it may be found."""
    for t in texts:
        if t.kind == of.kind == TURN and t.id == of.id + step and t.session == of.session and t.shown:
            return t
    return None


def by_hand(texts, asked, statistics):
    """Return what `bm25_scores` should, in plain Python: by number, by number, by session."""
    average = max(1.0, statistics.terms / max(1, statistics.docs))
    weight = {term: statistics.idf(statistics.counts[term]) for term in asked}
    own, window, session = {}, {}, {}
    for t in texts:
        if t.shown:
            own[t.id] = sum(weight[w] * saturated(t.words.count(w), t.length, average) for w in asked)
    for t in texts:
        if t.shown and t.kind == TURN:
            three = [t, *(other for step in (-1, 1) if (other := beside(texts, t, step)))]
            if any(own[other.id] > 0 for other in three):
                long = sum(other.length for other in three)
                window[t.id] = sum(
                    weight[w] * saturated(sum(o.words.count(w) for o in three), long, 3 * average)
                    for w in asked
                )
    all_sessions = {t.session for t in texts if t.session is not None}
    lengths = {s: sum(t.length for t in texts if t.session == s) for s in all_sessions}
    times = {
        s: Counter(w for t in texts if t.session == s and t.shown for w in t.words) for s in all_sessions
    }
    heard_of = max(1, sum(1 for length in lengths.values() if length))
    for s in all_sessions:
        mean = max(1.0, sum(lengths.values()) / heard_of)
        session[s] = 0.0
        for w in asked:
            n = sum(1 for each in times.values() if each[w])
            rare = log(1 + (heard_of - n + 0.5) / (n + 0.5))
            session[s] += rare * saturated(times[s][w], lengths[s], mean)
    return own, window, session


words = st.lists(st.sampled_from((*WORDS, "x", "y")), max_size=7).map(tuple)
messages = st.tuples(
    st.sampled_from([True, True, True, False]),  # whether there is one of this number
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2),
    st.sampled_from([None, "ann", "bob"]),
    words,
)
others = st.tuples(st.sampled_from([FACT, EPISODE]), st.integers(0, 2), st.booleans(), words)


@given(
    st.lists(messages, max_size=12),
    st.lists(others, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from(READERS),
    st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(KINDS.values())))),
    st.frozensets(st.integers(1, 4)),
    st.booleans(),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True),
)
def test_scores_are_those_of_plain_python(talk, facts, order, reader, kinds, turns, past, asked):
    """In whatever order texts came and whoever asks, texts, windows and sessions have the BM25 that the formula gives."""
    texts = [
        Text(n, TURN, session, turn, level, owner, past=False, words=said)
        for n, (there, session, turn, level, owner, said) in enumerate(talk, start=1)
        if there
    ]
    texts += [
        Text(FIRST_OTHER + n, kind, None, None, level, "ann", over, said)
        for n, (kind, level, over, said) in enumerate(facts)
    ]
    order.shuffle(texts)
    only = Filter(reader, kinds=kinds, session_id=2, turns=turns, past=past)
    all_columns = columns_of(texts)
    may = View(all_columns, only).may[:-1]
    statistics = statistics_of(texts)
    texts = [t._replace(shown=bool(shown)) for t, shown in zip(texts, may, strict=True)]
    columns = columns_of(texts)
    found = matched_in(View(columns, only), occurrences(columns, texts, asked), statistics)
    own, window, session = by_hand(texts, asked, statistics)
    slot_of = dict(zip([t.id for t in texts], columns.slots_of([t.id for t in texts]), strict=True))
    for scores, expected in ((found[0], own), (found[1], window)):
        assert len(scores) == columns.n + 1
        assert scores[-1] == 0
        for t in texts:
            assert scores[slot_of[t.id]] == pytest.approx(expected.get(t.id, 0.0), rel=1e-4, abs=1e-6)
    assert len(found[2]) == columns.sessions
    assert found[2][0] == 0
    for t in texts:
        if t.session is not None:
            code = columns.rows["session"][slot_of[t.id]]
            assert found[2][code] == pytest.approx(session[t.session], rel=1e-4, abs=1e-6)


def talk(*said, level=0, session=1):
    """Return messages of one session, one after another."""
    return [
        Text(n, TURN, session, n, level, "ann", past=False, words=tuple(text.split()))
        for n, text in enumerate(said, start=1)
    ]


def test_a_term_counts_as_much_as_it_is_worth():
    """What may only have been misheard counts less in texts, windows and sessions alike, and what is rarer more."""
    texts = talk("cup", "x", "kettle")
    columns, statistics = columns_of(texts), statistics_of(texts)
    where = occurrences(columns, texts, ["cup"])
    whole, half = (matched_in(seen(columns), where, statistics, weight) for weight in (1.0, 0.5))
    for scores, other in zip(whole, half, strict=True):
        assert other.tolist() == pytest.approx([score / 2 for score in scores])
    assert whole[0].tolist()[1:] == [0, 0, 0]
    rarer = seen(columns)
    note_bm25(rarer, where, {"cup": TermWeight(1.0, 0.5)}, statistics)
    assert rarer.words[0] > whole[0][0]


def beside_hidden(text):
    """Return what ann finds beside and in the session of what bob said in private."""
    texts = talk("cup x", text, "kettle", "x", "garden cup")
    texts[1] = texts[1]._replace(level=2, owner="bob")
    columns = columns_of(texts)
    statistics = Statistics(docs=5, terms=9, counts={"cup": 2})
    where = occurrences(columns, texts, ["cup"])
    return [each.tolist() for each in matched_in(View(columns, Filter(Reader("ann"))), where, statistics)]


def test_the_words_of_a_hidden_text_find_nothing():
    """Whether somebody else said the word in private, beside a message and in its session, makes no difference."""
    assert beside_hidden("cup cup cup") == beside_hidden("x x x")
