"""The profile: TOML to frozen Structs; each that is shipped is used as its board would use it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem import config
from edgemem.config import Profile, load_profile, profile_named
from edgemem.errors import ConfigError
from edgemem.inspect.replay import ScriptedModel
from edgemem.llama.models.catalog import find_entry
from edgemem.loop.loop import AgentLoop
from support.embedders import HashEmbedder
from support.refusals import refusal

CONFIGS = Path(config.__file__).parents[1] / "configs"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "edgemem.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_default_file_says_what_the_code_says() -> None:
    """configs/default.toml holds every key, and equals the defaults."""
    assert load_profile(CONFIGS / "default.toml") == Profile() == load_profile(None)
    written: dict[str, Any] = msgspec.toml.decode((CONFIGS / "default.toml").read_bytes())
    assert written == msgspec.json.decode(msgspec.json.encode(Profile()))


def test_a_file_needs_only_what_differs(tmp_path: Path) -> None:
    """Keys that a file leaves out keep their defaults; a whole number may stand for a fraction."""
    profile = load_profile(write(tmp_path, "[recall]\ndeadline_ms = 90\n"))
    assert profile.recall.deadline_ms == 90.0
    assert profile.recall.k == Profile().recall.k
    assert load_profile(write(tmp_path, "")) == Profile()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *msgspec.toml.decode((Path(__file__).parents[1] / "data" / "mistakes.toml").read_bytes())["mistakes"],
        ("[speakers]\n" + "".join(f"s{i} = []\n" for i in range(65)), "may hold 64 people"),
        (b"\xff\xfe", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_what_was_expected(tmp_path: Path, text: str | bytes, says: str) -> None:
    """What cannot be a profile is refused with one sentence that names the file and the key."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)


def test_the_household_is_named_by_all_its_names(tmp_path: Path) -> None:
    """Each speaker, and what else they are called, once and in order."""
    profile = load_profile(write(tmp_path, '[speakers]\nalice = ["Alice", "Mum"]\nbob = ["Mum"]\n'))
    assert profile.names() == ("alice", "Alice", "Mum", "bob")
    assert profile.called() == {"alice": "alice", "Alice": "alice", "Mum": "alice", "bob": "bob"}
    assert Profile().names() == ()


def test_a_missing_profile_is_named(tmp_path: Path) -> None:
    """A file or name that does not exist is said, with the nearest one that does."""
    refusal(ConfigError, load_profile, tmp_path / "none.toml", match="cannot be read")
    refusal(ConfigError, profile_named, "pi55", match="perhaps pi5 was meant")
    refusal(ConfigError, profile_named, "../default", match="no profile")


def test_a_profile_has_at_most_sixty_keys() -> None:
    """What an operator will not really change is a constant."""
    sections = msgspec.to_builtins(Profile()).values()
    assert sum(map(len, sections)) + 1 <= 60  # and [speakers]


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
