"""Offline memory runtime for voice agents on robots."""

from __future__ import annotations

__version__ = "0.1.0"
