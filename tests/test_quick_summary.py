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
from edgemem.hooks.compaction import ContextCompactionHook
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


talks = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "assistant"]),
            st.sampled_from(["I live in Bonn. My cat is 3.", "No, on Friday.", "And you?", "Hm."])
            | st.text(max_size=80),
        ),
        min_size=1,
        max_size=4,
    ).map(lambda told: [{"role": role, "content": text} for role, text in told]),
    min_size=1,
    max_size=12,
)


@given(talks, st.data())
def test_what_was_read_ahead_changes_no_summary(talk: list[list[dict[str, Any]]], data: Any) -> None:
    """Whenever and whatever was read before, the summary is that of the turns that it is given."""
    ahead, tokenizer = QuickSummarizer(WordTokenizer(), max_chars=120), WordTokenizer()
    previous = "Bob: I moved to Bonn in 2019."
    for end in range(1, len(talk) + 1):
        if data.draw(st.booleans()):
            ahead.read(talk[:end], previous=data.draw(st.sampled_from(["", previous])))
        leaving = talk[: data.draw(st.integers(0, end))]
        plain = QuickSummarizer(tokenizer, max_chars=120)
        assert ahead.summarize(leaving, max_tokens=40, previous=previous) == plain.summarize(
            leaving, max_tokens=40, previous=previous
        )


def test_only_what_stands_in_the_prompt_is_kept_ahead() -> None:
    """What has left the prompt is gone with the next turn's end, what was forgotten at once."""
    summarizer = QuickSummarizer(WordTokenizer())
    old, new = [said("The safe opens with 4711.")], [said("The cat is called Tom.")]
    summarizer.read([old, new])
    assert "4711" in str(summarizer._known)
    summarizer.read([new])
    assert "4711" not in str(summarizer._known)
    assert "Tom" in str(summarizer._known)
    summarizer.forget()
    assert "Tom" not in str(summarizer._known)


class Asked:
    """The compaction hook, and what it asked of a tokenizer between an utterance and the model: per prompt fitted."""

    def __init__(self, hook: ContextCompactionHook, tokenizer: CountingTokenizer) -> None:
        self.hook, self.tokenizer = hook, tokenizer
        self.points, self.priority = hook.points, hook.priority
        self.fitted: list[tuple[int, int]] = []

    def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
        layout, before = conversation_of(ctx).layout, (self.tokenizer.renderings, self.tokenizer.tokens)
        epoch = layout.epoch
        result = self.hook(point, ctx, payload)
        if layout.epoch is not epoch:
            after = self.tokenizer.renderings, self.tokenizer.tokens
            self.fitted.append((after[0] - before[0], after[1] - before[1]))
        return result


@pytest.mark.parametrize("window", [700, 2800])
def test_a_prompt_is_fitted_by_tokenising_what_is_new(tmp_path: Path, window: int) -> None:
    """No prompt is counted between the utterance and the model; however large it is, a few texts are tokenised."""
    profile = small(window)
    tokenizer = CountingTokenizer()
    with edgemem.open(tmp_path, profile=profile, tokenizer=tokenizer, worker=False) as memory:
        asked: list[Asked] = []
        hooks: list[Any] = []
        for hook in memory.hooks(session_id="kitchen", speaker="mara"):
            if isinstance(hook, ContextCompactionHook):
                asked.append(Asked(hook, tokenizer))
            hooks.append(asked[-1] if isinstance(hook, ContextCompactionHook) else hook)
        robot = Robot(hooks, tools=[KEEP_PLAN])
        for n in range(window // 4):
            said = f"The {n}th cup stands in drawer {n}, behind the old kettle."
            (handed,) = robot.turn(Line(said, speaker="mara", reply=f"Cup {n} it is.")).handed
            robot.check()
            assert tokenizer.count(handed, tools=robot.schemas) <= window - 80
        (only,) = asked
        assert len(only.fitted) >= 3
        for counts, tokens in only.fitted:
            assert counts == 0
            # At most four tries of the summary, and then the kept turns' first message with the summary before it.
            assert tokens < 5 * 60 + 100


def small(window: int) -> Profile:
    """Return a profile without an embedder and with a small window."""
    plain = Profile()
    replace = msgspec.structs.replace
    return replace(
        plain,
        llama=replace(plain.llama, embedder=""),
        context=replace(
            plain.context, window_tokens=window, reply_tokens=80, block_tokens=20, summary_tokens=60
        ),
    )


@pytest.mark.parametrize("tools", [False, True])
def test_a_turn_that_does_not_fit_is_fitted_by_two_counts(tmp_path: Path, tools: bool) -> None:
    """Without any idle work prompts fit all the same, the summary stands, and the whole takes two counts and a few texts."""
    profile = small(700)
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
                assert tokenizer.encodings <= 16
        assert fitted >= 3
        assert memory.idle(60)
        (found, *_) = memory.recall("the 0th cup stands in drawer 0", kinds=("turn",))
        assert "drawer 0" in found.text
