"""Two boards side by side, from two files that `edgemem bench board --json` wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from edgemem.bench.board import FORMAT
from edgemem.errors import InvalidInputError


class BoardFile(msgspec.Struct, frozen=True):
    bench: Literal["board"]
    format: Literal[1]
    board: dict[str, Any] = {}
    heat: dict[str, Any] = {}
    figures: dict[str, Any] = {}


def run(*, compare: tuple[Path, Path] | None = None) -> dict[str, Any]:
    """Compare the boards of two files."""
    if compare is None:
        raise InvalidInputError("Name two files with --compare; `edgemem bench board --json` writes them.")
    first, second = compare
    boards = [dict(_leaves(msgspec.structs.asdict(_read(path)))) for path in (first, second)]
    names = [first.stem, second.stem] if first.stem != second.stem else [str(first), str(second)]
    sides = {}
    for name in dict.fromkeys((*boards[0], *boards[1])):
        left, right = (values.get(name) for values in boards)
        if name not in ("bench", "format"):
            sides[name.partition(".")[2]] = {names[0]: left, names[1]: right, "ratio": _ratio(left, right)}
    return {"bench": "board", "format": FORMAT, "compared": [str(first), str(second)], "side_by_side": sides}


def _read(path: Path) -> BoardFile:
    try:
        return msgspec.json.decode(path.expanduser().read_bytes(), type=BoardFile)
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    except msgspec.ValidationError as error:
        reason = f"is no board of format {FORMAT} ({error})"
    except ValueError:
        reason = "is not JSON"
    raise InvalidInputError(f"{path} {reason}; name a file that `edgemem bench board --json` wrote.")


def _leaves(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner


def _ratio(left: Any, right: Any) -> float | None:
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
    return round(right / left, 3) if numbers and left else None
