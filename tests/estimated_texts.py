"""What the constants of the estimate of tokens are set to, by language and by script."""

from __future__ import annotations

from pathlib import Path

import msgspec

_TABLES = msgspec.toml.decode(
    (Path(__file__).parent / "data" / "estimated_texts.toml").read_bytes(),
    type=dict[str, dict[str, list[str]]],
)
LATIN, OTHERS = _TABLES["latin"], _TABLES["others"]
