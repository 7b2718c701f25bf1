"""One episode is forgotten by its id: by the tool, by the command line, and everywhere it was copied to."""

import json
from typing import Any

import pytest

import edgemem
from edgemem.records import Heard, Reader
from edgemem.session.tools import ToolTurn
from support.cli import run
from support.homes import files_with
from support.loops import Robot, tool_named

STEM = "quixot"
"""What files hold of the word in the episode that is forgotten; the index has its stem."""

LOST, WON = {"name": "game", "result": "lost to quixotry"}, {"name": "game", "result": "won the marathon"}
BEN = Heard(speaker="Ben")


@pytest.fixture
def memory(tmp_path):
    with edgemem.open(tmp_path / "home", worker=False) as opened:
        opened.store.add_episode("tool_call", LOST, "ok", heard=BEN)
        opened.store.add_episode("tool_call", WON, "ok", heard=BEN)
        assert opened.idle(30)
        yield opened


def test_it_is_erased_from_the_index_blocks_tool_results_and_backups(memory):
    """What a block or the memory's own tool repeated of it is gone from every file of the home, and it is not recalled."""
    lost = next(each for each in memory.store.recent_episodes() if each.payload == LOST)
    robot = Robot(memory)
    told = robot.answer("Search for the game.", "search_memory", query="game", speaker="Ann")
    assert "quixotry" in told
    assert f"[episode:{lost.id}]" in told
    assert memory.idle(30)
    memory.diagnostics.backups.make()
    assert len(files_with(memory.home, STEM)) > 2
    assert memory.forget(episode=lost.id).erased == {"episodes": 1}
    assert files_with(memory.home, STEM) == []
    assert not any("quixotry" in item.text for item in memory.recall("quixotry game"))
    assert any("marathon" in item.text for item in memory.recall("marathon game"))
    assert not memory.forget(episode=lost.id)


def test_the_tool_forgets_an_episode_by_the_name_that_it_was_found_under(memory):
    """After a yes; what the answers quote is stored nowhere."""
    lost = next(each for each in memory.store.recent_episodes() if each.payload == LOST)
    robot = Robot(memory)
    name = f"episode:{lost.id}"
    assert "Not erased yet" in robot.answer("About the game", "forget_fact", key=name, speaker="Ann")
    assert "the user said no" in robot.answer("No", "forget_fact", key=name, speaker="Ann")
    assert "NOT to forget" in robot.answer("Don't forget the game", "forget_fact", key=name, speaker="Ann")
    assert "Not erased yet" in robot.answer("Forget the game", "forget_fact", key=name, speaker="Ann")
    neither = robot.answer("What time is it?", "forget_fact", key=name, speaker="Ann")
    assert f"`edgemem forget --episode {lost.id}`" in neither
    assert memory.store.get_episode(lost.id) is not None
    assert "Not erased yet" in robot.answer("Forget the game", "forget_fact", key=name, speaker="Ann")
    told = robot.answer("Yes", "forget_fact", key=f"[{name}]", speaker="Ann")
    assert told.startswith("Forgotten; erased from this device within moments.")
    assert "quixotry" in told
    assert memory.store.get_episode(lost.id) is None
    assert memory.idle(30)
    assert files_with(memory.home, STEM) == []


def test_the_tool_forgets_nothing_that_the_speaker_may_not_erase(memory):
    """What somebody else owns is not even named, and an unknown voice erases nothing that a known one caused."""
    memory.store.add_episode("note", {"said": "secret"}, "ok", heard=BEN, level="private", owner="Ben")
    memory.store.add_episode("note", {"said": "open"}, "ok", heard=BEN, level="shared")
    secret, open_ = memory.store.recent_episodes(2)
    forget = tool_named(memory.tools(), "forget_fact")

    def asked(speaker: str | None, episode_id: str) -> Any:
        turn = ToolTurn("forget it please", Reader(speaker))
        return forget.run(turn, key=f"episode:{episode_id}")

    assert "there is no episode" in asked("Ann", secret.id)
    assert "there is no episode" in asked("Ann", "7")
    assert "Refused" in asked(None, open_.id)
    assert len(memory.store.recent_episodes(9)) == 4
    assert memory.store.get_episode(secret.id, reader=Reader("Ben")) == secret


def test_the_command_forgets_the_episode_whose_id_recall_tells(memory):
    """The id stands behind what recall found; the episode is quoted, and one that is none is refused with a sentence."""
    home = memory.home
    lost = next(each for each in memory.store.recent_episodes() if each.payload == LOST)
    memory.close()
    assert f"episode {lost.id}" in run("recall", "quixotry", "--home", home).output
    asked = run("forget", "--episode", lost.id, "--home", home, input="n\n")
    assert asked.exit_code == 1
    assert "quixotry" in asked.output
    done = run("forget", "--episode", lost.id, "--yes", "--json", "--home", home)
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"episode": lost.id, "pending": {}}
    assert files_with(memory.home, STEM) == []
    again = run("forget", "--episode", lost.id, "--yes", "--home", home)
    assert again.exit_code == 1
    assert "no episode" in again.output
