"""What attachments to frameworks share: whose voice an id is, and settings that may not be on beside a memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from edgemem.errors import InvalidInputError
from edgemem.session.arguments import checked_speaker

HISTORY = "memory keeps the history, and cuts it where the window is full"
"""Why nothing else may."""

NO_TURN = "There is no open turn."
"""What a tool of the memory answers outside of one."""

Speakers: TypeAlias = Mapping[Any, str] | Callable[[Any], str | None]
"""Names by what a framework hands over with a run, or a function that returns one."""


def speaker_of(speakers: Speakers, id_: Any) -> str | None:
    """Return the name of a speaker; None, an unknown voice, where there is no name: a reply waits for no mistake in it."""
    try:
        return checked_speaker(speakers(id_) if callable(speakers) else speakers.get(id_))
    except Exception:  # noqa: BLE001 - a function of the user's own, or an id that no mapping can have
        return None


def refuse(settings: Mapping[str, Any], why: str) -> None:
    """Raise InvalidInputError with the name of the first setting that is on."""
    for name, value in settings.items():
        if value:
            raise InvalidInputError(f"Leave out `{name}` beside edgemem: {why}.")


def error_text(error: BaseException) -> str:
    """Return why a turn was left unfinished."""
    return f"{type(error).__name__}: {error}"
