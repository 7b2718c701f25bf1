"""Memory as tools: what a model may remember, look up and erase for whoever speaks.

The model only proposes: the turn of a call decides who may read, write and erase what (law 7), and nothing is erased before the
person was asked and said yes. Results are text that the model can say.
"""

from __future__ import annotations

import difflib
import shlex
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.config import Settings
from edgemem.context.block.delta import closed_to, lines_for, value_as_recalled
from edgemem.context.block.render import Today, VisibleLines, day_of
from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, clean, storable
from edgemem.languages.words import says_no, says_not_to_forget, says_yes
from edgemem.learn.lists import ListChange, read_items
from edgemem.loop.file_tools import as_texts
from edgemem.loop.tool_facts import (
    MYSELF,
    SCOPES,
    RefusedError,
    ToolFacts,
    check_owner,
    checked_scope,
    named_after,
    scope_to_write,
)
from edgemem.recall.people.names import all_must_know, rank_of, spelled
from edgemem.recall.text.analyse import analyse, language_in
from edgemem.records import (
    FORGET_FACT,
    LIST_FACTS,
    OFF_THE_RECORD,
    RECALL_FACT,
    REMEMBER_FACT,
    SEARCH_MEMORY,
    BlockLine,
    CutOff,
    Episode,
    Fact,
    Heard,
    Reader,
    Recalled,
)
from edgemem.scopes import Level, level_of_scope, name_key, person_of
from edgemem.session.tools import Tool, ToolTurn, asked_in, redacted_tool
from edgemem.store.episodes import episode_text
from edgemem.store.erase.copies import Erased
from edgemem.store.facts import INFERRED, TRUSTED, items_of
from edgemem.store.kinds import EPISODES
from edgemem.store.memory_store import TableMemoryStore
from edgemem.store.protocols import MemoryStore, abilities_of
from edgemem.store.rights import readable
from edgemem.store.spool import DeferredWrites, wait_written
from edgemem.store.thoughts import NeverAloud
from edgemem.store.validation import MAX_JSON_BYTES, words_of
from edgemem.thoughts import seconds

if TYPE_CHECKING:
    from edgemem.session.memory_block import Recaller
    from edgemem.store.erase.eraser import Eraser

    Utterances = Callable[[str, Reader], "tuple[list[Recalled], int]"]
    """Finds what a reader said: first what holds all of some words, and how much does, newest first; then the likeliest."""

DEFAULT = (REMEMBER_FACT, FORGET_FACT, RECALL_FACT)  # those of the EdgeVox memory module

NAMES = (*DEFAULT, LIST_FACTS, SEARCH_MEMORY)
"""All tools of this module but `off_the_record`, in the order of the prompt."""

SOURCE = "llm"  # the source of what a model stored; its speaker is kept beside

_CLOSER: dict[Level, str] = {
    "household": "It was kept for the people known here, since it is not only what was said.",
    "private": "It was kept for the speaker alone, since it is not only what was said.",
}
"""Told of a fact that is kept at the answer's level, where the model asked for a more open one."""

_CUT_OFF = "There was no time to look for all of it; search again."
_ALOUD = "It was kept for the people known here, who must know it; it was not said in confidence."

FORGOTTEN = "Forgotten; erased from this device within moments."
"""Answers a committed forgetting: nobody recalls it from then on."""

_UNKEPT = {
    "this": "Nothing of this turn is kept.",
    "last": "The turn before is erased.",
    "on": "Nothing is kept from now on, until you are told to remember again.",
    "off": "What is said from the next turn on is kept again.",
}
_TEXT = {"type": "string"}
_SCOPE = {"type": "string", "enum": list(SCOPES.values())}
_SCHEMAS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    REMEMBER_FACT: (
        "Keep a value or change a list; scope: who may know it.",
        {"key": _TEXT, "value": _TEXT, "add": _TEXT, "remove": _TEXT, "scope": _SCOPE},
        ["key"],
    ),
    FORGET_FACT: ("Erase by key, [id] or words said.", {"key": _TEXT}, ["key"]),
    RECALL_FACT: ("Look up a fact; why: who said it.", {"key": _TEXT, "why": {"type": "boolean"}}, ["key"]),
    LIST_FACTS: ("List facts.", {}, []),
    SEARCH_MEMORY: ("Search things said and done.", {"query": _TEXT}, ["query"]),
    OFF_THE_RECORD: (
        "Keep no memory of this turn, the last one, or all from on until off.",
        {"which": {"type": "string", "enum": list(_UNKEPT)}},
        ["which"],
    ),
}
"""Each tool's description for the model, its arguments, and the required ones; every word is paid for in every prompt."""
_TAKEN = {"scope": _SCOPE}
"""What the tools of facts take too, as EdgeVox's do, and a prompt need not tell."""
_PLAIN = (SEARCH_MEMORY, OFF_THE_RECORD)  # take no scope
_OF_LISTS = ("add", "remove")
"""Arguments with items of a list, which a schema calls text: that takes fewer tokens."""

_YES = ("true", "yes", "1")  # as models give a boolean
_EPISODE = "episode:"  # and its id, where a name is given or quoted
_ASKED = "__edgemem_forget"  # in a session's state; names with two underscores first are never stored
_NAME_CHARS = 80
_COMMAND_CHARS = 600
_LONGEST = 3
"""Values of the longest kind that one reply holds: at the default 400 tokens, seconds on a small board."""
_NEAREST = 5  # facts that a store's own search is asked for
MAX_ITEMS = 10
"""Lines of a reply, some 20 tokens each."""
_NEAR = 3  # things said that are offered where none holds all words
_WHICH = f"Ask which is meant, and call {FORGET_FACT} with its [id]."
_LIKE = 5  # names offered where one is not known
_COMPARED = 500  # names, the newest; comparing 10,000 would be heard as a pause


def memory_tools(
    store: MemoryStore,
    *,
    include: Collection[str] | None = DEFAULT,
    recall: Recaller | None = None,
    eraser: Eraser | None = None,
    utterances: Utterances | None = None,
    speaker: str | None = None,
    settings: Settings | None = None,
) -> list[Tool]:
    """Return tools with which a model keeps a memory during a turn.

    `forget_fact` asks first: only a second call in the same speaker's next turn, whose utterance is a plain yes, erases. So a
    loop that gives its tools no `ToolTurn` cannot erase.

    Args:
        include: some of `NAMES`, or `off_the_record`; None: `DEFAULT`.
        recall: for `search_memory`; None: the store's `search_facts`. `Memory.tools()` also finds what was said and done.
        eraser: forgets in more than the store, such as an index; None: the store's `forget_fact` and `forget_episode`.
        utterances: finds what somebody said, which the eraser then forgets; None: only facts and episodes are forgotten.
        speaker: for a loop that names none; None: an unknown voice.
        settings: `[tools]`, and `[memory] default_level` for facts without a scope; None: defaults, and `global` as in EdgeVox.
    """
    # No `isinstance`: since Python 3.12 it does not see attributes by `__getattr__`.
    if not all(hasattr(store, name) for name in vars(MemoryStore) if not name.startswith("_")):
        raise InvalidInputError(f"memory_tools needs a store, not {type(store).__name__}; open one first.")
    if isinstance(include, str):
        raise InvalidInputError(f"include must be a list of names; write [{include!r}].")
    include = DEFAULT if include is None else include
    for name in include:
        if name not in _RUNS:
            near = difflib.get_close_matches(str(name), _RUNS, n=1)
            hint = near[0] if near else f"one of {', '.join(_RUNS)}"
            raise InvalidInputError(f"There is no memory tool {name!r}; use {hint}.")
    if SEARCH_MEMORY in include and recall is None:
        recall = _search_of(store)
    tools = _MemoryTools(store, recall, settings)
    if eraser is not None:
        tools.eraser, tools.utterances = eraser, utterances
    never_aloud = abilities_of(store).never_aloud or NeverAloud
    made = (_tool(name, partial(run, tools), speaker) for name, run in _RUNS.items() if name in include)
    return [redacted_tool(tool, never_aloud, speaker) for tool in made]


def _search_of(store: Any) -> Recaller:
    search = abilities_of(store).search_facts
    if search is None:
        raise InvalidInputError(
            f"search_memory needs a store that searches by meaning, and {type(store).__name__} does not; take a"
            " VectorMemoryStore or Memory.tools(), or give recall=…"
        )
    levelled = isinstance(store, TableMemoryStore)

    def recall(query: str, reader: Reader | None) -> list[Recalled]:
        near = search(query, k=_NEAREST, reader=reader) if levelled else search(query, k=_NEAREST)
        return [
            # From the distance of two unit vectors to their cosine.
            msgspec.structs.replace(value_as_recalled(fact), score=max(0.0, 1 - distance * distance / 2))
            for fact, distance in near
            if levelled or readable(reader, *closed_to(fact))
        ]

    return recall


def _tool(name: str, run: Callable[..., str], speaker: str | None) -> Tool:
    about, properties, required = _SCHEMAS[name]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema |= {"required": required} if required else {}
    properties = properties if name in _PLAIN else {**properties, **_TAKEN}
    taken = {"required": required, "properties": properties}

    def call(turn: ToolTurn | None = None, /, **arguments: Any) -> str:
        items = [part for part in _OF_LISTS if part in properties and arguments.get(part) is not None]
        lists = {part: read_items(arguments.pop(part)) for part in items}
        try:
            return run(asked_in(turn, speaker), **as_texts(name, taken, arguments), **lists)
        except RefusedError as error:
            return str(error)

    return Tool(name, about, schema, call, wants_turn=True)


class _MemoryTools:
    """The tools of one agent; each public method takes the turn, as `asked_in` returns it, and the model's arguments."""

    def __init__(self, store: Any, recall: Recaller | None, settings: Settings | None) -> None:
        self._store, self._facts, self._recall = store, ToolFacts(store), recall
        self.eraser: Eraser | None = None
        self.utterances: Utterances | None = None
        self._settings, self._is_bare = settings or Settings(), settings is None
        self._later = DeferredWrites(store)

    @property
    def _default_level(self) -> Level | None:
        return None if self._is_bare else self._settings.now.memory.default_level

    @property
    def _max_chars(self) -> int:
        return self._settings.now.tools.max_chars

    def remember_fact(
        self,
        turn: ToolTurn,
        *,
        key: str,
        value: str = "",
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        scope: str | None = None,
    ) -> str:
        """Store a value, or change a list; it is durable before the answer, or the answer says that it is not yet."""
        check_key(key)
        change = ListChange(add, remove) if add or remove else None
        if change and not self._facts.levelled:
            raise InvalidInputError("This store keeps no lists; give the whole value.")
        value = storable(value).strip()
        if change is None and not value:
            raise InvalidInputError(f"{REMEMBER_FACT} needs value, add or remove, and all are empty.")
        if change and value:
            raise InvalidInputError("Give either value, or items to add or to remove, not both.")
        value = change.text if change else value
        if len(value) > self._max_chars:
            raise InvalidInputError(
                f"The value has {len(value):,} characters; at most {self._max_chars} are kept, so shorten it."
            )
        closed = (scope or "").strip() == MYSELF or person_of((scope or "").strip()) is not None
        said_aloud = bool(turn.utterance) and not turn.is_private
        is_aloud = closed and said_aloud and all_must_know(turn.utterance, f"{spelled(key)}: {value}")
        is_given = scope is not None and not is_aloud
        scope = scope_to_write(None if is_aloud else scope, self._default_level, turn)
        if change is None and self._facts.holds_list(turn, scope, key):
            change = ListChange(read_items(value))  # the others stay
        if change is None:
            key, about = self._facts.key_for(turn, scope, key, value)
        else:
            key, about = self._facts.list_key(turn, scope, key, value), None
            scope = scope if is_given else self._facts.list_scope(turn, scope, key, removes=not change.add)
        asked = level_of_scope(scope)[0]
        level = turn.level_of_write(asked, key.removeprefix("user."), value)
        if level != asked:
            scope = checked_scope(SCOPES[level], turn)
        before = [fact for fact in self._facts.read(turn, scope) if spelled(fact.key) == spelled(key)]
        if not before and about != "other":
            before = self._facts.read(turn, scope, key)
        key = before[0].key if before else key
        check_owner(self._facts.versions(key, scope), turn)
        speaker = turn.reader.speaker
        # Outside of our turns, as an agent of EdgeVox calls them, nobody tells voices apart: it is the operator's.
        apart = speaker or turn.n >= 0 or not self._is_bare
        heard = turn.heard or (Heard(speaker=speaker) if apart else None)
        stated: dict[str, Any] = {"heard": None, "trust": INFERRED} if turn.is_inner else {"heard": heard}
        if speaker and not turn.is_inner and key.casefold().startswith(named_after(turn.reader.key, "")):
            stated["trust"] = TRUSTED  # nobody else knows better
        more: dict[str, Any] = {"source": SOURCE, **(stated if self._facts.levelled else {})}
        line = clean(f"{key}: {value}", max_chars=self._max_chars)
        # A fact for the speaker alone was said for nobody else; what the prompt held makes no utterance private.
        turn.close(level, utterance=asked == "private")
        wait_s = self._settings.now.tools.write_wait_s
        keep = self._store.change_fact if change else self._store.add_fact
        written = self._later.write(partial(keep, key, change or value, scope=scope, **more))
        if not (wait_written(written, wait_s) and wait_written(self._later.flush(), wait_s)):
            # The answer must not promise more than is true.
            return f"Heard, but not kept yet: {line}. The disk is busy; it will be kept as soon as the disk is free."
        after, holds = self._facts.read(turn, scope, key), self._store.get_fact(key, scope=scope)
        if change and holds is None:
            return self._unknown(turn, key)
        self._mark(turn, after)
        if change and after:  # not where somebody listens who may not know the list
            value = words_of(change.items)
            line = clean(f"{key}: {value}", max_chars=MAX_JSON_BYTES)
        if any(fact.perhaps_misheard and fact.value == value for fact in after):
            line += " (perhaps misheard, ask whether it is right)"
        disbelieved = self._facts.is_disbelieved(key, value, scope)
        if holds != value and (change is None or disbelieved is not None):
            why = "it was hard to hear. Kept as perhaps misheard"
            if disbelieved:
                why = "somebody whom the robot trusts more said otherwise. Kept as a doubt"
            kept = clean(f"{key}: {holds}", max_chars=self._max_chars)
            return f"Not believed: {why}: {line}.{f' {kept} still holds.' if after else ''}"
        closer = "" if level == asked else f" {_CLOSER[level]}"
        closer = closer or f" {_ALOUD}" * (is_aloud and level != "private")
        if change and after:
            return f"Remembered: {line}{clean(change.not_done, max_chars=MAX_JSON_BYTES)}.{closer}"
        if change is None and before and before[0].value != value:
            older = clean(before[0].value, max_chars=self._max_chars)
            return f"Remembered: {line}. Before, it was: {older}.{closer}"
        return f"Remembered: {line}.{closer}"

    def recall_fact(self, turn: ToolTurn, *, key: str, scope: str | None = None, why: str = "") -> str:
        """Look a fact up by its name, and on demand tell in which words it was said, what it replaced and what contests it."""
        ranks = [(rank_of(fact.key, key, turn.reader.key), fact) for fact in self._facts.read(turn, scope)]
        facts = [fact for rank in range(3) for near, fact in ranks if near == rank]
        if not facts:
            return self._unknown(turn, key)
        told = self._list(turn, facts)
        return "\n".join([told, *self._reasons(turn, facts)]) if why.casefold() in _YES else told

    def list_facts(self, turn: ToolTurn, *, scope: str | None = None) -> str:
        """List what is remembered, newest first."""
        facts = self._facts.read(turn, scope)
        return self._list(turn, facts) if facts else "Nothing is remembered that this speaker may hear."

    def search_memory(self, turn: ToolTurn, *, query: str) -> str:
        """Find what was said, done and remembered, by words and meaning."""
        results = self._recall(query, turn.reader) if self._recall is not None else ()
        prompt_log = turn.prompt_log
        best = sorted(results, key=lambda item: (not item.safety, -item.score))
        # The prompt already has its turns, this one among them.
        best = [item for item in best if prompt_log is None or not prompt_log.has_turn(item)]
        shown = () if prompt_log is None or prompt_log.running is None else prompt_log.running.shown
        # An episode is told again, with the name for forgetting it.
        visible = VisibleLines({line.id: line for line in shown if not line.id.startswith(_EPISODE)})
        lines = lines_for(best, visible=visible, question=analyse(query), today=self._today(turn))
        above = any(item.name in visible for item in best)
        lines = lines[: self._fitting([line.line for line in lines])]
        turn.note_shown(lines)
        texts = [f"{line.line} [{line.id}]" if line.id.startswith(_EPISODE) else line.line for line in lines]
        texts += ["More about that stands above."] * above
        nothing, late = "Nothing is remembered about that.", isinstance(results, CutOff)
        return "\n".join([*(texts or [nothing] * (not late)), *[_CUT_OFF] * late])

    def off_the_record(self, turn: ToolTurn, *, which: str) -> str:
        """Keep turns off the record, or erase the one before if this speaker said it."""
        if which not in _UNKEPT:
            raise InvalidInputError(f"`which` must be one of {', '.join(_UNKEPT)}.")
        if turn.turn is None:
            raise InvalidInputError("This loop tells memory of no turn, so none can be kept off the record.")
        turn.turn.off_the_record(which)
        return _UNKEPT[which]

    def forget_fact(self, turn: ToolTurn, *, key: str, scope: str | None = None) -> str:
        """Erase a fact with all its history, or an episode, after a yes, and quote what it was.

        Once it is committed nobody recalls it; the bytes go from every file in idle time.
        """
        if says_not_to_forget(turn.utterance):
            raise RefusedError(
                f"Nothing was erased: the user asked NOT to forget. To keep something new, call {REMEMBER_FACT}."
            )
        name = key.strip("[] ")
        facts = self._facts.read(turn, scope, key)
        facts = facts or [fact for fact in self._facts.read(turn, scope) if f"fact:{fact.id}" == name]
        if len(exact := [fact for fact in facts if fact.key == key]) == 1:
            facts = exact
        if not facts and name.startswith(_EPISODE):
            return self._erase_episode(turn, name)
        if not facts:
            return self._erase_said(turn, key)
        if len(facts) > 1:
            lines = self._list(turn, facts, named=True)
            raise RefusedError(f"Nothing was erased: several have this name. {_WHICH}\n{lines}")
        (fact,) = facts
        versions = self._facts.versions(fact.key, fact.scope)
        check_owner(versions, turn)
        _check_erasable(versions, turn)
        quote = self._line(turn, fact)
        by_hand = f"edgemem forget {shlex.quote(fact.key)} --scope {shlex.quote(fact.scope)}"
        self._mark(turn, facts)
        _check_agreed(turn, (fact.scope, fact.key), quote, by_hand)
        values = (version.value for version in [*versions, fact])
        # The asker hears once what it was, and the stored turn names only the key.
        items = (item for version in [*versions, fact] for item in items_of(version.json))
        turn.forget(Erased.with_values(fact.scope, fact.key, values, items))
        if self.eraser is None:
            self._store.forget_fact(fact.key, scope=fact.scope)
        else:
            self.eraser.fact(fact.key, scope=fact.scope, **self._soon)
        # The prompt is told here that it is gone; the next turn must not quote it again.
        turn.note_shown([BlockLine(f"gone:fact:{fact.id}", "", *closed_to(fact), (fact.scope, fact.key), "")])
        older = len({version.value for version in versions} - {fact.value})
        rest = f", and {older} older value{'s' * (older > 1)}" if older else ""
        return f"{FORGOTTEN} It was: {quote}{rest}."

    @property
    def _soon(self) -> Any:
        """How the eraser works while somebody waits for the answer: the bytes go in idle time."""
        return {"wait_s": self._settings.now.tools.write_wait_s}

    def _erase_episode(self, turn: ToolTurn, name: str) -> str:
        """Erase the episode whose id ends a name, if the speaker may read it."""
        episode_id = name.removeprefix(_EPISODE)
        episode: Episode | None = None
        if self._facts.levelled:
            episode = self._store.get_episode(episode_id, reader=turn.reader)
        if episode is None:
            return f"Nothing was erased: there is no episode {clean(episode_id, max_chars=_NAME_CHARS)}."
        _check_erasable([episode], turn)
        text = episode_text(episode.kind, episode.payload, episode.outcome)
        quote = clean(text, max_chars=self._max_chars)
        turn.note_shown([BlockLine(f"episode:{episode.id}", "", episode.level, episode.owner)])
        _check_agreed(turn, ("episode", name), quote, f"edgemem forget --episode {shlex.quote(episode_id)}")
        turn.forget(Erased.with_values("episode", name, [text]))
        if self.eraser is None:
            self._store.forget_episode(episode_id)
        else:
            self.eraser.record(EPISODES, episode_id, **self._soon)
        return f"{FORGOTTEN} It was: {quote}."

    def _erase_said(self, turn: ToolTurn, words: str) -> str:
        """Erase a turn in which the speaker said some words, or the one with the name `turn:ID`; ask which where there are several."""
        eraser, utterances = self.eraser, self.utterances if turn.reader.key else None
        found, whole = utterances(words, turn.reader) if utterances is not None else ([], 0)
        questions = turn.session.state.get(_ASKED, {})
        # What asks for it may hold the words as well.
        asked = [item for item in found if questions.get(("turn", item.id, turn.reader.key)) == turn.n - 1]
        items = asked[:1] or found[: whole or _NEAR]
        if eraser is None or not items:
            return f"Nothing was erased. {self._unknown(turn, words)}"
        lines = [f"- {self._words(turn, item)} [turn:{item.id}]" for item in items]
        lines = lines[: self._fitting(lines)]
        shown = items[: len(lines)]
        turn.note_shown(BlockLine(f"turn:{item.id}", "", item.level, item.owner) for item in shown)
        if len(items) > 1:
            more = [f"and {whole - len(lines)} more"] * (whole > len(lines))
            raise RefusedError(
                "\n".join([f"Nothing was erased: no fact has this name. {_WHICH}", *lines, *more])
            )
        (item,) = items
        by_hand = f"edgemem forget --turn {item.turn} --session {shlex.quote(item.session or '')}"
        _check_agreed(turn, ("turn", item.id), self._words(turn, item), by_hand)
        # Neither the stored turn nor the reply repeats it.
        turn.forget(Erased.with_values("turn", f"turn:{item.id}", [item.text, words]))
        eraser.turn(item.session or "", item.turn or 0, **self._soon)
        return FORGOTTEN

    def _today(self, turn: ToolTurn) -> Today:
        return Today(zone=self._settings.now.time.tzinfo(), language=language_in(turn.utterance))

    def _words(self, turn: ToolTurn, item: Recalled) -> str:
        day = day_of(item.event_time or item.recorded_at, self._today(turn), text=item.text)
        return f"{day}: {clean(item.text, max_chars=self._max_chars)}"

    def _unknown(self, turn: ToolTurn, key: str) -> str:
        names = {fact.key.casefold(): fact for fact in self._facts.read(turn, None)[:_COMPARED]}
        folded = key.casefold()
        near = [name for name in names if folded in name or name.rpartition(".")[2] in folded]
        near += difflib.get_close_matches(folded[:_NAME_CHARS], names, n=_LIKE)
        offered = [names[name] for name in dict.fromkeys(near[:_LIKE])]
        for fact in offered:
            turn.close(closed_to(fact)[0])
        like = ", ".join(clean(fact.key, max_chars=_NAME_CHARS) for fact in offered)
        quoted = clean(key, max_chars=_NAME_CHARS)
        if not quoted:
            return "The name is empty; say which fact is meant."
        answer = f"Nothing is remembered under the name {quoted}."
        return f"{answer} Names like it: {like}." if like else answer

    def _list(self, turn: ToolTurn, facts: Sequence[Fact], *, named: bool = False) -> str:
        today = self._today(turn)
        lines = [f"- {self._line(turn, fact)}{_source(fact, today)}" for fact in facts[:MAX_ITEMS]]
        lines = [f"{line} [fact:{fact.id}]" for line, fact in zip(lines, facts)] if named else lines  # noqa: B905 - the first
        lines = lines[: self._fitting(lines)]
        self._mark(turn, facts[: len(lines)])
        if len(facts) > len(lines):
            lines.append(f"and {len(facts) - len(lines)} more")
        return "\n".join(lines)

    def _reasons(self, turn: ToolTurn, facts: Iterable[Fact]) -> list[str]:
        """Return what the speaker may hear of the reasons for some facts, as lines."""
        found = [why for fact in facts if (why := self._facts.reasons(fact, turn.reader)) is not None]
        told = [
            (lead, thought)
            for why in found
            for lead, some in (("said", why.said), ("before", why.before), ("contested by", why.contested))
            for thought in some
        ]
        today = self._today(turn)
        lines = [
            f"- {lead}: {clean(thought.content, max_chars=self._max_chars)}"
            f" [{clean(thought.source, max_chars=_NAME_CHARS)}, {day_of(seconds(thought.created_at) or 0.0, today, text=thought.content)}]"
            for lead, thought in told
        ]
        lines = lines[: self._fitting(lines)]
        turn.note_shown(
            BlockLine(thought.thought_id, "", thought.level, thought.owner)
            for _, thought in told[: len(lines)]
        )
        return lines

    def _fitting(self, lines: Sequence[str]) -> int:
        ends = list(accumulate(len(line) for line in lines[:MAX_ITEMS]))
        return max(1, bisect_right(ends, _LONGEST * self._max_chars))

    def _line(self, turn: ToolTurn, fact: Fact) -> str:
        most = MAX_JSON_BYTES if items_of(fact.json) else self._max_chars
        line = clean(f"{fact.key}: {fact.value}", max_chars=most)
        if fact.perhaps_misheard:
            line += " (perhaps misheard)"
        if fact.scope == "global":
            return line
        person = person_of(fact.scope)
        own = person is not None and name_key(person) == turn.reader.key
        return f"{line} ({MYSELF if own else clean(fact.scope, max_chars=_NAME_CHARS)})"

    def _mark(self, turn: ToolTurn, facts: Iterable[Fact]) -> None:
        turn.note_shown(
            BlockLine(f"fact:{fact.id}", "", *closed_to(fact), (fact.scope, fact.key), storable(fact.value))
            for fact in facts
        )


_RUNS: dict[str, Callable[..., str]] = {
    REMEMBER_FACT: _MemoryTools.remember_fact,
    FORGET_FACT: _MemoryTools.forget_fact,
    RECALL_FACT: _MemoryTools.recall_fact,
    LIST_FACTS: _MemoryTools.list_facts,
    SEARCH_MEMORY: _MemoryTools.search_memory,
    OFF_THE_RECORD: _MemoryTools.off_the_record,
}


def _check_erasable(versions: Iterable[Fact | Episode], turn: ToolTurn) -> None:
    """Refuse an unknown voice that would erase a recognised speaker's words; to contradict shared ones is allowed, as a doubt."""
    known = (version.heard is not None and version.heard.speaker for version in versions)
    if not turn.reader.speaker and any(known):
        raise RefusedError(
            "Refused: nobody knows who is speaking, and somebody whom the robot knows said that. Nothing was erased."
        )


def _check_agreed(turn: ToolTurn, item: tuple[str, str], quote: str, by_hand: str) -> None:
    """Return if this speaker was asked in the turn before whether to erase `item`, such as a scope and a key, and says yes now.

    Otherwise raise RefusedError, which says what comes next; the command `by_hand` erases it.
    """
    command = clean(by_hand, max_chars=_COMMAND_CHARS)
    if turn.n < 0 or turn.is_inner:  # the yes of an agent is nobody's
        raise RefusedError(f"Nothing was erased: this robot cannot ask. At the command line: `{command}`.")
    now, before = turn.n, turn.n - 1
    questions: dict[tuple[str, ...], int] = turn.session.state.get(_ASKED, {})
    questions = {question: n for question, n in questions.items() if n in (now, before)}
    turn.session.state[_ASKED] = questions
    question = (*item, turn.reader.key)
    if questions.get(question) != before:
        questions[question] = now
        raise RefusedError(
            f"Not erased yet. Ask the user: shall I erase this for good? “{quote}” After a yes, call {FORGET_FACT} again."
        )
    del questions[question]
    if says_yes(turn.utterance):
        return
    if says_no(turn.utterance):
        raise RefusedError("Nothing was erased: the user said no.")
    raise RefusedError(
        "Nothing was erased: that was neither yes nor no. Tell the user how to erase it at the command line:"
        f" `{command}`."
    )


def _source(fact: Fact, today: Today) -> str:
    speaker = fact.heard.speaker if fact.heard is not None else None
    source = clean(speaker or fact.source, max_chars=_NAME_CHARS)
    day = day_of(fact.recorded_at or fact.updated_at, today, text=f"{fact.key}: {fact.value}")
    parts = filter(None, (f"said by {source}" if speaker else source, day))
    return f" [{', '.join(parts)}]"
