"""Schemas of the memory tools, and the arguments that a model gave, checked against them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgemem.errors import InvalidInputError

_KEY = {"type": "string", "description": "A short name, such as allergy or birthday."}
_VALUE = {"type": "string", "description": "What to remember, in a few words."}
_QUERY = {"type": "string", "description": "What to look for."}

_NEEDED: dict[str, dict[str, Any]] = {
    "remember_fact": {"key": _KEY, "value": _VALUE},
    "forget_fact": {
        "key": {**_KEY, "description": f"{_KEY['description'][:-1]}, or an [episode:…] that was found."}
    },
    "recall_fact": {"key": _KEY},
    "list_facts": {},
    "search_memory": {"query": _QUERY},
}

ABOUT = {
    "remember_fact": "Keep something for later that the user wants remembered.",
    "forget_fact": "Erase something remembered for good, only if the user asks for it. Never after 'don't forget'.",
    "recall_fact": "Look up one remembered fact by its name.",
    "list_facts": "List what is remembered.",
    "search_memory": "Search all that was said, done and remembered.",
}
"""What the model is told of each tool; every word is paid for in every prompt."""

_WHOSE = "Whose it is: me is the speaker alone, household the people known here, global everybody."


def schema_of(name: str, scopes: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, which offers some scopes."""
    properties = dict(_NEEDED[name])
    if name != "search_memory":
        properties["scope"] = {"type": "string", "enum": list(scopes), "description": _WHOSE}
    return {"type": "object", "properties": properties, "required": list(_NEEDED[name])}


def checked(name: str, schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    """Return what the model gave as text; models like to give numbers and lists.

    Raises:
        InvalidInputError: an argument is missing, unknown or no text.
    """
    properties = schema["properties"]
    unknown = [each for each in arguments if each not in properties]
    if unknown:
        raise InvalidInputError(f"{name} takes {', '.join(properties)}; there is no {unknown[0]!r:.80}.")
    given = {each: _text(each, value) for each, value in arguments.items() if value is not None}
    missing = [each for each in schema["required"] if each not in given]
    if missing:
        raise InvalidInputError(f"{name} needs {' and '.join(missing)}.")
    return given


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, (str, int, float)) for each in value):
        return ", ".join(map(str, value))
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    raise InvalidInputError(f"{name} must be text, not {type(value).__name__}.")
