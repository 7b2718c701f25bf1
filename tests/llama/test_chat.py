"""A chat model in this process, its second context, and what its replies mean: thoughts and calls of tools in every spelling."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import ClosedError, ContextOverflowError, TemplateError
from edgemem.llama.chat import LlamaChat
from edgemem.llama.replies import Call, behind, opened_thought, read_calls, read_reply
from edgemem.llama.template.append_only import scenes
from edgemem.llama.template.chat_template import ChatTemplate
from edgemem.llama.template.limits import PROBE_TOOL
from edgemem.loop.replies import Voice
from support.refusals import refusal


@pytest.fixture
def chat(phi3: Path) -> Iterator[LlamaChat]:
    with LlamaChat(phi3, n_ctx=2048, threads=1, batch=256) as chat:
        yield chat


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_it_answers_as_the_model_does(phi3: Path, chat: LlamaChat) -> None:
    """The ids are those of a conversation at temperature 0, also where a part of the prompt was in the cache."""
    cup = "Where is my cup? " * 30
    prompts = [asked(cup), asked(cup + "And hers?"), asked("Hello.")]
    with chat.side_chat(n_ctx=1024) as side:
        made = [side.answer(prompt, max_tokens=16) for prompt in prompts]
    assert made[0].evaluated_tokens == made[0].prompt_tokens
    assert made[1].evaluated_tokens < 20 < made[1].prompt_tokens
    for prompt, one in zip(prompts, made, strict=True):
        with LlamaChat(phi3, n_ctx=1024, threads=1) as fresh:
            assert "".join(fresh.stream(prompt, max_tokens=16)).strip() == one.text
            assert (fresh.last.ids, fresh.last.stopped) == (one.ids, one.stopped)


def test_it_stops_in_the_middle_and_goes_on_as_if_nothing_had_happened(chat: LlamaChat) -> None:
    """Stopped while the prompt is evaluated, it says so; the next answer is the same as without."""
    side = chat.side_chat(n_ctx=1024)
    wanted = side.answer(asked("Where is my cup?"), max_tokens=8)
    side.rest()
    looks = iter([False] * 2)
    long = asked("Where is my cup? " * 180)
    made = side.answer(long, max_tokens=20, stop=lambda: next(looks, True))
    assert (made.stopped, made.ids) == ("interrupted", ())
    assert side.answer(asked("Where is my cup?"), max_tokens=8).ids == wanted.ids
    assert side.answer(asked("Go."), max_tokens=8, stop=lambda: True).stopped == "interrupted"


def test_closing_the_model_stops_and_closes_it(phi3: Path) -> None:
    """A model that is closed while its second context writes waits for that, and neither can be asked again."""
    chat = LlamaChat(phi3, n_ctx=512, threads=1)
    side = chat.side_chat(n_ctx=2048)
    begun = threading.Event()
    ended: list[str] = []

    def write() -> None:
        long = asked("Where is my cup? " * 200)
        try:
            ended.append(side.answer(long, max_tokens=800, stop=lambda: bool(begun.set())).stopped)
        except ClosedError:
            ended.append("closed")

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(30)
    chat.close()
    thread.join()
    assert ended in (["interrupted"], ["closed"])
    refusal(ClosedError, side.answer, asked("Hello."), max_tokens=5)
    refusal(ClosedError, chat.side_chat)
    side.close()
    chat.close()


def test_what_does_not_fit_is_refused(chat: LlamaChat) -> None:
    """A prompt that leaves its answer no room is told in one sentence."""
    side = chat.side_chat(n_ctx=256)
    with pytest.raises(ContextOverflowError, match="summary_ctx"):
        side.answer(asked("Where is my cup? " * 60), max_tokens=10)
    refusal(ContextOverflowError, side.answer, asked("Hello."), max_tokens=255)


def test_end_token_ends_the_reply(chat: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the model generates its end token, the reply ends and the token is not part of it."""
    reply = list(chat.stream(asked("Where is my cup? " * 10), max_tokens=4))
    third = chat.last.ids[2]
    monkeypatch.setattr(chat.tokenizer.vocabulary, "ends_reply", lambda token: token == third)
    again = list(chat.stream(asked("Where is my cup? " * 10), max_tokens=4))
    assert chat.last.stopped == "eos"
    assert third not in chat.last.ids
    assert again == reply[: len(again)]


OBJECT = '{"name": "timer", "arguments": {"minutes": 6, "room": "bath"}}'
NAMES = frozenset({"timer"})
CALLS = msgspec.toml.decode((Path(__file__).parents[1] / "data" / "calls.toml").read_bytes())
PRINTED = '<tool_call>\n{"name": "timer", "arguments": {"minutes": 6}}\n</tool_call>'
REST = "<|im_end|>\n<|im_start|>user\nDone."
values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='ab"\\ \n{}é', max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)


def said(text: str) -> str:
    """Return what a voice would say of a reply that comes letter by letter."""
    voice = Voice(NAMES)
    return "".join(map(voice.feed, text)) + voice.end()


@pytest.mark.parametrize("spelling", CALLS["spellings"])
def test_a_call_is_read_and_not_spoken(spelling: str) -> None:
    """Whatever a model writes around a call, the loop gets the call and the voice nothing."""
    text = CALLS["spellings"][spelling]
    assert read_reply(text, NAMES).calls == (Call("timer", {"minutes": 6, "room": "bath"}),)
    assert said(text).strip() == ""


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
        assert [call.name for call in read_reply(text, names).calls] == ["timer", "oven"], text


@pytest.mark.parametrize("spelling", CALLS["unread"])
def test_what_begins_like_a_call_is_not_spoken(spelling: str) -> None:
    """A call that was cut off, or in a form that is not read, calls nothing and is not read aloud."""
    assert read_reply(CALLS["unread"][spelling], NAMES).calls == ()
    assert said(CALLS["unread"][spelling]).strip() == ""


def test_python_is_read_and_never_run() -> None:
    """Values may be any that JSON has; anything that would have to be computed is no call."""
    assert read_calls("[f(a=[1, 'x'], b={'c': true}, d=-2.5, e=None)]")[0] == [
        Call("f", {"a": [1, "x"], "b": {"c": True}, "d": -2.5, "e": None})
    ]
    for text in ("f(a=g())", "f(1)", "f(a={1, 2})", "f(a=x)", "a.b(c=1)", "f(" * 200, "f(a=b'x')"):
        assert read_calls(text) == ([], 0), text


def test_calls_as_templates_print_them(vocabularies: Path) -> None:
    """Of what the shipped templates print of a call, most is read, and nothing that has a marker is spoken."""
    scene = next(scene for scene in scenes() if scene.when == "when a tool is called")
    read, spoken = 0, set()
    for file in sorted((vocabularies / "templates").glob("*.jinja")):
        template = ChatTemplate(file.read_text(), bos="<s>", eos="</s>")
        before, behind = scene.asked[:2]
        try:
            prompt = template.render(before, tools=[PROBE_TOOL])
            longer = template.render(behind, tools=[PROBE_TOOL])
        except TemplateError:
            continue
        if not longer.startswith(prompt):
            continue
        shown = (opened_thought(prompt) + longer[len(prompt) :]).partition("Found needle.")[0]
        names = frozenset({"probe"})
        read += read_reply(shown, names).calls == (Call("probe", {"key": "needle"}),)
        voice = Voice(names)
        if "needle" in voice.feed(shown) + voice.end():
            spoken.add(file.stem)
    assert read >= 40
    # These put a call into a message or a line of its own, without a marker that only calls have.
    assert spoken == {"GigaChat3-10B-A1.8B", "Kimi-K3"}


@pytest.mark.parametrize(
    ("reply", "printed"),
    [
        ('<tool_call>{"name":"timer","arguments":{"minutes":6}}</tool_call>', PRINTED),
        ('<tool_call>{"arguments": {"minutes": 6}, "name": "timer"}</tool_call>\n', PRINTED),
        (f"Sure!{PRINTED}", f"Sure!\n{PRINTED}"),
        (f"<think>\n\n</think>\n\n{PRINTED}", PRINTED),
        (f"<think>\nhm\n</think>\n\n{PRINTED}", f"<think>\n\n</think>\n\n{PRINTED}"),
        (PRINTED * 2, f"{PRINTED}\n{PRINTED}"),
        ('{"name":"timer","parameters":{"minutes":6}}', '{"name": "timer", "parameters": {"minutes": 6}}'),
        (
            '[TOOL_CALLS][{"name": "timer", "arguments": {"minutes": 6}, "id": "abcdefghi"}]',
            '[TOOL_CALLS][{"name": "timer", "arguments": {"minutes": 6}, "id": "zzzzzzzzz"}]',
        ),
        ("<think>\nhm\n</think>\n\nFirst we bake.", "First we bake."),
        ("<think>\nhm\n</think>\n\nFirst we bake.", "<think>\n\n</think>\n\nFirst we bake."),
        ("[THINK]hm[/THINK]First we bake.", "First we bake."),
    ],
)
def test_another_spelling_means_the_same(reply: str, printed: str) -> None:
    """What a template prints of a reply is recognised, and what stands behind it is returned."""
    assert behind(reply, printed + REST) == REST


@pytest.mark.parametrize(
    "printed",
    [
        PRINTED.replace("6", "7"), PRINTED.replace("6", "6.0"), PRINTED.replace("6", "true"),
        PRINTED.replace("timer", "oven"), PRINTED.replace('"minutes": 6', '"minutes": 6, "more": 1'),
        f"Sure!\n{PRINTED}", f"<think>\nno\n</think>\n\n{PRINTED}", f"{PRINTED[:-20]}{REST}{PRINTED}", "",
        "I set a timer.",
    ],
)  # fmt: skip
def test_another_meaning_is_rendered_anew(printed: str) -> None:
    """Another value, tool or word, something more or something less: then it is not what was generated."""
    assert behind('<tool_call>{"name":"timer","arguments":{"minutes":6}}</tool_call>', printed + REST) is None


def test_a_thought_that_the_prompt_opened() -> None:
    """Where the prompt ends with the beginning of a thought, a reply begins within it, and so does what replaces it."""
    reply = "hm\n</think>\n\nFirst we bake."
    assert behind(reply, f"</think>\n\nFirst we bake.{REST}", opened="<think>\n") == REST
    assert behind(reply, f"</think>\n\nThen we bake.{REST}", opened="<think>\n") is None
    assert behind(reply, f"First we bake.{REST}", opened="<think>\n") is None


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), values), min_size=1, max_size=3), st.booleans()
)
def test_any_arguments_in_any_spelling(arguments: list[dict[str, Any]], compact: bool) -> None:
    """Calls are recognised whatever their values are, and a single changed value is seen."""

    def spelled(given_values: list[dict[str, Any]], **style: Any) -> str:
        calls = [json.dumps({"name": "f", "arguments": one}, **style) for one in given_values]
        return "".join(f"<tool_call>\n{call}\n</tool_call>\n" for call in calls)

    style: Any = {"separators": (",", ":")} if compact else {"sort_keys": True, "ensure_ascii": False}
    reply, printed = spelled(arguments, **style), spelled(arguments).rstrip()
    rest = behind(reply, printed + REST)
    assert rest is not None
    assert rest.strip() == REST
    changed = [*arguments[:-1], {**arguments[-1], "z": 0}]
    assert behind(reply, spelled(changed) + REST) is None


def test_a_reply_without_speech_is_no_reply() -> None:
    """A thought alone says nothing that could be recognised: what stands there now is rendered anew."""
    for reply in ("<think>\nhm", "<think>\nhm\n</think>\n\n"):
        assert behind(reply, f"Sorry, I got stuck on that.{REST}") is None
