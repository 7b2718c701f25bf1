"""Episodes: what the robot did or lived through, and how it ended; the newest ones are kept.

One takes the place of another of the same name, if a caller gave it one. A call of a tool is an episode of its own; a turn with
several calls has one more, which tells the question and how each tool did.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, storable
from edgemem.records import Episode
from edgemem.scopes import name_key
from edgemem.store.declaration import Kind
from edgemem.store.facts import storable_value
from edgemem.store.graph import STORED_THOUGHTS
from edgemem.store.kinds import EPISODES, GOALS
from edgemem.store.retention import trim
from edgemem.store.rights import (
    LEVELS,
    SPELLED,
    canonical_owner_and_heard,
    drop_unused,
    level_and_owner,
    reading_rule,
)
from edgemem.store.validation import (
    HEARD,
    as_text,
    checked_count,
    checked_heard,
    checked_number,
    checked_text,
    checked_time,
    heard_columns,
    heard_of,
    lookup,
)

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction

MAX_PAYLOAD_BYTES = 64 * 1024
_MAX_DEPTH = 32
_MAX_INT = 2**63
_ID_DIGITS = 18
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COLUMNS = f"kind, payload, outcome, agent, id, level, owner, name, summary, details, session, turn, latency, {HEARD}"
_SELECT = f"""
  select kind, payload, outcome, id / 1e6, agent, cast(id as text), level, owner, ifnull(name, ''), ifnull(summary, ''),
    details, ifnull(session, ''), turn, latency, {HEARD} from episodes
"""  # noqa: S608 - our own constant
_AT = "coalesce(event_time, id / 1e6)"
_SEED_OUTCOMES = {"ok": "success", "failed": "failure"}  # of EdgeVox, as Cognitia calls them
# Dropping waits for a tenth of `keep`, but a caller who asks for the newest gets none beyond `keep`.
_OLDEST = "(select id from episodes order by id desc limit 1 offset :keep)"
_PERSON = SPELLED.format(key=":person")
READERS = "case level when 0 then 'global' when 1 then 'household' else 'user:' || owner end"
"""The scope of those who may read a row; null: nobody but the operator."""
_SAID = "not exists (select 1 from marks where subject = 'episode:' || episodes.id and aloud = 0)"
_FILTERS = {
    "readers": f"{READERS} = :readers and {_SAID}",
    "kind": "kind = :kind", "tag": "id in (select episode from episode_tags where tag = :tag)",
    "session": "session = :session", "outcome": "outcome in (:outcome, :other)",
    "person": f"(owner = {_PERSON} or speaker = {_PERSON})", "since": f"{_AT} >= :since", "until": f"{_AT} < :until",
}  # fmt: skip
TOOL_CALL = "tool_call"
_ASKED_CHARS = 200
_DID_CHARS = 1000

Run = tuple[str, bool]  # a tool that was called, and whether that worked


class Described(TypedDict, total=False):
    """What can be told of an episode beside what an agent of EdgeVox tells."""

    name: str | None
    summary: str
    decisions: Collection[str]
    tools: Collection[str]
    tags: Collection[str]
    session: str | None
    turn: int | None
    latency_ms: float | None
    metadata: dict[str, Any] | None


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of one column: an episode is read as a whole."""

    decisions: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


_details = msgspec.json.Decoder(Details).decode


def read_details(column: str | None) -> Details:
    """Return the details in the column."""
    return _details(column) if column else Details()


def append_episode(
    tx: Transaction, episode: Episode, *, keep: int = 500, episode_id: int | None = None
) -> int:
    """Store an episode, in place of the one that has its name; return its id. What JSON cannot hold of a payload becomes text.

    The oldest beyond `keep` are dropped, a tenth of it at a time; 0 keeps all.
    """
    latency_ms = episode.latency_ms
    if latency_ms is not None and not 0 <= checked_number(latency_ms, "latency_ms") < math.inf:
        raise InvalidInputError(f"latency_ms must be milliseconds, 0 or more, not {latency_ms:g}.")
    check_key(episode.kind, what="the kind of an episode")
    payload = checked_payload(episode.payload).decode()
    level, who = level_and_owner("", episode.level, episode.owner, checked_heard(episode.heard))
    who, heard = canonical_owner_and_heard(tx, who, episode.heard)
    agent = checked_text(episode.agent, "the agent of an episode")
    outcome = storable_value(episode.outcome, what="the outcome of an episode")
    name = checked_name(episode.name, what="the name of an episode")
    summary = storable_value(episode.summary, what="the summary of an episode") or None
    session = checked_name(episode.session, what="the session of an episode")
    details = Details(
        checked_texts(episode.decisions, "the decisions of an episode"),
        checked_texts(episode.tools, "the tools of an episode"),
        checked_texts(episode.tags, "the tags of an episode"),
    )
    row_id = tx.tick() if episode_id is None else episode_id
    more = as_text(details) if details != Details() else None
    row = (episode.kind, payload, outcome, agent, row_id, level, who, name, summary, more)
    if name is not None:
        _drop(tx, tx.execute("delete from episodes where name = ? returning id, owner, speaker", (name,)))
    tx.insert(f"episodes ({_COLUMNS})", (*row, session, episode.turn, latency_ms, *heard_columns(heard)))
    keep_tags(tx, row_id, details.tags)
    if keep > 0:
        _drop(tx, trim(tx, EPISODES, most=keep, slack=keep // 10))
    return row_id


def keep_tags(tx: Transaction, episode_id: int, tags: Collection[str]) -> None:
    """Have an episode found by its tags."""
    tx.executemany("insert or ignore into episode_tags values (?, ?)", [(tag, episode_id) for tag in tags])


def find_episodes(db: Tables, *, n: int = 20, reader: Reader | None = None, **filters: Any) -> list[Episode]:
    """Return at most `n` episodes that pass the filters of `TableMemoryStore.episodes`, or are of a `kind`; None is no filter."""
    rule, bound = reading_rule(reader)
    given = {name: value for name, value in filters.items() if value is not None}
    for name, value in given.items():
        if name in ("since", "until"):
            bound[name] = checked_time(value, name)
        elif name == "person":
            bound[name] = name_key(lookup(value, "a person"))
        else:
            bound[name] = lookup(value, f"the {name} of an episode")
    outcome = given.get("outcome")
    bound["other"] = next((ours for ours, seed in _SEED_OUTCOMES.items() if seed == outcome), outcome)
    bound["n"] = checked_count(n, "the number of episodes")
    where = " and ".join((rule, *(_FILTERS[name] for name in given)))
    rows = db.query(f"{_SELECT} where {where} order by {_AT} desc, id desc limit :n", bound)
    return [_episode_of(row) for row in rows]


def count_episodes(db: Tables, kind: str) -> int:
    """Return how many episodes of a kind are kept."""
    return int(db.query("select count(*) from episodes where kind = ?", (kind,))[0][0])


def recent_episodes(
    db: Tables, n: int = 5, *, kind: str | None = None, reader: Reader | None = None, keep: int = 500
) -> list[Episode]:
    """Return the newest `n` episodes, the oldest of them first."""
    n = checked_count(n, "the number of episodes")
    kind = None if kind is None else lookup(kind, "a kind")
    if n == 0:
        return []
    rule, values = reading_rule(reader)
    oldest = _OLDEST if keep > 0 else "null"
    of_kind = "" if kind is None else "and kind = :kind"
    rows = db.query(
        f"{_SELECT} where id > coalesce({oldest}, 0) and {rule} {of_kind} order by id desc limit :n",
        {**values, "keep": keep, "kind": kind, "n": n},
    )
    return [_episode_of(row) for row in reversed(rows)]


def stored_text(kind: str, payload: str, outcome: str, summary: str | None, details: str | None) -> str:
    """Return the text of these columns as people read it."""
    summary = summary or episode_text(kind, msgspec.json.decode(payload), outcome)
    more = read_details(details)
    tools = (tool for tool in more.tools if spell_out(tool) not in summary)  # else it names them
    marks = ", ".join(dict.fromkeys((*more.tags, *tools)))
    words = "; ".join((summary, *more.decisions))
    return f"{words} [{marks}]" if marks else words


def goal_text(title: str, data: dict[str, Any]) -> str:
    """Return a goal as people read it, by its title and the rest of its fields."""
    target, phase = data.get("target_amount"), data.get("phase")
    reached = "" if target is None else f", {data.get('current_amount', 0)} of {target}"
    return f"{title}{reached}{f' ({phase})' if phase else ''}"


def text_of(kind: Kind, values: Sequence[Any]) -> str:
    """Return the text of a row, by its values in the columns of `Kind.found_by`."""
    if kind is EPISODES:
        return stored_text(*values)
    if kind is GOALS:
        title, data = values
        return f"goal: {goal_text(title, msgspec.json.decode(data))}"
    if kind is STORED_THOUGHTS:
        essence, content = values
        return str(content if content.startswith(essence) else f"{essence}\n{content}")
    listed = kind.columns_of("json")
    words = (
        ", ".join(msgspec.json.decode(value)) if value and column in listed else value
        for column, value in zip(kind.found_by, values, strict=True)
    )
    return ". ".join(filter(None, words))


def text_of_episode(episode: Episode) -> str:
    """Return an episode as people read it."""
    details = Details(episode.decisions, episode.tools, episode.tags)
    return stored_text(
        episode.kind, as_text(episode.payload), episode.outcome, episode.summary, as_text(details)
    )


def happened_at(episode: Episode) -> float:
    """Return when an episode happened, seconds since the epoch; where nobody said it, when it was stored."""
    heard = episode.heard
    return episode.timestamp if heard is None or heard.event_time is None else heard.event_time


def episode_text(kind: str, payload: Any, outcome: str) -> str:
    """Return an episode as people read it."""
    if kind == "tool_call" and isinstance(payload, dict) and isinstance(payload.get("name"), str):
        given = payload.get("args")
        values = list(given.values()) if isinstance(given, dict) else given
        called = " ".join(
            [spell_out(payload["name"]), *_flat(values), *([] if outcome == "ok" else [outcome])]
        )
        answer = " ".join(_flat(payload.get("error" if outcome == "failed" else "result")))
        return f"{called}: {answer}" if answer else called
    words = " ".join(_flat(payload))
    return f"{spell_out(kind)}: {words} ({outcome})" if words else f"{spell_out(kind)} ({outcome})"


def spell_out(key: str) -> str:
    """Return the words of a key such as `user.favouriteColour` or `door_code`, with spaces between them."""
    return " ".join(_HUMP.sub(" ", key).replace("_", " ").replace(".", " ").replace("-", " ").split())


def read_episode(db: Tables, episode_id: str, *, reader: Reader | None = None) -> Episode | None:
    """Return one episode by its id; None: there is none that the reader may read."""
    rule, values = reading_rule(reader)
    rows = db.query(f"{_SELECT} where id = :id and {rule}", {**values, "id": row_number(episode_id)})
    return _episode_of(rows[0]) if rows else None


def row_number(episode_id: str) -> int:
    """Return the number of an episode's row; -1 where no id looks like this."""
    text = lookup(episode_id, "the id of an episode")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS else -1


def checked_payload(payload: dict[str, Any]) -> bytes:
    """Return a payload as JSON; raise InvalidInputError if it is no dict, or too long to be stored."""
    if not isinstance(payload, dict):
        raise InvalidInputError(
            f"The payload of an episode must be a dict, not {type(payload).__name__}; pass one such as {{'text': '…'}}."
        )
    text = msgspec.json.encode(_plain(payload))
    if len(text) > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(f"An episode's payload may have {MAX_PAYLOAD_BYTES:,} bytes; shorten it.")
    return text


def read_payload(payload: Any) -> dict[str, Any]:
    """Return a payload as it was stored; of one that is no dict, what it says as text."""
    if isinstance(payload, dict):
        return payload
    return {"text": payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()}


def _episode_of(row: tuple[Any, ...]) -> Episode:
    kind, payload, *given, level, owner, name, summary, details = row[:11]
    words = name, summary, *msgspec.structs.astuple(read_details(details))
    payload = read_payload(msgspec.json.decode(payload))
    return Episode(*(kind, payload, *given, LEVELS[level], owner, heard_of(row[14:]), *words, *row[11:14]))


def checked_name(name: str | None, *, what: str) -> str | None:
    """Return a name that may be left out, None where it is; raise InvalidInputError if it is none of one line."""
    if not name:
        return None
    check_key(name, what=what)
    return name


def checked_texts(texts: Collection[str], what: str) -> tuple[str, ...]:
    """Return some short texts as a file can hold them; raise InvalidInputError if these are none."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Collection):
        raise InvalidInputError(f"{what} must be a list of texts, not {type(texts).__name__}; pass ['…'].")
    kept = tuple(checked_text(text, what) for text in texts)
    if sum(len(text.encode()) for text in kept) > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(f"{what} may have {MAX_PAYLOAD_BYTES:,} bytes; shorten them.")
    return kept


def _drop(tx: Transaction, rows: list[tuple[Any, ...]]) -> None:
    """Tell the index of episodes that are gone, and erase names that are nowhere else."""
    if rows:
        tx.announce("episodes", sorted(number for number, _, _ in rows))
        drop_unused(tx, (name for row in rows for name in row[1:]))


def _plain(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int):
        return value if -_MAX_INT <= value < _MAX_INT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        if depth == _MAX_DEPTH:  # or something that contains itself
            return "…"
        if isinstance(value, dict):
            return {storable(str(key)): _plain(part, depth + 1) for key, part in value.items()}
        return [_plain(part, depth + 1) for part in value]
    return storable(str(value))


def _flat(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for key, part in value.items() for word in (spell_out(str(key)), *_flat(part))]
    if isinstance(value, list):
        return [word for part in value for word in _flat(part)]
    return [] if value is None else [str(value)]


class ToolStats(msgspec.Struct, frozen=True):
    """How a tool has done; percentiles are None where nobody measured."""

    tool: str
    calls: int
    failures: int
    failure_rate: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


def call_record(tool: str, args: Any, answer: Any) -> tuple[dict[str, Any], str]:
    """Return the payload and the outcome of a call; it failed if its answer has an `error`, or an `error` as its `status`."""
    failed = isinstance(answer, dict) and ("error" in answer or answer.get("status") == "error")
    payload = {"name": tool, "args": args, "error" if failed else "result": answer}
    return payload, "failed" if failed else "ok"


def retell_turn(tx: Transaction, session: str, runs: Sequence[Run], *, agent: str, keep: int) -> None:
    """Store one episode of an agent, as private as the answer: the question of a session's newest turn and how its tools did."""
    rows = tx.execute(
        f"select n, answer, owner, first_message, last_message, session_id, {HEARD} from turns"  # noqa: S608 - our own
        " where session_id = (select id from sessions where name = ?) order by n desc limit 1",
        (session,),
    )
    if not rows or (rows[0][1] == LEVELS.index("private") and rows[0][2] is None):
        return  # of an unknown voice in private nothing is kept that nobody could ever be told
    n, level, owner, first, last, session_id, *columns = rows[0]
    asked = tx.execute(
        "select content from messages where id between ? and ? and session_id = ? and turn = ? and role = 'user'"
        " and dropped is null order by id limit 1",
        (first, last, session_id, n),
    )
    worked = sum(ok for _, ok in runs)
    episode = Episode(
        "turn",
        {},
        "success" if worked == len(runs) else "partial" if worked else "failure",
        agent=agent,
        heard=heard_of(columns),
        level=LEVELS[level],
        owner=owner,
        summary=_retold(" ".join((asked[0][0] or "").split()) if asked else "", runs),
        tools=tuple(dict.fromkeys(tool for tool, _ in runs)),
        session=session,
        turn=n,
    )
    append_episode(tx, episode, keep=keep)


def tool_stats(db: Tables) -> list[ToolStats]:
    """Return how each tool has done among the calls that are kept, the most called first."""
    rows = db.query("select payload, outcome, latency from episodes where kind = ?", (TOOL_CALL,))
    runs: defaultdict[str, list[tuple[bool, float | None]]] = defaultdict(list)
    for payload, outcome, latency in rows:
        runs[str(read_payload(msgspec.json.decode(payload)).get("name"))].append((outcome == "ok", latency))
    stats = [_stats_of(tool, calls) for tool, calls in runs.items()]
    return sorted(stats, key=lambda of: (-of.calls, of.tool))


def _stats_of(tool: str, calls: Sequence[tuple[bool, float | None]]) -> ToolStats:
    failures = sum(not ok for ok, _ in calls)
    latencies = sorted(latency for _, latency in calls if latency is not None)
    p50, p90, p99 = (
        latencies[max(0, math.ceil(share * len(latencies)) - 1)] if latencies else None
        for share in (0.5, 0.9, 0.99)
    )
    return ToolStats(tool, len(calls), failures, failures / len(calls), p50, p90, p99)


def _retold(utterance: str, runs: Sequence[Run]) -> str:
    did = ", ".join(
        f"{spell_out(tool)} {'worked' if ok else 'failed'}{f' {n} times' if n > 1 else ''}"
        for (tool, ok), n in Counter(runs).items()
    )
    asked, did = _shortened(utterance, _ASKED_CHARS), _shortened(did, _DID_CHARS)
    return f"{asked} ({did})" if asked else did


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
