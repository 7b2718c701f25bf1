"""Chat templates: messages to text, through the Jinja template that a GGUF carries."""

from __future__ import annotations

import functools
import itertools
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import TemplateError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The plainest template in wide use, for a vocabulary that carries none."""

DATELESS = 1_704_067_200.0
"""The date (1 January 2024) that a template prints when nobody says what day it is: always the same one."""

_CALL: dict[str, Any] = {
    "id": "a1b2c3d4e",
    "type": "function",
    "function": {"name": "probe", "arguments": {"key": "needle"}},
}
_SYSTEM: Message = {"role": "system", "content": "Be kind."}
_RESULT: Message = {"role": "tool", "name": "probe", "tool_call_id": "a1b2c3d4e", "content": "found"}
_TOOL: Message = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}},
    },
}


class ChatTemplate:
    """A chat template with the quirks of its kind found out, so that callers need not know them."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        import jinja2

        self.source = source
        self._bos, self._eos = bos, eos
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateError(
                f"The model's chat template cannot be read ({error}); pass another one"
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
        """Render messages; `clean` is applied to every text that did not come from the operator."""
        plain = [_plain(message, as_text=self._wants_text_arguments, clean=clean) for message in messages]
        return self._render(
            _without_system(plain) if self._refuses_system else plain, tools, add_generation_prompt, now
        )

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> str:
        import jinja2

        day = datetime.fromtimestamp(DATELESS if now is None else now, tz=timezone.utc)
        try:
            text: str = self._template.render(
                messages=messages,
                tools=list(tools) if tools else None,
                add_generation_prompt=add_generation_prompt,
                bos_token=self._bos,
                eos_token=self._eos,
                strftime_now=day.strftime,
                raise_exception=_refuse,
            )
        except _RefusedError as error:
            raise TemplateError(f"The model's chat template refuses these messages: {error}") from error
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise TemplateError(
                f"The model's chat template cannot render these messages ({error}); pass another template"
            ) from error
        return text

    def _accepts(self, messages: Sequence[Message]) -> bool:
        try:
            self._render(messages)
        except TemplateError:
            return False
        return True

    @functools.cached_property
    def _refuses_system(self) -> bool:
        user = {"role": "user", "content": "hi"}
        return self._accepts([user]) and not self._accepts([_SYSTEM, user])

    @functools.cached_property
    def _wants_text_arguments(self) -> bool:
        """Find out whether tool arguments must be JSON text: some templates glue them to other text."""

        def shown(as_text: bool) -> bool:
            call = _plain(
                {"role": "assistant", "content": "", "tool_calls": [_CALL]}, as_text=as_text, clean=None
            )
            try:
                return '"needle"' in self._render([{"role": "user", "content": "hi"}, call], [_TOOL])
            except TemplateError:
                return False

        return not shown(as_text=False) and shown(as_text=True)


class Growth(msgspec.Struct, frozen=True):
    """Whether a template leaves what the model has already read as it is."""

    appends: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.appends


def grows_by_appending(tokenizer: Tokenizer) -> Growth:
    """Find out whether a longer conversation begins with the shorter one, by rendering both."""
    # no two messages alike: templates compare messages to find the newest one
    users: list[Message] = [{"role": "user", "content": f"Where is cup {n}?"} for n in "123"]
    replies: list[Message] = [{"role": "assistant", "content": f"On table {n}."} for n in "123"]
    thoughts = [
        {**reply, "content": f"<think>\nIt was there.\n</think>\n\n{reply['content']}"} for reply in replies
    ]
    called = [{"role": "assistant", "content": "", "tool_calls": [_CALL]}, _RESULT, replies[2]]
    scenes: list[tuple[str, list[Message], list[dict[str, Any]] | None]] = [
        ("when the conversation grows", [users[0], replies[0], users[1], replies[1], users[2]], None),
        ("when tools are offered", [users[0], replies[0], users[1], replies[1], users[2]], [_TOOL]),
        ("when a tool is called", [users[0], *called, users[1], replies[1], users[2]], [_TOOL]),
        (
            "when a reply contains its thinking",
            [users[0], thoughts[0], users[1], thoughts[1], users[2]],
            None,
        ),
    ]
    for when, messages, tools in scenes:
        asked = [n for n, message in enumerate(messages, 1) if message["role"] in ("user", "tool")]
        try:
            texts = [tokenizer.render([_SYSTEM, *messages[:n]], tools=tools).text for n in asked]
        except TemplateError:
            continue  # a template without tools has nothing to rewrite there
        if not all(longer.startswith(shorter) for shorter, longer in itertools.pairwise(texts)):
            return Growth(False, f"the chat template renders earlier messages differently {when}")
    return Growth(True)


def neutralise(text: str, markers: re.Pattern[str]) -> str:
    """Spell special tokens so that they are words like any other: `<|im_end|>` becomes `< |im_end|>`."""
    while markers.search(text):  # what is broken up may have overlapped another one
        text = markers.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
    return text


class _RefusedError(Exception):
    """The template called `raise_exception`."""


def _refuse(message: object) -> None:
    raise _RefusedError(str(message).strip().rstrip(".") + ".")


def _plain(message: Message, *, as_text: bool, clean: Callable[[str], str] | None) -> Message:
    """Return a message as templates expect it: text content, and tool arguments in the form they can print."""
    clean = clean if clean is not None and message.get("role") != "system" else _same
    shown: Message = {
        key: clean(value) if isinstance(value, str) else value for key, value in message.items()
    }
    shown["content"] = clean(text_of(message))
    calls = message.get("tool_calls")
    if calls:
        shown["tool_calls"] = [_plain_call(call, as_text=as_text, clean=clean) for call in calls]
    else:
        shown.pop("tool_calls", None)  # templates ask whether the key is there
    return shown


def text_of(message: Message) -> str:
    """Return the text of a message; images and other parts have none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, (list, tuple)) else ()
    return "\n".join(part if isinstance(part, str) else str(part.get("text") or "") for part in parts if part)


def _plain_call(call: dict[str, Any], *, as_text: bool, clean: Callable[[str], str]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            parsed = arguments  # the model wrote no JSON; show what it wrote
        arguments = parsed if isinstance(parsed, dict) else arguments
    arguments = _cleaned({} if arguments is None else arguments, clean)
    if as_text and not isinstance(arguments, str):
        arguments = _to_json(arguments)
    return {**call, "function": {**function, "arguments": arguments}}


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_cleaned(key, clean): _cleaned(item, clean) for key, item in value.items()}
    return [_cleaned(item, clean) for item in value] if isinstance(value, list) else value


def _same(text: str) -> str:
    return text


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Put the system message at the head of the first user message, for templates that know no system role."""
    orders = "\n\n".join(message["content"] for message in messages if message.get("role") == "system")
    rest = [dict(message) for message in messages if message.get("role") != "system"]
    first = next((message for message in rest if message.get("role") == "user"), None)
    if orders and first is not None:
        first["content"] = f"{orders}\n\n{first['content']}"
    return rest


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Print JSON as Hugging Face's `tojson` does, without escaping for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


@functools.cache
def _environment() -> Any:
    """Return the sandbox that templates run in: they come with a model, from strangers."""
    from jinja2 import BaseLoader
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Pass over `{% generation %}`, which marks replies for training."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            parser.stream.skip(1)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        loader=BaseLoader(),
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, "jinja2.ext.loopcontrols"],
        autoescape=False,  # a prompt is not HTML
    )
    environment.filters["tojson"] = _to_json
    return environment
