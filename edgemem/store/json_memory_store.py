"""`JSONMemoryStore`: memory in one JSON file that a person can read and edit.

A change is in memory at once and in the file half a second later, and on `flush` and `close`; the memory tools and the
hooks that hold this store flush it as well, the hooks when a turn ends. The file is replaced in one step. What another
process or a person wrote into it meanwhile shows with the next call, and what was not written yet is done again on top.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.clock import Clock
from edgemem.records import Held
from edgemem.scopes import not_mistyped
from edgemem.store.arguments import checked_count, checked_said, checked_tick, checked_time, lookup
from edgemem.store.facts import checked_fact
from edgemem.store.json_keeper import JsonKeeper
from edgemem.store.json_memory import checked_episode
from edgemem.store.markdown import as_markdown
from edgemem.store.rights import LEVELS, readable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from edgemem.records import Episode, Fact, Heard, Level, Preference, Reader
    from edgemem.store.json_memory import JsonMemory

_TELLING = 4  # characters of a text that tells a copy which holds it from one that does not

_log = logging.getLogger(__name__)


class JSONMemoryStore:
    """Memory in one JSON file, for prototypes and for people who want to look; safe to use from several threads.

    Methods without a reader are the operator's view: they see everything.

    Args:
        path: made, with its folders, by the first change.
        autoload: read the file now; if not, `load` does, or the first time that something is written.
        clock: tells the time.
        max_episodes: how many of the newest episodes are kept; 0 keeps all.
        flush_after_s: a change is in the file after this many seconds; 0: when the call returns.
        doubtful_below: a recogniser's confidence below which a fact does not replace one that was heard well, until
            it is heard again; 0: every fact is believed at once.
    """

    _max_episodes = 500

    def __init__(
        self,
        path: str | Path,
        *,
        autoload: bool = True,
        clock: Clock | None = None,
        max_episodes: int | None = None,
        flush_after_s: float = 0.5,
        doubtful_below: float = 0.5,
    ) -> None:
        if max_episodes is not None:
            self._max_episodes = checked_count(max_episodes, "max_episodes")
        self.doubtful_below = doubtful_below
        self._clock = clock or Clock()
        self._keeper = JsonKeeper(
            path, self._clock, flush_after_s=flush_after_s, doubtful_below=doubtful_below
        )
        if autoload:
            self.load()

    @property
    def path(self) -> Path:
        """Return the file."""
        return self._keeper.file.path

    @property
    def max_episodes(self) -> int:
        """Return how many of the newest episodes are kept; 0 keeps all."""
        return self._max_episodes

    def load(self) -> None:
        """Read the file, and do on top of it what is not written yet; hand edits show from now on."""
        self._keeper.load()

    # Facts

    def add_fact(
        self,
        key: str,
        value: str,
        *,
        scope: str = "global",
        source: str = "",
        valid_from: float | None = None,
        valid_to: float | None = None,
        heard: Heard | None = None,
        level: Level | None = None,
        owner: str | None = None,
    ) -> None:
        """Store a value that holds in `[valid_from, valid_to)`; what was believed of that time stays as history.

        What was heard badly and contradicts what was heard well becomes a doubt instead (see `doubts`).

        Args:
            key: a name such as `user.allergies`.
            value: at most 16 KiB.
            scope: who or what it is about: `global`, `household`, `user:alice`, `env:kitchen`; it also says who may read
                it. Of any other form it is the operator's alone, and refused if it looks like a mistyped one.
            source: where it comes from.
            valid_from: seconds since the epoch, also in the past or the future; None is now.
            valid_to: the same; None is for ever.
            heard: how it came to the robot's ears.
            level: who may read it, if not what the scope says.
            owner: of a private fact.
        """
        tick, scope = self._clock.tick(), not_mistyped(scope)
        said = checked_fact(
            key,
            checked_said(value, f"the value of {key!r:.80}"),
            scope=scope,
            source=source,
            valid_from=tick / 1e6 if valid_from is None else valid_from,
            valid_to=valid_to,
            heard=heard,
            level=level,
            owner=owner,
        )
        self._keeper.change(lambda memory: memory.say(scope, key, said, tick, now=valid_from is None))

    def get_fact(self, key: str, *, scope: str = "global") -> str | None:
        """Return the value that holds now, or None."""
        return self.read_values([(scope, key)], reader=None)[scope, key].value

    def facts_version(self) -> tuple[int, ...]:
        """Return numbers that change when something is written or erased, and every half a minute: facts also end."""
        return self._keeper.changes, int(self._clock.now() // 30)

    def read_values(
        self, wanted: Collection[tuple[str, str]], *, reader: Reader | None
    ) -> dict[tuple[str, str], Held]:
        """Return for several (scope, key) whether a reader may read what holds now, and if so, the value."""
        found: dict[tuple[str, str], Held] = {}
        with self._keeper.reading() as memory:
            now = self._clock.now()
            for scope, key in wanted:
                timeline = memory.timelines.get((memory.scope(scope), lookup(key)))
                held = timeline.at(now) if timeline is not None else None
                what = held.rectangle if held is not None else None
                if what is None:
                    found[scope, key] = Held(True, None)
                elif readable(reader, LEVELS[what.level], what.owner):
                    found[scope, key] = Held(True, what.value, LEVELS[what.level], what.owner)
                else:
                    found[scope, key] = Held(False, None)
        return found

    def facts(self, *, scope: str | None = None, reader: Reader | None = None) -> list[Fact]:
        """Return what holds now, newest first."""
        return self.facts_as_of(self._clock.now(), scope=scope, reader=reader)

    def facts_as_of(
        self,
        t: float,
        *,
        scope: str | None = None,
        known_at: float | None = None,
        reader: Reader | None = None,
    ) -> list[Fact]:
        """Return what held at `t`, as believed now, or as the robot believed at `known_at`; newest first."""
        t = checked_time(t, "t")
        known = None if known_at is None else checked_tick(known_at, "known_at")
        with self._keeper.reading() as memory:
            scope = None if scope is None else memory.scope(scope)
            found = [
                fact
                for fact in memory.believed(t, known)
                if (scope is None or fact.scope == scope) and readable(reader, fact.level, fact.owner)
            ]
        return sorted(found, key=lambda fact: fact.recorded_at, reverse=True)

    def fact_history(self, key: str, *, scope: str = "global") -> list[Fact]:
        """Return every version that was ever said, in recorded order, with what it supersedes and what superseded it.

        `invalidated_at` tells when a version was first contradicted; `valid_from` and `valid_to` what is still
        believed of it, or all that it said if nothing is.
        """
        with self._keeper.reading() as memory:
            return memory.history(scope, lookup(key))

    def doubts(self, *, scope: str | None = None, reader: Reader | None = None) -> list[Fact]:
        """Return what was heard badly, contradicts what was heard well, and waits to be heard again; oldest first."""
        with self._keeper.reading() as memory:
            scope = None if scope is None else memory.scope(scope)
            found = memory.doubts()
        return [
            fact
            for fact in found
            if (scope is None or fact.scope == scope) and readable(reader, fact.level, fact.owner)
        ]

    def retract_fact(self, key: str, *, scope: str = "global", valid_from: float | None = None) -> bool:
        """Note that a fact has no value from `valid_from` (now) on; its history stays. Tell whether it had one."""
        tick = self._clock.tick()
        begin = tick / 1e6 if valid_from is None else valid_from
        said = checked_fact(key, None, scope=scope, valid_from=begin, level="shared")
        had: list[bool] = []

        def retract(memory: JsonMemory) -> bool:
            timeline = memory.timelines.get((memory.scope(scope), key))
            changed = timeline is not None and timeline.say(said, tick)
            had.append(changed and timeline is not None and timeline.news)
            return changed

        return self._keeper.change(retract) and had[0]

    def forget_fact(self, key: str, *, scope: str = "global") -> bool:
        """Erase a fact with every version of it, from the file too; tell whether there was one."""
        named = scope, lookup(key)
        with self._keeper.reading() as memory:
            values = {fact.value for fact in memory.history(*named)}
        return self._erased(self._keeper.change(lambda memory: memory.forget_fact(*named)), {key, *values})

    # Preferences

    def set_preference(self, key: str, value: str, *, scope: str = "global") -> None:
        """Store a lasting wish in place of an older one."""
        tick, scope = self._clock.tick(), not_mistyped(scope)
        self._keeper.change(lambda memory: memory.put_preference(key, value, scope, tick))

    def preferences(self, *, scope: str | None = None, reader: Reader | None = None) -> list[Preference]:
        """Return preferences in the order of scope and key."""
        with self._keeper.reading() as memory:
            scope = None if scope is None else memory.scope(scope)
            found = sorted(memory.preferences.items())
        return [
            wish
            for (of, _), wish in found
            if (scope is None or scope == of) and readable(reader, wish.level, wish.owner)
        ]

    def forget_preference(self, key: str, *, scope: str = "global") -> bool:
        """Erase a preference, from the file too; tell whether there was one."""
        named = scope, lookup(key)
        with self._keeper.reading() as memory:
            wish = memory.preferences.get((memory.scope(scope), named[1]))
        values = set() if wish is None else {wish.value}
        return self._erased(
            self._keeper.change(lambda memory: memory.forget_preference(*named)), {key, *values}
        )

    # Episodes

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
    ) -> None:
        """Store what the robot did or lived through, and how it ended.

        The household may read what a recognised speaker caused (`heard`), and anyone the rest, where no level says so.
        """
        episode = checked_episode(
            kind,
            payload,
            outcome,
            tick=self._clock.tick(),
            agent=agent,
            heard=heard,
            level=level,
            owner=owner,
        )
        keep = self._max_episodes
        self._keeper.change(lambda memory: memory.append_episode(episode, keep))

    def recent_episodes(
        self, n: int = 5, *, kind: str | None = None, reader: Reader | None = None
    ) -> list[Episode]:
        """Return the newest `n` episodes, the oldest of them first."""
        n = checked_count(n, "the number of episodes")
        kind = None if kind is None else lookup(kind, "a kind")
        with self._keeper.reading() as memory:
            # A file may hold more than are kept: of EdgeVox, or because fewer are kept now.
            found = [
                episode
                for episode in memory.episodes[-self._max_episodes :]
                if (kind is None or episode.kind == kind) and readable(reader, episode.level, episode.owner)
            ]
        return found[-n:] if n else []

    def get_episode(self, id: str, *, reader: Reader | None = None) -> Episode | None:  # noqa: A002 - as it names it
        """Return one episode by its id; None: there is none that the reader may read."""
        id_ = lookup(id, "the id of an episode")
        with self._keeper.reading() as memory:
            episodes = (episode for episode in memory.episodes if episode.id == id_)
            return next((each for each in episodes if readable(reader, each.level, each.owner)), None)

    def forget_episode(self, id: str) -> bool:  # noqa: A002 - as an episode names it
        """Erase one episode, from the file too; tell whether there was one."""
        episode = self.get_episode(id)
        if episode is None:
            return False
        texts = {text for text in _texts_in(episode.payload) if len(text) >= _TELLING}
        return self._erased(self._keeper.change(lambda memory: memory.forget_episode(id)), texts)

    # All of it

    def render_for_prompt(self, *, max_facts: int = 20, max_episodes: int = 5) -> str:
        """Return the newest facts, all preferences and the newest episodes as Markdown; empty if there is nothing.

        What is stored is made safe to show to a model. It is the operator's view, so no built-in hook sends it.
        """
        return as_markdown(
            self.facts()[: checked_count(max_facts, "max_facts")],
            self.preferences(),
            self.recent_episodes(max_episodes),
        )

    def flush(self) -> None:
        """Write what is not in the file yet, durably."""
        self._keeper.flush()

    def close(self) -> None:
        """Write what is not in the file yet; may be called twice."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _erased(self, found: bool, texts: set[str]) -> bool:
        """Have it leave the file and the copies that were set aside as well: erased is erased."""
        if found:
            self.flush()
            for copy in self._keeper.erase_aside(texts):
                _log.warning("%s held what was just forgotten, and was erased with it.", copy)
        return found


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _texts_in(each)
    elif isinstance(value, str):
        yield value
