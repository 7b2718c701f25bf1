"""The sandbox that chat templates run in: jinja2's immutable one, with bounds on loops, calls and the text that they make."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from edgemem.errors import TemplateError

MOST_STEPS = 50_000
"""Turns of loops and calls in one rendering, which take 2 µs each on a desktop; tools take up to 500 each."""
STEPS_A_MESSAGE = 2_000
"""Steps that each message allows beyond these."""
MOST_CHARACTERS = 8 << 20
"""Longest text that a template may make; no window holds as much."""
_LONG = frozenset(
    ("center", "expandtabs", "format", "format_map", "join", "ljust", "replace", "rjust", "zfill")
)
"""Methods of text that make much of little: `join` and `replace` have bounds, no chat template needs the others."""
_WIDE = re.compile(r"\d{4}|\*")
"""A width that no text needs, in the left side of `%`."""


class UnboundedError(TemplateError):
    """The template runs without end, or its output grows without end."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The model's chat template was stopped ({reason}); pass another template")


def one_line(error: object) -> str:
    """Return a template's complaint in one line; it may take many."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def refuse(message: object) -> None:
    """Be `raise_exception` in a template."""
    reason = one_line(str(message).strip().rstrip(".") + ".")
    raise TemplateError(f"The model's chat template refuses these messages: {reason}")


def run(template: Any, messages: int, variables: dict[str, Any]) -> str:
    """Render a compiled template within its bounds: with more messages it may take more steps."""
    left = MOST_STEPS + STEPS_A_MESSAGE * messages

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise UnboundedError("it runs without end")

    parts: list[str] = []
    size = 0
    for part in template.generate(**variables, step_=step, join_=lambda *parts: _join(map(str, parts))):
        parts.append(part)
        size += len(part)
        _check(size)
    return "".join(parts)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Print JSON as Hugging Face's `tojson` does, without escaping for HTML."""

    def as_list(item: Any) -> list[Any]:
        if isinstance(item, Iterator):  # filters such as `map` yield
            return list(item)
        raise TypeError(f"{type(item).__name__} is no JSON")

    _check(0 if indent is None else 1000 * int(indent))
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=as_list,
    )


def compiled(source: str) -> Any:
    """Compile a template whose loops and macros call `step_`, and whose `~` calls `join_`; `run` is to render it."""
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    class Counting(NodeTransformer):
        def visit_For(self, node: Any) -> Any:  # noqa: N802
            self.generic_visit(node)
            step = nodes.Call(nodes.Name("step_", "load"), [], [], None, None)
            node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
            return node

        visit_Macro = visit_For  # noqa: N815

        def visit_Concat(self, node: Any) -> Any:  # noqa: N802
            self.generic_visit(node)
            return nodes.Call(nodes.Name("join_", "load"), node.nodes, [], None, None)

    environment = _environment()
    tree = Counting().visit(environment.parse(source))
    return environment.from_string(tree.set_environment(environment))


def _replace(text: object, old: object, new: object, count: int = -1) -> str:
    whole, part, other = str(text), str(old), str(new)
    _check(len(whole) + whole.count(part) * len(other))
    return whole.replace(part, other, -1 if count is None else count)


def _join_with(between: object, items: Iterable[object]) -> str:
    parts = [part for item in items for part in (str(between), str(item))]
    return _join(parts[1:])


def _join(parts: Iterable[str]) -> str:
    parts = list(parts)
    _check(sum(map(len, parts)))
    return "".join(parts)


def _check(size: int) -> None:
    if size > MOST_CHARACTERS:
        raise UnboundedError(f"it makes more than {MOST_CHARACTERS >> 20} million characters")


@functools.cache
def _environment() -> Any:
    from jinja2 import BaseLoader, pass_eval_context
    from jinja2.ext import Extension
    from jinja2.filters import do_indent
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Pass over `{% generation %}`, which marks replies for training."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            parser.stream.skip(1)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Sandbox(ImmutableSandboxedEnvironment):
        concat = staticmethod(_join)  # of the text in macros and blocks
        intercepted_binops = frozenset(("+", "*", "**", "%"))

        def getattr(self, obj: Any, attribute: str) -> Any:
            if isinstance(obj, str) and attribute in ("join", "replace"):
                return functools.partial(_join_with if attribute == "join" else _replace, obj)
            return super().getattr(obj, attribute)

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            # Some templates collect messages in lists of their own; those of the caller are copies.
            if isinstance(obj, list) and attr in ("append", "pop"):
                return True
            return attr not in _LONG and super().is_safe_attribute(obj, attr, value)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            sizes = [len(side) if isinstance(side, (str, list, tuple)) else None for side in (left, right)]
            if operator == "+" and None not in sizes:
                _check(len(left) + len(right))
            elif operator == "*" and sizes != [None, None]:
                _check((sizes[0] or left or 0) * (sizes[1] or right or 0))
            elif operator == "**" and isinstance(right, int):
                _check(abs(right))
            elif operator == "%" and isinstance(left, str) and _WIDE.search(left):
                raise UnboundedError("it pads text without end")
            return super().call_binop(context, operator, left, right)

    environment = Sandbox(
        loader=BaseLoader(),
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
        autoescape=False,  # a prompt is not HTML
    )
    join = environment.filters["join"]

    @pass_eval_context
    def join_filter(context: Any, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
        return str(join(context, value, d, attribute)) if attribute else _join_with(d, value)

    def indent_filter(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        _check((text.count("\n") + 1) * (len(width) if isinstance(width, str) else width))
        return do_indent(text, width, first, blank)

    del environment.filters["center"], environment.filters["format"]
    environment.filters.update(indent=indent_filter, join=join_filter, replace=_replace, tojson=to_json)
    return environment
