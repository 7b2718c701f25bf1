"""What holds for each framework that edgemem is attached to: a common list of cases over the real packages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import edgemem
import edgemem.aio
from edgemem.config import LlamaSettings, Profile

BY_WORDS = Profile(llama=LlamaSettings(embedder=""))
QUESTION = "What is Ines allergic to?"
INSTRUCTIONS = "You help."
DOCS = Path(__file__).parents[2] / "docs"
SPEAKERS = {"u17": "alice", "u18": "bob"}


class Call(NamedTuple):
    """A call that a scripted model makes."""

    id: str
    name: str = "look"
    arguments: dict[str, str] = {}  # noqa: RUF012 - never changed


class Stall:
    """A step at which the run is cancelled."""


LOOK = Call("c1")


def look() -> str:
    """Look around."""
    return "found it"


def fall() -> str:
    """Fail."""
    raise RuntimeError("fell over")


class Robot:
    """An agent of a framework, attached; a subclass has what the framework needs."""

    page: Path
    """What tells users of the framework how to attach."""

    def __init__(self, home: Path) -> None:
        self.events = asyncio.new_event_loop()
        self.home = home
        self.opened: Any = self.run(self._open())
        self.prompts: list[list[str]] = []
        """What the model has read at each call, an item a string."""

    async def _open(self) -> Any:
        return await edgemem.aio.open(self.home, profile=BY_WORDS, worker=False)

    def run(self, step: Any) -> Any:
        """Return the result of a coroutine."""
        return self.events.run_until_complete(step)

    @property
    def parts(self) -> Any:
        """Return the parts of the memory, to look into."""
        return self.opened.diagnostics

    def say(self, text: str, *script: Any, context: Any = "u17", session: str = "s", **how: Any) -> str:
        """Return the reply of an agent to a person, while its model follows a script; `how` has `retries`, `guard`."""
        raise NotImplementedError

    def model(self, *script: Any) -> Any:
        """Return a model that follows a script."""
        raise NotImplementedError

    def hand_over(self, text: str, reply: str) -> str:
        """Return the reply of a second agent, to which the first hands over."""
        raise NotImplementedError

    def attach(self, **how: Any) -> Any:
        """Attach the memory again."""
        raise NotImplementedError

    def own(self) -> str:
        """Return all that the framework has stored."""
        raise NotImplementedError

    def close(self) -> None:
        self.run(self.opened.close())
        self.events.close()

    def turns(self, session: str = "s") -> list[tuple[str, list[str], bool]]:
        """Return of each stored turn its speaker, its texts, and whether it was left unfinished."""
        return [
            (
                (turn.heard and turn.heard.speaker) or "",
                [str(message.content) for message in turn.messages if message.content],
                turn.state != "complete",
            )
            for turn in self.parts.sessions.journal.read_turns(session)
        ]


class Contract:
    """The cases; a module of a framework has the fixture `make`, a subclass of Robot."""

    @pytest.fixture
    def robot(self, make: type[Robot], tmp_path: Path) -> Iterator[Robot]:
        robot = make(tmp_path / "home")
        robot.parts.store.add_fact("ines.allergy", "peanuts", scope="household")
        yield robot
        robot.close()

    def test_the_block_stands_at_the_first_call_and_stays_over_hops_and_turns(self, robot: Robot) -> None:
        """Each prompt begins with the one before, byte for byte, and the framework stores none of it."""
        for n, question in enumerate([QUESTION, "Where is the ladder?", QUESTION]):
            robot.say(question, Call(f"a{n}"), Call(f"b{n}"), f"Answer {n}.")
        assert len(robot.prompts) == 9
        for before, prompt in zip(robot.prompts, robot.prompts[1:], strict=False):
            assert prompt[: len(before)] == before
        assert "peanuts" in robot.prompts[0][-1]
        assert "peanuts" not in robot.own()
        assert QUESTION in robot.own()

    def test_turns_are_stored_as_their_speakers(self, robot: Robot) -> None:
        """One who is not in the mapping is nobody."""
        robot.say("Is there milk?", LOOK, "Yes.")
        robot.say("And bread?", "No.", context="u18")
        robot.say("Who am I?", "A guest.", context="u19")
        assert robot.turns() == [
            ("alice", ["Is there milk?", "found it", "Yes."], False),
            ("bob", ["And bread?", "No."], False),
            ("", ["Who am I?", "A guest."], False),
        ]

    @pytest.mark.parametrize("speakers", [lambda context: {"u17": "bob"}[context], {}])
    def test_a_function_names_speakers_and_its_fault_makes_a_stranger(
        self, robot: Robot, speakers: Any
    ) -> None:
        """A reply waits for no mistake in it."""
        robot.attach(speakers=speakers)
        robot.say("Is there milk?", "Yes.")
        robot.say("And bread?", "No.", context=None)
        assert [turn[0] for turn in robot.turns()] == ["bob" if speakers else "", ""]

    @pytest.mark.parametrize(
        "script", [[RuntimeError("away")], [LOOK, RuntimeError("away")], [Stall()], [LOOK, Stall()]]
    )
    def test_an_error_or_a_cancel_ends_the_turn_which_is_kept_unfinished(
        self, robot: Robot, script: list[Any]
    ) -> None:
        """And the next one is whole."""
        with pytest.raises((RuntimeError, asyncio.CancelledError, KeyboardInterrupt)):
            robot.say("I like tea.", *script)
        looked = ["found it"] if len(script) > 1 else []
        assert robot.turns() == [("alice", ["I like tea.", *looked], True)]
        robot.say("Is there milk?", "Yes.", context="u18")
        assert robot.turns()[1:] == [("bob", ["Is there milk?", "Yes."], False)]

    def test_a_guardrail_ends_the_turn(self, robot: Robot) -> None:
        """Its words were said, the reply was not."""
        with pytest.raises(Exception, match=r"(?i)guard"):
            robot.say("I like tea.", "Bad words.", guard=True)
        assert robot.turns() == [("alice", ["I like tea."], True)]

    def test_a_retry_is_the_same_call(self, robot: Robot) -> None:
        """One turn, one prompt, read twice."""
        assert robot.say(QUESTION, ConnectionError("away"), "Peanuts.", retries=True) == "Peanuts."
        assert robot.prompts[0] == robot.prompts[1]
        assert robot.turns() == [("alice", [QUESTION, "Peanuts."], False)]

    def test_an_agent_that_is_handed_over_to_goes_on_in_the_turn(self, robot: Robot) -> None:
        """It reads the block at the same place."""
        assert robot.hand_over(QUESTION, "Peanuts.") == "Peanuts."
        first, second = robot.prompts
        assert second[: len(first)] == first
        ((speaker, texts, unfinished),) = robot.turns()
        assert (speaker, texts[0], texts[-1], unfinished) == ("alice", QUESTION, "Peanuts.", False)

    def test_sessions_on_one_memory_are_apart(self, robot: Robot) -> None:
        """Each has its turns."""
        robot.say("I like tea.", "Good.")
        robot.say("I like milk.", "Fine.", session="t", context="u18")
        robot.say("And cake.", "Oh.")
        assert [turn[1][0] for turn in robot.turns("s")] == ["I like tea.", "And cake."]
        assert [turn[1][0] for turn in robot.turns("t")] == ["I like milk."]

    def test_attaching_twice_is_harmless(self, robot: Robot) -> None:
        """It is the same attachment."""
        robot.say(QUESTION, "Peanuts.")
        assert robot.attach() is robot.attach()
        robot.say("Where is the ladder?", LOOK, "In the cellar.")
        assert sum("peanuts" in item for item in robot.prompts[-1]) == 1
        assert len(robot.turns()) == 2

    def test_what_is_detached_runs_as_before(self, robot: Robot) -> None:
        """Nothing is shown, and nothing kept."""
        robot.attach().detach()
        assert robot.say(QUESTION, LOOK, "I do not know.", attach=False) == "I do not know."
        assert not any("peanuts" in item for prompt in robot.prompts for item in prompt)
        assert robot.turns() == []

    def test_tools_have_the_rights_of_the_speaker(self, robot: Robot) -> None:
        """What is remembered is theirs, and stored once."""
        fact = {"key": "drink", "value": "tea", "scope": "me"}
        robot.say("I like tea, but tell nobody.", Call("r1", "remember_fact", fact), "I keep it.")
        robot.say("What do I drink?", Call("r2", "search_memory", {"query": "drink"}), "Hm.", context="u18")
        (kept,) = [fact for fact in robot.parts.store.facts(scope="user:alice") if fact.key == "drink"]
        assert kept.heard is not None
        assert kept.heard.speaker == "alice"
        assert not any("tea" in item.casefold() for item in robot.prompts[-1])
        assert [len(texts) for _, texts, _ in robot.turns()] == [3, 3]

    def test_the_code_of_the_page_runs(
        self, robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In an empty home; the words are remembered there, as those of who said them."""
        monkeypatch.setenv("HOME", str(tmp_path))
        code = re.findall(
            r"^```py\n(.*?)^```$", robot.page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )[0]
        assert len([line for line in code.splitlines() if line]) <= 8
        indented = "".join(f"    {line}\n" for line in code.splitlines())
        names: dict[str, Any] = {"model": robot.model("Noted.")}
        exec(f"async def page():\n{indented}", names)
        robot.run(names["page"]())
        with edgemem.open(tmp_path / ".edgemem" / "kitchen", profile=BY_WORDS, worker=False) as memory:
            (turn,) = memory.sessions.journal.read_turns("kitchen")
        assert turn.heard.speaker == "alice"
        assert [message.content for message in turn.messages] == ["I like tea.", "Noted."]

    def test_a_memory_that_is_closed_fails_no_reply(self, robot: Robot) -> None:
        """The model reads the framework's own list."""
        robot.say("Is there milk?", "Yes.")
        robot.run(robot.opened.close()) if not isinstance(
            robot.opened, edgemem.Memory
        ) else robot.opened.close()
        assert robot.say("And bread?", "No.") == "No."
