"""Two small names of the EdgeVox memory module, for programs that changed only their import."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def default_memory_dir() -> Path:
    """Return where EdgeVox keeps memories, so that its files are found: `$EDGEVOX_MEMORY_DIR` or `~/.edgevox/memory`."""
    return Path(os.environ.get("EDGEVOX_MEMORY_DIR") or "~/.edgevox/memory").expanduser()


def new_session_id() -> str:
    """Return an id for a new conversation: twelve random hexadecimal digits."""
    return secrets.token_hex(6)
