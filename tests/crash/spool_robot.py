"""A robot for `test_spool_kill`: accepts, replaces, commits, amends and discards turns on a disk that is full at random.

It prints `do N STATE` before it brings turn N into a state, and `ok` once all that it did so far must survive a kill.
"""

import logging
import random
import resource
import sys
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from edgemem.errors import StoreError
from edgemem.records import StoredMessage, Turn
from edgemem.store.journal import TurnJournal
from edgemem.store.kinds import open_truth
from edgemem.store.spool import ROOM

HEARD = "answer"


def asked(n: int, version: int = 0) -> tuple[StoredMessage, ...]:
    said = StoredMessage("user", f"turn {n} {'again ' * version}" + "x" * (n * 37 % 900))
    return (said, StoredMessage("assistant", "One moment.")) if version else (said,)


def answered(n: int, version: int = 0) -> tuple[StoredMessage, ...]:
    return (*asked(n, version), StoredMessage("assistant", f"answer {n} " + "y" * (n * 53 % 1900)))


def tell(*words: object) -> None:
    """Print a line that the test reads, however soon the kill comes."""
    print(*words, flush=True)  # noqa: T201 - its work


def main(path: Path, seed: int, first: int) -> None:
    chance = random.Random(seed)
    with open_truth(path, busy_timeout_s=0.02) as database:
        journal = TurnJournal(database)
        journal.reserve()

        def acknowledge(accepted: Future[int] | None = None) -> None:
            database.enqueue(lambda: None).result()
            refused = accepted is not None and accepted.exception() is not None
            tell("no" if refused or journal.backlog().unkept else "ok")

        n = first
        while True:
            n += 1
            session = chance.choice(("kitchen", "hall"))
            if chance.random() < 0.12:
                log = path.with_name(path.name + "-wal")
                most = max(ROOM, log.stat().st_size) if chance.random() < 0.7 else resource.RLIM_INFINITY
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            accepted, version = None, 0
            if chance.random() < 0.8:
                tell("do", n, "open", session)
                accepted = journal.accept(Turn(session, 0, asked(n), "open"))
                acknowledge(accepted)
            for _ in range(chance.choice((0, 0, 1, 2))):
                if accepted is None:
                    break
                version += 1
                tell("do", n, "open", session)
                accepted = journal.accept(Turn(session, 0, asked(n, version), "open"), replaces=accepted)
                acknowledge(accepted)
                if chance.random() < 0.2:
                    with suppress(StoreError):
                        journal.settle() if chance.random() < 0.5 else journal.mark_unfinished(session)
            if accepted is not None and chance.random() < 0.2:
                tell("do", n, "gone", session)
                journal.discard(session, accepted)
                acknowledge()
                continue
            tell("do", n, "complete", session)
            committed = journal.commit(Turn(session, 0, answered(n, version)), accepted=accepted)
            acknowledge()
            if chance.random() < 0.3:
                tell("do", n, "interrupted", session)
                journal.amend(session, 0, [HEARD], tick=committed.tick)
                acknowledge()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
