"""Homes: invented households that are learnt on (`home_<language>_<name>.toml`); nobody who wrote one knew `judged_*.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.bench.judged import read_household

if TYPE_CHECKING:
    from edgemem.bench.judged import Household


def homes() -> dict[str, Household]:
    """Return what was written of each home, by its language and name: `en_farm`."""
    paths = sorted(Path(__file__).parent.glob("home_*.toml"))
    return {path.stem.removeprefix("home_"): read_household(path) for path in paths}
