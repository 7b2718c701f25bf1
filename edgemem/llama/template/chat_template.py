"""Chat templates: messages to text, through the Jinja template that a GGUF carries, in jinja2's sandbox with bounds."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from edgemem.errors import TemplateError
from edgemem.llama.template.append_only import AppendOnly, check_append_only
from edgemem.llama.template.limits import TemplateLimits, UnboundedError, find_limits
from edgemem.records import Message, text_of

if TYPE_CHECKING:
    import re

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a vocabulary that carries no template: the plainest in wide use."""
DATELESS = 1_704_067_200.0
"""The date (1 January 2024) that a template prints when nobody says the day."""
MOST_STEPS = 50_000
"""Turns of loops and calls in one rendering, 2 µs each on a desktop; tools take up to 500 each."""
STEPS_A_MESSAGE = 2_000  # more steps for each message
MOST_CHARACTERS = 8 << 20  # longest text of a template; no window holds as much


class ChatTemplate:
    """A chat template with the quirks of its kind found out, so that callers need not know them."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        import jinja2

        self.source = source
        self._bos, self._eos = bos, eos
        self._fault: TemplateError | None = None
        try:
            self._template = _compiled(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise TemplateError(
                f"The model's chat template cannot be read ({_one_line(error)}); pass another one"
            ) from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
        clean: Callable[[str], str] | None = None,
    ) -> str:
        """Render messages so that text which the model has read stays; parts that the template cannot take are put another way.

        `clean` is applied to every text that did not come from the operator; a template may print the date `now`.
        """
        fitted = self.limits.fit([_plain(message, clean=clean) for message in messages])
        increments = self.append_only.increments
        if increments is not None:
            try:
                return increments.text(fitted, tools, add_generation_prompt, now)
            except TemplateError:
                pass  # a step that cannot be told apart: the template's own rendering is right, only dearer
        return self.render_fitted(fitted, tools, add_generation_prompt, now)

    @functools.cached_property
    def limits(self) -> TemplateLimits:
        """The messages that the template cannot take as they are; an unusable template is tried once."""
        if self._fault is not None:
            raise self._fault
        try:
            return find_limits(lambda messages, tools: self._call(messages, tools, True, None))
        except TemplateError as error:
            self._fault = error
            raise

    @functools.cached_property
    def append_only(self) -> AppendOnly:
        """Whether the template rewrites read text, and how that is avoided."""
        return check_append_only(self.limits.fit, self.render_fitted)

    def render_fitted(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
        add_generation_prompt: bool,
        now: float | None,
    ) -> str:
        """Render messages that the template can take as they are."""
        offered = list(tools) if tools else ([] if self.limits.lists_tools else None)
        return self._call(messages, offered, add_generation_prompt, now)

    def _call(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
        add_generation_prompt: bool,
        now: float | None,
    ) -> str:
        day = datetime.fromtimestamp(DATELESS if now is None else now, tz=timezone.utc)
        variables: dict[str, Any] = {
            "messages": deepcopy(list(messages)),  # a template may change its lists
            "tools": deepcopy(tools),
            # one template (Firefunction) has these in place of tools and of the date
            "functions": _to_json(tools or []),
            "datetime": day.strftime("%Y-%m-%d"),
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self._bos,
            "eos_token": self._eos,
            "strftime_now": day.strftime,
            "raise_exception": _refuse,
        }
        try:
            return _run(self._template, len(messages), variables)
        except TemplateError:
            raise
        except Exception as error:  # a stranger's program may fail in any way
            raise TemplateError(
                f"The model's chat template cannot render these messages ({_one_line(error)}); pass another template"
            ) from error


def neutralise(text: str, markers: re.Pattern[str]) -> str:
    """Spell special tokens so that they are words like any other: `<|im_end|>` becomes `< |im_end|>`."""
    while markers.search(text):  # a marker that is broken up may have overlapped another one
        text = markers.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
    return text


def _plain(message: Message, *, clean: Callable[[str], str] | None) -> Message:
    """Return a message as templates expect it: text content, calls' arguments as objects, a developer as the system."""
    # few templates know the second name, some refuse it
    operator = message.get("role") in ("system", "developer")
    clean = str if clean is None or operator else clean
    shown: Message = {key: clean(part) if isinstance(part, str) else part for key, part in message.items()}
    if operator:
        shown["role"] = "system"
    shown["content"] = clean(text_of(message, _image))
    calls = message.get("tool_calls")
    if calls:
        shown["tool_calls"] = [_plain_call(call, clean=clean) for call in calls]
    else:
        shown.pop("tool_calls", None)  # templates ask whether the key is there
    return shown


def _image(part: dict[str, Any]) -> str:
    kind = str(part.get("type") or "").removeprefix("input_").removesuffix("_url")
    return "" if kind in ("", "text") else f"[{kind}]"


def _plain_call(call: dict[str, Any], *, clean: Callable[[str], str]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            parsed = arguments  # the model wrote no JSON; show what it wrote
        arguments = parsed if isinstance(parsed, dict) else arguments
    arguments = _cleaned({} if arguments is None else arguments, clean)
    return {**call, "function": {**function, "arguments": arguments}}


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_cleaned(key, clean): _cleaned(item, clean) for key, item in value.items()}
    return [_cleaned(item, clean) for item in value] if isinstance(value, list) else value


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _refuse(message: object) -> None:
    reason = _one_line(str(message).strip().rstrip(".") + ".")
    raise TemplateError(f"The model's chat template refuses these messages: {reason}")


def _run(template: Any, messages: int, variables: dict[str, Any]) -> str:
    """Render a compiled template within its bounds, which grow with the messages."""
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


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """Print JSON as Hugging Face's `tojson` does, without escaping for HTML."""

    def as_list(item: Any) -> list[Any]:
        if isinstance(item, Iterator):  # filters such as `map` yield
            return list(item)
        raise TypeError(f"{type(item).__name__} is no JSON")

    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, default=as_list, **options)


def _compiled(source: str) -> Any:
    """Compile a template whose loops and macros call `step_`, and whose `~` calls `join_`, for `_run`."""
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


def _join(parts: Iterable[str]) -> str:
    parts = list(parts)
    _check(sum(map(len, parts)))
    return "".join(parts)


def _check(size: int) -> None:
    if size > MOST_CHARACTERS:
        raise UnboundedError(f"it makes more than {MOST_CHARACTERS >> 20} million characters")


@functools.cache
def _environment() -> Any:
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Pass over `{% generation %}`, which marks replies for training."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            parser.stream.skip(1)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    class Sandbox(ImmutableSandboxedEnvironment):
        concat = staticmethod(_join)  # of the text in macros and blocks
        intercepted_binops = frozenset(("+", "*", "**"))

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            # Some templates collect messages in their own lists; those of the caller are copies.
            if isinstance(obj, list) and attr in ("append", "pop"):
                return True
            return super().is_safe_attribute(obj, attr, value)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            sizes = [len(side) if isinstance(side, (str, list, tuple)) else None for side in (left, right)]
            if operator == "+" and None not in sizes:
                _check(len(left) + len(right))
            elif operator == "*" and sizes != [None, None]:
                _check((sizes[0] or left or 0) * (sizes[1] or right or 0))
            elif operator == "**" and isinstance(right, int):
                _check(abs(right))
            return super().call_binop(context, operator, left, right)

    environment = Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
        autoescape=False,  # a prompt is not HTML
    )
    environment.filters["tojson"] = _to_json
    return environment
