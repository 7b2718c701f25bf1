"""Replies, read: thoughts and calls of tools told from speech, in the spelling of any model."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, NamedTuple

import msgspec

THOUGHTS = {
    "<think>": "</think>",  # Qwen 3, DeepSeek R1, SmolLM 3, GLM, MiniCPM 5 and most others
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",  # Ministral
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command R7B
    "<|channel>": "<channel|>",  # Gemma 4
    "<|channel|>": "<|channel|>final<|message|>",  # gpt-oss: everything before the final channel
}
CALLS = {
    "<tool_call>": "</tool_call>",  # Qwen, Hermes, Granite 4, and what edgemem shows where a template has no calls
    "<|tool_call|>": "<|/tool_call|>",  # Phi 4 mini; Granite 3 ends it with the reply
    "<|tool_call_start|>": "<|tool_call_end|>",  # LFM 2
    "<|START_ACTION|>": "<|END_ACTION|>",  # Command R7B
    "<TOOLCALL>": "</TOOLCALL>",  # Nemotron Nano
    "<tool_calls>": "</tool_calls>",  # Apriel, MiniMax M1
    "<function=": "</function>",  # Functionary
    "<function name=": "</function>",  # MiniCPM 5
    "<|function_call|>": "",  # GigaChat
    "functools[": "",  # Phi 4 mini, Firefunction
    "<|tool_call>": "<tool_call|>",  # Gemma 4
    "[TOOL_CALLS]": "",  # Mistral
    "<|python_tag|>": "",  # Llama 3
    # Never read, and never spoken.
    "<seed:tool_call>": "</seed:tool_call>",
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",  # DeepSeek
    "<｜DSML｜": "",
    "<|tools_prefix|>": "<|tools_suffix|>",  # Apertus
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",  # Kimi K2
    "<|tool_calls|>": "",  # Solar
    "<atem:function_calls>": "</atem:function_calls>",
    "<tool_calls:opensource>": "</tool_calls:opensource>",
}
CLOSES = {**THOUGHTS, **CALLS}  # their ends; empty: the end of the reply
MARKS = frozenset({*CLOSES, *CLOSES.values(), "[ARGS]", "[CALL_ID]", "<|message|>", '<|"|>'} - {""})
"""Markers that are shown as text also where they are control tokens; none ends a reply."""
_OPENS = re.compile("|".join(re.escape(mark) for mark in sorted(CLOSES, key=len, reverse=True)))
_OPENED_THOUGHT = re.compile(rf"(?:{'|'.join(map(re.escape, THOUGHTS))})\s*\Z")
# An object that says a key twice is no call: readers differ in which one counts.
_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else None
)
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


class Hidden(NamedTuple):
    """A stretch of a reply that is no speech, markers included."""

    begin: int
    end: int
    opens: str
    closed: bool

    def inner(self, text: str) -> str:
        """Return the text between the markers, which a function's tag and the bracket of a list belong to."""
        if self.opens.startswith("<function"):
            return text[self.begin : self.end]
        closes = CLOSES[self.opens] if self.closed else ""
        return text[self.begin + len(self.opens.rstrip("[")) : self.end - len(closes)]


def find_hidden(text: str, at: int = 0) -> Hidden | None:
    """Return the first stretch of a text that is no speech."""
    opening = _OPENS.search(text, at)
    if opening is None:
        return None
    closes = CLOSES[opening[0]]
    end = text.find(closes, opening.start()) if closes else -1
    if end < 0:
        return Hidden(opening.start(), len(text), opening[0], closed=False)
    return Hidden(opening.start(), end + len(closes), opening[0], closed=True)


def all_hidden(text: str) -> list[Hidden]:
    """Return every stretch of a text that is no speech."""
    stretches: list[Hidden] = []
    at = 0
    while (hidden := find_hidden(text, at)) is not None:
        stretches.append(hidden)
        at = hidden.end
    return stretches


def opened_thought(prompt: str) -> str:
    """Return the marker, with the space behind it, that opens a thought at the end of a prompt; empty where none does."""
    opened = _OPENED_THOUGHT.search(prompt[-64:])
    return opened[0] if opened is not None else ""


def begun(text: str, *marks: str) -> int:
    """Return how many characters at the end of a text may begin a marker, of any unless some are named."""
    among = marks or tuple(CLOSES)
    for n in range(min(len(text), max(map(len, among)) - 1), 0, -1):
        tail = text[-n:]
        if any(len(mark) > n and mark.startswith(tail) for mark in among):
            return n
    return 0


class Call(msgspec.Struct, frozen=True):
    """A tool that a model asks for."""

    name: str
    arguments: dict[str, Any]

    def same(self, other: Call) -> bool:
        """Tell whether another call means the same; `1` and `true` do not."""
        return self.name == other.name and _canonical(self.arguments) == _canonical(other.arguments)


def read_calls(text: str) -> tuple[list[Call], int]:
    """Return the calls that a text begins with, in any spelling, and where they end."""
    for read in (_json_calls, _args_call, _gemma_call, _tagged_calls, _python_calls):
        calls, end = read(text)
        if calls:
            return calls, end
    return [], 0


def read_bare(text: str) -> list[Call]:
    """Return the calls of a whole reply without any marker: JSON alone, or in a block of code."""
    fenced = _FENCED.fullmatch(text)
    inner = fenced[1] if fenced is not None else text
    calls, end = _json_calls(inner)
    return calls if not inner[end:].strip() else []


def _json_calls(text: str) -> tuple[list[Call], int]:
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
        read = [_call(item) for item in (value if isinstance(value, list) else [value])]
        if not read or None in read:
            return calls, end
        calls += [item for item in read if item is not None]
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
    if len(raw) > 1 and not raw.keys() & {"arguments", "parameters"}:
        return None  # what has a name is no call yet
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
    spelled = [json.dumps(bit) if n % 2 else _GEMMA_KEY.sub(r'\1"\2":', bit) for n, bit in enumerate(parts)]
    try:
        arguments = json.loads("".join(spelled))
    except (ValueError, RecursionError):
        return [], 0
    return ([Call(head[1], arguments)], len(text)) if isinstance(arguments, dict) else ([], 0)


def _tagged_calls(text: str) -> tuple[list[Call], int]:
    """Read arguments in tags of their own; each is text, which the tool's schema gives a type."""
    calls: list[Call] = []
    end = 0
    while (tag := _FUNCTION.match(text, end)) is not None:
        try:
            given = json.loads(tag[2])  # Functionary writes an object into its tag
        except ValueError:
            given = dict(_PARAMETER.findall(tag[2]))
        calls.append(Call(tag[1], given if isinstance(given, dict) else {}))
        end = tag.end()
    if not calls and (tags := _ARG_TAGS.match(text)) is not None:
        return [Call(tags[1], dict(_ARG_TAG.findall(tags[2])))], tags.end()
    return calls, end


def _python_calls(text: str) -> tuple[list[Call], int]:
    if _PYTHON.match(text) is None:
        return [], 0
    try:
        body = ast.parse(text.strip(), mode="eval").body
        calls = [_python_call(node) for node in (body.elts if isinstance(body, ast.List) else [body])]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return [], 0
    return calls, len(text)


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("no call with named arguments")
    return Call(node.func.id, {str(keyword.arg): _value(keyword.value) for keyword in node.keywords})


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {str(_value(key)): _value(one) for key, one in zip(node.keys, node.values, strict=True) if key}
    value = ast.literal_eval(node)
    json.dumps(value)  # a set or bytes are no arguments
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


class Meaning(NamedTuple):
    """The part of a reply that becomes history."""

    text: str
    """Speech; a call that cannot be read is in it as written."""
    calls: tuple[Call, ...] = ()


def read_reply(reply: str, names: frozenset[str] | None = None) -> Meaning:
    """Return speech and calls; a reply of nothing but JSON calls an offered tool (`names`; None: any), or is speech."""
    speech: list[str] = []
    calls: list[Call] = []
    at, thought, mute = 0, False, False
    while (hidden := find_hidden(reply, at)) is not None:
        speech.append("" if mute else reply[at : hidden.begin])
        at = hidden.end
        if hidden.opens in THOUGHTS:
            thought = True
            continue
        inner = hidden.inner(reply)
        read, end = read_calls(inner)
        if read and (not hidden.closed or not inner[end:].strip()):
            calls += read
            if not hidden.closed:  # another call may follow it; what else does is not spoken
                at, mute = hidden.begin + len(hidden.opens) + end, True
        else:
            speech.append(reply[hidden.begin : hidden.end])
    speech.append("" if mute else reply[at:])
    text = "".join(speech)
    if not calls and names != frozenset():
        bare = read_bare(text)
        if bare and (names is None or all(call.name in names for call in bare)):
            return Meaning("", tuple(bare))
    if thought:
        text = text.lstrip()
    return Meaning(text.strip() if calls else text, tuple(calls))


def behind(reply: str, shown: str, *, opened: str = "") -> str | None:
    """Return the text behind `reply` in a prompt that goes on with `shown`; None if that means something else.

    White space around a reply makes no difference: loops and templates trim. `opened` marks a thought that the prompt opened.
    """
    literal = _literally_behind(reply, shown)
    if literal is not None:
        return literal
    meant = read_reply(opened + reply)
    text = meant.text.strip()
    if not text and not meant.calls:
        return None
    rest = _behind_thought(opened + shown)
    if rest is None or not rest.startswith(text):
        return None
    rest = rest[len(text) :]
    calls = list(meant.calls)
    while calls:
        shown_calls, rest = _next_calls(rest.lstrip())
        expected, calls = calls[: len(shown_calls)], calls[len(shown_calls) :]
        if not shown_calls or len(shown_calls) != len(expected):
            return None
        if not all(map(Call.same, shown_calls, expected)):
            return None
    return rest


def _literally_behind(reply: str, shown: str) -> str | None:
    shown, reply = shown.lstrip(), reply.lstrip()
    if shown.startswith(reply):
        return shown[len(reply) :]
    reply = reply.rstrip()
    return shown[len(reply) :].lstrip() if shown.startswith(reply) else None


def _behind_thought(shown: str) -> str | None:
    """Return a message without a template's empty thought before it; None where the thought is not empty."""
    shown = shown.lstrip()
    hidden = find_hidden(shown)
    if hidden is None or hidden.begin or hidden.opens not in THOUGHTS:
        return shown
    empty = hidden.closed and not hidden.inner(shown).strip()
    return shown[hidden.end :].lstrip() if empty else None


def _next_calls(shown: str) -> tuple[list[Call], str]:
    """Return the calls that a template printed first, and the text behind them."""
    hidden = find_hidden(shown)
    if hidden is None or hidden.begin or hidden.opens not in CALLS:
        calls, end = read_calls(shown)
        return calls, shown[end:]
    inner = hidden.inner(shown)
    calls, end = read_calls(inner)
    if hidden.closed:
        return ([], "") if inner[end:].strip() else (calls, shown[hidden.end :])
    return calls, inner[end:]
