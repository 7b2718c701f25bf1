"""The sandbox that chat templates run in: they come with a model, from strangers, and may not run for ever."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from edgemem.errors import TemplateError

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


class Given(list[Any]):
    """A list of the caller's, which a template may read and not change."""


def given(value: Any) -> Any:
    """Return a copy whose lists no template can change."""
    if isinstance(value, dict):
        return {key: given(item) for key, item in value.items()}
    return Given(map(given, value)) if isinstance(value, (list, tuple)) else value


def refuse(message: object) -> None:
    """Stand for `raise_exception` in a template."""
    reason = one_line(str(message).strip().rstrip(".") + ".")
    raise TemplateError(f"The model's chat template refuses these messages: {reason}")


def compiled(source: str) -> Any:
    """Compile a template that counts its steps; `run` is to render it."""
    return _environment().from_string(_counted(source))


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
    for part in template.generate(**variables, step_=step, joined_=_joined, added_=_added):
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
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_listed,
    )


def _listed(value: Any) -> list[Any]:
    """Return what a filter such as `map` yields: templates print it as a list."""
    if isinstance(value, Iterator):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _joined(*values: Any) -> str:
    text = "".join(map(str, values))
    _check(len(text))
    return text


def _check(size: int) -> None:
    if size > MOST_CHARACTERS:
        raise UnboundedError(f"it makes more than {MOST_CHARACTERS >> 20} million characters")


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, (str, list)) and isinstance(right, (str, list)):
        _check(len(left) + len(right))
    return left + right


def _counted(source: str) -> Any:
    """Parse a template, with a step at the head of every loop and macro, and a bound wherever text can pile up.

    What is only printed is not bounded piece by piece, which would make rendering twice as slow: `run` does that.
    """
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    def call(name: str, *arguments: Any) -> Any:
        return nodes.Call(nodes.Name(name, "load"), list(arguments), [], None, None)

    class Counting(NodeTransformer):
        printed = False
        """Whether the expression goes straight to the output."""
        collected = False
        """Whether the output goes into a variable."""

        def within(self, node: Any, **flags: bool) -> Any:
            before = self.printed, self.collected
            for flag, value in flags.items():
                setattr(self, flag, value)
            self.generic_visit(node)
            self.printed, self.collected = before
            return node

        def visit_For(self, node: Any) -> Any:  # noqa: N802
            return self.stepping(self.within(node))

        def visit_Macro(self, node: Any) -> Any:  # noqa: N802
            return self.stepping(self.within(node, collected=True))

        def stepping(self, node: Any) -> Any:
            node.body.insert(0, nodes.ExprStmt(call("step_"), lineno=node.lineno))
            return node

        def visit_AssignBlock(self, node: Any) -> Any:  # noqa: N802
            return self.within(node, collected=True)

        visit_CallBlock = visit_FilterBlock = visit_AssignBlock  # noqa: N815

        def visit_Output(self, node: Any) -> Any:  # noqa: N802
            self.within(node, printed=True)
            if self.collected:
                node.nodes = [
                    part if isinstance(part, nodes.TemplateData) else call("joined_", part)
                    for part in node.nodes
                ]
            return node

        def visit_Call(self, node: Any) -> Any:  # noqa: N802
            return self.within(node, printed=False)

        def visit_Concat(self, node: Any) -> Any:  # noqa: N802
            self.generic_visit(node)
            return node if self.printed else call("joined_", *node.nodes)

        def visit_Add(self, node: Any) -> Any:  # noqa: N802
            self.generic_visit(node)
            return node if self.printed else call("added_", node.left, node.right)

    environment = _environment()
    tree = Counting().visit(environment.parse(source))
    return tree.set_environment(environment)


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
        intercepted_binops = frozenset(("*", "**"))

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            # Some templates collect messages in lists of their own.
            if attr in ("append", "pop") and isinstance(obj, list) and not isinstance(obj, Given):
                return True
            return super().is_safe_attribute(obj, attr, value)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
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
