"""The parts of a memory: what may change while they are open does, and they are closed if one cannot be opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
import edgemem.store.db.database
from edgemem.clock import Clock
from edgemem.config import LlamaSettings, Settings
from edgemem.errors import StoreError
from edgemem.memory.home import make_home
from edgemem.memory.parts import Parts, SmallModels
from edgemem.memory.running import Running

PROFILE = edgemem.Profile(llama=LlamaSettings(embedder=""))


def opened(home: Path, settings: Settings) -> Parts:
    """Open the files of a home."""
    return Parts(
        make_home(home),
        settings,
        SmallModels(home, settings.now),
        running=Running(),
        wake=lambda: None,
        clock=Clock(),
    )


@pytest.mark.parametrize(
    ("section", "key", "value", "look"),
    [
        ("store", "max_episodes", 44, lambda parts: parts.store.max_episodes),
        ("memory", "doubtful_below", 0.33, lambda parts: parts.store.doubtful_below),
        ("notes", "level", "shared", lambda parts: parts.notes.level),
    ],
)
def test_what_may_change_holds_at_once(
    tmp_path: Path, section: str, key: str, value: object, look: Callable[[Parts], Any]
) -> None:
    """Open files have the numbers of the settings that hold now."""
    changed = msgspec.structs.replace(getattr(PROFILE, section), **{key: value})
    settings = Settings(PROFILE)
    parts = opened(tmp_path / "home", settings)
    assert look(parts) != value
    settings.now = msgspec.structs.replace(PROFILE, **{section: changed})
    assert look(parts) == value
    parts.close()


def test_what_was_opened_is_closed_where_the_next_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is free again if the index cannot be made; an unclosed one would warn, and a warning is an error here."""
    closed: list[object] = []
    close = edgemem.store.db.database.Database.close

    def watched(self: Any) -> None:
        closed.append(self.path.name)
        close(self)

    monkeypatch.setattr("edgemem.store.db.database.Database.close", watched)
    home = make_home(tmp_path / "home")

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no index")

    monkeypatch.setattr("edgemem.memory.parts.Index", broken)
    with pytest.raises(StoreError, match="no index"):
        opened(home, Settings(PROFILE))
    assert closed == ["memory.db"]
