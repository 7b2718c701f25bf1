"""What is kept beside facts: goals, phases, states and messages of people; procedures; episodes, and calls of tools with latencies."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import SQLiteMemoryStore
from edgemem.errors import InvalidInputError
from edgemem.records import Heard, Procedure, ProcedureStep, Reader, StoredMessage, Turn
from edgemem.store import users
from edgemem.store.episodes import TOOL_CALL, ToolStats, call_record, tool_stats
from support.homes import BY_WORDS, files_with
from support.refusals import refusal


def fill(memory, person="Alice"):
    def work(tx):
        users.ensure_user(tx, person)
        users.put_goal(tx, person, "canoe", "buy a canoe", {"target_amount": 900, "current_amount": 30})
        users.put_phase(tx, person, "saving", "slowly")
        users.put_state(tx, "boats", person, {"role_id": "skipper"})
        users.put_summary(tx, "boats", person, f"{person} wants to paddle to Trondheim.", 4)
        for role in ("user", "assistant", "tool", "user", "assistant"):
            users.append_message(tx, "boats", person, StoredMessage(role, f"{role} of {person}"))

    memory.diagnostics.database.write(work)


def kept(memory, person="Alice"):
    db = memory.diagnostics.database
    return (
        users.user_since(db, person) is not None,
        [(goal.name, goal.title, goal.data) for goal in users.read_goals(db, person=person)],
        users.read_phase(db, person),
        users.read_state(db, "boats", person),
        users.read_summary(db, "boats", person),
        [message.content for message in users.read_messages(db, "boats", person, 10)],
    )


NOTHING = (False, [], None, None, None, [])


def test_a_goal_and_a_summary_are_recalled_by_their_person_alone(memory):
    """They are found before and after they are indexed, and by nobody else but the operator."""
    fill(memory)
    for _ in range(2):
        for query, kind in (("a canoe", "goal"), ("paddle to Trondheim", "summary")):
            for who, finds in (("alice", True), ("bob", False), (None, False)):
                assert (kind in {item.kind for item in memory.recall(query, speaker=who)}) == finds
        memory.idle(30)


def test_a_goal_that_changed_is_recalled_as_it_is_now(memory):
    """The text before is not found any more."""
    fill(memory)
    memory.idle(30)
    put = users.put_goal
    memory.diagnostics.database.write(lambda tx: put(tx, "alice", "canoe", "rent a kayak", {}))
    for _ in range(2):
        assert [r.text for r in memory.recall("canoe or kayak") if r.kind == "goal"] == ["goal: rent a kayak"]
        memory.idle(30)


@pytest.mark.parametrize("person", ["alice", "ALICE "])
def test_a_forgotten_person_leaves_nothing(memory, person):
    """Rows, names and bytes go; what is of somebody else in the same session stays."""
    fill(memory)
    fill(memory, "Bob")
    erased = memory.forget(person=person).erased
    once = ("goals", "phases", "users", "session states", "session summaries")
    assert erased == {**dict.fromkeys(once, 1), "turns": 2}
    assert kept(memory) == NOTHING
    assert kept(memory, "Bob")[2] == ("saving", "slowly")
    assert all(b"lice" not in path.read_bytes() for path in memory.home.rglob("*.db*"))


def test_a_forgotten_session_takes_states_and_summaries_along(memory):
    """What is kept of its people beside it stays."""
    fill(memory)
    before = kept(memory)
    assert memory.forget(session="boats")
    assert kept(memory) == (*before[:3], None, None, [])
    assert not [r for r in memory.recall("Trondheim") if r.kind == "summary"]


def test_a_session_on_which_a_state_hangs_outlives_a_discarded_turn(memory):
    """A turn that is thrown away takes only a session along of which nothing is left."""
    journal, db = memory.sessions.journal, memory.diagnostics.database
    db.write(lambda tx: users.put_state(tx, "boats", "Alice", {"role_id": "skipper"}))
    accepted = journal.accept(Turn("boats", 0, (StoredMessage("user", "hm"),), heard=Heard(speaker="Alice")))
    journal.settle()
    journal.discard("boats", accepted).result()
    assert users.read_state(db, "boats", "alice") == {"role_id": "skipper"}


@pytest.mark.parametrize("speaker", [None, "alice"])
def test_an_export_carries_all_of_it(memory, tmp_path, speaker):
    """Read in elsewhere it is the same, a second time adds nothing, and an older one takes nothing back."""
    fill(memory)
    fill(memory, "Bob")
    lines = [line.encode() for line in memory.export(speaker=speaker)]
    with edgemem.open(tmp_path / "other", worker=False, profile=BY_WORDS) as other:
        assert other.import_lines(lines).refused == []
        assert kept(other) == kept(memory)
        assert kept(other, "Bob") == (NOTHING if speaker else kept(memory, "Bob"))
        again = other.import_lines(lines)
        assert (again.added, again.refused) == ({}, [])
        other.diagnostics.database.write(lambda tx: users.put_phase(tx, "alice", "paddling", ""))
        assert len(other.import_lines(lines).refused) == 1
        assert users.read_phase(other.diagnostics.database, "alice") == ("paddling", "")


def test_messages_join_the_turn_that_their_user_began(memory):
    """Those of somebody else between them begin turns of their own."""
    fill(memory)
    said = ("boats", "Bob", StoredMessage("assistant", "for Bob"))
    memory.diagnostics.database.write(lambda tx: users.append_message(tx, *said))
    fill(memory)
    turns = memory.sessions.journal.read_turns("boats")
    assert [(turn.heard.speaker, len(turn.messages)) for turn in turns] == [
        ("Alice", 3), ("Alice", 2), ("Bob", 1), ("Alice", 3), ("Alice", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("keep", [0, 1, 3, 5])
def test_what_was_said_before_is_erased_to_the_byte(memory, keep):
    """What is kept is read as before, in the same turns; another speaker's messages stay."""
    fill(memory)
    fill(memory, "Bob")
    memory.idle(30)
    everything = users.read_messages(memory.diagnostics.database, "boats", "alice", 9)
    assert memory.diagnostics.eraser.messages("boats", "alice", keep=keep) == 5 - keep
    now = users.read_messages(memory.diagnostics.database, "boats", "alice", 9)
    assert now == everything[5 - keep :]
    assert len(users.read_messages(memory.diagnostics.database, "boats", "bob", 9)) == 5
    said = [turn.messages for turn in memory.sessions.journal.read_turns("boats")]
    assert [m.content for messages in said for m in messages if m in now] == [m.content for m in now]
    recalled = {item.text for item in memory.recall("what Alice said to the assistant", k=20)}
    assert {text for text in recalled if "of Alice" in text} <= {m.content for m in now}
    if keep == 1:
        assert all(b"tool of Alice" not in path.read_bytes() for path in memory.home.rglob("*.db*"))


STEPS = (
    ProcedureStep("drive", {"to": "kitchen", "speed": 2}, "the robot stands there"),
    ProcedureStep("grip", {"what": "quixotic cup"}),
)


def fetch(name: str = "p", success: int = 0, failure: int = 0, **more: Any) -> Procedure:
    return Procedure(name, "Fetch", "", "bring me the red cup", STEPS, success, failure, **more)


def suggested(memory: edgemem.Memory, query: str = "bring the red cup", **how: Any) -> list[str]:
    return [procedure.id for procedure in memory.procedures.suggest(query, **how)]


def test_a_procedure_is_read_as_it_was_stored(memory: edgemem.Memory) -> None:
    """With its rates worked out, and a level that says who may read it."""
    given = fetch(success=3, failure=1, tags=("cup",), metadata={"by": [1]}, session="hall", turn=2)
    memory.procedures.store(replace(given, heard=Heard(event_time=1.6e9)))
    kept = memory.procedures.get("p")
    assert (kept.level, kept.total_uses, kept.success_rate) == ("shared", 4, 0.75)
    assert memory.procedures.list() == [kept]
    assert memory.procedures.count() == 1
    assert memory.procedures.get("q") is None
    assert memory.recall("the red cup", kinds={"procedure"})[0].event_time == 1.6e9


def test_what_works_comes_first(memory: edgemem.Memory) -> None:
    """99 of 100 before 1 of 1, and an unused one before one that always fails."""
    for name, success, failure in (("fails", 0, 3), ("once", 1, 0), ("new", 0, 0), ("often", 99, 1)):
        memory.procedures.store(fetch(name, success, failure))
    assert suggested(memory, top_k=9) == ["often", "once", "new", "fails"]
    assert suggested(memory) == ["often", "once", "new"]
    assert memory.idle(30)
    assert suggested(memory, top_k=9) == ["often", "once", "new", "fails"]


def test_what_does_not_fit_is_not_suggested(memory: edgemem.Memory) -> None:
    """However often it worked; nor is one whose tool is gone."""
    memory.procedures.store(fetch(success=1000))
    for query in ("how old is Mara?", "", "the", "two plus two"):
        assert suggested(memory, query) == []
    assert suggested(memory, tools={"drive", "grip", "sing"}) == ["p"]
    assert suggested(memory, tools={"drive"}) == []


def test_it_is_found_by_trigger_name_description_and_tags(memory: edgemem.Memory) -> None:
    """As Cognitia finds it."""
    given = Procedure("d", "Rollout", "blue-green pipeline", "ship it", STEPS, tags=("staging",))
    memory.procedures.store(given)
    for query in ("rollout", "blue-green pipeline", "ship it", "staging"):
        assert suggested(memory, query) == ["d"]


def test_outcomes_are_counted_from_any_thread(memory: edgemem.Memory) -> None:
    """None is lost, and one of an unknown id counts nothing."""
    memory.procedures.store(fetch())
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: memory.procedures.record_outcome("p", success=n % 4 > 0), range(40)))
    assert all(done)
    kept = memory.procedures.get("p")
    assert (kept.success_count, kept.failure_count) == (30, 10)
    assert not memory.procedures.record_outcome("q", success=True)


def test_counts_survive_storing_again(memory: edgemem.Memory) -> None:
    """What was learnt is not lost with a better description, nor with counts that are out of date; other steps begin anew."""
    memory.procedures.store(fetch(success=2))
    memory.procedures.record_outcome("p", success=False)
    memory.procedures.store(Procedure("p", "Water", "", "water the plants", STEPS, 1, 0))
    (kept,) = memory.procedures.list()
    assert (kept.success_count, kept.failure_count) == (2, 1)
    assert suggested(memory) == []
    assert suggested(memory, "water the plants") == ["p"]
    memory.procedures.store(replace(kept, steps=STEPS[:1], success_count=1, failure_count=0))
    assert [(of.success_count, of.failure_count, of.recent) for of in memory.procedures.list()] == [
        (1, 0, "")
    ]


@pytest.mark.parametrize("successes", [0, 4, 40])
def test_four_failures_outweigh_all_earlier_successes(memory: edgemem.Memory, successes: int) -> None:
    """What broke comes behind a way that nobody has tried, until it works again."""
    memory.procedures.store(fetch("breaks"))
    memory.procedures.store(fetch("new"))
    for success in (*[True] * successes, *[False] * 4):
        memory.procedures.record_outcome("breaks", success=success)
    assert suggested(memory) == ["new", "breaks"]
    for _ in range(4):
        memory.procedures.record_outcome("breaks", success=True)
    assert suggested(memory) == ["breaks", "new"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("fetch", "must be a Procedure"),
        (Procedure("", "n", "d", "t"), "must not be empty"),
        (Procedure("p", "n", "d", "t", STEPS * 500), "may have 64 steps, not 1,000"),
        (Procedure("p", "n", "d", "t", ("grip",)), "must be a ProcedureStep"),  # type: ignore[arg-type]
        (Procedure("p", "n", "d", "t", (ProcedureStep("grip", {"a": "x" * 70_000}),)), "shorten"),
        (Procedure("p", "n", "d", "t" * 20_000), "trigger of a procedure"),
        (Procedure("p", "n", "d", "t", STEPS, -1), "0 or more"),
    ],
)
def test_what_is_no_procedure_is_refused(memory: edgemem.Memory, given: Any, sentence: str) -> None:
    """In one sentence, and nothing is kept."""
    refusal(InvalidInputError, memory.procedures.store, given, match=sentence)
    assert memory.procedures.count() == 0


def test_it_is_read_by_whom_it_may_be(memory: edgemem.Memory) -> None:
    """The operator's by anybody, a speaker's by the household, a private one by its owner alone."""
    mara = Heard(speaker="Mara")
    memory.procedures.store(fetch("open"))
    memory.procedures.store(fetch("taught", heard=mara))
    memory.procedures.store(fetch("secret", heard=mara, level="private"))
    for _ in range(2):
        assert set(suggested(memory, reader=Reader())) == {"open"}
        assert set(suggested(memory, reader=Reader("Ben"))) == {"open", "taught"}
        assert set(suggested(memory, reader=Reader("mara"))) == {"open", "taught", "secret"}
        assert memory.procedures.get("secret", reader=Reader("Ben")) is None
        assert memory.procedures.count(reader=Reader("Mara", frozenset({"Ben"}))) == 2
        assert memory.idle(30)


def test_a_forgotten_person_leaves_what_others_may_use_without_its_constants(memory: edgemem.Memory) -> None:
    """What they own goes whole; of what they taught, the names of tools and arguments stay."""
    mara = Heard(speaker="Mara", room="hall")
    memory.procedures.store(fetch("own", heard=mara, level="private"))
    memory.procedures.store(fetch("taught", heard=mara, metadata={"for": "quixotic"}, session="hall", turn=1))
    assert memory.idle(30)
    erased = memory.forget(person="mara")
    assert erased.erased == {"procedures": 1, "constants of procedures": 1}
    (kept,) = memory.procedures.list()
    left = [(step.tool_name, step.args_template) for step in kept.steps]
    assert left == [("drive", {"to": "", "speed": ""}), ("grip", {"what": ""})]
    assert (kept.heard, kept.session, kept.turn, kept.metadata) == (None, "", None, {})
    for word in ("quixotic", "Mara"):
        assert files_with(memory.home, word) == []
    assert suggested(memory) == ["taught"]


def test_what_was_learnt_in_a_turn_of_a_forgotten_person_loses_its_constants(memory: edgemem.Memory) -> None:
    """Also where nobody said who taught it; what was learnt in another turn stays as it was."""
    for n, who in enumerate(("Mara", "Ben")):
        said = (StoredMessage("user", "bring it"),)
        memory.sessions.journal.commit(Turn("hall", n, said, owner=who, heard=Heard(speaker=who))).result()
        memory.procedures.store(fetch(who, session="hall", turn=n))
        memory.store.add_episode("task", {}, "ok", name=who, session="hall", turn=n)
    assert memory.forget(person="mara").erased == {"turns": 1, "episodes": 1, "constants of procedures": 1}
    given = {procedure.id: procedure.steps[1].args_template for procedure in memory.procedures.list()}
    assert given == {"Mara": {"what": ""}, "Ben": {"what": "quixotic cup"}}
    assert [episode.name for episode in memory.store.episodes()] == ["Ben"]


def test_a_forgotten_session_takes_constants_and_episodes_along(memory: edgemem.Memory) -> None:
    """What was learnt and lived through in another one stays as it was."""
    memory.sessions.save("hall", edgemem.Session([{"role": "user", "content": "bring it"}]))
    for name in ("hall", "kitchen"):
        memory.procedures.store(fetch(name, session=name, turn=0))
        memory.store.add_episode("task", {}, "ok", name=name, summary="Brought it.", session=name)
    assert memory.forget(session="hall")
    given = {procedure.id: procedure.steps[1].args_template for procedure in memory.procedures.list()}
    assert given == {"hall": {"what": ""}, "kitchen": {"what": "quixotic cup"}}
    assert [episode.name for episode in memory.store.episodes()] == ["kitchen"]
    assert [item.session for item in memory.recall("brought", kinds={"episode"})] == ["kitchen"]


def test_one_is_forgotten_by_its_id(memory: edgemem.Memory) -> None:
    """No byte of it stays in any file."""
    memory.procedures.store(fetch())
    assert memory.idle(30)
    assert files_with(memory.home, "quixotic")
    assert memory.procedures.forget("p").erased == {"procedures": 1}
    assert files_with(memory.home, "quixotic") == []
    assert suggested(memory) == []
    assert not memory.procedures.forget("p")


DEPLOYED: dict[str, Any] = {
    "name": "ep-001", "summary": "User asked to deploy the app to staging.",
    "decisions": ("chose blue-green deployment", "skipped canary"), "tools": ("sandbox", "web"),
    "tags": ("deployment", "staging"), "session": "sess-42", "latency_ms": 1.5,
}  # fmt: skip


def names(memory: edgemem.Memory, **filters: Any) -> list[str]:
    return [episode.name for episode in memory.store.episodes(**filters)]


@pytest.mark.parametrize("kind", [edgemem.SQLiteMemoryStore, edgemem.JSONMemoryStore])
def test_an_episode_is_read_as_it_was_stored(kind: Any, tmp_path: Path) -> None:
    """From the file, with a time that is still to come."""
    with kind(tmp_path / "memory") as store:
        store.add_episode("task", {"room": 3}, "success", heard=Heard(event_time=4e9), **DEPLOYED)
    with kind(tmp_path / "memory") as store:
        (episode,) = store.episodes(tag="staging")
    assert {field: getattr(episode, field) for field in DEPLOYED} == DEPLOYED


def test_one_of_the_same_name_takes_its_place(memory: edgemem.Memory) -> None:
    """The older one is found by nothing any more, before and after it was indexed."""
    for indexed in (False, True):
        memory.store.add_episode("task", {}, "failure", **DEPLOYED)
        assert not indexed or memory.idle(30)
        memory.store.add_episode("task", {}, "success", name="ep-001", summary="The tulips are watered.")
        assert [episode.outcome for episode in memory.store.episodes()] == ["success"]
        assert memory.store.episodes(tag="staging") == []
        assert memory.recall("deploy staging", kinds={"episode"}) == []
        assert len(memory.recall("tulips", kinds={"episode"})) == 1


@pytest.mark.parametrize("query", ["deploy staging", "blue-green", "sandbox", "deployment"])
def test_it_is_found_by_summary_decisions_tools_and_tags(memory: edgemem.Memory, query: str) -> None:
    """At once, and after it was indexed."""
    memory.store.add_episode("task", {}, "success", **DEPLOYED)
    for _ in range(2):
        (item,) = memory.recall(query, kinds={"episode"})
        assert item.session == "sess-42"
        assert item.text.startswith("User asked to deploy the app to staging.")
        assert memory.idle(30)


def test_each_filter_lets_through_what_it_names(memory: edgemem.Memory) -> None:
    """By tag, outcome, person, session and time, and all together; the newest by when it happened comes first."""
    add = memory.store.add_episode
    add("task", {}, "success", name="a", tags=["x"], heard=Heard(speaker="Mara", event_time=100.0))
    add("task", {}, "ok", name="b", tags=["x", "y"], session="hall", heard=Heard(event_time=300.0))
    add("task", {}, "failure", name="c", tags=["xy"], heard=Heard(speaker="Ben", event_time=200.0))
    assert names(memory) == ["b", "c", "a"]
    assert names(memory, tag="x") == ["b", "a"]
    assert names(memory, outcome="success") == ["b", "a"]
    assert names(memory, person="MARA") == ["a"]
    assert names(memory, session="hall") == ["b"]
    assert names(memory, since=200.0, until=300.0) == ["c"]
    assert names(memory, tag="x", outcome="success", since=200.0) == ["b"]
    assert names(memory, n=1) == ["b"]
    assert names(memory, reader=Reader()) == ["b"]


def test_the_ring_drops_the_oldest_with_their_tags(tmp_path: Path) -> None:
    """At most a tenth beyond the bound waits to go with the next ones."""
    with edgemem.SQLiteMemoryStore(tmp_path / "m.db", max_episodes=10) as store:
        for n in range(25):
            store.add_episode("task", {}, "ok", name=f"e{n}", tags=["x"])
        names = [episode.name for episode in store.episodes(tag="x")]
        assert names[:10] == [f"e{n}" for n in range(24, 14, -1)]
        assert len(names) <= 11
        assert len(store.database.query("select * from episode_tags")) <= 11


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tags": "deployment"}, "must be a list of texts"), ({"decisions": [1]}, "must be text, not int"),
        ({"summary": "x" * 20_000}, "summary of an episode"), ({"summary": None}, "summary of an episode"),
        ({"name": "two\nlines"}, "name of an episode"), ({"tags": ["x" * 70_000]}, "shorten"),
        *(({"latency_ms": wrong}, "latency") for wrong in (-1, float("nan"), float("inf"), "fast")),
    ],
)  # fmt: skip
def test_what_is_no_episode_is_refused(memory: edgemem.Memory, more: dict[str, Any], sentence: str) -> None:
    """In one sentence, and nothing is kept."""
    refusal(InvalidInputError, memory.store.add_episode, "task", {}, "ok", match=sentence, **more)
    assert memory.store.episodes() == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteMemoryStore]:
    with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=300) as opened:
        yield opened


def call(store: SQLiteMemoryStore, tool: str, *, ok: bool = True, **more: Any) -> None:
    store.add_episode(TOOL_CALL, {"name": tool}, "ok" if ok else "failed", **more)


def test_each_tool_has_its_calls_failures_and_percentiles(store: SQLiteMemoryStore) -> None:
    """The most called first; of one that nobody measured there are no latencies, and what is no call counts for none."""
    for n in range(100):
        call(store, "grip", ok=n % 4 > 0, latency_ms=float(n + 1))
    call(store, "sing")
    store.add_episode("walk", {"name": "grip"}, "ok")
    assert tool_stats(store.database) == [
        ToolStats("grip", 100, 25, 0.25, 50.0, 90.0, 99.0),
        ToolStats("sing", 1, 0, 0.0, None, None, None),
    ]


@pytest.mark.parametrize(
    ("output", "outcome"),
    [(None, "ok"), ({"files": []}, "ok"), ({"error": "offline"}, "failed"), ({"status": "error"}, "failed")],
)
def test_an_answer_tells_whether_it_is_an_error(output: Any, outcome: str) -> None:
    """As Cognitia's tools tell it."""
    assert call_record("web", None, output)[1] == outcome
