"""What hooks are made with, checked when they are made: a hook that fails in each turn would only be counted."""

from __future__ import annotations

from typing import Any

from edgemem.errors import InvalidInputError


def attachable(hook: object) -> str:
    """Represent a hook by how an EdgeVox agent takes it; EdgeVox quotes that where it refuses one of ours."""
    call = "edgemem.hooks.load('edgevox_loop').attach_hooks(agent, hooks)"
    return f"<edgemem {type(hook).__name__}; for an EdgeVox agent: {call}>"


def needs(hook: object, given: Any, *methods: str, what: str) -> None:
    """Raise InvalidInputError unless the object has the methods that a hook calls.

    Args:
        what: what is wanted, such as `a memory store`.
    """
    if isinstance(given, type) or not all(callable(getattr(given, method, None)) for method in methods):
        kind = "a class" if isinstance(given, type) else type(given).__name__
        raise InvalidInputError(f"{type(hook).__name__} needs {what}, not {kind}; open one and pass it.")


def given_store(hook: object, store: Any, memory_store: Any) -> Any:
    """Return the memory store that a hook was given under one of its two names; EdgeVox calls it `memory_store`.

    Raises:
        InvalidInputError: it was given under both.
    """
    if store is not None and memory_store is not None:
        raise InvalidInputError(
            f"{type(hook).__name__} takes one memory store: as store= or as memory_store=, not both."
        )
    return memory_store if store is None else store


def header_line(hook: object, given: Any) -> str:
    """Return the line that opens a block; raise InvalidInputError if it is no text."""
    if not isinstance(given, str):
        raise InvalidInputError(
            f"The header of {type(hook).__name__} must be text, not {type(given).__name__}; '' leaves it out."
        )
    return given.strip()
