"""The sandbox that chat templates run in: they come with a model, from strangers, and may not run for ever."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgemem.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_STEPS = 50_000
"""Turns of loops and calls of macros in one rendering, which take 2 µs each on a desktop; tools take up to 500 each."""
STEPS_A_MESSAGE = 2_000
"""How many more each message allows."""
MOST_CHARACTERS = 8 << 20
"""Longest text that a template may make; no window holds as much."""


class UnboundedError(TemplateError):
    """The template runs without end, or its output grows without end."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The model's chat template was stopped ({reason}); pass another template")


def one_line(error: object) -> str:
    """Return what is wrong in one line; a template may say it in many."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class ReadOnlyList(list[Any]):
    """A list of the caller's, which a template may read and not change."""


def read_only(value: Any) -> Any:
    """Return a copy whose lists no template can change."""
    if isinstance(value, dict):
        return {key: read_only(item) for key, item in value.items()}
    return ReadOnlyList(map(read_only, value)) if isinstance(value, (list, tuple)) else value


def refuse(message: object) -> None:
    """Stand for `raise_exception` in a template."""
    reason = one_line(str(message).strip().rstrip(".") + ".")
    raise TemplateError(f"The model's chat template refuses these messages: {reason}")


def compiled(source: str) -> Any:
    """Compile a template so that it counts its steps and the text that it makes; `run` is to render it."""
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
            return nodes.Call(nodes.Name("joined_", "load"), node.nodes, [], None, None)

    environment = _environment()
    tree = Counting().visit(environment.parse(source))
    return environment.from_string(tree.set_environment(environment))


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
    for part in template.generate(**variables, step_=step, joined_=_joined):
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

    def listed(item: Any) -> list[Any]:
        if isinstance(item, Iterator):  # what a filter such as `map` yields
            return list(item)
        raise TypeError(f"{type(item).__name__} is no JSON")

    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=listed,
    )


def _joined(*values: Any) -> str:
    return _concat(list(map(str, values)))


def _concat(parts: Iterable[str]) -> str:
    parts = list(parts)
    _check(sum(map(len, parts)))
    return "".join(parts)


def _check(size: int) -> None:
    if size > MOST_CHARACTERS:
        raise UnboundedError(f"it makes more than {MOST_CHARACTERS >> 20} million characters")


@functools.cache
def _environment() -> Any:
    from jinja2 import BaseLoader
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Pass over `{% generation %}`, which marks replies for training."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            parser.stream.skip(1)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Sandbox(ImmutableSandboxedEnvironment):
        concat = staticmethod(_concat)  # of what macros and blocks collect
        intercepted_binops = frozenset(("+", "*", "**"))

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            # Some templates collect messages in lists of their own.
            if attr in ("append", "pop") and isinstance(obj, list) and not isinstance(obj, ReadOnlyList):
                return True
            return super().is_safe_attribute(obj, attr, value)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "+":
                if isinstance(left, (str, list)) and isinstance(right, (str, list)):
                    _check(len(left) + len(right))
                return left + right
            sizes = [len(side) if isinstance(side, (str, list, tuple)) else side for side in (left, right)]
            if operator == "*" and (left, right) != tuple(sizes):
                _check(sizes[0] * sizes[1])
            elif operator == "**" and isinstance(right, int):
                _check(abs(right))
            return super().call_binop(context, operator, left, right)

    environment = Sandbox(
        loader=BaseLoader(),
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
        autoescape=False,  # a prompt is not HTML
    )
    environment.filters["tojson"] = to_json
    return environment
