"""`edgemem forget`: erase a fact, an episode, a conversation or a person, in the truth and every copy of it."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgemem.cli.completion import fact_keys, session_ids
from edgemem.cli.facts import forget as forget_fact
from edgemem.cli.options import agreed, erase, home_and_json, open_existing, tell_pending
from edgemem.cli.printing import count, plain, print_json
from edgemem.errors import InvalidInputError
from edgemem.fence import check_key, check_session_id
from edgemem.store.episodes import text_of_episode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.memory import Memory

_KINDS = {
    "fact": "fact", "preference": "preference", "episode": "episode", "procedure": "procedure",
    "toolevent": "tool event", "turn": "turn", "goal": "goal", "phase": "phase", "file": "file",
}  # fmt: skip
"""Nouns for the kinds of an export."""


@click.command()
@click.argument("key", required=False, shell_complete=fact_keys)
@click.option("--scope", help="Of the fact; needed where several scopes have the key.")
@click.option("--episode", help="Erase the episode with this id, as `edgemem recall` tells it.")
@click.option("--session", shell_complete=session_ids, help="Erase this conversation instead of a fact.")
@click.option("--speaker", help="Erase all that this person said or owns.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@home_and_json
def forget(key: str | None, scope: str | None, yes: bool, home: Path, as_json: bool, **kind: Any) -> None:
    """Erase the fact KEY with every version of it, an episode, a conversation, or a person; it cannot be taken back.

    What will be erased is quoted first. Backups go too; exports and NOTES.md are yours, and are left alone.

    Exit code 3: it is forgotten, and nobody recalls it any more, but a program that reads a file keeps bytes of it there.
    They go by themselves, when a robot that has this home open is idle; `edgemem check` tells which file it is.
    """
    episode, session, speaker = kind["episode"], kind["session"], kind["speaker"]
    if sum(given is not None for given in (key, episode, session, speaker)) != 1:
        raise InvalidInputError(
            "Say what to forget: `edgemem forget KEY`, --episode ID, --session ID, or --speaker NAME."
        )
    if key is not None:
        click.get_current_context().invoke(
            forget_fact, key=key, scope=scope, yes=yes, home=home, as_json=as_json
        )
    elif speaker is not None:
        _forget_person(speaker, yes=yes, home=home, as_json=as_json)
    else:
        with open_existing(home) as memory:
            what, report = _quoted(memory, episode, session)
            forget_it = partial(memory.forget, episode=episode, session=session)
            erase(what, forget_it, report, yes=yes, as_json=as_json)


def _quoted(memory: Memory, episode: str | None, session: str | None) -> tuple[str, dict[str, object]]:
    """Return the words for an episode or a conversation that shall be erased, and its JSON."""
    if session is None:
        stored = memory.store.get_episode(episode or "")
        if stored is None:
            raise InvalidInputError(
                f"There is no episode {episode!r}; `edgemem recall` tells the ids of those that it finds."
            )
        text = plain(text_of_episode(stored))
        return f"the episode {plain(stored.id)}: “{text:.60}”", {"episode": episode}
    check_session_id(session)
    turns = memory.sessions.journal.read_turns(session)
    if not turns and session not in memory.sessions.list_ids():
        raise InvalidInputError(f"There is no conversation {session!r}; `edgemem sessions` lists them.")
    texts = [message.content for turn in turns for message in turn.messages if message.content]
    quoted = f", last “{plain(texts[-1]):.60}”" if texts else ""
    what = f"the conversation {plain(session)}: {count(len(turns), 'turn')}{quoted}"
    return what, {"session": session, "turns": len(turns)}


def _forget_person(name: str, *, yes: bool, home: Path, as_json: bool) -> None:
    check_key(name, what="a name")
    with open_existing(home) as memory:
        if not yes:
            held = _held(memory.export(speaker=name))
            counts = ", ".join(count(held[kind], noun) for kind, noun in _KINDS.items() if held[kind])
            what = f"what {plain(name)} said or owns ({counts or 'only parts of what others own'})"
            agreed(f"Erase {what}, and the summaries of those conversations?")
        forgotten = memory.forget(person=name)
    mentions = forgotten.mentions
    if not forgotten.erased and not mentions.count:
        raise InvalidInputError(f"Nothing here was said by {name!r}, or is theirs.")
    if as_json:
        print_json({"speaker": name, **msgspec.to_builtins(forgotten)})
    else:
        counts = ", ".join(count(number, _singular(kind)) for kind, number in forgotten.erased.items())
        click.echo(f"Erased what {plain(name)} said or owned: {counts or 'nothing was there'}.")
        if mentions.count:
            click.echo(f"The name {plain(name)} is still in {count(mentions.count, 'place')}; you decide:")
        for mention in mentions.quoted:
            by = f" ({plain(mention.by)})" if mention.by else ""
            click.echo(f"  {mention.kind} {plain(mention.where)}{by}: {plain(mention.text)}")
        if mentions.count > len(mentions.quoted):
            click.echo(f"  and {mentions.count - len(mentions.quoted)} more")
        for file in forgotten.files:
            click.echo(f"  a damaged file that may hold anything: {file}")
    tell_pending(forgotten)


def _singular(kind: str) -> str:
    return f"{kind[:-3]}y" if kind.endswith("ies") else kind.removesuffix("s")


def _held(lines: Iterable[str]) -> Counter[str]:
    """Return how much of each kind an export holds; a fact, whose versions stand together, counts once."""
    kinds: Counter[str] = Counter()
    last = None
    for line in lines:
        record = json.loads(line)
        fact = (record["scope"], record["key"]) if record["record"] == "fact" else None
        if fact is None or fact != last:
            kinds[record["record"]] += 1
        last = fact
    return kinds
