"""The probe: small conversations that a chat template is given, to see which of what was said it shows.

Nothing here goes by a template's name: what it refuses, or passes over in silence, is found by rendering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import TemplateError
from edgemem.llama.manners import Manners
from edgemem.llama.sandbox import UnboundedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.records import Message

    Show = Callable[[Sequence[Message], Sequence[dict[str, Any]] | None], str]

PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "Look a cup up.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string", "description": "What."}}},
    },
}
"""A tool to offer while probing."""

_ONE: Message = {"role": "user", "content": "First question."}
_TWO: Message = {"role": "user", "content": "Second question."}
_REPLY: Message = {"role": "assistant", "content": "First answer."}
_OTHER: Message = {"role": "assistant", "content": "Other answer."}
_ORDERS: Message = {"role": "system", "content": "Be kind."}
_MORE: Message = {"role": "system", "content": "Be brief."}


def find_manners(show: Show) -> Manners:
    """Find out what a template can take.

    Args:
        show: renders messages and tools as the template itself does; raises TemplateError.
    """
    probe = _Probe(show)
    return probe.of_calls(probe.of_talk())


class _Probe:
    """Tries one template."""

    def __init__(self, show: Show) -> None:
        self._show = show

    def of_talk(self) -> Manners:
        """Return what it takes of instructions, and of who speaks after whom."""
        better = self._better
        found = better(Manners(), [_ONE], "First question.", lists_tools=True)
        found = better(found, [_ORDERS, _ONE], "Be kind.", "First question.", no_system=True)
        found = better(
            found, [_ORDERS, _MORE, _ONE], "Be kind.", "Be brief.", "First question.", one_system=True
        )
        for messages in ([_ONE, _TWO], [_REPLY, _ONE], [_ONE, _REPLY, _OTHER, _TWO]):
            texts = [message["content"] for message in messages]
            found = better(found, messages, *texts, alternates=True)
        # A later system message has its place, and displaces nothing that the template says by itself.
        opening = ""
        if self._shows(found, [_ONE]):
            text = self._show(found.fit([_ONE]), [] if found.lists_tools else None)
            opening = text.partition("First question.")[0]
        late = (opening, "First answer.", "Be brief.", "Second question.")
        return better(found, [_ONE, _REPLY, _MORE, _TWO], *late, early_system=True)

    def of_calls(self, found: Manners) -> Manners:
        """Return what it takes of tools that were called, beside what is found already."""

        def takes(changes: dict[str, bool], *, never: str = "\0") -> bool:
            changed = msgspec.structs.replace(found, **changes)
            return self._shows(
                changed, _called("needle"), "needle", "Found number 0.", tools=True, never=never
            )

        # What is wrong with calls can be several things at once, so they are tried together, the mildest first.
        choices: list[dict[str, bool]] = [{}, {"short_ids": True}]
        # Python's quotes tell that an object was glued to text.
        if not any(takes(each, never="'needle'") for each in choices):
            quoted = [{**each, "text_arguments": True} for each in choices]
            if any(takes(each) for each in quoted):
                choices = quoted
        choices += [{"no_calls": True}, {"no_calls": True, "no_results": True}]
        chosen = next((each for each in choices if takes(each)), {})
        return self._better(
            msgspec.structs.replace(found, **chosen),
            _called("needle", "thread"),
            *("needle", "thread", "Found number 0.", "Found number 1."),
            tools=True,
            one_call=True,
        )

    def _shows(
        self,
        manners: Manners,
        messages: Sequence[Message],
        *needles: str,
        tools: bool = False,
        never: str = "\0",
    ) -> bool:
        """Tell whether all that was said is there, in its order where no tool is called."""
        try:
            offered = [PROBE_TOOL] if tools else ([] if manners.lists_tools else None)
            text = self._show(manners.fit(messages), offered)
        except TemplateError as error:
            if isinstance(error.__cause__, UnboundedError):
                raise  # each further try would take as long
            return False
        at = 0
        for needle in needles:
            at = text.find(needle, 0 if tools else at)  # calls may come one by one
            if at < 0:
                return False
        return never not in text

    def _better(
        self, manners: Manners, messages: list[Message], *needles: str, tools: bool = False, **more: bool
    ) -> Manners:
        """Take to other manners where, without them, something would not be shown."""
        if self._shows(manners, messages, *needles, tools=tools):
            return manners
        changed = msgspec.structs.replace(manners, **more)
        return changed if self._shows(changed, messages, *needles, tools=tools) else manners


def _called(*values: str) -> list[Message]:
    """Return a turn in which the tool was called with each of some values."""
    calls = [
        {
            "id": f"call_0_{n}",
            "type": "function",
            "function": {"name": "probe", "arguments": {"key": value}},
        }
        for n, value in enumerate(values)
    ]
    results: list[Message] = [
        {"role": "tool", "name": "probe", "tool_call_id": f"call_0_{n}", "content": f"Found number {n}."}
        for n in range(len(values))
    ]
    return [_ONE, {"role": "assistant", "content": "", "tool_calls": calls}, *results, _REPLY, _TWO]
