"""Calls of tools as models spell them: JSON and what comes close to it, arguments in tags, and Python."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import msgspec

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s;,]*")
_ARGS = re.compile(r"\s*([\w.-]+)(?:\[CALL_ID\]\w*)?\[ARGS\]\s*")
_FUNCTION = re.compile(r"""\s*<function(?:=| name=)"?([^>"\s]+)"?>(.*?)</function>""", re.DOTALL)
_PARAMETER = re.compile(
    r"""<param(?:eter)?(?:=| name=)"?([^>"\s]+)"?>\n?(.*?)\n?</param(?:eter)?>""", re.DOTALL
)
_ARG_TAGS = re.compile(r"\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_value>\s*)+)", re.DOTALL)
_ARG_TAG = re.compile(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_FENCED = re.compile(r"\s*```\w*\n(.*?)\n?```\s*", re.DOTALL)
_GEMMA = re.compile(r"\s*call:([\w.-]+)(?=\{)")
_GEMMA_QUOTE = '<|"|>'
_GEMMA_KEY = re.compile(r"([{,]\s*)([\w.-]+)\s*:")
_PYTHON = re.compile(r"\s*\[?\s*\w+\(")
_WORDS = {"true": True, "false": False, "null": None}


class Call(msgspec.Struct, frozen=True):
    """A tool that a model asks for."""

    name: str
    arguments: dict[str, Any]

    def same(self, other: Call) -> bool:
        """Tell whether another call means the same; `1` and `true` do not."""
        return self.name == other.name and _canonical(self.arguments) == _canonical(other.arguments)


def read_calls(text: str) -> tuple[list[Call], int]:
    """Return the calls that a text begins with, in any spelling, and where they end; none: it begins with no call."""
    for read in (_json_calls, _args_call, _gemma_call, _tagged_calls, _python_calls):
        calls, end = read(text)
        if calls:
            return calls, end
    return [], 0


def read_bare(text: str) -> list[Call]:
    """Return the calls that a whole reply is, without any marker: JSON alone, or in a block of code."""
    fenced = _FENCED.fullmatch(text)
    inner = fenced[1] if fenced is not None else text
    calls, end = _json_calls(inner)
    return calls if not inner[end:].strip() else []


def _json_calls(text: str) -> tuple[list[Call], int]:
    """Read objects one after the other, or in lists."""
    calls: list[Call] = []
    at = end = 0
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if text[at : at + 1] not in ("{", "["):
            return calls, end
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return calls, end
        found = [_call(one) for one in (value if isinstance(value, list) else [value])]
        if not found or None in found:
            return calls, end
        calls += [one for one in found if one is not None]
        end = at


def _call(raw: Any) -> Call | None:
    if not isinstance(raw, dict):
        return None
    inner = raw.get("function")
    if isinstance(inner, dict):
        raw = inner
    name = raw.get("name", raw.get("tool_name", inner if isinstance(inner, str) else None))
    if not isinstance(name, str) or not name:
        return None
    arguments = raw.get("arguments", raw.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return Call(name, arguments if isinstance(arguments, dict) else {})


def _args_call(text: str) -> tuple[list[Call], int]:
    head = _ARGS.match(text)
    if head is None:
        return [], 0
    try:
        arguments, end = _DECODER.raw_decode(text, head.end())
    except (ValueError, RecursionError):
        return [], 0
    return ([Call(head[1], arguments)], end) if isinstance(arguments, dict) else ([], 0)


def _gemma_call(text: str) -> tuple[list[Call], int]:
    """Read Gemma's `call:name{key:<|"|>text<|"|>}`: JSON with quotes of its own, and keys without any."""
    head = _GEMMA.match(text)
    if head is None:
        return [], 0
    parts = text[head.end() :].split(_GEMMA_QUOTE)
    spelled = [
        json.dumps(part) if n % 2 else _GEMMA_KEY.sub(r'\1"\2":', part) for n, part in enumerate(parts)
    ]
    try:
        arguments = json.loads("".join(spelled))
    except (ValueError, RecursionError):
        return [], 0
    return ([Call(head[1], arguments)], len(text)) if isinstance(arguments, dict) else ([], 0)


def _tagged_calls(text: str) -> tuple[list[Call], int]:
    """Read arguments in tags of their own; each is text, whoever knows the schema makes of it what it says."""
    calls: list[Call] = []
    end = 0
    while (found := _FUNCTION.match(text, end)) is not None:
        try:
            given = json.loads(found[2])  # Functionary writes an object into its tag
        except ValueError:
            given = dict(_PARAMETER.findall(found[2]))
        calls.append(Call(found[1], given if isinstance(given, dict) else {}))
        end = found.end()
    if not calls and (tags := _ARG_TAGS.match(text)) is not None:
        return [Call(tags[1], dict(_ARG_TAG.findall(tags[2])))], tags.end()
    return calls, end


def _python_calls(text: str) -> tuple[list[Call], int]:
    if _PYTHON.match(text) is None:
        return [], 0
    try:
        body = ast.parse(text.strip(), mode="eval").body
        made = body.elts if isinstance(body, ast.List) else [body]
        calls = [_python_call(node) for node in made]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return [], 0
    return calls, len(text)


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("no call with named arguments")
    return Call(node.func.id, {str(each.arg): _value(each.value) for each in node.keywords})


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        return {
            str(_value(key)): _value(each) for key, each in zip(node.keys, node.values, strict=True) if key
        }
    value = ast.literal_eval(node)
    json.dumps(value)  # a set or bytes are no arguments
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
