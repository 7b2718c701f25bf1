"""Memory as tools: what a model may remember, look up and erase for whoever speaks.

The model only proposes: who may read, write and erase what is decided by the turn that a call belongs to, and never by
the model (law 7). Results are text that it can say.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.block.delta import lines_for, value_as_recalled
from edgemem.context.block.render import BlockLine, day_of
from edgemem.context.level import is_closer
from edgemem.context.prompt.log import PromptLog
from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, clean, storable
from edgemem.hooks.conversation import STATE_KEY, Conversation
from edgemem.negation import asks_not_to_forget, asks_to_forget, says_no, says_yes
from edgemem.records import Fact, Heard
from edgemem.rights import MYSELF, SCOPES, RefusedError, Rights, closed_to
from edgemem.scopes import level_of_scope, name_key, person_of
from edgemem.store.episodes import episode_text
from edgemem.store.erase.copies import Erased
from edgemem.store.later import Later, settled
from edgemem.store.own_records import as_ours
from edgemem.store.protocols import EpisodeStore, LevelledStore, MemoryStore
from edgemem.store.rights import readable
from edgemem.tool_schemas import ABOUT, checked, schema_of
from edgemem.toolbox import Tool, ToolTurn

if TYPE_CHECKING:
    from edgemem.hooks.injection import Recaller
    from edgemem.records import Level, Reader, Recalled

DEFAULT = ("remember_fact", "forget_fact", "recall_fact")
"""The tools of the EdgeVox memory module."""

NAMES = (*DEFAULT, "list_facts", "search_memory")

SOURCE = "llm"
"""The source of what a model stored; who said it to the model stands beside."""

FORGOTTEN = "Forgotten; erased from this device within moments."
"""What a tool answers when a forgetting is committed: nobody recalls it from then on."""

_EPISODE = "episode:"  # and its id, where a name is given or told
_PENDING = "__edgemem_forget"  # in a session's state; names that begin with two underscores are never stored
_NAME_CHARS = 80
_LONGEST = (
    3  # values of the longest kind that one reply holds: at the default 400 tokens, seconds on a small board
)
_NEAREST = 5  # facts that a store's own search is asked for
_LIKE = 5  # names that are offered where one is not known
_COMPARED = 500  # names, the newest; comparing 10,000 would be heard as a pause


def memory_tools(
    store: MemoryStore,
    *,
    include: Collection[str] | None = DEFAULT,
    recall: Recaller | None = None,
    forget: Callable[[str, str], bool] | None = None,
    forget_episode: Callable[[str], bool] | None = None,
    speaker: str | None = None,
    scope: str = "global",
    places: Iterable[str] = (),
    confirm: bool = False,
    max_chars: int = 500,
    max_items: int = 10,
    wait_s: float = 0.5,
) -> list[Tool]:
    """Return tools with which a model keeps a memory during a turn.

    Args:
        include: which of `remember_fact`, `forget_fact`, `recall_fact`, `list_facts` and `search_memory`; None: the
            first three.
        recall: finds by meaning for `search_memory`; None: the store's `search_facts`. `Memory.tools()` gives its own,
            which finds what was said and done too.
        forget: erases (key, scope) in more than the store, such as an index; None: the store's `forget_fact`.
        forget_episode: the same for the id of an episode; None: the store's `forget_episode`, where it has one.
        speaker: who speaks where the loop does not say it; None: an unknown voice.
        scope: where a fact goes if the model does not say it; what a stranger says goes to `global` at most.
        places: rooms that facts may be about, as `env:<place>`.
        confirm: ask before every erasing; a second call in the next turn erases if the answer is a yes. Without it,
            the tool asks where the user did not clearly order it, and in any language but English, German, Spanish,
            French, Italian, Portuguese, Dutch and Vietnamese; a yes is known in these as well.
        max_chars: the longest value that is kept, and the longest line that is told.
        max_items: the most lines that are told at once.
        wait_s: how long a call waits until what it stores is durable; then it says that this comes later.
    """
    if not isinstance(store, MemoryStore):
        raise InvalidInputError(
            f"memory_tools needs a memory store, not {type(store).__name__}; open one first."
        )
    if isinstance(include, str):
        raise InvalidInputError(f"include must be a list of names; write [{include!r}].")
    include = DEFAULT if include is None else include
    for name in include:
        if name not in NAMES:
            near = difflib.get_close_matches(str(name), NAMES, n=1)
            hint = near[0] if near else f"one of {', '.join(NAMES)}"
            raise InvalidInputError(f"There is no memory tool {name!r}; use {hint}.")
    if "search_memory" in include and recall is None:
        recall = _searching(store)
    rights = Rights(speaker=speaker, scope=scope, places=places)
    tools = _MemoryTools(
        store,
        rights,
        recall=recall,
        forget=forget or (lambda key, scope: store.forget_fact(key, scope=scope)),
        forget_episode=forget_episode,
        confirm=confirm,
        max_chars=max_chars,
        max_items=max_items,
        wait_s=wait_s,
    )
    return [_tool(name, rights.scopes, getattr(tools, name)) for name in NAMES if name in include]


def _searching(store: Any) -> Recaller:
    """Return a search in a store that finds facts by meaning itself."""
    search = getattr(store, "search_facts", None)
    if search is None:
        raise InvalidInputError(
            f"search_memory needs a store that searches by meaning, and {type(store).__name__} does not; take a"
            " VectorMemoryStore or Memory.tools(), or give recall=…"
        )
    levelled = isinstance(store, LevelledStore)

    def recall(query: str, reader: Reader | None) -> list[Recalled]:
        near = search(query, k=_NEAREST, reader=reader) if levelled else search(query, k=_NEAREST)
        return [
            # The distance of two vectors of unit length, as the cosine between them.
            msgspec.structs.replace(value_as_recalled(fact), score=max(0.0, 1 - distance * distance / 2))
            for fact, distance in near
            if levelled or readable(reader, *closed_to(fact))
        ]

    return recall


def _tool(name: str, scopes: Sequence[str], run: Callable[..., str]) -> Tool:
    schema = schema_of(name, scopes)

    def called(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
        try:
            return run(turn, **checked(name, schema, arguments))
        except RefusedError as error:
            return str(error)

    return Tool(name, ABOUT[name], schema, called, wants_turn=True)


class _MemoryTools:
    """The tools of one agent; each public method takes the turn and what the model gave."""

    def __init__(
        self,
        store: Any,
        rights: Rights,
        *,
        recall: Recaller | None,
        forget: Callable[[str, str], bool],
        forget_episode: Callable[[str], bool] | None,
        confirm: bool,
        max_chars: int,
        max_items: int,
        wait_s: float,
    ) -> None:
        self._store = store
        # A user's own store may know only scopes.
        self._levelled = isinstance(store, LevelledStore)
        self._rights = rights
        self._recall = recall
        self._forget = forget
        self._episodes = store if isinstance(store, EpisodeStore) else None
        self._forget_episode = forget_episode or (self._episodes.forget_episode if self._episodes else None)
        self._confirm = confirm
        self._max_chars = max_chars
        self._max_items = max_items
        self._wait_s = wait_s
        self._later = Later(store)

    # What the model calls

    def remember_fact(self, turn: ToolTurn | None, *, key: str, value: str, scope: str | None = None) -> str:
        """Store a value; it is durable before the answer, or the answer says that it is not yet."""
        check_key(key)
        value = storable(value).strip()
        if not value:
            raise InvalidInputError("The value is empty; say what shall be remembered.")
        if len(value) > self._max_chars:
            raise InvalidInputError(
                f"The value has {len(value):,} characters; at most {self._max_chars} are kept, so shorten it."
            )
        where = self._as_closed(self._rights.to_write(scope, turn), turn, key, value)
        before = self._facts(turn, where, key)
        key = before[0].key if before else key
        self._rights.check_owner(self._versions(key, where), turn)
        speaker = self._rights.reader(turn).speaker
        heard = (turn.heard if turn else None) or (Heard(speaker=speaker) if speaker else None)
        more = {"heard": heard} if self._levelled else {}
        said = clean(f"{key}: {value}", max_chars=self._max_chars)
        self._close(turn, *level_of_scope(where))
        if not self._written(lambda: self._store.add_fact(key, value, scope=where, source=SOURCE, **more)):
            # The answer must not promise more than is true.
            return f"Heard, but not kept yet: {said}. The disk is busy; it will be kept as soon as the disk is free."
        now = self._facts(turn, where, key)
        self._mark(turn, now)
        if any(fact.perhaps_misheard and fact.value == value for fact in now):
            said += " (perhaps misheard, ask whether it is right)"
        holds = self._store.get_fact(key, scope=where)
        if holds != value:
            if not now:
                return f"Not believed: it was hard to hear. Kept as perhaps misheard: {said}."
            kept = clean(f"{key}: {holds}", max_chars=self._max_chars)
            return f"Not believed: it was hard to hear. Kept as perhaps misheard: {said}. {kept} still holds."
        if before and before[0].value != value:
            return f"Remembered: {said}. Before, it was: {clean(before[0].value, max_chars=self._max_chars)}."
        return f"Remembered: {said}."

    def recall_fact(self, turn: ToolTurn | None, *, key: str, scope: str | None = None) -> str:
        """Look a fact up by its name."""
        found = self._facts(turn, scope, key)
        return self._told(turn, found) if found else self._unknown(turn, key)

    def list_facts(self, turn: ToolTurn | None, *, scope: str | None = None) -> str:
        """Tell what is remembered, newest first."""
        found = self._facts(turn, scope)
        return self._told(turn, found) if found else "Nothing is remembered that this speaker may hear."

    def search_memory(self, turn: ToolTurn | None, *, query: str) -> str:
        """Find what was said, done and remembered, by words and meaning."""
        found = self._recall(query, self._rights.reader(turn)) if self._recall is not None else ()
        layout = _layout_of(turn)
        # The turns of the prompt stand there already, this one among them.
        here = layout.visible_turns() | {layout.next_n} if layout is not None else frozenset[int]()
        best = sorted(found, key=lambda item: -item.score)
        lines = lines_for(best, visible={}, visible_turns=here, session=layout.session if layout else "")
        lines = lines[: self._fitting([line.line for line in lines])]
        self._put(turn, lines)
        return "\n".join(map(_with_id, lines)) or "Nothing is remembered about that."

    def forget_fact(self, turn: ToolTurn | None, *, key: str, scope: str | None = None) -> str:
        """Erase a fact with all its history, or an episode, and quote what it was.

        Once it is committed nobody recalls it; the bytes go from every file in idle time.
        """
        if turn is not None and asks_not_to_forget(turn.utterance):
            raise RefusedError(
                "Nothing was erased: the user asked NOT to forget. To keep something new, call remember_fact."
            )
        found = self._facts(turn, scope, key)
        if not found and (name := key.strip("[]")).startswith(_EPISODE):
            return self._erase_episode(turn, name)
        if not found:
            return f"Nothing was erased. {self._unknown(turn, key)}"
        if len(found) > 1:
            listed = self._told(turn, found)
            raise RefusedError(
                f"Nothing was erased: several have this name. Call forget_fact again with one scope.\n{listed}"
            )
        (fact,) = found
        versions = self._versions(fact.key, fact.scope)
        self._rights.check_owner(versions, turn)
        self._rights.check_erasable(versions, turn)
        quote = self._line(turn, fact)
        if self._confirm or (turn is not None and not asks_to_forget(turn.utterance)):
            self._mark(turn, found)
            self._ask(turn, (fact.scope, fact.key), quote)
        values = (version.value for version in [*versions, fact])
        _forget_in_turn(turn, Erased.of(fact.scope, fact.key, values))
        self._forget(fact.key, fact.scope)
        # The prompt is told here that it is gone; the next turn must not quote it once more.
        gone = BlockLine(f"gone:fact:{fact.id}", "", *closed_to(fact), (fact.scope, fact.key), "")
        self._put(turn, [gone])
        older = len({version.value for version in versions} - {fact.value})
        return f"{FORGOTTEN} It was: {quote}" + (
            f", and {older} older value{'s' * (older > 1)}." if older else "."
        )

    def _erase_episode(self, turn: ToolTurn | None, name: str) -> str:
        """Erase the episode with the id that a name ends in, if whoever speaks may read it."""
        episode_id = name.removeprefix(_EPISODE)
        reader = self._rights.reader(turn)
        episode = None if self._episodes is None else self._episodes.get_episode(episode_id, reader=reader)
        if episode is None or self._forget_episode is None:
            return f"Nothing was erased: there is no episode {clean(episode_id, max_chars=_NAME_CHARS)}."
        self._rights.check_erasable([episode], turn)
        text = episode_text(episode.kind, episode.payload, episode.outcome)
        quote = clean(text, max_chars=self._max_chars)
        shown = BlockLine(f"episode:{episode.id}", "", episode.level, episode.owner)
        self._put(turn, [shown])
        if self._confirm or (turn is not None and not asks_to_forget(turn.utterance)):
            self._ask(turn, ("episode", name), quote)
        _forget_in_turn(turn, Erased.of("episode", name, [text]))
        self._forget_episode(episode_id)
        return f"{FORGOTTEN} It was: {quote}."

    # Writing

    def _written(self, write: Callable[[], None]) -> bool:
        """Write, and tell whether it is durable; what takes longer than a listener waits goes on behind."""
        return settled(self._later.write(write), self._wait_s) and settled(self._later.flush(), self._wait_s)

    # Reading

    def _facts(self, turn: ToolTurn | None, scope: str | None, key: str | None = None) -> list[Fact]:
        """Return what holds now and may be told in this turn, newest first: all, or under one name."""
        reader = self._rights.reader(turn)
        where = None if scope is None else self._rights.to_read(scope, turn)
        if self._levelled:
            facts: list[Fact] = self._store.facts(scope=where, reader=reader)
        else:
            listed = [as_ours(fact, Fact) for fact in self._store.facts(scope=where)]
            facts = [fact for fact in listed if readable(reader, *closed_to(fact))]
        return facts if key is None else [fact for fact in facts if fact.key.casefold() == key.casefold()]

    def _versions(self, key: str, scope: str) -> list[Fact]:
        if hasattr(self._store, "fact_history"):
            return [as_ours(fact, Fact) for fact in self._store.fact_history(key, scope=scope)]
        return [as_ours(fact, Fact) for fact in self._store.facts(scope=scope) if fact.key == key]

    def _unknown(self, turn: ToolTurn | None, key: str) -> str:
        names = {fact.key.casefold(): fact for fact in self._facts(turn, None)[:_COMPARED]}
        wanted = key.casefold()
        near = [folded for folded in names if wanted in folded or folded.rpartition(".")[2] in wanted]
        near += difflib.get_close_matches(wanted[:_NAME_CHARS], names, n=_LIKE)
        offered = [names[folded] for folded in dict.fromkeys(near[:_LIKE])]
        for fact in offered:
            self._close(turn, *closed_to(fact))
        like = ", ".join(clean(fact.key, max_chars=_NAME_CHARS) for fact in offered)
        named = clean(key, max_chars=_NAME_CHARS)
        if not named:
            return "The name is empty; say which fact is meant."
        told = f"Nothing is remembered under the name {named}."
        return f"{told} Names like it: {like}." if like else told

    # Telling

    def _told(self, turn: ToolTurn | None, facts: Sequence[Fact]) -> str:
        lines = [f"- {self._line(turn, fact)}{_source(fact)}" for fact in facts[: self._max_items]]
        lines = lines[: self._fitting(lines)]
        self._mark(turn, facts[: len(lines)])
        if len(facts) > len(lines):
            lines.append(f"and {len(facts) - len(lines)} more")
        return "\n".join(lines)

    def _fitting(self, lines: Sequence[str]) -> int:
        """Return how many lines one reply may hold, of those that there are; one always fits."""
        ends = list(accumulate(len(line) for line in lines[: self._max_items]))
        return max(1, bisect_right(ends, _LONGEST * self._max_chars))

    def _line(self, turn: ToolTurn | None, fact: Fact) -> str:
        line = clean(f"{fact.key}: {fact.value}", max_chars=self._max_chars)
        if fact.perhaps_misheard:
            line += " (perhaps misheard)"
        if fact.scope == "global":
            return line
        person = person_of(fact.scope)
        own = person is not None and name_key(person) == self._rights.reader(turn).key
        return f"{line} ({MYSELF if own else clean(fact.scope, max_chars=_NAME_CHARS)})"

    def _mark(self, turn: ToolTurn | None, facts: Iterable[Fact]) -> None:
        self._put(
            turn,
            [
                BlockLine(
                    f"fact:{fact.id}", "", *closed_to(fact), (fact.scope, fact.key), storable(fact.value)
                )
                for fact in facts
            ],
        )

    def _put(self, turn: ToolTurn | None, shown: Iterable[BlockLine]) -> None:
        """Have the turn know what stands in it now: it is as private as that, and need not be told it again."""
        layout = _layout_of(turn)
        if layout is not None:
            for item in shown:
                # Without a line, the prompt stays as the model has seen it.
                layout.put(f"tool {item.id}", [msgspec.structs.replace(item, line="")])

    def _close(self, turn: ToolTurn | None, level: Level, owner: str | None) -> None:
        """Have the turn be as closed as what stands in it now, also where its reader may not read that."""
        layout = _layout_of(turn)
        running = layout.running if layout is not None else None
        if running is not None and is_closer((level, owner), (running.level, running.owner)):
            self._put(turn, [BlockLine(f"closed:{level}:{owner or ''}", "", level, owner)])

    def _as_closed(self, scope: str, turn: ToolTurn | None, key: str, value: str) -> str:
        """Return a scope, or the one that what is to be written belongs to, if it repeats what is more closed."""
        layout = _layout_of(turn)
        if layout is None:
            return scope
        level, _ = layout.level_as(level_of_scope(scope), key, value)
        return scope if level == level_of_scope(scope)[0] else self._rights.to_read(SCOPES[level], turn)

    # Asking first

    def _ask(self, turn: ToolTurn | None, meant: tuple[str, str], quote: str) -> None:
        """Go on if the user was asked in the turn before, and said yes."""
        if turn is None:
            raise RefusedError("Nothing was erased: this robot cannot ask first, so it cannot erase.")
        state = turn.session.state
        asking = (*meant, self._rights.reader(turn).key)
        asked, n = state.pop(_PENDING, (None, 0))
        if asked == asking and n == turn.n - 1:
            if says_yes(turn.utterance):
                return
            if says_no(turn.utterance):
                raise RefusedError("Nothing was erased: the user said no.")
        state[_PENDING] = (asking, turn.n)
        raise RefusedError(
            f"Not erased yet. Ask the user: shall I erase this for good? {quote}. After a yes, call forget_fact again."
        )


def _with_id(line: BlockLine) -> str:
    """Return a line, with the name under which an episode can be forgotten."""
    return f"{line.line} [{line.id}]" if line.id.startswith(_EPISODE) else line.line


def _forget_in_turn(turn: ToolTurn | None, erased: Erased) -> None:
    """Whoever asked hears once what it was; what is stored of this turn names only the key."""
    conversation = turn.session.state.get(STATE_KEY) if turn is not None else None
    if isinstance(conversation, Conversation):
        conversation.forget(erased)


def _layout_of(turn: ToolTurn | None) -> PromptLog | None:
    """Return the layout that the hooks of this turn share, if there are any."""
    conversation = turn.session.state.get(STATE_KEY) if turn is not None else None
    if isinstance(conversation, Conversation) and conversation.layout.running is not None:
        return conversation.layout
    return None


def _source(fact: Fact) -> str:
    """Return who said it and when, as a line's end."""
    who = fact.heard.speaker if fact.heard is not None else None
    said = (
        f"said by {clean(who, max_chars=_NAME_CHARS)}" if who else clean(fact.source, max_chars=_NAME_CHARS)
    )
    parts = filter(None, (said, day_of(fact.recorded_at or fact.updated_at)))
    return f" [{', '.join(parts)}]"
