"""The fallback for a person who is faster than all idle work: what it keeps, and how little it does for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from word_tokenizer import WordTokenizer

import edgemem
from edgemem.bench.ground import KEEP_PLAN, Robot
from edgemem.config import Profile
from edgemem.context.grouping import repair_orphans
from edgemem.context.quick_summary import QuickSummarizer
from edgemem.hooks.conversation import conversation_of
from edgemem.script import Line, ScriptedCall


class CountingTokenizer(WordTokenizer):
    """Counts how often it renders, how often it tokenises a bare text, and how many tokens that makes."""

    def __init__(self) -> None:
        super().__init__()
        self.renderings = self.encodings = self.tokens = 0
        self._within = False

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        ids = super().encode(text, special=special)
        if not self._within:
            self.encodings += 1
            self.tokens += len(ids)
        return ids

    def count(self, messages: Any, **settings: Any) -> int:
        self._within = True
        try:
            self.renderings += 1
            tokens = super().count(messages, **settings)
        finally:
            self._within = False
        self.tokens += tokens
        return tokens


def said(text: str, name: str = "Alice") -> dict[str, Any]:
    """Return what a person said."""
    return {"role": "user", "name": name, "content": text}


def test_it_keeps_what_people_told_and_what_was_known_before() -> None:
    """Facts stay with who told them; small talk, questions and the robot's own words go."""
    turns = [
        [said("Good morning! How are you?"), {"role": "assistant", "content": "Hello Alice! I am fine."}],
        [said("I'm allergic to peanuts."), {"role": "assistant", "content": "The house has 3 floors."}],
        [said("My dentist appointment is on Tuesday at 3 pm.")],
        [said("No, the dentist appointment moved to Thursday.")],
    ]
    summary = QuickSummarizer(WordTokenizer()).summarize(
        turns, max_tokens=60, previous="Bob: I moved to Bonn in 2019."
    )
    lines = summary.splitlines()
    assert lines[0] == "Bob: I moved to Bonn in 2019."
    assert "Alice: I'm allergic to peanuts." in lines
    assert "Tuesday" not in summary
    assert "Thursday" in summary
    assert "floors" not in summary
    assert "?" not in summary


@given(
    st.lists(st.lists(st.text(max_size=200).map(said), min_size=1, max_size=3), max_size=8),
    st.integers(1, 80),
    st.text(max_size=200),
)
def test_it_never_takes_more_than_its_budget(
    turns: list[list[dict[str, Any]]], budget: int, previous: str
) -> None:
    """Whatever was said, the summary has at most the tokens planned for it, after four counts at most."""
    tokenizer = CountingTokenizer()
    summary = QuickSummarizer(tokenizer).summarize(turns, max_tokens=budget, previous=previous)
    assert tokenizer.encodings <= 4
    assert len(tokenizer.encode(summary)) <= budget or not summary


def test_long_talk_costs_no_more_than_short_talk() -> None:
    """Of a thousand turns it reads the newest few."""
    turns = [[said(f"I put cup number {n} into drawer {n} behind the kettle.")] for n in range(1000)]
    tokenizer = CountingTokenizer()
    summary = QuickSummarizer(tokenizer).summarize(turns, max_tokens=100)
    assert "999" in summary
    assert "drawer 5 " not in summary
    assert tokenizer.tokens < 400


@pytest.mark.parametrize("tools", [False, True])
def test_a_turn_that_does_not_fit_is_fitted_by_two_counts(tmp_path: Path, tools: bool) -> None:
    """Without any idle work prompts fit all the same, the summary stands, and the whole takes two counts and a few texts."""
    plain = Profile()
    replace = msgspec.structs.replace
    profile = replace(
        plain,
        llama=replace(plain.llama, embedder=""),
        context=replace(
            plain.context, window_tokens=700, reply_tokens=80, block_tokens=20, summary_tokens=60
        ),
    )
    tokenizer = CountingTokenizer()
    with edgemem.open(tmp_path, profile=profile, tokenizer=tokenizer, worker=False) as memory:
        robot = Robot(memory.hooks(session_id="kitchen", speaker="mara"), tools=[KEEP_PLAN])
        layout = None
        fitted = 0
        for n in range(130):
            call = ScriptedCall("keep_plan", {"text": f"plan {n}", "who": "mara"}, f"kept plan {n}")
            epoch = layout.epoch if layout is not None else None
            tokenizer.renderings = tokenizer.encodings = tokenizer.tokens = 0
            handed = robot.turn(
                Line(
                    f"The {n}th cup stands in drawer {n}, behind the old kettle.",
                    speaker="mara",
                    reply=f"Cup {n} it is.",
                    tools=(call,) if tools else (),
                )
            ).handed
            robot.check()
            layout = conversation_of(robot.loop.ctx).layout
            assert all(tokenizer.count(one, tools=robot.schemas) <= 620 for one in handed)
            assert all(repair_orphans(one) == one for one in handed)
            if epoch is not None and layout.epoch is not epoch:
                fitted += 1
                assert layout.epoch.reason == "did not fit"
                assert "behind the old kettle" in layout.epoch.summary
                # Our own counts just now come to one for each hop; the budget counted no prompt again.
                assert tokenizer.renderings - len(handed) <= 2 + len(handed[1:])
                assert tokenizer.encodings <= 12
        assert fitted >= 3
        assert memory.idle(60)
        (found, *_) = memory.recall("the 0th cup stands in drawer 0", kinds=("turn",))
        assert "drawer 0" in found.text
