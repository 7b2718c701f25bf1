"""An index in tests: turns that are stored, and what must always hold of the file."""

from __future__ import annotations

from edgemem.recall.index.index import Index
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store import turns


def say(truth, n: int, *texts: str, session: str = "s", speaker: str = "alice") -> None:
    """Store one turn of user and assistant messages."""
    roles = ("user", "assistant") * len(texts)
    said = tuple(StoredMessage(role, text) for role, text in zip(roles, texts, strict=False))
    turn = Turn(session, n, said, heard=Heard(speaker=speaker))
    truth.write(lambda tx: turns.commit_turn(tx, turn))


def words_of(database) -> set[str]:
    """Return all terms that stand in an index file."""
    return {term for (terms,) in database.query("select terms from docs") for term in terms.split()}


def count_docs(index) -> int:
    """Return how many docs an index holds."""
    return int(index.database.query("select count(*) from docs")[0][0])


def bytes_of(index) -> bytes:
    """Return everything that stands in the file and its log."""
    files = (index.path, index.path.with_name(index.path.name + "-wal"))
    return b"".join(file.read_bytes() for file in files if file.exists())


def check(index) -> None:
    """Hold the index against itself: text, counters and vectors."""
    assert index.database.quick_check() == []
    docs = index.database.query("select id, past from docs")
    assert (
        index.database.query(
            "select 1 from docs where length <> length(terms) - length(replace(terms, ' ', '')) + (terms <> '')"
        )
        == []
    )
    assert index.database.query("select 1 from named where doc not in (select id from docs)") == []
    assert index.database.query("select 1 from names where id not in (select name from named)") == []
    assert index.database.query("select 1 from sounds where name not in (select id from names)") == []
    sides = [{id_ for id_, past in docs if bool(past) is over} for over in (False, True)]
    check_spaces(index.database, *sides)


def check_spaces(database, holding: set[int], past: set[int] = frozenset()) -> None:
    """Hold the vectors of the newest model against the docs that hold, and those that do not: each has some, or waits."""
    ask = database.query
    for (space,) in ask("select value from meta where key = 'space'"):
        queued = [(doc, bool(urgent)) for doc, urgent in ask("select doc, urgent from unembedded")]
        for number, docs, holds in ((space, holding, True), (space + 1, past, False)):
            vectors = {doc for (doc,) in ask("select doc from vectors where space = ?", (number,))}
            waiting = [doc for doc, urgent in queued if urgent is holds]
            assert vectors | set(waiting) == docs
            assert not vectors & set(waiting)
            assert len(waiting) == len(set(waiting))
    known = "(select id from spaces union all select id + 1 from spaces)"
    assert ask(f"select 1 from vectors where space not in {known}") == []
    assert len(ask("select 1 from spaces where fingerprint is not null")) <= 2


def work(index: Index) -> None:
    """Do all upkeep."""
    while index.catch_up() + index.embed_pending():
        pass


def count(index: Index, table: str) -> int:
    """Return how many rows a table of the index has."""
    return int(index.database.query(f"select count(*) from {table}")[0][0])
