"""The models and the gate: odds that can be explained, weights that can be trusted, and how likely it is that something helps."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import HandClock

import edgemem
from edgemem.config import LlamaSettings, Profile, TimeSettings
from edgemem.llama.models.catalog import MULTILINGUAL
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.recall.index.docs import annotate
from edgemem.recall.index.table import NOBODY
from edgemem.recall.search import gate as gate_models
from edgemem.recall.search import models
from edgemem.recall.search.features import FEATURES
from edgemem.recall.text.analyse import terms
from lab.gate import WANTS
from lab.languages import LANGUAGES
from lab.learning import AGAINST, MEANING
from support.loops import block_before
from support.models import Listener

both_models = pytest.mark.parametrize("name", ["with_meaning", "words_only"])
DAY = 86400.0
KEY = "where is the spare key"
TEXTS = (
    "the spare key hangs on the hook behind the shed", "I put the spare key under the blue flower pot",
    "the dentist sees me on friday at three", "lottie has a cold and stays in bed",
)  # fmt: skip
GOOD = {"words": 0.9, "window": 0.9, "meaning": 0.6, "meaning_share": 1.0, "session_meaning": 0.6}
FAIR = {"words": 0.7, "window": 0.7, "meaning": 0.5, "meaning_share": 0.8, "session_meaning": 0.5}
POOR = {"words": 0.05, "meaning": 0.1, "meaning_share": 0.1, "session_meaning": 0.1}
PLUMBER, NUMBER = "the number of the plumber is 012", "what is the number of the plumber"
CUPS = ("cup 0 stands in the tall drawer", "cup 1 stands in the low drawer")


def matrix(*rows):
    return np.array([[row.get(name, 0.0) for name in FEATURES] for row in rows], np.float32)


@both_models
def test_shipped_weights_are_of_signals_and_keep_their_signs(name):
    """Each weight is a finite number of a feature that there is; what shows nothing is hardly an answer, what shows all may be."""
    model = getattr(models.shipped_models(), name)
    answers, replaces = model.answers, model.replaces
    assert answers.weights
    assert answers.weights.keys() <= FEATURES.keys()
    assert replaces.weights.keys() <= set(models.PAIR_FEATURES)
    for each in (answers, replaces):
        assert np.isfinite([each.bias, *each.weights.values()]).all()
    weights = {feature: weight for feature, weight in answers.weights.items() if feature != "fact"}
    for feature, weight in weights.items():
        assert (weight <= 0) if feature in AGAINST else (0 <= weight < 50)
    assert MEANING.isdisjoint(weights) == (name == "words_only")
    showing = {"words", "meaning", "neighbour", "session"}
    of_texts = {name: 1.0 for name, reason in FEATURES.items() if reason in showing and "fact" not in name}
    of_facts = {"fact": 1.0, "fact_words": 1.0, "fact_meaning": 1.0}
    for nothing, everything in (({}, of_texts), ({"fact": 1.0}, of_facts)):
        least, most = answers.odds(matrix(nothing, everything)).tolist()
        assert least < -2 < -1.7 < most  # by words alone one in six that show all answers


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (models.LinearModel, {"bias": 0.0, "weights": {}, "bais": 1.0}),
        (models.Models, {"with_meaning": {"answers": {"bias": 0.0, "weights": {}}}}),
    ],
)
def test_a_wrong_name_in_the_file_is_refused(kind, content):
    """A key that nobody knows, or that lacks, is a mistake of whoever edits the file, and is told."""
    with pytest.raises(msgspec.ValidationError, match="bais" if "bais" in content else "words_only"):
        msgspec.convert(content, kind)


def test_reasons_are_what_adds_to_the_odds():
    """The strongest comes first; what adds next to nothing, or speaks against it, is no reason."""
    weights = {"fact": 1.0, "fact_words": 4.0, "fact_meaning": 6.0, "named": 1.0, "asks": -1.0}
    model = models.Model(models.LinearModel(-4.0, weights))
    row = {"fact": 1.0, "fact_words": 0.2, "fact_meaning": 0.5, "named": 1.0, "past": 1.0}
    assert model.reasons(matrix(row)[0].tolist()) == ("meaning", "subject", "words")
    assert model.reasons(matrix({"fact_words": 0.01, "asks": 1.0})[0].tolist()) == ()


def messages_of(*rows, tense="now", texts=TEXTS[:3], at=(0, 20, 10), who=(1, 1, 1), asked=KEY):
    """Return messages by their features, with the days on which they were said."""
    stems = np.array([frozenset(terms(text)) for text in texts], object)
    flags = np.array([annotate(text, 0.0).flags for text in texts])
    spoken = models.Contents(
        np.array(who), flags, stems, np.full(len(texts), None, object), frozenset(terms(asked))
    )
    return models.Candidates(matrix(*rows), np.array(at, float) * DAY, tense, spoken)


def order(model, messages):
    return np.argsort(-models.weigh(messages, model).odds, kind="stable").tolist()


@both_models
@pytest.mark.parametrize(
    ("texts", "asked", "who", "first"),
    [
        (TEXTS[:2], KEY, (1, NOBODY, 1), 0),  # what the robot repeats is newer, and no news
        ((TEXTS[0], "the spare key is under the blue flower pot now"), KEY, (NOBODY, NOBODY, 1), 1),
        (CUPS, "where is cup 0", (1, 1, 1), 0),  # what has another number is another thing
        (CUPS, "where is the cup", (1, 1, 1), 1),
        ((PLUMBER, "the number of the dentist is 046"), NUMBER, (1, 1, 1), 0),
        ((PLUMBER, "the number of the plumber is 046"), NUMBER, (1, 1, 1), 1),
        ((PLUMBER, "he changed his number and the office says 046"), NUMBER, (1, 1, 1), 1),
    ],
)
def test_what_is_another_thing_or_the_robots_own_replaces_nothing(name, texts, asked, who, first):
    """The same told of the dentist does not replace the plumber's number; his new one does, in whichever words."""
    messages = messages_of(GOOD, FAIR, POOR, texts=(*texts, TEXTS[3]), who=who, asked=asked)
    assert order(getattr(models.shipped_models(), name), messages)[0] == first


def test_the_shipped_file_names_what_there_is() -> None:
    """It has the words of five languages, models of both embedders that homes take, and finite weights of features that there are."""
    gate = gate_models.shipped_gate()
    assert gate.vocabularies.keys() == set(LANGUAGES)
    directions = [direction for meant in gate.with_meaning for direction in (meant.told, meant.wants)]
    assert [one.embedder for one in directions[::2]] == [Profile().llama.embedder, MULTILINGUAL]
    assert {len(direction.weights) for direction in directions} == {384}
    for models_of in (gate.words_only, *gate.with_meaning):
        for weighed in (models_of.asks, models_of.tells):
            assert weighed.weights.keys() <= {*gate_models.FITS, *WANTS, gate_models.MARGIN}
            assert np.isfinite([weighed.bias, *weighed.weights.values()]).all()
            assert weighed.weights[gate_models.MARGIN] > 0
    assert not [feature for feature in gate.words_only.asks.weights if feature.startswith("nearest")]
    for words in (p for known in gate.vocabularies.values() for p in (known.told, known.wants, known.chats)):
        assert np.isfinite([words.bias, *words.weights.values()]).all()
    with pytest.raises(msgspec.ValidationError, match="bais"):  # a mistake of whoever edits the file
        msgspec.convert({**msgspec.to_builtins(gate), "bais": 1.0}, gate_models.Gate)


def test_words_tell_a_question_for_what_is_told_and_a_remark_that_wants_a_memory() -> None:
    """They move the chance of both. A candidate's chance falls with its odds."""
    gate, own = gate_models.shipped_gate(), np.array([1.0, 0.0, -2.0], np.float32)
    evidence = gate_models.Evidence(0.5, 1.0, 0.8, 4)

    def chances(words: str, *, asks: bool) -> list[float]:
        said = gate_models.Utterance(frozenset(words.split()), "en", None, "", asks=asks)
        return gate.chances(said, evidence, own, meaning=0.0).tolist()

    def odds(words: str, *, asks: bool) -> float:
        first = chances(words, asks=asks)[0]
        return math.log(first / (1 - first))

    plain, polite = "is the boiler on monday", "hello you how are you thanks"
    asked, told = (odds(plain, asks=asks) - odds(polite, asks=asks) for asks in (True, False))
    assert asked > 0 < told
    first, second, third = chances(plain, asks=True)
    assert 1 > first > second > third > 0


def test_the_vector_of_a_foreign_sentence_tells_nothing() -> None:
    """Where the embedder does not know a language, a question is judged as by words alone."""
    gate, best = gate_models.shipped_gate(), (gate_models.Evidence(0.5, 1.0, 0.8, 4), np.ones(1, np.float32))
    said = gate_models.Utterance(frozenset(["wann"]), "de", None, "", asks=True)
    chats = gate.with_meaning[0].chats
    meant = said._replace(vector=np.array(chats.weights, np.float32), embedder=f"{chats.embedder}:1")
    by_words = gate.chances(said, *best, meaning=0.0)
    assert gate.chances(meant, *best, meaning=0.1) == by_words != gate.chances(meant, *best, meaning=1.0)


@pytest.fixture(params=["words", "meaning"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, hand: HandClock, minilm: Path) -> Iterator[Memory]:
    profile = Profile()
    profile = msgspec.structs.replace(
        profile,
        time=TimeSettings(line=False),
        llama=LlamaSettings(embedder=str(minilm) if request.param == "meaning" else ""),
        recall=msgspec.structs.replace(profile.recall, deadline_ms=20_000.0, query_embed_ms=20_000.0),
    )
    with edgemem.open(tmp_path, profile=profile, clock=hand.clock, worker=False) as memory:
        memory.store.add_fact("attic.key", "under the cactus")
        memory.store.add_fact("piano.tuner", "Mrs Oduya")
        memory.store.add_fact("mia.shoe_size", "thirty-four")
        loop = AgentLoop(Listener(), hooks=memory.hooks(session_id="old", speaker="mia"), speaker="mia")
        loop.run("We hung the canoe under the roof of the barn.")
        loop.run("Grandpa's train arrives on Saturday at noon.")
        memory.idle(60)
        yield memory


def test_small_talk_and_orders_get_no_block(memory: Memory) -> None:
    """Nobody wants anything of the memory."""
    for text in (
        "Hi there!", "Good evening, robot.", "Thanks, that was nice of you.", "Switch the radio off.", "Stop there.",
        "Sing me a lullaby.", "I am so tired of this rain.", "Ha, you are funny!",
    ):  # fmt: skip
        assert block_before(memory, text, "mia") == ""


def test_what_is_asked_for_is_told(memory: Memory) -> None:
    """A fact, or what was said where no fact tells it; a note counts like what was said."""
    for text, answer in (
        ("Where is the key of the attic?", "under the cactus"),
        ("Who is the piano tuner?", "Mrs Oduya"),
        ("What is Mia's shoe size?", "thirty-four"),
        ("Where did we hang the canoe?", "under the roof of the barn"),
        ("When does Grandpa's train arrive?", "Saturday [7 February] at noon"),
    ):
        assert answer in block_before(memory, text, "mia")


def test_what_is_asked_behind_its_topic_is_told_like_any_question(memory: Memory) -> None:
    """A recogniser writes no question mark, and a topic stands before the question: "and grandpa's train, when does it arrive"."""
    for text, answer in (
        ("the key of the attic where is it", "under the cactus"),
        ("and grandpa's train when does it arrive again", "Saturday [7 February] at noon"),
    ):
        assert answer in block_before(memory, text, "mia")
    memory.notes.append("The spare fuse is in the blue drawer.")
    memory.idle(60)
    (note, *_) = memory.recall("Where is the spare fuse?", speaker="mia")
    assert note.kind == "note"
    assert note.score >= memory.profile.injection.floor
