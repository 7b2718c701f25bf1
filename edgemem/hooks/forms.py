"""Forms: the messages of frameworks' lists as chat messages, and back, each as an object of its framework.

An item stays the very object that its framework handed over wherever the model reads of it what it says. What memory changes is a copy, what
it adds is new. A chat message may be several items: a model's thoughts, its words, and each of its calls.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from edgemem.context.messages import call_arguments, call_name, tool_calls
from edgemem.errors import InvalidInputError
from edgemem.records import Message, text_of

Form = Literal["chat", "langchain", "responses", "livekit"]
"""Dicts with roles; messages of LangChain; items of OpenAI's Responses; items of LiveKit's `ChatContext`."""


class Part(NamedTuple):
    """A chat message, and the items that it is made of."""

    message: Message
    items: tuple[Any, ...]


class _Form(NamedTuple):
    """How the items of a form are read and written."""

    read: Callable[[Any], Message | None]
    """Return the message of an item; None: it goes with the next message, such as a model's thoughts."""
    write: Callable[[Message], list[Any]]
    """Return new items for a message."""
    change: Callable[[Any, Any], Any]
    """Return a copy of an item with other content."""


def read_items(items: Iterable[Any], form: Form) -> list[Part]:
    """Return a framework's items as chat messages; raise InvalidInputError where one is of another form."""
    if form not in get_args(Form):
        raise InvalidInputError(f"`form` must be one of {', '.join(get_args(Form))}; got {form!r:.40}.")
    read, parts, waiting = _FORMS[form].read, list[Part](), list[Any]()
    for item in items:
        try:
            message = read(item)
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidInputError(
                f"{type(item).__name__} is no item of the form {form!r}: {error}."
            ) from error
        waiting.append(item)
        if message is None:
            continue
        if parts and _is_same_answer(parts[-1].message, message):
            calls = [*tool_calls(parts[-1].message), *tool_calls(message)]
            parts[-1] = Part({**parts[-1].message, "tool_calls": calls}, (*parts[-1].items, *waiting))
        else:
            parts.append(Part(message, tuple(waiting)))
        waiting = []
    return [*parts, *(Part({}, (item,)) for item in waiting)]


def write_message(message: Message, part: Part | None, form: Form) -> list[Any]:
    """Return the items of a message: those of its part, where it says what that says, else changed or new ones."""
    if part is None:
        return _FORMS[form].write(message)
    if part.message["role"] == "assistant" or part.message.get("content") == message.get("content"):
        return list(part.items)
    *rest, last = part.items
    return [*rest, _FORMS[form].change(last, message["content"])]


def _is_same_answer(before: Message, message: Message) -> bool:
    """Tell whether a message with calls alone belongs to the answer before it."""
    return (
        before.get("role") == message.get("role") == "assistant"
        and bool(tool_calls(message))
        and not message.get("content")
    )


def _call(id_: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


# -- chat ------------------------------------------------------------------------------------------------


def _read_chat(item: Any) -> Message:
    if not isinstance(item, dict) or "role" not in item:
        raise TypeError("a message is a dict with `role`")
    return item


# -- LangChain -------------------------------------------------------------------------------------------

_LANGCHAIN = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CLASSES = {"user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}


def _read_langchain(item: Any) -> Message:
    message: Message = {
        "role": _LANGCHAIN[item.type.removesuffix("MessageChunk").lower()],
        "content": item.content,
    }
    if item.type == "tool":
        message |= {"tool_call_id": item.tool_call_id, "name": item.name or "", "content": text_of(message)}
    elif message["role"] == "assistant":
        message["content"] = text_of(message)
        if calls := [
            _call(call["id"] or "", call["name"], json.dumps(call["args"])) for call in item.tool_calls
        ]:
            message["tool_calls"] = calls
    return message


def _write_langchain(message: Message) -> list[Any]:
    kinds = importlib.import_module("langchain_core.messages")
    given: dict[str, Any] = {"content": message.get("content") or ""}
    if message["role"] == "tool":
        given["tool_call_id"] = message.get("tool_call_id")
    elif calls := tool_calls(message):
        given["tool_calls"] = [
            {"id": call.get("id"), "name": call_name(call), "args": call_arguments(call)} for call in calls
        ]
    return [getattr(kinds, _CLASSES.get(message["role"], "SystemMessage"))(**given)]


def _copy(item: Any, content: Any) -> Any:
    return item.model_copy(update={"content": content})


# -- OpenAI's Responses ----------------------------------------------------------------------------------


def _read_responses(item: Any) -> Message | None:
    kind = item.get("type") or "message"
    if kind == "function_call":
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [_call(item["call_id"], item["name"], item["arguments"])],
        }
    if kind == "function_call_output":
        return {
            "role": "tool",
            "tool_call_id": item["call_id"],
            "content": text_of({"content": item["output"]}),
        }
    if kind != "message":
        return None  # reasoning, and what the provider's own tools did
    return {
        "role": item["role"],
        "content": text_of(item) if item["role"] == "assistant" else item["content"],
    }


def _write_responses(message: Message) -> list[Any]:
    if message["role"] == "tool":
        return [
            {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        ]
    words = [{"role": message["role"], "content": message["content"]}] if message.get("content") else []
    return [
        *words,
        *(
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in tool_calls(message)
        ),
    ]


def _change_response(item: Any, content: Any) -> Any:
    return {**item, "output" if item.get("type") == "function_call_output" else "content": content}


# -- LiveKit ---------------------------------------------------------------------------------------------


def _read_livekit(item: Any) -> Message | None:
    if item.type == "function_call":
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [_call(item.call_id, item.name, item.arguments)],
        }
    if item.type == "function_call_output":
        return {"role": "tool", "tool_call_id": item.call_id, "name": item.name, "content": item.output}
    if item.type != "message":
        return None  # a handoff
    return {"role": item.role, "content": item.raw_text_content or ""}


def _write_livekit(message: Message) -> list[Any]:
    kinds = importlib.import_module("livekit.agents.llm")
    if message["role"] == "tool":
        return [
            kinds.FunctionCallOutput(
                call_id=message["tool_call_id"],
                name=message.get("name") or "",
                output=message["content"],
                is_error=False,
            )
        ]
    words = (
        [kinds.ChatMessage(role=message["role"], content=[message["content"]])]
        if message.get("content")
        else []
    )
    calls = [kinds.FunctionCall(call_id=call["id"], **call["function"]) for call in tool_calls(message)]
    return [*words, *calls]


def _change_livekit(item: Any, content: Any) -> Any:
    if item.type == "function_call_output":
        return item.model_copy(update={"output": content})
    others = [part for part in item.content if not isinstance(part, str)]
    return item.model_copy(update={"content": [text_of({"content": content}), *others]})


_FORMS: dict[Form, _Form] = {
    "chat": _Form(_read_chat, lambda message: [message], lambda item, content: {**item, "content": content}),
    "langchain": _Form(_read_langchain, _write_langchain, _copy),
    "responses": _Form(_read_responses, _write_responses, _change_response),
    "livekit": _Form(_read_livekit, _write_livekit, _change_livekit),
}


def written(
    view: Sequence[Message], parts: Sequence[Part], form: Form, is_same: Callable[[Message, Message], bool]
) -> list[Any]:
    """Return the items of what the model reads, made of those that it was read from; `is_same` compares an older message with a newer one."""
    rest, found = list(parts), list[tuple[Message, Part | None]]()
    for message in reversed(view):
        at = next((n for n in range(len(rest) - 1, -1, -1) if is_same(rest[n].message, message)), None)
        found.append((message, None if at is None else rest[at]))
        if at is not None:
            del rest[at:]
    return [item for message, part in reversed(found) for item in write_message(message, part, form)]
