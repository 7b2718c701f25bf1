"""The profile: TOML to frozen Structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgemem import config
from edgemem.config import Profile, load_profile, profile_named
from edgemem.errors import ConfigError

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
        ("[context]\nwindow_token = 4096", r"no key context\.window_token; perhaps window_tokens was meant"),
        ("[contxt]\nk = 1", r"no section \[contxt\]; perhaps context was meant"),
        ("[context]\nzzz = 1", r"no key context\.zzz; use one of block_tokens, "),
        (
            "[context]\nkeep_last_turn = 1",
            r"no key context\.keep_last_turn; perhaps keep_last_turns was meant",
        ),
        ("[recall]\nblock_tokens = 9", r"no key recall\.block_tokens; it belongs into \[context\]"),
        ("block_tokens = 9", r"no section \[block_tokens\]; block_tokens is a key of \[context\]"),
        ("[llama]\nembed_threads = 4096", r"llama\.embed_threads must be a whole number <= 64, not 4096"),
        ("[llama]\nchat_threads = -1", r"llama\.chat_threads must be a whole number >= 0, not -1"),
        ("[llama]\nembed_context = 8", r"llama\.embed_context must be a whole number >= 32, not 8"),
        ("[idle]\nsettle_s = -1", r"idle\.settle_s must be a number >= 0"),
        ("[hooks]\nfiles = 'a.py'", r"hooks\.files must be a list, not 'a\.py'"),
        ("[hooks]\nfiles = [1]", r"hooks\.files must be a list of texts"),
        ("[hooks]\ntool_output_chars = 20", "tool_output_chars"),
        ("[speakers]\nalice = 'Mum'", r"speakers\.alice must be a list of names, .*, not 'Mum'"),
        ("[speakers]\nalice = [1]", r"speakers\.alice must be a list of names"),
        ("[speakers]\nalice = ['']", r"every name of speakers\.alice must be 1 to 64 letters"),
        ('[speakers]\n"a\\nb" = []', "letters on one line"),
        ("[speakers]\n" + "".join(f"s{i} = []\n" for i in range(65)), "may hold 64 people"),
        ("[recall]\nk = 'five'", r"recall\.k must be a whole number, not 'five'"),
        ("[recall]\nk = 99999999999999999999999", r"recall\.k must be a whole number"),
        ("[recall]\nk = 0", r"recall\.k must be a whole number >= 1, not 0"),
        ("[recall]\nk = 1.5", r"recall\.k must be a whole number, not 1\.5"),
        ("[recall]\ndeadline_ms = nan", r"recall\.deadline_ms must be a number > 0"),
        ("[recall]\ndeadline_ms = inf", r"recall\.deadline_ms must be a number <= 2147483647"),
        ("[context]\nreply_tokens = 4000", r"together must be below `window_tokens`"),
        ("[memory]\ndefault_level = 'public'", r"must be one of shared, household, private, not 'public'"),
        ("[llama]\nembedder = 3", r"llama\.embedder must be text"),
        ("memory = 3", r"\[memory\] must be a section"),
        ("a =", "is not TOML"),
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
    with pytest.raises(ConfigError, match="cannot be read"):
        load_profile(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="perhaps pi5 was meant"):
        profile_named("pi55")
    with pytest.raises(ConfigError, match="no profile"):
        profile_named("../default")


def test_a_profile_has_at_most_sixty_keys() -> None:
    """What an operator will not really change is a constant."""
    sections = msgspec.to_builtins(Profile()).values()
    assert sum(map(len, sections)) + 1 <= 60  # and [speakers]
