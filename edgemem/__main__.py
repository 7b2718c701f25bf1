"""`python -m edgemem`."""

from __future__ import annotations

from edgemem.cli import main

main(prog_name="edgemem")
