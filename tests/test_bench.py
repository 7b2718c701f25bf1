"""The benchmarks run at a tiny size and report what they promise; how fast they are is not tested here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_server import RunningServer

import edgemem
from edgemem.bench import early, footprint, prefill, reboot, session, turn
from edgemem.bench.corpus import askable, conversation, known, own_words
from edgemem.bench.early import utterances_in
from edgemem.bench.evening import FACTS, TOOLS, evening
from edgemem.bench.everything import everything, fill
from edgemem.bench.ground import (
    quiet,
    real_tokenizer,
    refuse_tmpfs,
    store_episodes,
    store_facts,
    store_turns,
)
from edgemem.bench.loops import BARE, EDGEVOX, OURS, EdgevoxAgent, Readers, Reference, play
from edgemem.bench.model import write_model
from edgemem.bench.report import at_least, at_most, report
from edgemem.errors import InvalidInputError


def bars_of(figures: dict[str, Any], name: str) -> set[str]:
    """Check what all reports have in common, and return the names of the bars."""
    assert figures["bench"] == name
    assert figures["machine"]["calibration_ms"] > 0
    bars = figures["bars"]
    assert all(set(bar) == {"figure", "bar", "ok"} for bar in bars.values())
    assert figures["ok"] == all(bar["ok"] for bar in bars.values())
    return set(bars)


def test_corpus_has_ten_thousand_different_facts() -> None:
    """Ten thousand facts have ten thousand keys, and the same seed gives the same ones."""
    facts_ = known(10_000)
    assert len({fact.key for fact in facts_}) == 10_000
    assert facts_ == known(10_000)
    assert facts_ != known(10_000, seed=9)


def test_questions_need_one_fact_and_do_not_name_its_key() -> None:
    """A value that is asked for stands in one fact, and no question spells out the key."""
    facts_ = known(2000)
    values = [fact.value for fact in facts_]
    for fact in askable(facts_, 100):
        assert values.count(fact.value) == 1
        assert fact.key.partition(".")[2].replace("_", " ") not in fact.question.lower().split()


def test_every_message_has_a_word_of_its_own() -> None:
    """The four words of a turn stand in its four messages and nowhere else."""
    lines = list(conversation(30))
    texts = [
        (line.say, str(line.tools[0].arguments), str(line.tools[0].result), line.reply) for line in lines
    ]
    everything = " ".join(text for four in texts for text in four)
    for n, four in enumerate(texts):
        for word, text in zip(own_words(n), four, strict=True):
            assert word in text
            assert everything.count(word) == 1


def test_evening_asks_for_each_fact_as_it_is_by_then() -> None:
    """Forty turns ask for each of the twenty facts, for some after they have changed, each with a call and a note."""
    turns = evening()
    assert len(turns) == 40
    asked = [moment.needs for moment in turns if moment.needs is not None]
    assert {fact.key for fact in asked} == {fact.key for fact in FACTS}
    now = {fact.key: fact.value for fact in FACTS}
    for moment in turns:
        if moment.needs is not None:
            assert moment.needs.value == now[moment.needs.key]
        now |= {fact.key: fact.value for fact in moment.changed}
        assert len(moment.line.tools) == 2
        assert len(moment.notes) == 1
    assert sum(now[fact.key] != fact.value for fact in FACTS) == 4


def test_second_evening_changes_everything_back() -> None:
    """After two evenings the facts are what they were, and no note was written twice."""
    now = {fact.key: fact.value for fact in FACTS}
    notes = []
    for moment in evening(80):
        now |= {fact.key: fact.value for fact in moment.changed}
        notes += moment.notes
    assert now == {fact.key: fact.value for fact in FACTS}
    assert len(set(notes)) == 80


def test_all_turns_are_stored(tmp_path: Path) -> None:
    """As many turns as were asked for are in the memory, also beyond one session."""
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        store_turns(memory, 405)
        assert memory.database.query("select count(*) from turns") == [(405,)]


def test_everything_is_open_and_its_hooks_take_part(tmp_path: Path) -> None:
    """The audit log and the turn log have lines of a turn, the vector store finds, and the watcher works."""
    facts_ = known(12)
    fill(tmp_path / "beside", facts_, embedder=None)
    with edgemem.open(tmp_path / "home", profile=quiet(), worker=False, watch=True) as memory:
        store_facts(memory, facts_)
        with everything(memory, tmp_path / "beside") as more:
            assert memory.reload.watcher.state in {"watching", "polling"}
            assert more.vectors.search_facts(facts_[0].question)
            turn.ask(memory, None, facts_, 2, hooks=more.hooks, tools=more.tools)
    assert (tmp_path / "beside" / "audit.jsonl").read_text().count('"on_run_end"') == 2
    assert len((tmp_path / "beside" / "turns.log").read_text().splitlines()) == 2


def test_bars_hold_figures_against_limits() -> None:
    """A report is fine only if every bar is kept."""
    assert report("x", {}, {"a": at_most(1, 1), "b": at_least(1, 1)})["ok"]
    assert not report("x", {}, {"a": at_most(1.1, 1), "b": at_least(1, 1)})["ok"]


def test_bytes_are_not_counted_in_memory() -> None:
    """A folder on tmpfs is refused, because nothing there is written to a disk."""
    memory = Path("/dev/shm")
    assert memory.is_dir(), "this machine has no tmpfs to try"
    with pytest.raises(InvalidInputError, match="in memory"):
        refuse_tmpfs(memory)


@pytest.mark.usefixtures("patient")
def test_session_reports_bytes_and_growth(request: pytest.FixtureRequest) -> None:
    """The session bench finds every message at once and tells where the bytes went."""
    # Temporary files are in memory on some systems (Debian 13); the checkout is on a disk.
    figures = session.run(turns=20, home=request.config.cache.mkdir("bench"))
    assert bars_of(figures, "session") == {
        *("written_mb", "accepted", "found_at_once", "commit_growth", "save_growth"),
    }
    assert figures["found_at_once"] == 1.0
    assert figures["written_mb"] > figures["text_mb"] > 0
    assert {"memory.db", "index.db"} <= set(figures["files_mb"])


@pytest.mark.usefixtures("edgevox")
def test_prefill_reads_blocks_beside_new_text(tmp_path: Path) -> None:
    """While nothing is compacted or left out, what memory makes the model read is its blocks."""
    figures = prefill.run(turns=6, facts=60, dry=True, home=tmp_path)
    assert "many_needed_shown" in bars_of(figures, "prefill")
    for scenario in (figures["evening"], figures["many"]):
        read, blocks = scenario["read"], sum(scenario["block_tokens"].values())
        assert scenario["compactions"] == 0
        assert read["with_memory"] == read["without_memory"] + blocks
        assert read["without_memory"] == read["without_memory_one_turn_at_a_time"]


def test_prefill_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    """A folder without EdgeVox, and a server that is to count, are told in a sentence."""
    with pytest.raises(InvalidInputError, match="no EdgeVox in"):
        prefill.run(edgevox=tmp_path)
    with pytest.raises(InvalidInputError, match="--dry or --server"):
        prefill.run(dry=True, server="http://127.0.0.1:8080")


def test_prefill_counts_what_is_read_again(tmp_path: Path) -> None:
    """Compactions count, and so does what a loop of the same window reads again once it must leave turns out."""
    told = play(tmp_path, Readers(), FACTS, evening(26), TOOLS)
    read = {name: sum(turn.read[name] for turn in told) for name in told[0].read}
    assert any(turn.compacted for turn in told)
    tokenizer = real_tokenizer()
    endless = Reference(None, tokenizer, TOOLS)
    each = [sum(part.evaluated for part in endless.hear(moment.line)) for moment in evening(40)]
    tokenizer.close()
    assert sum(each) <= 4000, "a script that makes any loop read more would make any ratio look good"
    new = sum(each[: len(told)])
    assert new < read["without_memory"] < read["without_memory_one_turn_at_a_time"]
    assert read["with_memory"] > new + sum(turn.block for turn in told)


@pytest.mark.usefixtures("edgevox")
def test_prefill_counts_what_llama_cpp_evaluates(tmp_path: Path, edgevox_path: Path) -> None:
    """A real model evaluates exactly the tokens that are counted without one, also for the real EdgeVox."""
    model = write_model(tmp_path / "tiny.gguf", width=64, layers=1, hidden=64)
    figures = prefill.run(turns=4, facts=20, model=model, edgevox=edgevox_path, home=tmp_path)
    assert figures["bars"]["miscounted_tokens"] == {"figure": 0, "bar": 0, "ok": True}
    assert figures["evaluated_by"] == "llama.cpp"
    assert figures["edgevox"]["first_token_ms"]["with_memory"] > 0
    assert figures["edgevox"]["times_without_memory"] > 2 * figures["evening"]["times_without_memory"]


@pytest.mark.usefixtures("edgevox")
def test_prefill_reads_through_a_server(tmp_path: Path, llama_server: Path, edgevox_path: Path) -> None:
    """A llama-server evaluates the counted tokens too, by its own timings; the script's replies are taken off."""
    model = write_model(tmp_path / "tiny.gguf", width=64, layers=1, hidden=64)
    with RunningServer(llama_server, model, tmp_path, slots=3, n_ctx=4096) as server:
        readers = Readers(server=server.url)
        told = play(tmp_path / "home", readers, FACTS[:4], evening(2), TOOLS, edgevox=edgevox_path)
    assert [turn.miscounted for turn in told] == [0, 0]
    assert all(turn.read[OURS] == turn.read[BARE] + turn.block for turn in told)
    assert told[-1].read[EDGEVOX] > told[-1].read[OURS]


@pytest.mark.usefixtures("edgevox")
def test_edgevox_is_played_as_it_is(tmp_path: Path, edgevox_path: Path) -> None:
    """The real agent tells facts, outcomes and notes in its system message, as they are by then, and answers from the script."""
    tokenizer = real_tokenizer()
    agent = EdgevoxAgent(edgevox_path, None, tokenizer, TOOLS, tmp_path, FACTS)
    bare = EdgevoxAgent(edgevox_path, None, tokenizer, TOOLS)
    first, second = evening(2)
    agent.hear(first.line)
    agent.keep((), ["the door was open"])
    newest = [loop.hear(second.line)[-1] for loop in (agent, bare)]
    prompts = [b"".join(map(tokenizer.vocabulary.piece, read.ids)).decode() for read in newest]
    agent.close()
    tokenizer.close()
    head = prompts[0].partition(second.line.say)[0]
    for part in (
        "## Memory",
        "hazelnuts",
        "Recent outcomes",
        "## Notes\nthe door was open",
        first.line.reply,
    ):
        assert part in head
    assert all(str(call.result) in prompts[0] for call in first.line.tools if call.name == "note")
    assert "## Memory" not in prompts[1]


def test_turn_reports_time_by_point(tmp_path: Path) -> None:
    """The turn bench times every point of a turn with a tool call, with everything indexed."""
    figures = turn.run(facts=50, turns=40, asked=5, beside=10, home=tmp_path)
    assert bars_of(figures, "turn") == {"hooks_ms", "everything_hooks_ms"}
    assert not any(figures["not_indexed"].values())
    points = {"on_run_start", "before_llm", "after_llm", "before_tool", "after_tool", "on_run_end"}
    assert {f"{point}_ms" for point in points} < set(figures["side_by_side"])
    assert figures["side_by_side"]["hooks_ms"]["bar"] == 10


def test_turn_is_timed_beside_so_many_rows_in_all(tmp_path: Path) -> None:
    """With `rows`, a tenth are facts, a tenth episodes, the rest messages, all indexed and none trimmed away."""
    figures = turn.run(rows=6000, asked=2, home=tmp_path)
    assert bars_of(figures, "turn") == {"hooks_ms", "hooks_p95_ms"}
    assert (figures["facts"], figures["episodes"], figures["turns"]) == (600, 600, 2400)
    assert 6000 < figures["rows"] < 6030
    assert not any(figures["not_indexed"].values())
    assert set(figures["side_by_side"]["hooks_ms"]) == {"default", "bar"}
    assert figures["side_by_side"]["hooks_p95_ms"]["bar"] == 25


def test_episodes_are_all_stored(tmp_path: Path) -> None:
    """As many as were asked for are there, also more than a profile keeps, until a robot adds one of its own."""
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        store_episodes(memory, 1203)
        assert memory.database.query("select count(*) from episodes") == [(1203,)]
        assert memory.recall("parcel", kinds={"episode"}) or memory.recall("drawer", kinds={"episode"})


def test_footprint_measures_fresh_processes(tmp_path: Path) -> None:
    """The footprint bench opens homes in processes of their own, with and without the embedder."""
    figures = footprint.run(records=80, processes=1, beside=10, home=tmp_path)
    bars = bars_of(figures, "footprint")
    assert {"embedder_asked_mb", "embedder_everything_asked_mb"} < bars
    sides = figures["side_by_side"]
    assert sides["embedder.asked_mb"]["default"] > sides["words.asked_mb"]["default"] > 1
    assert sides["words.asked_mb"]["everything"] > sides["words.asked_mb"]["default"]
    assert sides["words.found"]["default"] > 0


def test_reboot_evaluates_only_the_turn(tmp_path: Path) -> None:
    """The reboot bench answers the same with the kept state, and evaluates only what is not in it."""
    model = write_model(tmp_path / "model.gguf", width=64, layers=2, hidden=96)
    figures = reboot.run(prefix_tokens=1200, processes=1, threads=1, model=model, home=tmp_path)
    assert bars_of(figures, "reboot") == {"first_token_ratio", "same_first_token"}
    assert figures["bars"]["same_first_token"]["ok"]
    evaluated = figures["side_by_side"]["evaluated_tokens"]
    assert evaluated["cold"] == evaluated["kept"] + figures["prefix_tokens"]
    assert figures["prefix_tokens"] > 1100
    assert figures["file_bytes"] > figures["prefix_tokens"] * 2 * 2 * 64 * 2
    assert figures["mb_of_1500_tokens"]["Llama-3.2-3B"] == 172.0


def test_early_speaks_and_compares(tmp_path: Path, minilm: Path) -> None:
    """Both ways are timed, blocks are compared, and what each cost is counted."""
    figures = early.run(
        utterances=5, prepared=4, messages=40, words_s=100.0, embed_ms=0.0, end_ms=200.0, home=tmp_path
    )
    assert set(figures["bars"]) == {"ready_share", "equal_share"}
    assert figures["utterances"] == sum(figures["outcomes"].values()) == 5
    assert figures["side_by_side"]["embeddings_a_turn"]["whole"] >= 1
    assert figures["partials_a_turn"] > 1
    assert figures["handed_over_whole"]["plain"]["ready"] == 1
    assert list(tmp_path.iterdir()) == []


def test_recognisers_write_in_their_own_ways() -> None:
    """The last partial is what is heard at the end, but for marks that come late."""
    for form in ("written", "plain"):
        assert all(each.partials[-1] == each.text for each in utterances_in(form, 12))
    late = list(utterances_in("marked at the end", 12))
    assert all(each.text.endswith((".", "?", "!")) for each in late)
    assert not any(each.partials[-1].endswith((".", "?", "!")) for each in late)
