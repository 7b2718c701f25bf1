"""The judge of questions that several observations answer: its set keeps its form, and it tells what a block holds."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.judge import stands
from lab.several import Question, outcome, outcomes, read_homes

LADDER = Question("changed", "ines", "where was the ladder", (("cellar",), ("shed",)), (("shed",),))
NEWS = Question("habit", "ines", "when is the news on", (("~07:10",), ("weekdays", "werktags")), ())


def test_ninety_questions_are_asked_in_ten_homes() -> None:
    """A third is German, each kind has its share, and what is required was said, but for counts, times and days."""
    homes = read_homes()
    questions = Counter((home.language, asked.kind) for home in homes for asked in home.questions)
    assert len(homes) == len({home.name for home in homes}) == 10
    assert all(40 <= len(home.said) <= 80 for home in homes)
    assert [sum(n for (each, _), n in questions.items() if each == language) for language in ("en", "de")] == [60, 30]  # fmt: skip
    assert min(questions.values()) >= 6
    for home in homes:
        texts = [text for _, _, text in home.said]
        assert list(home.said) == sorted(home.said, key=lambda row: row[0])
        assert all(asked.asker in {who for _, who, _ in home.said} for asked in home.questions)
        for asked in home.questions:
            items = [*asked.required, *asked.stale] if asked.kind in ("changed", "set") else [*asked.stale]
            missing = [item for item in items if not any(stands(wording, texts) for wording in item)]
            assert not missing, (home.name, asked.text, missing)


@pytest.mark.parametrize(
    ("question", "block", "required", "stale"),
    [
        (LADDER, "- ladder: in the cellar (since 12 May), before: behind the shed", 1.0, 0.0),
        (LADDER, "- ladder: behind the shed (until 12 May)\n- ladder: cellar", 1.0, 0.0),
        (LADDER, "- ines 3 Mar: the ladder's behind the shed", 0.5, 1.0),
        (LADDER, "- it rains", 0.0, 0.0),
        (NEWS, "- the news at 07:20 on weekdays", 1.0, None),
        (NEWS, "- the news at 07:40", 0.0, None),
    ],
)
def test_a_block_has_a_share_of_what_is_required_and_old_values_that_stand_as_if_they_held(
    question: Question, block: str, required: float, stale: float | None
) -> None:
    """A value that is told as one of before, or until when it held, is none of these."""
    judged = outcome(question, block, ["ladder: in the cellar (since"])
    assert (judged.required, judged.stale) == (required, stale)
    assert judged.reflects == float("cellar (since" in block)


def test_a_question_is_asked_when_all_is_told() -> None:
    """What answers in part stands in its block."""
    home = read_homes()[0]
    judged = outcomes(home, on=False, embedder="")
    assert len(judged) == len(home.questions)
    assert any(each.required for each in judged)
