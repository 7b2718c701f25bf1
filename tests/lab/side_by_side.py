"""Side by side: the same random calls through another package and through ours; what differs, and what of that is meant."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.bench.ground import say
from edgemem.inspect.replay import cache_folder
from lab.peers import call_peer, python_of

if TYPE_CHECKING:
    from lab.peers import Peer

Came = dict[int, list[Any]]
"""What came of each call of the sequences, by their numbers."""
Without = dict[int, list[int]]
"""Sequences by their numbers, each with the calls that are left out."""

_RUN_S = 3600.0
SHOWN = 10  # differences that are told in full
ROUNDS = 9
"""What comes out differently for a reason is left out of both, and the rest played again, so that later calls are of the same things."""


class Pair(NamedTuple):
    """What came of one call in both; `earlier` are those of its sequence before it that ours took."""

    call: Any
    ours: Any
    theirs: Any
    earlier: list[Any]


Meant = tuple[str, str, Callable[[Pair, Any, Any], Any]]
"""For some methods or all: what is meant to differ, and what ours gives where the real package gives something."""


class PeerScript:
    """A file that a peer's own Python runs: it finds a job in a folder, and leaves there what came of it."""

    def __init__(self, file: str, peer: Peer, python: Path | None, folder: Path) -> None:
        self._peer, self._folder = peer, folder
        self._python = python or python_of(peer, cache_folder() / "peers")
        self._file = Path(__file__).with_name(file)

    def __call__(self, **job: Any) -> Any:
        """Have a job done."""
        (self._folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        command = [str(self._python), "-B", str(self._file), str(self._folder)]
        call_peer(command, self._peer, "it failed", _RUN_S)
        return json.loads((self._folder / "came.json").read_text(encoding="utf-8"))


def raised(came: Any) -> bool:
    """Tell whether an error came of a call."""
    return isinstance(came, dict) and "raised" in came


def reasons_of(pair: Pair, refused: Mapping[str, str], meant: Iterable[Meant]) -> list[str] | None:
    """Return why ours gives something else where theirs gives something, nothing where it does not; None: nobody knows.

    Args:
        refused: what ours refuses and the real package takes, by words of our message.
    """
    ours, theirs, reasons = pair.ours, pair.theirs, []
    if raised(ours):
        return next(([f"refused: {what}"] for word, what in refused.items() if word in ours["message"]), None)
    for methods, why, instead in meant:
        if theirs != ours and pair.call.method in (methods.split() or [pair.call.method]):
            given = instead(pair, ours, theirs)
            reasons += [why] if given != theirs else []
            theirs = given
    return reasons if theirs == ours else None


def compare(
    sequences: Mapping[int, Sequence[Any]],
    both: Callable[[Without], tuple[Came, Came]],
    reasons: Callable[[Pair], list[str] | None],
    writes: Callable[[str], object],
) -> dict[str, Any]:
    """Play sequences of calls through both packages, and count what is equal, listed and different.

    Args:
        both: plays some of them; returns what came of each call in ours and in theirs.
        reasons: returns what `reasons_of` does.
        writes: tells whether a method changes what later calls are of.
    """
    playing: Without = {n: [] for n in sequences}
    verdicts: dict[tuple[int, int], list[str] | None] = {}
    shown: dict[tuple[int, int], str] = {}
    for number in range(ROUNDS):
        say(f"round {number + 1}: {len(playing)} sequences …")
        ours, theirs = both(playing)
        again: Without = {}
        for n, without in playing.items():
            listed = []
            for m, call in enumerate(sequences[n]):
                if m in without:
                    continue
                before = [k for k in range(m) if k not in without and not raised(ours[n][k])]
                pair = Pair(call, ours[n][m], theirs[n][m], [sequences[n][k] for k in before])
                why = verdicts[n, m] = reasons(pair)
                shown[n, m] = f"{n} {call} ours {pair.ours} theirs {pair.theirs} after {pair.earlier[-6:]}"[
                    :3000
                ]
                if why and writes(call.method):
                    listed.append(m)
            if listed:
                again[n] = [*without, *listed]
        playing = again
        if not playing:
            break
    kinds = Counter[str]()
    for n, calls in sequences.items():
        came = [verdicts[n, m] for m in range(len(calls))]
        kinds["different" if None in came else "listed" if any(came) else "equal"] += 1
    differences = [shown[key] for key, why in verdicts.items() if why is None]
    return {
        "calls": len(verdicts),
        **{kind: kinds[kind] for kind in ("equal", "listed", "different")},
        "list": dict(Counter(reason for why in verdicts.values() for reason in why or ()).most_common()),
        "differences": {str(n): text for n, text in enumerate(differences[:SHOWN], 1)},
    }
