"""How a model is told about on the command line: one row, whether the catalogue or only its own header knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.cli.printing import plain
from edgemem.errors import ModelError
from edgemem.llama.models.catalog import expected, find_entry, state_of
from edgemem.llama.models.gguf import Description, describe

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.llama.models.catalog import ModelEntry


def describe_entry(entry: ModelEntry, path: Path | None) -> dict[str, Any]:
    """Return what the catalogue says of a model, and what is known of its file."""
    return {
        "name": entry.name,
        "kind": entry.kind,
        "bytes": entry.bytes,
        "quantisation": entry.quantisation,
        "dimensions": entry.dimensions,
        "context": entry.context,
        "ram_mb": entry.ram_mb,
        "licence": entry.licence,
        "sha256": entry.sha256,
        "state": state_of(entry, path),
        "path": str(path) if path else None,
    }


def describe_own(name: str, path: Path) -> dict[str, Any]:
    """Return what a file outside of the catalogue says of itself, if it can be read."""
    try:
        return describe_added(name, describe(path), path)
    except ModelError:
        # it may lie there for another program; `verify` says what is wrong with it
        size = path.stat().st_size
        return {**dict.fromkeys(_ROW, ""), "name": name, "kind": "unknown", "bytes": size, "dimensions": 0, "context": 0,
                "ram_mb": 0, "state": "damaged", "path": str(path)}  # fmt: skip


_ROW = (
    "name",
    "kind",
    "bytes",
    "quantisation",
    "dimensions",
    "context",
    "ram_mb",
    "licence",
    "sha256",
    "state",
    "path",
)


def describe_added(name: str, told: Description, path: Path) -> dict[str, Any]:
    """Return what a model's header says, under the keys that models of the catalogue have."""
    entry = find_entry(name)
    return {
        "name": name,
        "kind": told.kind,
        "bytes": told.bytes,
        "quantisation": "",
        "dimensions": told.dimensions,
        "context": told.context,
        "ram_mb": told.ram_mb,
        "licence": plain(told.licence),
        "sha256": (expected(entry, path) or (0, ""))[1],
        "state": state_of(entry, path),
        "path": str(path),
        "architecture": plain(told.architecture),
        "pooling": told.pooling,
    }


def in_words(told: Description) -> str:
    """Return what a model's header says as a line."""
    parts = [
        f"{told.kind} ({plain(told.architecture)})",
        f"{told.bytes / 1e6:,.0f} MB",
        f"context {told.context:,}",
    ]
    if told.kind == "embedder":
        parts.append(f"{told.dimensions} dimensions, {told.pooling} pooling")
    elif told.kind != "reranker":
        parts.append("with a chat template" if told.chat_template else "without a chat template")
    if told.ram_mb:
        parts.append(f"about {told.ram_mb:,} MB of RAM")
    return ", ".join(parts)
