"""Calls of tools in the spellings that models use."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgemem.chatting import Voice, parse
from edgemem.errors import TemplateError
from edgemem.llama.calls import Call, read_calls
from edgemem.llama.growth import scenes
from edgemem.llama.markup import opened_thought
from edgemem.llama.probe import PROBE_TOOL
from edgemem.llama.template import ChatTemplate

OBJECT = '{"name": "timer", "arguments": {"minutes": 6, "room": "bath"}}'
NAMES = frozenset({"timer"})

SPELLINGS = {
    "qwen": f"<tool_call>\n{OBJECT}\n</tool_call>",
    "never closed": f"<tool_call>\n{OBJECT}",
    "other order": '<tool_call>{"arguments":{"room":"bath","minutes":6},"name":"timer"}</tool_call>',
    "arguments as text": (
        '<tool_call>{"name": "timer", "arguments": "{\\"minutes\\": 6, \\"room\\": \\"bath\\"}"}</tool_call>'
    ),
    "mistral": f"[TOOL_CALLS][{OBJECT[:-1]}, " + '"id": "abcdefghi"}]',
    "mistral small": '[TOOL_CALLS]timer[ARGS]{"minutes": 6, "room": "bath"}',
    "mistral with an id": '[TOOL_CALLS]timer[CALL_ID]abcdefghi[ARGS]{"minutes": 6, "room": "bath"}',
    "phi 4": f"<|tool_call|>[{OBJECT}]<|/tool_call|>",
    "phi 4, in words": f"functools[{OBJECT}]",
    "granite 3": f"<|tool_call|>[{OBJECT}]",
    "lfm": '<|tool_call_start|>[timer(minutes=6, room="bath")]<|tool_call_end|>',
    "command r7b": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "timer", "parameters": {"minutes": 6, "room": "bath"}}]'
        "<|END_ACTION|>"
    ),
    "functionary": '<function=timer>{"minutes": 6, "room": "bath"}</function>',
    "gemma 4": '<|tool_call>call:timer{minutes:6,room:<|"|>bath<|"|>}<tool_call|>',
    "llama": '{"type": "function", "name": "timer", "parameters": {"minutes": 6, "room": "bath"}}',
    "llama's python": f"<|python_tag|>{OBJECT}",
    "a bare list": f"[{OBJECT}]",
    "a block of code": f"```json\n{OBJECT}\n```",
}
TAGGED = {
    "qwen 3.5": (
        "<tool_call>\n<function=timer>\n<parameter=minutes>\n6\n</parameter>\n<parameter=room>\nbath\n</parameter>\n"
        "</function>\n</tool_call>"
    ),
    "minicpm": '<function name="timer"><param name="minutes">6</param><param name="room">bath</param></function>',
    "glm": (
        "<tool_call>timer\n<arg_key>minutes</arg_key>\n<arg_value>6</arg_value>\n<arg_key>room</arg_key>\n"
        "<arg_value>bath</arg_value>\n</tool_call>"
    ),
}
UNREAD = {
    "gemma 4, broken": "<|tool_call>call:timer{minutes:}<tool_call|>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>timer<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "mistral, cut": '[TOOL_CALLS][{"name": "timer", "argu',
    "llama, cut": '{"name": "timer", "parameters": {"minu',
    "llama, cut within the name": '{"type": "function", "name": "tim',
    "python": "<|python_tag|>print(1)",
    "gpt-oss": '<|channel|>commentary to=functions.timer <|constrain|>json<|message|>{"minutes": 6}',
}


def said(text: str) -> str:
    """Return what a voice would say of a reply that comes letter by letter."""
    voice = Voice(NAMES)
    return "".join(map(voice.take, text)) + voice.end()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_call_is_read_and_not_spoken(spelling: str) -> None:
    """Whatever a model writes around a call, the loop gets the call and the voice nothing."""
    text = SPELLINGS[spelling]
    assert parse(text, NAMES) == ("", (Call("timer", {"minutes": 6, "room": "bath"}),))
    assert said(text).strip() == ""


@pytest.mark.parametrize("spelling", TAGGED)
def test_arguments_in_tags_are_text(spelling: str) -> None:
    """What stands in a tag of its own is text until the tool's schema says otherwise."""
    text = TAGGED[spelling]
    assert parse(text, NAMES) == ("", (Call("timer", {"minutes": "6", "room": "bath"}),))
    assert said(text).strip() == ""


@pytest.mark.parametrize("spelling", UNREAD)
def test_what_begins_like_a_call_is_not_spoken(spelling: str) -> None:
    """A call that was cut off, or in a form that is not read, calls nothing and is not read aloud."""
    assert parse(UNREAD[spelling], NAMES)[1] == ()
    assert said(UNREAD[spelling]).strip() == ""


def test_several_calls_in_one_reply() -> None:
    """Calls one after the other, in one list or behind several markers, come out in their order."""
    other = OBJECT.replace("timer", "oven")
    names = frozenset({"timer", "oven"})
    for text in (
        f"[TOOL_CALLS][{OBJECT}, {other}]",
        "[TOOL_CALLS]timer[ARGS]{}[TOOL_CALLS]oven[ARGS]{}",
        f"{OBJECT}; {other}",
        f"<tool_call>{OBJECT}</tool_call>\n<tool_call>{other}</tool_call>",
        "<|tool_call_start|>[timer(), oven()]<|tool_call_end|>",
    ):
        assert [call.name for call in parse(text, names)[1]] == ["timer", "oven"], text


def test_python_is_read_and_never_run() -> None:
    """Values may be any that JSON has; anything that would have to be computed is no call."""
    assert read_calls("[f(a=[1, 'x'], b={'c': true}, d=-2.5, e=None)]")[0] == [
        Call("f", {"a": [1, "x"], "b": {"c": True}, "d": -2.5, "e": None})
    ]
    for text in ("f(a=g())", "f(1)", "f(a={1, 2})", "f(a=x)", "a.b(c=1)", "f(" * 200, "f(a=b'x')"):
        assert read_calls(text) == ([], 0), text


def test_gemma_may_nest_and_quote() -> None:
    """What stands between Gemma's quotes is text, whatever it looks like; everything else is JSON without quoted keys."""
    text = 'call:f{a:{b:[1,<|"|>x: {y,z:1} "q"<|"|>],c:true},d:<|"|><|"|>,<|"|>e f<|"|>:null}'
    assert read_calls(text) == (
        [Call("f", {"a": {"b": [1, 'x: {y,z:1} "q"'], "c": True}, "d": "", "e f": None})],
        len(text),
    )


def test_one_is_not_true() -> None:
    """Calls mean the same only if every value does, whatever Python takes for equal; their order is no matter."""
    one = Call("f", {"a": 1, "b": 2})
    assert one.same(Call("f", {"b": 2, "a": 1}))
    for other in ({"a": True, "b": 2}, {"a": 1.0, "b": 2}, {"a": "1", "b": 2}, {"a": 1}):
        assert not one.same(Call("f", other))
    assert not one.same(Call("g", {"a": 1, "b": 2}))


def test_calls_as_templates_print_them(vocabularies: Path) -> None:
    """Of what the shipped templates print of a call, most is read, and nothing that has a marker is spoken."""
    scene = next(scene for scene in scenes() if scene.when == "when a tool is called")
    read, spoken = 0, set()
    for file in sorted((vocabularies / "templates").glob("*.jinja")):
        template = ChatTemplate(file.read_text(), bos="<s>", eos="</s>")
        before, behind = scene.asked()[:2]
        try:
            prompt = template.render(before, tools=[PROBE_TOOL])
            longer = template.render(behind, tools=[PROBE_TOOL])
        except TemplateError:
            continue
        if not longer.startswith(prompt):
            continue
        shown = (opened_thought(prompt) + longer[len(prompt) :]).partition("Found needle.")[0]
        names = frozenset({"probe"})
        read += parse(shown, names)[1] == (Call("probe", {"key": "needle"}),)
        voice = Voice(names)
        if "needle" in voice.take(shown) + voice.end():
            spoken.add(file.stem)
    assert read >= 40
    # These put a call into a message or a line of its own, without a marker that only calls have.
    assert spoken == {"GigaChat3-10B-A1.8B", "Kimi-K3", "meetkai-functionary-medium-v3.2"}
