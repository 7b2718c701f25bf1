"""Turns: an utterance and all that followed, written in one transaction, read in order; and epochs, where a prompt began anew.

A turn's messages lie between its first and last id in one append-only table, so a turn costs a few pages however long the session
is. The newest summary of a session replaces all before it, since it was made from them. It is made of what the household reads,
so it is private to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id, storable
from edgemem.records import Epoch, Heard, Turn, TurnState
from edgemem.scopes import Level, most_private
from edgemem.store import messages
from edgemem.store.episodes import row_number
from edgemem.store.graph import MESSAGE_LEVEL
from edgemem.store.kinds import TOOL_OUTPUTS
from edgemem.store.pending_erasures import note_whose
from edgemem.store.retention import trim
from edgemem.store.rights import LEVELS, canonical_owner_and_heard, reading_rule
from edgemem.store.validation import HEARD, as_text

if TYPE_CHECKING:
    from edgemem.records import Reader, StoredMessage
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction

STATES: tuple[TurnState, ...] = get_args(TurnState)  # in the order of the file's integers

_TURN = f"t.n, t.state, t.block, t.shown, t.recorded, t.level, t.answer, t.utterance, t.owner, t.{HEARD.replace(' ', ' t.')}"
_COLUMNS = 15
LIVE = (
    "m.id between t.first_message and t.last_message and m.session_id = t.session_id and m.turn = t.n"
    " and m.dropped is null"
)

_BESIDE_TALK = (
    f"exists (select 1 from messages x where {LIVE.replace('m.', 'x.')}"  # noqa: S608 - our own constants
    " and (x.extra is not null or x.role in ('system', 'developer')))"
)
"""Of a turn with more than plain talk: calls, their results, instructions."""

_CURRENT_CYCLE = """
  select max(
    ifnull((select value from meta where key = 'cycle'), 0),
    ifnull((select t.cycle from messages m join turns t on t.session_id = m.session_id and t.n = m.turn
      where m.id = t.first_message order by m.id desc limit 1), 0))
"""
# The newest turn is the newest that a first message is of: behind it stand its other messages, and results that came late.


def commit_turn(tx: Transaction, turn: Turn, *, recorded: int | None = None) -> None:
    """Write a whole turn accepted at a tick (None: now), behind all others of its session."""
    if turn.state == "open":
        raise InvalidInputError("A turn that is still open cannot be committed; say how it ended.")
    if not turn.messages:
        raise InvalidInputError("A turn needs at least one message.")
    rows = [messages.row_of(message) for message in turn.messages]
    session_id, last = ensure_session(tx, turn.session), last_number(tx, turn.session)
    if turn.n <= last:
        raise InvalidInputError(
            f"Turn {turn.n} of session {turn.session!r} is already written; use the number after {last}."
        )
    cycle = current_cycle(tx) + 1
    ids = messages.insert(tx, session_id, turn.n, rows)
    owner, heard = canonical_owner_and_heard(tx, turn.owner, turn.heard)
    heard = heard or Heard()
    place = utterance_in([message.role for message in turn.messages], turn.utterance)
    tx.insert(
        "turns (session_id, n, first_message, last_message, state, block, shown, level, answer, utterance, owner,"
        f" recorded, cycle, {HEARD})",
        (
            session_id,
            turn.n,
            ids[0],
            ids[-1],
            STATES.index(turn.state),
            storable(turn.block) or None,
            messages.to_json(turn.shown, what="what a turn showed") if turn.shown else None,
            LEVELS.index(turn.level),
            LEVELS.index(most_private(turn.level, turn.answer or turn.level)),
            None if place is None else ids[place],
            owner,
            tx.recorded if recorded is None else recorded,
            cycle,
            *(storable(part) if isinstance(part, str) else part for part in msgspec.structs.astuple(heard)),
        ),
    )


def current_cycle(db: Tables) -> int:
    """Return the highest cycle that any turn, thought or edge has had: a clock that counts the turns of all conversations.

    The newest turn tells it, so that a turn writes nothing for it; `meta` holds what thoughts, and erased turns, had reached.
    """
    return int(db.query(_CURRENT_CYCLE)[0][0])


def lift_cycle(tx: Transaction, cycle: int) -> None:
    """Have the next turn come after a cycle."""
    tx.execute(
        "insert into meta values ('cycle', ?) on conflict (key) do update set value = max(value, excluded.value)",
        (cycle,),
    )


def find_turn(
    tx: Transaction, session: str, recorded: int | None, *, from_n: int = 0
) -> tuple[int, TurnState] | None:
    """Return the number and state of the turn of a session that was accepted at a tick; None if it is not written."""
    rows = tx.execute(
        "select n, state from turns where session_id = (select id from sessions where name = ?) and recorded = ?"
        " and n >= ? order by n desc limit 1",
        (session, recorded, from_n),
    )
    return (int(rows[0][0]), STATES[rows[0][1]]) if rows else None


def last_number(db: Tables, session: str) -> int:
    """Return the number of a session's newest turn; -1 if it has none."""
    newest = db.query(
        "select n from turns where session_id = (select id from sessions where name = ?)"
        " order by n desc limit 1",
        (session,),
    )
    return int(newest[0][0]) if newest else -1


def turn_numbers(db: Tables, session: str) -> frozenset[int]:
    """Return the numbers of a session's turns."""
    rows = db.query(
        "select n from turns where session_id = (select id from sessions where name = ?)", (session,)
    )
    return frozenset(n for (n,) in rows)


def turn_of(db: Tables, message: str) -> tuple[str, int] | None:
    """Return the session and the number of the turn that has a message, by its id; None: there is none."""
    rows = db.query(
        "select s.name, m.turn from messages m join sessions s on s.id = m.session_id where m.id = ?",
        (row_number(message),),
    )
    return rows[0] if rows else None


def oldest_result(db: Tables, session: str, epoch: Epoch) -> int:
    """Return the number of the oldest turn that ends with a tool's result of since the epoch before this one, or its first turn."""
    rows = db.query(
        "select min(t.n) from messages m cross join turns t on t.session_id = m.session_id and t.n = m.turn"
        " and t.last_message = m.id where m.role = 'tool' and m.dropped is null"
        " and m.session_id = (select id from sessions where name = :session) and m.id > ifnull((select max(id) from epochs"
        " where session_id = (select id from sessions where name = :session) and id < :epoch), 0)",
        {"session": session, "epoch": epoch.id},
    )
    oldest: int | None = rows[0][0]
    return epoch.first_turn if oldest is None else min(oldest, epoch.first_turn)


def amend_turn(tx: Transaction, session: str, n: int, heard: Sequence[str]) -> bool:
    """Keep of a turn's speech the part heard before a barge-in, and the rest apart; tell if the turn is here.

    `heard` has it for each spoken message, oldest first; ids of words before a tool call go with the unheard part.
    """
    rows = tx.execute(
        f"select t.session_id, {messages.COLUMNS} from turns t cross join messages m on {LIVE}"  # noqa: S608 - our own
        " where t.session_id = (select id from sessions where name = ?) and t.n = ? order by m.id desc",
        (session, n),
    )
    if not rows:
        return False
    tx.execute(
        "update turns set state = ? where session_id = ? and n = ?",
        (STATES.index("interrupted"), rows[0][0], n),
    )
    stored = [messages.message_of(row[1:]) for row in rows if row[2] == "assistant"]
    spoken = [row for row in stored if row.content is not None or "tool_calls" not in row.extra]
    for message, part in zip(spoken, reversed(heard), strict=False):
        if part != message.content:
            _keep_of(tx, message, part)
    return True


def add_result(tx: Transaction, session: str, n: int, result: StoredMessage, answer: Level) -> bool:
    """Keep the result of a tool that answered after its turn, as the turn's last message; return whether there is such a turn.

    The turn's answer becomes at least as private as `answer`.
    """
    rows = tx.execute(
        "select session_id from turns where session_id = (select id from sessions where name = ?) and n = ?",
        (session, n),
    )
    if not rows:
        return False
    numbers = messages.insert(tx, rows[0][0], n, [messages.row_of(result)])
    tx.execute(
        "update turns set last_message = ?, answer = max(answer, ?) where session_id = ? and n = ?",
        (numbers[-1], LEVELS.index(answer), rows[0][0], n),
    )
    told = tx.execute("select id from messages where session_id = ? and turn = ?", (rows[0][0], n))
    tx.announce("messages", (number for (number,) in told))
    return True


def erase_turn(tx: Transaction, session: str, n: int) -> tuple[str | None, str | None]:
    """Erase a turn with its messages; return its owner and speaker, whose names stay, as the session does."""
    (session_id,) = tx.execute("select id from sessions where name = ?", (session,))[0]
    gone = tx.execute(
        "delete from messages where session_id = :id and turn = :n and id >= (select first_message from turns"
        " where session_id = :id and n = :n) returning id",
        {"id": session_id, "n": n},
    )
    tx.announce("messages", sorted(number for (number,) in gone))
    people = tx.execute(
        "delete from turns where session_id = ? and n = ? returning owner, speaker", (session_id, n)
    )
    return people[0]


def read_turns(
    db: Database, session: str, *, from_n: int = 0, reader: Reader | None = None, talk: bool = True
) -> list[Turn]:
    """Return a session's turns from a number on, oldest first, of each what a reader may read; without `talk` not plain ones."""
    rule, values = reading_rule(reader, "t.", level=MESSAGE_LEVEL.format(m="m"))
    answer, _ = reading_rule(reader, "t.", level="t.answer")
    # A cross join keeps the order of the loops: from the turns to their few messages.
    rows = db.query(
        f"select {_TURN},"  # noqa: S608 - our own constants
        f" {answer}, {messages.COLUMNS} from turns t cross join messages m on {LIVE}"
        " where t.session_id = (select id from sessions where name = :session) and t.n >= :from_n"
        f" and {rule} and (:talk or {_BESIDE_TALK}) order by t.n, m.id",
        {"session": session, "from_n": from_n, "talk": talk, **values},
    )
    turns: list[Turn] = []
    stored: list[StoredMessage] = []
    for number, row in enumerate(rows):
        stored.append(messages.message_of(row[_COLUMNS + 1 :]))
        if number + 1 == len(rows) or rows[number + 1][0] != row[0]:
            turns.append(_turn_of(session, row, stored))
            stored = []
    return turns


def read_words(
    db: Tables, session: str, *, most: int, since: float, reader: Reader | None
) -> list[tuple[int, str]]:
    """Return number and text of what was said in a session's last turns, the newest first, as far as a reader may know it.

    At most so many turns count, and none from before `since`, in seconds since the epoch.
    """
    rule, values = reading_rule(reader, "t.", level=MESSAGE_LEVEL.format(m="m"))
    rows = db.query(
        f"select t.n, m.content from turns t cross join messages m on {LIVE}"  # noqa: S608 - our own constants
        " where t.session_id = (select id from sessions where name = :session) and t.n > :before and t.recorded >= :since"
        f" and (m.id = t.utterance or m.role = 'assistant') and m.content <> '' and {rule} order by t.n desc, m.id desc",
        {"session": session, "before": last_number(db, session) - most, "since": int(since * 1e6), **values},
    )
    return [(n, text) for n, text in rows]


def ensure_session(tx: Transaction, name: str) -> int:
    """Return the row id of a session, making it if there is none; all of its messages have larger ids."""
    check_session_id(name)
    rows = tx.execute("select id from sessions where name = ?", (name,))
    if rows:
        return int(rows[0][0])
    number = tx.tick()
    tx.execute("insert into sessions (id, name, recorded) values (?, ?, ?)", (number, name, tx.recorded))
    return number


def utterance_in(roles: Sequence[str], utterance: int | None = None) -> int | None:
    """Return which message of a turn was said to the robot; where nobody knows, the newest of the user's."""
    if utterance is not None:
        return utterance
    return next((n for n in reversed(range(len(roles))) if roles[n] == "user"), None)


def answer_of(tx: Tables, session: str, n: int | None = None) -> tuple[Level, str | None] | None:
    """Return who may read turn `n` (None: the newest) but for its utterance, and whose it is."""
    rows = tx.query(
        "select answer, owner from turns where session_id = (select id from sessions where name = :session)"
        " and (:n is null or n = :n) order by n desc limit 1",
        {"session": session, "n": n},
    )
    return (LEVELS[rows[0][0]], rows[0][1]) if rows else None


def _turn_of(session: str, row: tuple[Any, ...], stored: list[StoredMessage]) -> Turn:
    n, state, block, shown, recorded, level, answer, utterance, owner, *heard = row[:_COLUMNS]
    entries: list[str] = []
    if row[_COLUMNS] and shown:
        with suppress(msgspec.MsgspecError):  # else nobody can tell what its block shows
            entries = msgspec.json.decode(shown, type=list[str])
    return Turn(
        session,
        n,
        tuple(stored),
        STATES[state],
        block if block and (entries or not shown) and row[_COLUMNS] else "",
        tuple(entries),
        recorded / 1e6,
        LEVELS[level],
        owner,
        Heard(*heard) if any(value is not None for value in heard) else None,
        LEVELS[answer],
        next((n for n, message in enumerate(stored) if message.id == utterance), None),
    )


def _keep_of(tx: Transaction, message: StoredMessage, heard: str) -> None:
    whole = (message.content or "") + (message.unheard or "")
    # A loop may know the heard part only roughly: then no word is lost either.
    unheard = whole.removeprefix(heard) if whole.startswith(heard) else whole
    row = messages.row_of(msgspec.structs.replace(message, content=heard, unheard=unheard or None))
    tx.execute(
        "update messages set content = ?, unheard = ? where id = ?", (row.content, row.unheard, message.id)
    )
    tx.announce("messages", [message.id])


# What tools answered in full is erased with the turn by a trigger in the schema.


class ToolOutput(NamedTuple):
    """The beginning of a tool's kept result, and its turn."""

    text: str
    length: int  # characters of the whole
    level: int
    owner: str | None
    session: str = ""
    turn: int | None = None


def pointer_to(session: str, text: str) -> str:
    """Return the name of a text: ten letters and digits, the same whenever the same is said in a session."""
    return blake2b(f"{session}\0{text}".encode(errors="replace"), digest_size=5).hexdigest()


def keep_output(
    tx: Transaction, session: str, pointer: str, text: str, *, most_bytes: int, n: int | None = None
) -> None:
    """Keep a text with turn `n` of a session, None: the newest; the oldest texts beyond `most_bytes` in all go."""
    content = storable(text).encode()
    tx.execute(
        "insert into tool_outputs (session_id, turn, pointer, bytes, content)"
        " select session_id, max(n), :pointer, :bytes, :content from turns"
        " where session_id = (select id from sessions where name = :session) and (:n is null or n = :n) group by session_id",
        {"session": session, "n": n, "pointer": pointer, "bytes": len(content), "content": content.decode()},
    )
    # The sizes are before the texts, so that this reads few pages of them.
    trim(tx, TOOL_OUTPUTS, most=most_bytes, size="bytes")


def read_output(
    db: Database, pointer: str, *, length: int, reader: Reader | None = None
) -> ToolOutput | None:
    """Return a kept text, cut to a length in characters; None where there is none that the reader may read."""
    rule, values = reading_rule(reader, "t.", level="t.answer")
    rows = db.query(
        "select substr(o.content, 1, :length), length(o.content), t.answer, t.owner, s.name, t.n"  # noqa: S608 - our own
        " from tool_outputs o join turns t on t.session_id = o.session_id and t.n = o.turn"
        " join sessions s on s.id = t.session_id"
        f" where o.pointer = :pointer and {rule} order by o.id desc limit 1",
        {"pointer": storable(pointer), "length": length, **values},
    )
    return ToolOutput(*rows[0]) if rows else None


def append_epoch(tx: Transaction, epoch: Epoch) -> Epoch:
    """Record that a session's prompt begins anew; return the epoch with its id."""
    session_id = ensure_session(tx, epoch.session)
    stored = msgspec.structs.replace(epoch, id=tx.tick(), summary=storable(epoch.summary))
    tx.insert(
        "epochs (id, session_id, first_turn, summary, reason, started_at, head, carried, level)",
        (
            stored.id, session_id, stored.first_turn, stored.summary, storable(stored.reason), stored.started_at,
            stored.head or None, as_text(list(stored.carried)) if stored.carried else None,
            LEVELS.index(stored.level),
        ),
    )  # fmt: skip
    if stored.summary:
        note_newer(tx, session_id, stored.id)
    return stored


def note_newer(tx: Transaction, session_id: int, number: int) -> None:
    """Tell the index that the summary before an epoch's is not the newest of its session any more, or is once more."""
    older = tx.execute(
        "select id from epochs where session_id = ? and id < ? and summary <> '' order by id desc limit 1",
        (session_id, number),
    )
    tx.announce("epochs", (other for (other,) in older))


def change_summary(tx: Transaction, number: int, summary: str) -> None:
    """Give an epoch another summary."""
    rows = tx.execute("update epochs set summary = ? where id = ? returning session_id", (summary, number))
    tx.announce("epochs", [number])
    for (session_id,) in rows:
        note_newer(tx, session_id, number)


def erase_epochs(tx: Transaction, session_id: int) -> None:
    """Erase all epochs of a session, with their summaries; that it has begun stays known."""
    for (name,) in tx.execute("select name from sessions where id = ?", (session_id,)):
        note_whose(tx, "begun", name)
    gone = tx.execute("delete from epochs where session_id = ? returning id, summary", (session_id,))
    tx.announce("epochs", (number for number, summary in gone if summary))


def latest_epoch(db: Database, session: str) -> Epoch | None:
    """Return the epoch that a session is in, or None if its prompt never began anew."""
    rows = db.query(
        "select id, first_turn, summary, reason, started_at, head, carried, level from epochs"
        " where session_id = (select id from sessions where name = ?) order by id desc limit 1",
        (session,),
    )
    if not rows:
        return None
    number, first_turn, summary, reason, started_at, head, carried, level = rows[0]
    lines = tuple(msgspec.json.decode(carried, type=list[str])) if carried else ()
    return Epoch(session, first_turn, summary, reason, started_at, number, head or "", lines, LEVELS[level])


def count_reasons(db: Database) -> dict[str, int]:
    """Return how many epochs began for each reason, those that a session began with aside."""
    return dict(db.query("select reason, count(*) from epochs where reason <> 'begin' group by 1 order by 1"))
