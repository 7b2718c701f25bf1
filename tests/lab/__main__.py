"""`make lab ARGS="NAME --json"`: run an experiment, with the command line of `edgemem bench`."""

from __future__ import annotations

import sys

import lab
from edgemem.bench import ground
from edgemem.cli.bench import Benches
from edgemem.errors import EdgememError

# An older tree (TREE=…) has these elsewhere.
vars(ground).setdefault("say", lambda _text: None)
vars(ground).setdefault("report", lambda _name, figures, _bars: figures)

if __name__ == "__main__":
    try:
        Benches(lab, help="Measure edgemem itself, and learn what it ships.")(prog_name="lab")
    except EdgememError as error:
        sys.exit(f"lab: {error}")
