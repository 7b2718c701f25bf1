"""When the prompt begins anew, what stays word for word, and where the summary stands, also after a restart."""

import itertools
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import AgentLoop
from edgemem.clock import Clock
from edgemem.context.compaction.compactor import Compactor
from edgemem.context.compaction.model import ModelSummarizer
from edgemem.context.compaction.planner import first_kept
from edgemem.context.messages import repair_orphans, split_turns
from edgemem.errors import InvalidInputError
from edgemem.fence import is_fenced
from edgemem.records import Message, Reply
from edgemem.session.tools import Tool
from edgemem.store.turns import latest_epoch
from support.homes import home_of
from support.models import Unforgetting
from support.tokenizers import WordTokenizer

SYSTEM = {"role": "system", "content": "You help in the kitchen."}
ROOM = 4096 - 512


def talk(turns: int, *, words: int = 12, tools: bool = False) -> list[dict[str, Any]]:
    """Return a conversation in which each turn tells something of its own."""
    out: list[dict[str, Any]] = [SYSTEM]
    for n in range(turns):
        out.append({"role": "user", "content": f"I put {n} jars of jam {n} on shelf {n}. " + "word " * words})
        if tools:
            out.append({"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "name": "count"}]})
            out.append({"role": "tool", "tool_call_id": f"c{n}", "name": "count", "content": f"{n} jars"})
        out.append({"role": "assistant", "content": f"Jam {n} noted. " + "word " * words})
    return out


def alternates(messages: Sequence[Message]) -> bool:
    """Tell whether a template that demands user, assistant, user, … accepts the list."""
    roles = [m["role"] for m in messages if m["role"] in ("user", "assistant") and not m.get("tool_calls")]
    return roles == ["user", "assistant"] * (len(roles) // 2)


@pytest.mark.parametrize("tools", [False, True])
def test_the_summary_stands_in_front_of_the_first_kept_utterance(tools: bool) -> None:
    """Instructions, then four whole turns, the first of which opens with the fenced summary."""
    tokenizer = WordTokenizer()
    compactor = Compactor(600, summary_max_tokens=60, tokenizer=tokenizer)
    conversation = talk(30, tools=tools)
    copies = [dict(message) for message in conversation]
    assert compactor.should_compact(conversation)
    compacted = compactor.compact(conversation)
    assert conversation == copies
    _, turns = split_turns(conversation)
    head, kept = split_turns(compacted)
    assert head == [SYSTEM]
    assert kept[1:] == turns[-3:]
    first = kept[0][0]
    assert is_fenced(first["content"])
    assert first["content"].endswith(turns[-4][0]["content"])
    assert kept[0][1:] == turns[-4][1:]
    assert "Somebody: I put" in first["content"]
    assert repair_orphans(compacted) == compacted
    assert alternates(compacted)
    assert tokenizer.count(compacted) < 600
    assert not compactor.should_compact(compacted)


def test_content_lists_carry_the_summary_as_a_part() -> None:
    """An utterance with an image gets the summary as a text part of its own, and gives it back."""
    image = {"type": "image_url", "image_url": {"url": "file:cup.png"}}
    parts = [{"type": "text", "text": "What is this?"}, image]
    conversation = [*talk(20), {"role": "user", "content": parts}, {"role": "assistant", "content": "A cup."}]
    compactor = Compactor(100, keep_last_turns=1, summary_max_tokens=40, tokenizer=WordTokenizer())
    compacted = compactor.compact(conversation)
    assert is_fenced(compacted[1]["content"][0]["text"])
    assert compacted[1]["content"][1:] == parts
    again = compactor.compact([*compacted, *talk(1, words=30)[1:]])
    assert len(again) == 3
    assert again[1]["content"].count("<memory>") == 1


def test_tool_results_can_be_listed() -> None:
    """`preserve_tool_calls` names what each tool returned, at most 40 lines."""
    compactor = Compactor(400, 2, 20, True, tokenizer=WordTokenizer())
    content = compactor.compact(talk(60, tools=True))[1]["content"]
    assert "count -> 57 jars\n" in content
    assert "count -> 17 jars" not in content


def test_odd_conversations_come_back_sensible() -> None:
    """One giant turn, no user, few turns, a tool result first: nothing breaks and nothing is lost needlessly."""
    compactor = Compactor(50, keep_last_turns=10, summary_max_tokens=20, tokenizer=WordTokenizer())
    giant = [SYSTEM, {"role": "user", "content": "word " * 500}]
    assert not compactor.should_compact(giant)
    assert compactor.compact(giant) == giant
    assert compactor.compact([]) == []
    nobody = [SYSTEM, {"role": "assistant", "content": "word " * 500}]
    assert not compactor.should_compact(nobody)
    assert compactor.compact(nobody) == nobody
    three = talk(3, words=60)
    assert compactor.should_compact(three)
    assert len(split_turns(compactor.compact(three))[1]) == 1
    orphan = [SYSTEM, {"role": "tool", "tool_call_id": "x", "content": "late"}, *talk(9)[1:]]
    compacted = compactor.compact(orphan)
    assert compacted[1]["role"] == "user"
    assert not any(message["role"] == "tool" for message in compacted)


class Mute:
    def summarize(self, *_: Any, **__: Any) -> str:
        return ""


def cuts_of(compactor: Compactor, share: float, turns: int, *, head: float) -> list[int]:
    """Return in which turns a growing conversation was cut; each is this share of the trigger, the instructions another."""
    counts = WordTokenizer()
    size = int(compactor.trigger_tokens * share)
    messages: list[Message] = [{"role": "system", "content": "rule " * int(compactor.trigger_tokens * head)}]
    cuts = []
    for n in range(turns):
        said, reply = f"I put {n} jars of jam on shelf {n}.", {"role": "assistant", "content": "ok"}
        turn = [{"role": "user", "content": said}, reply]
        turn[0]["content"] += " word" * (size - counts.count(turn, add_generation_prompt=False))
        messages = [*messages, *turn]
        compacted = compactor.compact(messages)
        if compacted != messages:
            cuts.append(n)
            assert is_fenced(compacted[1]["content"]), "nothing goes without a summary"
        messages = compacted
    return cuts


@pytest.mark.parametrize(
    ("trigger", "head", "summarizer"), [(200, 0.2, None), (1000, 0.02, Mute()), (1000, 0.2, None)]
)
def test_the_next_cut_is_far(trigger: int, head: float, summarizer: Mute | None) -> None:
    """Turns of a tenth of the trigger are cut at most once in four turns; those of a third every other turn."""
    compactor = Compactor(trigger, tokenizer=WordTokenizer(), summarizer=summarizer)
    for share, apart in ((0.1, 4), (0.3, 2)):
        cuts = cuts_of(compactor, share, 40, head=head)
        assert cuts
        assert all(later - earlier >= apart for earlier, later in itertools.pairwise(cuts))


class Stopper:
    """Raises the stop event while it summarises, and answers all the same."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def summarize(self, *_: Any, **__: Any) -> str:
        self._event.set()
        return "Alice: I put"


def test_a_stopped_compaction_changes_nothing() -> None:
    """What was summarised when somebody spoke is thrown away, and the old history stays."""
    event = threading.Event()
    compactor = Compactor(100, tokenizer=WordTokenizer(), summarizer=Stopper(event))
    conversation = talk(20)
    assert compactor.compact(conversation, stop_event=event) == conversation


class Llm:
    """A language model object as the seed's users have it: it can count tokens of a text."""

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class Writing(Llm):
    """Answers messages as EdgeVox's model does, with what a test wrote."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[list[Message]] = []

    def complete(self, messages: list[Message], **_: object) -> dict[str, object]:
        self.asked.append(messages)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"choices": [{"message": {"role": "assistant", "content": self.answer}}]}


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        ("Jam stands on the shelf.", True), ("Mr Zorg has 99 jars.", False), ("", False),
        (OSError("gone"), False),
    ],
)  # fmt: skip
def test_the_model_of_the_call_writes_the_summary(answer: str | Exception, written: bool) -> None:
    """As in the seed; what it invents, or fails at, is put together of sentences that were said."""
    llm = Writing(answer)
    conversation = talk(12)
    compacted = Compactor(200, summary_max_tokens=60).compact(conversation, llm)
    assert llm.asked
    assert len(compacted) < len(conversation)
    assert (str(answer) in str(compacted)) is (written or answer == "")
    assert "left out" not in str(compacted)
    direct = ModelSummarizer(llm).summarize(split_turns(conversation)[1], max_tokens=60)
    assert (direct == answer) is written


def test_the_model_of_the_call_counts() -> None:
    """Without a tokenizer of its own, the compactor asks the `llm`: its tokenizer, its `count_tokens`, or guesses."""

    class WithTokenizer:
        tokenizer = WordTokenizer()

    compactor = Compactor(trigger_tokens=200, summary_max_tokens=40)
    short, long = talk(2), talk(40)
    for llm in (WithTokenizer(), WordTokenizer(), Llm(), None):
        assert not compactor.should_compact(short, llm)
        assert compactor.should_compact(long, llm)
        assert len(compactor.compact(long, llm)) <= 9


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"trigger_tokens": "3000"}, "must be a whole number"), ({"trigger_tokens": 2.5}, "must be a whole number"),
        ({"trigger_tokens": 0}, "at least 1"), ({"keep_last_turns": 0}, "at least 1"),
    ],
)  # fmt: skip
def test_limits_that_cannot_work_are_refused(limits: dict[str, Any], says: str) -> None:
    """In words, and before anything is compacted."""
    with pytest.raises(InvalidInputError, match=says):
        Compactor(**limits)


@pytest.mark.parametrize(
    ("turns", "first"),
    [
        # of the third, four do not fit below the low mark
        *(([100] * 21, 17), ([], None), ([500] * 5, 3), ([5000], None)),
        *(([100, 5000], 1), ([100, 5000, 50], 2), ([2000, 1200], 1)),
    ],
)
def test_where_an_epoch_begins(turns: list[int], first: int | None) -> None:
    """Whole turns go until the prompt is below the low mark."""
    assert first_kept(turns, fixed=600, room=ROOM, most_turns=4) == first


MONTH_S = 30 * 86_400.0
LOOK = Tool("look", "Look.", {"type": "object", "properties": {}}, lambda: "a cup")


class Robot(Unforgetting):
    """A robot that is switched off for a month between any two of its days."""

    def __init__(self, home: Path) -> None:
        self.home = home_of(home, '[llama]\nembedder = ""\n')
        self.now = 1_770_000_000.0
        self.dates: list[float] = []

    def complete(self, messages: Sequence[Message], *, now: float | None = None, **_: Any) -> Reply:
        self.dates.append(round((now or 0.0) - 1_770_000_000.0))
        return Reply("Fine.")

    def day(self, *instructions: str, tools: Sequence[Tool] = (), aborted: bool = False) -> list[Any]:
        """Switch it on for a turn with each of the instructions; return why its epochs began so far."""
        clock = Clock(wall=lambda: self.now, monotonic=lambda: self.now)
        with edgemem.open(self.home, worker=False, clock=clock) as memory:
            for text in instructions:
                hooks = memory.hooks(session_id="k")
                loop = AgentLoop(self, hooks=hooks, tools=tools, speaker="alice", instructions=text)
                if aborted:
                    loop.prepare("hel")
                    loop.abort()
                loop.run("hello")
                assert loop.hooks.failures() == []
            memory.diagnostics.database.flush()
            begun = memory.diagnostics.database.query("select reason from epochs order by id")
            reasons = [reason for (reason,) in begun]
        self.now += MONTH_S
        return reasons


@pytest.fixture
def robot(tmp_path: Path) -> Robot:
    """Return a robot that has spoken once."""
    robot = Robot(tmp_path / "home")
    assert robot.day("You are Pip.") == ["begin"]
    return robot


@pytest.mark.parametrize("aborted", [False, True])
def test_instructions_that_changed_while_it_was_off_begin_an_epoch(robot: Robot, aborted: bool) -> None:
    """Once, at the first turn that is kept, and templates print that day's date from there on."""
    assert robot.day("You are Pip.") == ["begin"]
    assert set(robot.dates) == {0}
    assert robot.day("You are Pop.", "You are Pop.", aborted=aborted) == ["begin", "instructions"]
    assert set(robot.dates[2:]) == {2 * MONTH_S}
    assert robot.day("You are Pop.") == ["begin", "instructions"]
    assert robot.dates[-1] == 2 * MONTH_S


def test_tools_that_changed_while_it_was_off_do_too(robot: Robot) -> None:
    """Templates print them before everything as well."""
    assert robot.day("You are Pip.", tools=[LOOK]) == ["begin", "instructions"]
    assert robot.day("You are Pip.", tools=[LOOK]) == ["begin", "instructions"]


def test_each_of_two_changes_begins_one(robot: Robot) -> None:
    """One while it was off, and one while it was on."""
    assert robot.day("You are Pop.", "You are Pup.") == ["begin", "instructions", "instructions"]


def test_an_epoch_lasts(tmp_path: Path) -> None:
    """What was measured of the prompt before it says nothing of it: many turns fit before the next begins."""
    robot = Robot(tmp_path / "home")
    (robot.home / "edgemem.toml").write_text(
        '[llama]\nembedder = ""\n[context]\nwindow_tokens = 1200\nreply_tokens = 128\nsummary_tokens = 60\n'
    )
    begun: list[int] = []
    with edgemem.open(robot.home, worker=False) as memory:
        loop = AgentLoop(robot, hooks=memory.hooks(session_id="k"), speaker="alice")
        for _ in range(40):
            loop.run("A long question. " * 12)
            memory.idle(5)
            epoch = latest_epoch(memory.diagnostics.database, "k")
            if epoch is not None and epoch.first_turn not in begun:
                begun.append(epoch.first_turn)
    assert begun[0] == 0
    assert 4 <= len(begun) <= 8
    assert all(later - earlier >= 5 for earlier, later in pairwise(begun[1:]))
