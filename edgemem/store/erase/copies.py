"""Copies that the memory's own tools made: their calls and results in conversations, which are forgotten too.

A person's own words stay; a tool's copy of them goes, with the ids that the model generated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.fence import clean
from edgemem.languages.words import function_words, number_words
from edgemem.records import MEMORY_TOOLS
from edgemem.store import messages
from edgemem.store.facts import items_of
from edgemem.store.rights import written_scope
from edgemem.store.turns import change_summary

if TYPE_CHECKING:
    from edgemem.records import Epoch, StoredMessage
    from edgemem.store.db.transaction import Transaction

ERASED = "(erased)"

_HEAD = 60  # of a long value: results are cut, so its beginning must be enough to know it by
_ANYTHING = re.compile(r"(?s).+")
_SHORT = 4  # a shorter value ("no", "5") is looked for only beside its key
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_WORD = re.compile(r"[\u0e00-\u0eff\u2e80-\uffdc]{2}|[^\W_]+")  # of a script without spaces, two letters
_STOPS, _MOST_SENTENCES = ".!?…。！？", 3
_TELLING, _LEAST_WORDS = 16, 2
"""Bytes of a sentence that tells something, and words with a meaning of one that was said; what has less may be anybody's."""


class Erased(NamedTuple):
    """A fact that was erased, as its copies are found: in memory only."""

    scope: str
    key: str
    anywhere: re.Pattern[str] | None  # finds the values that say enough by themselves
    beside_key: re.Pattern[str] | None  # finds all of them

    @classmethod
    def with_values(
        cls, scope: str, key: str, values: Iterable[str | None], items: Iterable[str] = ()
    ) -> Erased:
        """Return a matcher for copies of a fact's values, as they were stored and as tools tell them; `items` are those of lists."""
        forms = {form for value in values if value for form in _forms(value)}
        parts = forms.union(*map(_forms, items))  # a call names one alone, and so may anything else
        long, all_of_them = (sorted(some, key=len, reverse=True) for some in (forms, parts))
        return cls(
            scope, key, _pattern([form for form in long if len(form) >= _SHORT]), _pattern(all_of_them)
        )

    def out_of(self, text: str, *, within: str = "") -> str:
        """Return a text, which may be a part of another one, without the values."""
        pattern = self.beside_key if self.key.casefold() in (within or text).casefold() else self.anywhere
        return text if pattern is None else pattern.sub(ERASED, text)


def read_erased(tx: Transaction, key: str, *, scope: str, person: str | None = None) -> Erased:
    """Return a matcher for copies of a fact that is going to be erased; of a person, only of what they said or own of it."""
    scope = written_scope(tx, scope)
    rows = tx.execute(
        """
        with wanted as (select id from fact_keys where scope = :scope and key = :key)
        select value, json from facts where key_id in wanted and (:name is null or owner = :name or speaker = :name)
        union select value, json from doubts where key_id in wanted and (:name is null or owner = :name or speaker = :name)
        """,
        {"scope": scope, "key": key, "name": person},
    )
    items = (item for _, json in rows for item in items_of(json))
    return Erased.with_values(scope, key, (value for value, _ in rows), items)


def erase_tool_copies(tx: Transaction, gone: Sequence[Erased]) -> None:
    """Erase facts from what the memory's tools were told and answered, in all conversations, and from summaries of it."""
    if not any(erased.beside_key for erased in gone):
        return
    rows = tx.execute(
        f"select session_id, turn, {messages.COLUMNS} from messages m"  # noqa: S608 - our own constant
        " where role in ('assistant', 'tool') and extra is not null order by session_id, turn, id"
    )
    for _, group in groupby(rows, key=lambda row: row[:2]):
        turn = list(group)
        for row in turn:
            if messages.extra_of(row[6]) is None:  # it may hold anything
                tx.execute("update messages set extra = null where id = ?", (row[2],))
        stored = [messages.message_of(row[2:]) for row in turn]
        for before, after in zip(stored, without_copies(stored, gone), strict=True):
            if after is not before:
                row = messages.row_of(after)
                tx.execute(
                    "update messages set content = ?, extra = ?, tokens = ? where id = ?",
                    (row.content, row.extra, row.tokens, after.id),
                )
                tx.announce("messages", [after.id])
    for number, summary in tx.execute("select id, summary from epochs where summary <> ''"):
        left = summary_without(summary, gone)
        if left != summary:
            change_summary(tx, number, left)


def without_copies(stored: Sequence[StoredMessage], gone: Sequence[Erased]) -> list[StoredMessage]:
    """Return the messages of one turn without what the memory's tools repeat; what changes nothing is the same object."""
    ours = {str(call.get("id")) for row in stored for call in _calls(row) if _called(call) in MEMORY_TOOLS}
    return [_without(message, ours, gone) for message in stored]


def without_answers(stored: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the messages of one turn without all that the memory's tools were told and answered: nobody knows what was erased."""
    return without_copies(stored, [Erased("", "", _ANYTHING, _ANYTHING)])


def summary_without(summary: str, gone: Sequence[Erased]) -> str:
    """Return a summary without the lines in which the memory's tools tell of an erased fact."""

    def stays(line: str) -> bool:
        outcome = _outcome(line)
        # An outcome may be cut in the middle of the value.
        return outcome is None or not any(
            erased.key.casefold() in outcome.casefold() or erased.out_of(outcome) != outcome
            for erased in gone
        )

    return "\n".join(filter(stays, summary.splitlines())) if gone else summary


def without_memory(epoch: Epoch) -> Epoch:
    """Return an epoch whose head repeats nothing of the memory: for when something was forgotten, and nobody knows what."""
    return msgspec.structs.replace(epoch, carried=(), summary=without_outcomes(epoch.summary))


def without_outcomes(summary: str) -> str:
    """Return a summary without all lines in which the memory's tools tell of anything."""
    return "\n".join(line for line in summary.splitlines() if _outcome(line) is None)


def _outcome(line: str) -> str | None:
    name, arrow, outcome = line.partition(" -> ")
    return outcome if arrow and name.rpartition(" ")[2] in MEMORY_TOOLS else None


def _without(message: StoredMessage, ours: set[str], gone: Sequence[Erased]) -> StoredMessage:
    content, extra = message.content, dict(message.extra)
    if message.role == "tool" and (
        extra.get("name") in MEMORY_TOOLS or str(extra.get("tool_call_id")) in ours
    ):
        for erased in gone:
            content = content and erased.out_of(content)
            if extra.get("content"):
                whole = json.dumps(extra["content"], default=str)
                extra["content"] = _within(extra["content"], erased, whole)
    elif calls := _calls(message):
        extra["tool_calls"] = [
            _call_without(call, gone) if _called(call) in MEMORY_TOOLS else call for call in calls
        ]
        if extra["tool_calls"] == calls:
            return message
    if content == message.content and extra == message.extra:
        return message
    return msgspec.structs.replace(message, content=content, extra=extra, tokens=())


def _call_without(call: dict[str, Any], gone: Sequence[Erased]) -> dict[str, Any]:
    given = arguments = call["function"].get("arguments")
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):  # the model may have written no JSON
            arguments = json.loads(given)
    left, whole = arguments, str(arguments)
    for erased in gone:
        left = _within(left, erased, whole)
    if left == arguments:
        return call
    if isinstance(given, str) and not isinstance(left, str):
        left = json.dumps(left, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": left}}


def _within(value: Any, erased: Erased, whole: str) -> Any:
    """Return a JSON value without the erased values; models give values as numbers and lists too."""
    if isinstance(value, str):
        return erased.out_of(value, within=whole)
    if isinstance(value, dict):
        return {name: _within(part, erased, whole) for name, part in value.items()}
    if isinstance(value, list):
        if erased.out_of(", ".join(map(str, value)), within=whole) == ERASED:
            return ERASED
        return [_within(part, erased, whole) for part in value]
    text = json.dumps(value)
    return ERASED if erased.out_of(text, within=whole) != text else value


def _calls(message: StoredMessage) -> list[dict[str, Any]]:
    calls = message.extra.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [call for call in calls if isinstance(call, dict) and isinstance(call.get("function"), dict)]


def _called(call: dict[str, Any]) -> str:
    return str(call["function"].get("name"))


def _forms(value: str) -> set[str]:
    cleaned = clean(value, max_chars=2 * len(value) + 64)  # a line break becomes a longer mark
    return {value, cleaned, value[:_HEAD], cleaned[:_HEAD]} - {""}


def _pattern(forms: Sequence[str]) -> re.Pattern[str] | None:
    """Return what finds forms as whole words; behind the beginning of a long one, the rest of its line goes too."""
    alternatives = (
        (r"(?<!\w)" if re.match(r"\w", form[0]) else "")
        + re.escape(form)
        + (r"[^\n]*" if len(form) == _HEAD else r"(?!\w)" if re.match(r"\w", form[-1]) else "")
        for form in forms
    )
    return re.compile("|".join(alternatives)) if forms else None


def quotable(role: str, text: str) -> list[str]:
    """Return a text, and its longer sentences, as copies may quote it; none of an answer that anything could say."""
    sentences = [sentence for sentence in _SENTENCE.split(text) if len(sentence.encode()) >= _TELLING]
    return [text, *sentences] if role == "user" or sentences else []


def erase_quotes(tx: Transaction, said: str, at: int) -> None:
    """Erase what was said, and each sentence of it that tells something, from what robots answered since, word for word."""
    quotes = sorted(_quotes_of(said), key=len, reverse=True)
    sql = "select id, content, unheard from messages where id >= :at and role = 'assistant' and (instr(content, :quote) or instr(unheard, :quote))"
    answers = {row[0]: row[1:] for quote in quotes for row in tx.execute(sql, {"at": at, "quote": quote})}
    pattern = re.compile("|".join(f"{re.escape(quote)}[{_STOPS}]*" for quote in quotes))
    left = [(*(text and pattern.sub(ERASED, text) for text in texts), n) for n, texts in answers.items()]
    tx.executemany("update messages set content = ?, unheard = ?, tokens = null where id = ?", left)
    tx.announce("messages", sorted(answers))


def _quotes_of(said: str) -> set[str]:
    """Return what was said, and neighbours of its sentences that tell something, since a stop may be an abbreviation's; without stops."""
    places = [0, *(gap.end() for gap in _SENTENCE.finditer(said)), len(said)]
    runs = (said[a:b] for n, a in enumerate(places) for b in places[n + 1 : n + 1 + _MOST_SENTENCES])
    little = function_words() - number_words()  # a number may be a code
    telling = [run for run in runs if len({*_WORD.findall(run.lower())} - little) >= _LEAST_WORDS]
    quotes = {run.strip(f" {_STOPS}") for run in (said, *telling)}
    return {quote for quote in quotes if len(quote.encode()) >= _TELLING}
