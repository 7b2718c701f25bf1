"""The parts of a memory: what may change while they are open does, and they are closed if one cannot be opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
import edgemem.store.database
from edgemem.clock import Clock
from edgemem.config import LlamaSettings, Profile
from edgemem.errors import StoreError
from edgemem.home import make_home
from edgemem.parts import Parts
from edgemem.running import Running
from edgemem.small_models import SmallModels

PROFILE = edgemem.Profile(llama=LlamaSettings(embedder=""))


def opened(home: Path, profile: Profile = PROFILE) -> Parts:
    """Open the files of a home."""
    return Parts(
        make_home(home),
        profile,
        SmallModels(home, profile),
        running=Running(),
        wake=lambda: None,
        clock=Clock(),
    )


@pytest.mark.parametrize(
    ("section", "key", "value", "look"),
    [
        ("backup", "every_h", 7.0, lambda parts: parts.backups.every_h),
        ("backup", "keep", 9, lambda parts: parts.backups.keep),
        ("backup", "max_mb", 99.0, lambda parts: parts.backups.max_mb),
        ("store", "max_episodes", 44, lambda parts: parts.store.max_episodes),
        ("memory", "doubtful_below", 0.33, lambda parts: parts.store.doubtful_below),
        ("store", "waiting_turns", 12, lambda parts: parts.sessions.journal.outbox.most),
        ("context", "utterance_bytes", 50_000, lambda parts: parts.sessions.journal.outbox.room // 4),
        ("notes", "max_chars", 99_000, lambda parts: parts.notes.max_size_chars),
        ("notes", "low_water_chars", 5_000, lambda parts: parts.notes.low_water_chars),
        ("notes", "level", "shared", lambda parts: parts.notes.level),
        ("recall", "candidates", 17, lambda parts: parts.index.settings.candidates),
        ("recall", "candidates", 17, lambda parts: parts.recall._settings.candidates),
    ],
)
def test_what_may_change_is_taken_at_once_and_at_the_opening(
    tmp_path: Path, section: str, key: str, value: object, look: Callable[[Parts], Any]
) -> None:
    """An open home and one that is opened anew have the same numbers."""
    changed = msgspec.structs.replace(getattr(PROFILE, section), **{key: value})
    profile = msgspec.structs.replace(PROFILE, **{section: changed})
    parts = opened(tmp_path / "home")
    assert look(parts) != value
    parts.use(profile)
    assert look(parts) == value
    parts.close()
    again = opened(tmp_path / "home", profile)
    assert look(again) == value
    again.close()


def test_what_was_opened_is_closed_where_the_next_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is free again if the index cannot be made; an unclosed one would warn, and a warning is an error here."""
    closed: list[object] = []
    close = edgemem.store.database.Database.close

    def watched(self: Any) -> None:
        closed.append(self.path.name)
        close(self)

    monkeypatch.setattr("edgemem.store.database.Database.close", watched)
    home = make_home(tmp_path / "home")

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no index")

    monkeypatch.setattr("edgemem.parts.Index", broken)
    with pytest.raises(StoreError, match="no index"):
        opened(home)
    assert closed == ["memory.db"]
