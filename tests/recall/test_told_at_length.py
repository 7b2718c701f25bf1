"""What is told in several sentences and asked for later stands in the block with its answer, whichever sentence has it.

All of it is told after some days of the weeks, in which others spoke of keys, passwords and dentists, too.
"""

from pathlib import Path

import msgspec
import pytest

from edgemem.config import Profile
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.models.catalog import find_model
from lab.recall_asking import Answered, Asking
from lab.recall_cases import Asked, Case, Said, weeks_case
from lab.recall_home import filled
from lab.weeks import weeks

BAR = 0.85
BEFORE = 600
"""Messages of the weeks."""
PEOPLE = ("Xiomara", "Oleg", "Jo")


class Told(msgspec.Struct, frozen=True):
    """A message, and a question that it answers."""

    said: str
    asks: str
    answer: str


def told_at_length() -> Case:
    """Return what was told, a minute apart, and what its speakers ask a day later."""
    path = Path(__file__).parents[1] / "data" / "told_at_length.toml"
    told = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Told]])["told"]
    before = weeks_case(weeks(1, "learnt")).said[-BEFORE:]
    begin = before[-1].at + 600
    said, asked = [], []
    for n, one in enumerate(told):
        who = PEOPLE[n % len(PEOPLE)]
        said.append(Said(f"told {n}", f"told {n // 8}", begin + 60 * n, who, one.said))
        at = begin + 86_400 + n
        asked.append(
            Asked(f"asked {n}", one.asks, who, at, "told", (said[-1].id,), ("told",), answer=one.answer)
        )
    return Case("told at length", (*before, *said), tuple(asked))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[Answered]:
    path = find_model("all-minilm-l6-v2")
    assert path is not None
    case, profile = told_at_length(), Profile()
    embedder = LlamaEmbedder(path, n_ctx=profile.llama.embed_context, threads=profile.llama.embed_threads)
    try:
        with filled(case, tmp_path_factory.mktemp("told"), embedder=embedder, profile=profile) as here:
            return list(Asking(here, case, form="weeks", least=0.0, count=len).all())
    finally:
        embedder.close()


def test_the_whole_answer_stands_in_the_block(answered: list[Answered]) -> None:
    """Of the messages that are among the first five, so many tell their whole answer."""
    told = "block_answer_found"
    found = {one.asked.text: one.scores[told] for one in answered if told in one.scores}
    assert len(found) > 70
    missed = [asks for asks, whole in found.items() if not whole]
    assert sum(found.values()) >= BAR * len(found), missed


def test_a_password_stands_behind_the_sentence_that_the_question_repeats(answered: list[Answered]) -> None:
    """The guest wifi has changed because somebody was leeching; what it is now, in words, follows and is told."""
    assert answered[0].scores["block_answer_found"] == 1.0
    assert next(one for one in answered if "Gäste-WLAN" in one.asked.text).scores["block_answer_found"] == 1.0
