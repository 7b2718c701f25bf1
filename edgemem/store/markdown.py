"""Memory as Markdown: the same bytes for the same records, whichever store they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.fence import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.records import Episode, Fact, Preference

_MAX_LINE_CHARS = 400
_MOST_PARTS = 3


def as_markdown(facts: Sequence[Fact], preferences: Sequence[Preference], episodes: Sequence[Episode]) -> str:
    """Return the lists under the headings of the EdgeVox memory module; empty if there is nothing.

    What is stored is made safe to show to a model.
    """
    sections = {
        "## Known preferences": [f"- {_line(p.key)}: {_line(p.value)}" for p in preferences],
        "## Known facts": [_fact(fact) for fact in facts],
        "## Recent outcomes": [_episode(episode) for episode in episodes],
    }
    return "\n".join("\n".join((title, *lines)) for title, lines in sections.items() if lines)


def _fact(fact: Fact) -> str:
    scope = "" if fact.scope == "global" else f" [{_line(fact.scope)}]"
    unsure = " (perhaps misheard)" if fact.perhaps_misheard else ""
    return f"- {_line(fact.key)}{scope}: {_line(fact.value)}{unsure}"


def _episode(episode: Episode) -> str:
    parts = list(episode.payload.items())[:_MOST_PARTS]
    brief = ", ".join(f"{_line(key)}={_line(str(value))}" for key, value in parts)
    return f"- [{_line(episode.kind)}] {brief} → {_line(episode.outcome)}"


def _line(text: str) -> str:
    return clean(text, max_chars=_MAX_LINE_CHARS)
