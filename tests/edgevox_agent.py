"""A real agent of EdgeVox with a model that says what a test wrote."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

Said = str | dict[str, Any] | Exception | Callable[[list[dict[str, Any]]], Any]
"""What a model answers: text, a whole message, a failure, or what a function makes of the prompt."""


class ScriptedModel:
    """Answers in the place of EdgeVox's model, one after the other, and keeps every prompt; then it says `ok`."""

    _language = "en"
    """EdgeVox reads it from its own model."""

    def __init__(self, *said: Said) -> None:
        self.said = list(said)
        self.handed: list[list[dict[str, Any]]] = []

    def complete(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """Answer as llama-cpp-python does."""
        self.handed.append(copy.deepcopy(messages))
        answer: Any = self.said.pop(0) if self.said else "ok"
        if callable(answer):
            answer = answer(messages)
        if isinstance(answer, Exception):
            raise answer
        message = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
        return {"choices": [{"message": message}]}


def calls(name: str, saying: str = "", **arguments: Any) -> dict[str, Any]:
    """Return a message of a model that calls a tool as its chat template wants it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": saying,
        "tool_calls": [{"id": f"id-{name}", "function": function}],
    }


def calls_in_words(name: str, saying: str = "", **arguments: Any) -> str:
    """Return a reply of a model that writes its call as text, as most small ones do."""
    return f"{saying}<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def hands_over(name: str) -> dict[str, Any]:
    """Return a message of a model that hands the conversation to another agent."""
    return calls(f"handoff_to_{name}")


def make_agent(*said: Said, name: str = "kitchen", **how: Any) -> tuple[Any, ScriptedModel]:
    """Return an agent of EdgeVox and its model."""
    agents = importlib.import_module("edgevox.agents")
    model = ScriptedModel(*said)
    agent = agents.LLMAgent(name, f"helps in the {name}", f"You help in the {name}.", llm=model, **how)
    return agent, model


def tool(name: str, run: Callable[..., Any], **parameters: str) -> Any:
    """Return a tool of EdgeVox; `parameters` are types by name."""
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return importlib.import_module("edgevox.llm.tools").Tool(name, f"To {name}.", schema, run)


def new_context(**how: Any) -> Any:
    """Return a context of EdgeVox, which keeps one conversation from run to run."""
    return importlib.import_module("edgevox.agents").AgentContext(**how)


def grows(handed: Iterable[list[dict[str, Any]]]) -> bool:
    """Tell whether each prompt begins with the whole of the one before it, so that a model reads only what is new."""
    return all(later[: len(earlier)] == earlier for earlier, later in pairwise(handed))


def words(message: dict[str, Any]) -> str:
    """Return the text of a message of a prompt without the memory that was put before it."""
    return str(message["content"]).rpartition("</memory>\n")[2]
