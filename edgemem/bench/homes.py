"""Homes: invented households that are learnt on (`home_<language>_<name>.toml`); nobody who wrote one knew `judged_*.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.bench.judged import Household

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Home(Household, frozen=True, forbid_unknown_fields=True):
    """A file; its further sections are what something else is learnt on."""

    statements: tuple[tuple[str, str], ...] = ()
    helped: tuple[tuple[str, str, str], ...] = ()


def homes() -> Iterator[tuple[str, Household]]:
    """Yield the language of each home, and what was written of it."""
    for path in sorted(Path(__file__).parent.glob("home_*.toml")):
        yield path.stem.split("_")[1], msgspec.toml.decode(path.read_bytes(), type=_Home)
