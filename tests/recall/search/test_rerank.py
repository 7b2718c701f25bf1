"""The second pass: another order, the same scores, and nothing lost whatever the reranker does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.config import LlamaSettings, Profile, RecallSettings
from edgemem.errors import ClosedError, ModelError
from edgemem.llama.protocols import Reranker
from edgemem.memory import Memory
from edgemem.recall.recall import Request
from edgemem.recall.search import selection
from edgemem.recall.search.selection import name_of, second_pass
from edgemem.records import Reader, Recalled
from support import homes
from support.models import write_reranker_gguf

_LOGITS = st.floats(-50, 50) | st.sampled_from([0.0, float("nan"), float("inf"), -float("inf")])
SAID = [
    "The tea is in the blue tin.", "I drank tea with Ben.", "Green tea keeps me awake.", "Tea again, please.",
    "We have no tea left.", "My tea is cold.", "The tea shop is closed.",
]  # fmt: skip


class Table(Reranker):
    """A reranker that looks up what it thinks of a text, and notes what it was asked."""

    def __init__(
        self, logits: dict[str, float], *, reads: int | None = None, fault: Exception | None = None
    ) -> None:
        self.logits, self.reads, self.fault = logits, reads, fault
        self.asked: list[tuple[str, list[str], float | None]] = []
        self.closed = False

    def score(
        self, query: str, texts: Sequence[str], *, timeout_s: float | None = None, stop: Any = None
    ) -> list[float] | None:
        self.asked.append((query, list(texts), timeout_s))
        if self.fault is not None:
            raise self.fault
        read = list(texts)[: self.reads]
        return [self.logits.get(text, 0.0) for text in read] or None

    def close(self) -> None:
        self.closed = True


def items(*scores: float, kind: str = "turn", offset: int = 0) -> list[Recalled]:
    return [
        Recalled(kind, str(at), f"{kind} {at}", score, ("words",)) for at, score in enumerate(scores, offset)
    ]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["turn", "fact", "note"]), _LOGITS), max_size=20),
    st.none() | st.integers(0, 20),
    st.integers(1, 3),
)
def test_it_says_which_of_them(rows: list[tuple[float, str, float]], reads: int | None, parts: int) -> None:
    """Of each group the items stay, and of each kind of scores the scores; the highest stand first."""
    rows = sorted(rows, reverse=True, key=lambda row: row[0])
    found = [Recalled(kind, str(at), f"text {at}", score) for at, (score, kind, _) in enumerate(rows)]
    groups = [found[part::parts] for part in range(parts)]
    table = Table({f"text {at}": logit for at, (_, _, logit) in enumerate(rows)}, reads=reads)
    passed = second_pass(table, "what?", groups)
    for before, after in zip(groups, passed.groups, strict=True):
        assert sorted(map(name_of, before)) == sorted(map(name_of, after))
        assert [item.score for item in after] == sorted((item.score for item in before), reverse=True)
        for turns in (True, False):
            of_kind = (
                [one.score for one in group if (one.kind == "turn") is turns] for group in (before, after)
            )
            was, now = map(sorted, of_kind)
            assert was == now
    assert passed.read <= min(selection.MOST_READ, len(rows))


@pytest.mark.parametrize("fault", [ModelError("damaged"), ClosedError("closed")])
def test_a_model_that_does_not_work_changes_nothing(fault: Exception) -> None:
    """A reply never fails because of it."""
    found = items(0.5, 0.4)
    passed = second_pass(Table({}, fault=fault), "what?", [found])
    assert (passed.groups, passed.read, passed.fault) == ([found], 0, str(fault))


def tell(memory: Memory, *texts: str, level: str = "household", owner: str | None = None) -> None:
    for at, text in enumerate(texts):
        homes.tell(memory, text, f"talk {level}", at, speaker=owner or "anna", level=level, owner=owner)
    memory.idle(30)


def opened(folder: Path, reranker: Table | None, **settings: object) -> Memory:
    profile = Profile(recall=RecallSettings(**settings), llama=LlamaSettings(embedder=""))
    return edgemem.open(folder, profile=profile, embedder=None, reranker=reranker, worker=False)


def test_recall_reads_the_best_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reranker likes comes first, also from beyond the first k; stats and `why` say so."""
    monkeypatch.setattr("edgemem.recall.search.selection.SHARE", 1.0)
    with opened(tmp_path, None) as plain:
        tell(plain, *SAID)
        first = plain.recall("Where is the tea?", k=7, kinds=("turn",))
    assert len(first) == 7
    worst = first[-1].text
    table = Table({worst: 30.0})
    with opened(tmp_path, table) as memory:
        found = memory.recall("Where is the tea?", k=2, kinds=("turn",))
        assert (found[0].text, found[0].score) == (worst, first[0].score)
        assert found[0].why[0] == "reranker"
        assert len(found) == 2
        stats = memory.diagnostics.search.last
        assert (stats.reranked, stats.rerank_late) == (7, False)
        assert "reranker" in stats.signals
    assert table.closed
    few = Table({worst: 30.0})
    monkeypatch.setattr("edgemem.recall.search.selection.MOST_READ", 3)
    with opened(tmp_path, few) as memory:
        best = [item.text for item in first[:3]]
        assert memory.recall("Where is the tea?", k=2, kinds=("turn",))[0].text in best
        assert few.asked[0][1] == best


def test_the_reranker_sees_only_what_the_reader_may(tmp_path: Path) -> None:
    """Private text of another person is not even read, so it leaves no trace."""
    table = Table({})
    with opened(tmp_path, table) as memory:
        tell(memory, *SAID)
        tell(memory, "My secret tea is behind the books.", level="private", owner="ben")
        memory.recall("Where is the tea?", speaker="anna", kinds=("turn",))
        memory.recall("Where is the tea?", speaker="ben", kinds=("turn",))
    (_, anna, _), (_, ben, _) = table.asked
    assert not any("secret" in text for text in anna)
    assert any("secret" in text for text in ben)


def test_it_has_what_is_left_of_the_deadline(tmp_path: Path) -> None:
    """At most its own share, and nothing once the deadline is over or nobody waits."""
    table = Table({})
    with opened(tmp_path, table, rerank_ms=50.0) as memory:
        tell(memory, *SAID)
        recall = memory.diagnostics.search.recall
        recall("Where is the tea?", Request(reader=None, deadline_s=60.0))
        recall("Where is the tea?", Request(reader=None, deadline_s=1e-9))
        recall("Where is the tea?", Request(reader=Reader("anna")), stop=lambda: True)
        assert memory.diagnostics.search.last.reranked == 0
        assert [timeout for _, _, timeout in table.asked] == [0.05]


def test_a_real_model_runs_within_a_home(tmp_path: Path, vocabularies: Path) -> None:
    """A model named in the profile is opened, used, closed with the memory, and told about by `check`."""
    path = write_reranker_gguf(tmp_path / "rank.gguf", vocabularies=vocabularies)
    with opened(tmp_path / "home", None, rerank=str(path), rerank_ms=60_000.0) as memory:
        tell(memory, *SAID)
        first = memory.diagnostics.search.recall(
            "Where is the tea?", Request(reader=None, k=7), stop=lambda: True
        )
        found = memory.recall("Where is the tea?", k=7)
        assert sorted(item.text for item in found) == sorted(item.text for item in first)
        assert [item.score for item in found] == [item.score for item in first]
        assert memory.diagnostics.search.last.reranked == 7
        (told,) = [each for each in memory.check() if each.name == "reranker"]
        assert told.state == "ok"
        assert "7" in told.detail
        reranker = memory.diagnostics.reranker
    assert reranker.closed


@pytest.mark.parametrize("name", ["bge-reranker-v2-m3", "/nowhere/m.gguf", "damaged", "minilm"])
def test_without_its_model_recall_goes_on(tmp_path: Path, minilm: Path, name: str) -> None:
    """Absent, damaged, or no reranker at all: `check` says it, and what to do."""
    (tmp_path / "home" / "models").mkdir(parents=True)
    (tmp_path / "home" / "models" / "damaged.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    (tmp_path / "home" / "models" / "minilm.gguf").symlink_to(minilm)
    with opened(tmp_path / "home", None, rerank=name) as memory:
        tell(memory, *SAID)
        assert memory.recall("Where is the tea?")
        (told,) = [each for each in memory.check() if each.name == "reranker"]
        assert told.state == "warn"
        assert told.advice
