"""`SQLiteMemoryStore`: facts, preferences and episodes behind the names of the EdgeVox memory module."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from edgemem.config import MemorySettings, Profile, Settings, StoreSettings
from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, clean
from edgemem.records import Episode, Preference
from edgemem.scopes import checked_scope, not_mistyped, without_spaces
from edgemem.store import episodes, fact_queries, facts
from edgemem.store.db.database import Database
from edgemem.store.db.files import Closable
from edgemem.store.erase.delete_rows import erase_fact, erase_preference, erase_record
from edgemem.store.facts import storable_value
from edgemem.store.kinds import EPISODES, open_truth
from edgemem.store.pending_erasures import erase_in_truth, last_forgotten
from edgemem.store.rights import (
    LEVELS,
    level_and_owner,
    level_of_episode,
    reading_rule,
    scope_in_sql,
    spell_scope,
)
from edgemem.store.thoughts import NeverAloud, put_aloud, put_mark, read_never_aloud
from edgemem.store.validation import checked_count, checked_heard, lookup
from edgemem.thoughts import checked_metadata

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgemem.clock import Clock
    from edgemem.records import Fact, Heard, Held, Preference, Reader
    from edgemem.scopes import Level
    from edgemem.store.db.transaction import Tables, Transaction
    from edgemem.store.episodes import Described
    from edgemem.store.facts import Whose

T = TypeVar("T")

_TELLING = 4  # characters of a text that tells a copy which holds it from one that does not
_MAX_LINE_CHARS = 400
_MOST_PARTS = 3


class TableMemoryStore(Closable):
    """A memory store on tables: what it can be asked, and each write; without a reader, methods show the operator everything."""

    _settings: Settings

    @property
    def max_episodes(self) -> int:
        """Return how many of the newest episodes are kept; 0 keeps all."""
        return self._settings.now.store.max_episodes

    @property
    def doubtful_below(self) -> float:
        """Return the confidence below which a fact does not replace one that was heard well."""
        return self._settings.now.memory.doubtful_below

    @abstractmethod
    def _records(self) -> Tables:
        """Return the tables as they are now."""

    @abstractmethod
    def _write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction, and keep what it wrote; return its result."""

    @abstractmethod
    def _erased(self, texts: Collection[str]) -> None:
        """Take the bytes of an erased record out of all files; `texts` are its words."""

    def _checked_scope(self, scope: str) -> str:
        return not_mistyped(scope)

    def _checked_metadata(self, metadata: dict[str, Any] | None, *, aloud: bool = True) -> dict[str, Any]:
        return checked_metadata(metadata or {})

    def never_aloud(self) -> NeverAloud:
        """Return the values that no line for a model may hold, as they are now."""
        return NeverAloud()

    def _assert_fact(self, tx: Transaction, key: str, value: Any, **options: Any) -> facts.Outcome:
        """Believe something from now on, or doubt it; return what became of it."""
        return facts.assert_fact(tx, key, value, doubtful_below=self.doubtful_below, **options)

    def _episode_id(self, _tx: Transaction) -> int | None:
        """Return the id of an episode that is written now; None: a new one."""
        return None

    def get_fact(self, key: str, *, scope: str = "global") -> str | None:
        """Return the value that holds now, or None."""
        return self.read_values([(scope, key)], reader=None)[scope, key].value

    def read_values(
        self, keys: Collection[tuple[str, str]], *, reader: Reader | None
    ) -> dict[tuple[str, str], Held]:
        """Return for several (scope, key) whether a reader may read what holds now, and if so, the value."""
        db = self._records()
        return fact_queries.read_values(db, keys, t=db.now(), reader=reader)

    def facts(self, *, scope: str | None = None, reader: Reader | None = None) -> list[Fact]:
        """Return what holds now, newest first."""
        db = self._records()
        return fact_queries.facts_as_of(db, db.now(), scope=scope, reader=reader)

    def user_facts(
        self, scope: str, *, topic: str | None = None, reader: Reader | None = None
    ) -> dict[str, Any]:
        """Return the values of a scope that hold now, as they were given; a topic's replace those of none."""
        db = self._records()
        return fact_queries.user_facts(db, db.now(), scope=scope, topic=topic, reader=reader)

    def facts_as_of(
        self,
        t: float,
        *,
        scope: str | None = None,
        known_at: float | None = None,
        reader: Reader | None = None,
    ) -> list[Fact]:
        """Return what held at `t`, as believed now, or as the robot believed at `known_at`; newest first."""
        return fact_queries.facts_as_of(self._records(), t, scope=scope, known_at=known_at, reader=reader)

    def fact_history(self, key: str, *, scope: str = "global") -> list[Fact]:
        """Return every version that was ever said, in recorded order, with what it supersedes and what superseded it.

        `invalidated_at` tells when a version was first contradicted; `valid_from` and `valid_to` the part still believed, or all
        of it if nothing is.
        """
        return fact_queries.fact_history(self._records(), key, scope=scope)

    def doubts(self, *, scope: str | None = None, reader: Reader | None = None) -> list[Fact]:
        """Return unconfirmed values, oldest first: of low confidence against a confident value, or of a less trusted speaker."""
        return fact_queries.read_doubts(self._records(), scope=scope, reader=reader)

    def preferences(self, *, scope: str | None = None, reader: Reader | None = None) -> list[Preference]:
        """Return preferences in the order of scope and key."""
        return read_preferences(self._records(), scope=scope, reader=reader)

    def recent_episodes(
        self, n: int = 5, *, kind: str | None = None, reader: Reader | None = None
    ) -> list[Episode]:
        """Return the newest `n` episodes, the oldest of them first."""
        return episodes.recent_episodes(self._records(), n, kind=kind, reader=reader, keep=self.max_episodes)

    def episodes(
        self,
        *,
        n: int = 20,
        tag: str | None = None,
        outcome: str | None = None,
        person: str | None = None,
        session: str | None = None,
        since: float | None = None,
        until: float | None = None,
        reader: Reader | None = None,
    ) -> list[Episode]:
        """Return at most `n` episodes that match all that is given, by when they happened, the newest first.

        `outcome` is as stored; `success` and `failure` are also EdgeVox's `ok` and `failed`. `person` caused or owns them.
        Times are seconds since the epoch: `since` then, `until` before then.
        """
        filters = {"tag": tag, "outcome": outcome, "person": person, "session": session}
        return episodes.find_episodes(
            self._records(), n=n, reader=reader, since=since, until=until, **filters
        )

    def get_episode(self, id: str, *, reader: Reader | None = None) -> Episode | None:  # noqa: A002 - as it names it
        """Return one episode by its id; None: there is none that the reader may read."""
        return episodes.read_episode(self._records(), id, reader=reader)

    def render_for_prompt(self, *, max_facts: int = 20, max_episodes: int = 5) -> str:
        """Return the newest facts, all preferences and the newest episodes as Markdown that is safe to show to a model.

        It is the operator's view, so no built-in hook sends it.
        """
        sections = {
            "## Known preferences": [f"- {_line(p.key)}: {_line(p.value)}" for p in self.preferences()],
            "## Known facts": [
                f"- {_line(fact.key)}"
                + (f" [{_line(fact.scope)}]" if fact.scope != "global" else "")
                + f": {_line(fact.value)}"
                + (" (perhaps misheard)" if fact.perhaps_misheard else "")
                for fact in self.facts()[: checked_count(max_facts, "max_facts")]
            ],
            "## Recent outcomes": [
                f"- [{_line(episode.kind)}] {_line(episode.summary) or _brief(episode.payload)} → {_line(episode.outcome)}"
                for episode in self.recent_episodes(max_episodes)
            ],
        }
        text = "\n".join("\n".join((title, *lines)) for title, lines in sections.items() if lines)
        return self.never_aloud().redact(text, None, [])

    def add_fact(
        self,
        key: str,
        value: Any,
        *,
        scope: str = "global",
        source: str = "",
        valid_from: float | None = None,
        valid_to: float | None = None,
        heard: Heard | None = None,
        **whose: Unpack[Whose],
    ) -> None:
        """Store a value that holds in `[valid_from, valid_to)`; values believed of that time stay as history.

        A value of low confidence against a confident one, or against a more trusted speaker's, becomes a doubt (see `doubts`).

        Args:
            key: a name such as `user.allergies`.
            value: text of at most 16 KiB, or anything that JSON can hold in 4 kB, which prompts say in words.
            scope: who or what it is about: `global`, `household`, `user:alice`, `env:kitchen`; it also says who may read it. Case
                and the form of accents make no other person.
            source: where it comes from.
            valid_from: seconds since the epoch, also in the past or the future; None is now.
            valid_to: the same; None is for ever.
            heard: how it came to the robot's ears.
            whose: `level` and `owner`, if not what the scope says; `trust`, 0 to 3 (see `edgemem.Fact`), if not by who said it,
                the operator where `heard` does not tell; `topic`, the conversation that it is about; `metadata`, a dict of
                text, numbers and such dicts, by which recall filters; `aloud`, False for what is never said, now or later.
        """
        if value is None:
            raise InvalidInputError(
                f"The value of {key!r:.80} must not be None; to end a fact call retract_fact, to erase it forget_fact."
            )
        scope = self._checked_scope(scope)
        aloud = whose.pop("aloud", True)
        metadata = self._checked_metadata(whose.pop("metadata", None), aloud=aloud)
        stated = {"scope": scope, "source": source, "heard": heard, **whose}

        def state(tx: Transaction) -> None:
            outcome = self._assert_fact(tx, key, value, valid_from=valid_from, valid_to=valid_to, **stated)
            if metadata:
                put_mark(tx, outcome.thought_id, metadata=metadata)
            put_aloud(tx, outcome.thought_id, aloud=None if aloud else False)

        self._write(state)

    def change_fact(
        self,
        key: str,
        change: Callable[[Any], Any],
        *,
        scope: str = "global",
        source: str = "",
        heard: Heard | None = None,
        trust: int | None = None,
    ) -> None:
        """Store what `change` makes of the value that holds (None: there is none); nobody writes in between.

        Such as a list with one more item; the further arguments are those of `add_fact`. Who goes on with a value contradicts
        nobody: see `facts.change_fact`.
        """
        stated: dict[str, Any] = {"scope": self._checked_scope(scope), "source": source, "heard": heard}
        stated["trust"] = trust
        self._write(lambda tx: facts.change_fact(tx, key, change, state=self._assert_fact, **stated))

    def facts_version(self) -> tuple[int, ...]:
        """Return numbers that change when something is written or erased, and every half a minute: facts also end."""
        # What waits for the index leaves its queue once the index has it; the newest forgetting stays.
        db = self._records()
        newest = db.query(
            "select (select max(id) from facts), (select max(id) from preferences), (select max(id) from index_queue)"
        )
        return (*(number or 0 for number in newest[0]), last_forgotten(db), int(db.now() // 30))

    def retract_fact(self, key: str, *, scope: str = "global", valid_from: float | None = None) -> bool:
        """Note that a fact has no value from `valid_from` (now) on; its history stays. Tell whether it had one."""
        check_key(key)
        check_key(scope, what="a scope")

        def retract(tx: Transaction) -> bool:
            # The end of a value has no owner: the level only matters for values.
            ends = {"scope": scope, "valid_from": valid_from, "level": "shared"}
            is_there = facts.find_key(tx, scope, key) is not None
            return is_there and self._assert_fact(tx, key, None, **ends).is_news

        return self._write(retract)

    def forget_fact(self, key: str, *, scope: str = "global") -> bool:
        """Erase a fact with every version of it, from the file too; tell whether there was one."""
        versions = self.fact_history(key, scope=scope)
        texts = {lookup(key), *(fact.value for fact in versions)}
        texts |= {text for fact in versions if fact.json for text in _telling_texts(fact.decoded_value)}
        existed = self._write(lambda tx: erase_fact(tx, key, scope=scope)) is not None
        if existed:
            self._erased(texts)
        return existed

    def set_preference(self, key: str, value: str, *, scope: str = "global") -> None:
        """Store a lasting wish in place of an older one."""
        scope = self._checked_scope(scope)
        self._write(lambda tx: put_preference(tx, key, value, scope=scope))

    def forget_preference(self, key: str, *, scope: str = "global") -> bool:
        """Erase a preference, from the file too; tell whether there was one."""
        texts = {lookup(key), *(wish.value for wish in self.preferences(scope=scope) if wish.key == key)}
        existed = self._write(lambda tx: erase_preference(tx, key, scope=scope))
        if existed:
            self._erased(texts)
        return existed

    def add_episode(
        self,
        kind: str,
        payload: dict[str, Any],
        outcome: str,
        *,
        agent: str = "",
        heard: Heard | None = None,
        level: Level | None = None,
        owner: str | None = None,
        **described: Unpack[Described],
    ) -> None:
        """Store what the robot did or lived through, and how it ended.

        Where no level says so, the household may read what a recognised speaker caused (`heard`), and anyone the rest.

        Args:
            heard: how its cause was heard; its `event_time` is when it happened, also in the future.
            described: `name`, an id of your own, in place of the episode that has it; `summary`, in words: it is found by these
                and by its `decisions`, `tags` and `tools`; `session` and `turn` in which it happened; `latency_ms` of a call of a tool;
                `metadata`, as of a fact.
        """
        metadata = self._checked_metadata(described.pop("metadata", None))
        fields: dict[str, Any] = {**described, "agent": agent, "heard": heard, "owner": owner}
        for name in ("decisions", "tools", "tags"):
            fields[name] = episodes.checked_texts(fields.get(name, ()), f"the {name} of an episode")
        fields["level"] = level_of_episode(level, checked_heard(heard))
        # As it is now, whatever the caller does with it.
        episode = Episode(kind, msgspec.json.decode(episodes.checked_payload(payload)), outcome, **fields)

        def store(tx: Transaction) -> None:
            number = episodes.append_episode(
                tx, episode, keep=self.max_episodes, episode_id=self._episode_id(tx)
            )
            if metadata:
                put_mark(tx, f"episode:{number}", metadata=metadata)

        self._write(store)

    def forget_episode(self, id: str) -> bool:  # noqa: A002 - as an episode names it
        """Erase one episode, from the file too; tell whether there was one."""
        episode = self.get_episode(id)
        if episode is None or self._write(lambda tx: erase_record(tx, EPISODES, id)) is None:
            return False
        self._erased(_telling_texts([episode.summary, *episode.decisions, episode.payload]))
        return True


def settings_of(max_episodes: int | None, doubtful_below: float) -> Settings:
    """Return the settings of a store without a home; None is EdgeVox's 500 episodes."""
    most = 500 if max_episodes is None else checked_count(max_episodes, "max_episodes")
    return Settings(
        Profile(store=StoreSettings(max_episodes=most), memory=MemorySettings(doubtful_below=doubtful_below))
    )


class SQLiteMemoryStore(TableMemoryStore):
    """Memory in one SQLite file; a write returns when it would survive a pulled plug.

    Args:
        path: of a file, which this store opens and closes; or an open database, which it only uses.
        clock: only with a path; a database has its own.
        max_episodes: how many of the newest episodes are kept; 0 keeps all, None 500.
        doubtful_below: a recogniser's confidence below which a fact does not replace one that was heard well, until it is heard
            again; 0: every fact is believed at once.
        any_scope: take scopes of any form, as EdgeVox does: those of no known form are the operator's alone. One that looks
            mistyped, such as `User:Mara`, is always refused.
        settings: `[store]` and `[memory]`, in place of `max_episodes` and `doubtful_below`.
    """

    def __init__(
        self,
        path: str | Path | Database,
        *,
        clock: Clock | None = None,
        max_episodes: int | None = 500,
        doubtful_below: float = 0.5,
        any_scope: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self._owned = not isinstance(path, Database)
        self.database = path if isinstance(path, Database) else open_truth(path, clock=clock)
        self._settings = settings or settings_of(max_episodes, doubtful_below)
        self._any_scope = any_scope
        self._unsaid: tuple[Any, NeverAloud] = None, NeverAloud()
        if self._owned:  # a forgetting that was cut off
            erase_in_truth(self.database, alone=True, wait_s=0.0)

    def _checked_scope(self, scope: str) -> str:
        return not_mistyped(scope) if self._any_scope else checked_scope(scope)

    def _records(self) -> Database:
        return self.database

    def never_aloud(self) -> NeverAloud:
        """Return the values that no line for a model may hold: of what is marked so, and of the profile's keys."""
        as_of = self.database.version(), self._settings.now.privacy.never_aloud
        if self._unsaid[0] != as_of:
            self._unsaid = as_of, read_never_aloud(self.database, as_of[1])
        return self._unsaid[1]

    def flush(self) -> None:
        """Wait until everything that was given is durable."""
        self.database.flush()

    def close(self) -> None:
        """Close the file, if this store opened it; may be called twice."""
        if self._owned:
            self.database.close()

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self.database.write(work)

    def _erased(self, texts: Collection[str]) -> None:
        # The erased bytes are overwritten in the pages, but the log has old pages until it is emptied.
        erase_in_truth(self.database, alone=self._owned)


def _telling_texts(value: Any) -> set[str]:
    return {text for text in _texts_in(value) if len(text) >= _TELLING}


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)
    elif isinstance(value, str):
        yield value


def _brief(payload: dict[str, Any]) -> str:
    return ", ".join(f"{_line(key)}={_line(str(part))}" for key, part in list(payload.items())[:_MOST_PARTS])


def _line(text: str) -> str:
    return clean(text, max_chars=_MAX_LINE_CHARS)


def put_preference(tx: Transaction, key: str, value: str, *, scope: str = "global") -> None:
    """Store a preference in place of an older one; the scope says who may read it."""
    check_key(key)
    check_key(scope, what="a scope")
    scope = spell_scope(tx, without_spaces(scope))
    level, owner = level_and_owner(scope, None, None, None)
    value = storable_value(value, what="the value of a preference")
    rows = tx.execute("select id, value from preferences where scope = ? and key = ?", (scope, key))
    if rows and rows[0][1] == value:
        tx.execute("update preferences set recorded = ? where id = ?", (tx.recorded, rows[0][0]))
        return
    # Under a new id it is a new thing to recall, also where a prompt has the old value already.
    number = tx.tick()
    tx.execute(
        "insert into preferences (id, scope, key, value, recorded, level, owner) values (?, ?, ?, ?, ?, ?, ?)"
        " on conflict (scope, key) do update set id = excluded.id, value = excluded.value, recorded = excluded.recorded",
        (number, scope, key, value, tx.recorded, level, owner),
    )
    # Always: so the file holds a later tick than the id, where the clock looks for the newest.
    tx.announce("preferences", [rows[0][0] if rows else number])


def read_preferences(
    db: Tables, *, scope: str | None = None, reader: Reader | None = None
) -> list[Preference]:
    """Return preferences in the order of scope and key."""
    rule, values = reading_rule(reader)
    of_scope = "1"
    if scope is not None:
        at, value = scope_in_sql(scope)
        of_scope, values = f"scope = {at}", values | value
    rows = db.query(
        "select key, value, recorded, scope, level, owner from preferences"  # noqa: S608 - our own constants
        f" where {of_scope} and {rule} order by scope, key",
        values,
    )
    return [
        Preference(key, value, recorded / 1e6, scope_, LEVELS[level], owner)
        for key, value, recorded, scope_, level, owner in rows
    ]
