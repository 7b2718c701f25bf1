"""Traits: what a text shows at a glance."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.traits import (
    ASKS,
    COUNTS,
    GREETS,
    MOST_TIMES,
    NAMES,
    SAYS_I,
    traits_of,
    zone_at,
)

NOW = datetime(2026, 3, 18, 12, 0, tzinfo=timezone.utc).timestamp()  # a Wednesday


def marks(text):
    """Return the marks of a text."""
    return traits_of(text, NOW).marks


@pytest.mark.parametrize(
    ("mark", "with_it", "without"),
    [
        (
            ASKS,
            [
                "Where is it?",
                "你在哪里？",
                "Really? ",
                "I'd like to know where it is",
                "I wonder who did it.",
                "Sag mir wann",
                "告诉我",
            ],
            ["Where? There.", "It is here.", "", "I'd like to have it", "He told me", "a wonder"],
        ),
        (
            GREETS,
            [
                "Good morning!",
                "Guten Abend, Max",
                "buenos días",
                "Thanks, robot.",
                "早上好",
                "Hello. Good day",
            ],
            ["Good morning, the cat is ill", "Thanks for the cake", "", "Hi Anna, how are you", "night"],
        ),
        (
            SAYS_I,
            ["I lost it", "that's my cup", "WE went", "Ich gehe", "mi casa", "我喜欢茶"],
            ["You lost it", "the mix is in it", "She likes tea"],
        ),
        (COUNTS, ["we need 3 eggs", "Three eggs", "drei Eier", "三个", "once"], ["some eggs", "the tent"]),
        (NAMES, ["I met Ann there", "so, Müller came"], ["Ann came", "it rains. Then it stops", "all SMALL"]),
    ],
)
def test_marks(mark, with_it, without):
    """Each mark stands on the texts that show it, in each language, and on no other."""
    assert [text for text in with_it if not marks(text) & mark] == []
    assert [text for text in without if marks(text) & mark] == []


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("Hey Ann, where is the cup", "ann"),
        ("Thanks, Ann!", "thank ann"),
        ("That is great, Ann.", "ann"),
        ("Ann, have you seen it", "ann"),
        ("hello Ann", "hello ann"),
        ("I met Ann in town", ""),
        ("I met Ann in town and Ann was well", ""),
        ("Hey Ann, is Ann Smith your sister", ""),
        ("Ann is ill", ""),
        ("Yes, Ann left.", ""),
        ("I miss Ann!", ""),
        ("", ""),
    ],
)
def test_whom_a_text_speaks_to(text, called):
    """A name at the end of a clause is called; one that also stands within the text is spoken about."""
    found = set(traits_of(text, NOW).called.split())
    assert {"ann", "mari"} & found == {"ann", "mari"} & set(called.split())


def test_times_are_those_that_were_meant_then():
    """A day is counted from when it was said, and ends after it began."""
    ((begin, end, sure),) = traits_of("the doctor came yesterday", NOW).times
    local = datetime.fromtimestamp(NOW, zone_at(NOW))
    noon = datetime(local.year, local.month, local.day, 12, tzinfo=local.tzinfo).timestamp()
    assert begin < noon - 86400 < end <= noon
    assert end - begin == pytest.approx(86400, abs=3700)
    assert 0 < sure <= 1
    ((later, *_),) = traits_of("the doctor came yesterday", NOW + 86400).times
    assert later - begin == pytest.approx(86400, abs=3700)
    assert traits_of("the doctor came", NOW).times == ()


@pytest.mark.parametrize("at", [0.0, -1e18, 1e18, 1e308, float("inf"), float("nan"), 2**53])
def test_a_clock_that_is_wrong_does_no_harm(at):
    """No moment is too strange: there is a zone for it, and no time is noted that no calendar knows."""
    assert zone_at(at).utcoffset(None) is not None
    traits = traits_of("I saw Ann yesterday at 5", at)
    assert traits.marks == SAYS_I | COUNTS | NAMES
    assert len(traits.times) <= MOST_TIMES


hostile = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            ["hey ", "Ann", "a'", ", ", ".", "  ", "\n", "?", "yes, ", "Mr. ", "3", "？", "\x00"]
        ),
        max_size=200,
    ).map("".join),
)


@given(hostile, st.floats(0, 4e9))
def test_any_text_has_traits_that_fit_the_file(text, at):
    """Whatever is said, marks fit one byte, who is called has no signs but spaces, and times are numbers in order."""
    traits = traits_of(text, at)
    assert 0 <= traits.marks < 256
    assert traits.called.split(" ") == traits.called.split() or traits.called == ""
    for begin, end, sure in traits.times:
        assert begin <= end
        assert 0 < sure <= 1


@pytest.mark.parametrize(
    "piece", ["hey ", "a'", "Ann ", ", ", ",  ", "Mr. ", "a.", "A b, ", "yes ", "\n", "’"]
)
def test_endless_text_is_read_once(piece):
    """No pattern reads the same letters over and over: what is 100 kB long is done at once, or the test never ends."""
    assert traits_of(piece * 100_000, NOW).marks < 256


def test_only_a_few_times_are_noted():
    """Whoever lists many days has a few of them noted."""
    text = "on " + ", ".join(f"2026-03-{day:02}" for day in range(1, 20))
    assert len(traits_of(text, NOW).times) == MOST_TIMES


def test_of_a_long_text_the_beginning_counts():
    """What stands thousands of letters further on is not looked at."""
    assert marks("tea " * 1000 + "3?") == 0
    assert marks("3 teas? " + "tea " * 1000) == COUNTS


def test_who_is_called_twice_is_noted_once():
    """Each stem once, in the order of the text."""
    assert traits_of("Ann, Bob, Ann!", NOW).called == "ann bob"
