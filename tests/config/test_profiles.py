"""The shipped profiles: each is loaded, opened and used as its board would use it."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgemem
from edgemem import config
from edgemem.config import profile_named
from edgemem.inspect.replay import ScriptedModel
from edgemem.llama.models.catalog import find_entry
from edgemem.loop.loop import AgentLoop
from support.embedders import HashEmbedder

CONFIGS = Path(config.__file__).parents[1] / "configs"
BOARDS = ["desktop", "jetson-orin-nano", "pi4", "pi5"]


@pytest.mark.parametrize("name", BOARDS)
def test_a_boards_numbers_fit_together(name: str) -> None:
    """Embedding fits into recall's deadline, the block into the window, and the text of a query into the model."""
    profile = profile_named(name)
    assert profile.recall.query_embed_ms < profile.recall.deadline_ms
    entry = find_entry(profile.llama.embedder)
    assert entry is not None
    assert profile.llama.embed_context <= 512
    context = profile.context
    # Even with a full block and a summary, several turns of fifty words fit.
    room = context.window_tokens - context.reply_tokens - context.block_tokens - context.summary_tokens
    assert room > context.keep_last_turns * 150
    # About four characters a token: what may be chosen from is the three or four times as much that the files say.
    assert 3 <= profile.injection.max_chars / (4 * context.block_tokens) <= 4
    assert profile.notes.inject_chars / 4 < room / 4


@pytest.mark.parametrize("name", [*BOARDS, "default"])
def test_a_home_opens_with_it_and_remembers(tmp_path: Path, name: str) -> None:
    """A turn with each profile finds what was said before."""
    with edgemem.open(tmp_path, profile=name, embedder=HashEmbedder(), worker=False) as memory:
        assert memory.profile == profile_named(name)
        memory.store.add_fact("alice.allergy", "peanuts", scope="household")
        memory.idle(5.0)
        loop = AgentLoop(
            ScriptedModel(), hooks=memory.hooks(session_id="s", speaker="alice"), speaker="alice"
        )
        assert "peanuts" in str(loop.run("what is the allergy of Alice?").handed)


@pytest.mark.usefixtures("patient")
def test_a_question_finds_what_somebody_said_by_what_they_are_called(tmp_path: Path) -> None:
    """Where two people said much the same, the one who is called so comes first."""
    text = "[speakers]\nalice = ['Mum']\nbob = ['Dad']\n[llama]\nembedder = ''\n"
    (tmp_path / "edgemem.toml").write_text(text)
    with edgemem.open(tmp_path, worker=False) as memory:
        for speaker in ("alice", "bob", "alice", "bob"):
            loop = AgentLoop(ScriptedModel(), hooks=memory.hooks(session_id=speaker), speaker=speaker)
            loop.run("I parked the car near the station", speaker=speaker)
        for name, speaker in (("Mum", "alice"), ("Dad", "bob")):
            (first, *_) = memory.recall(f"where did {name} park the car?", kinds=["turn"])
            assert first.speaker == speaker
        assert set(memory.hints()) >= {"Mum", "Dad"}
