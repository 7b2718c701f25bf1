"""Whether a prompt still says what was generated: asked of the meaning, not of the letters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.llama.meaning import behind

PRINTED = '<tool_call>\n{"name": "timer", "arguments": {"minutes": 6}}\n</tool_call>'
REST = "<|im_end|>\n<|im_start|>user\nDone."


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
        PRINTED.replace("6", "7"),
        PRINTED.replace("6", "6.0"),
        PRINTED.replace("6", "true"),
        PRINTED.replace("timer", "oven"),
        PRINTED.replace('"minutes": 6', '"minutes": 6, "more": 1'),
        f"Sure!\n{PRINTED}",
        f"<think>\nno\n</think>\n\n{PRINTED}",
        f"{PRINTED[:-20]}{REST}{PRINTED}",
        "",
        "I set a timer.",
    ],
)
def test_another_meaning_is_rendered_anew(printed: str) -> None:
    """Another value, tool or word, something more or something less: then it is not what was generated."""
    assert behind('<tool_call>{"name":"timer","arguments":{"minutes":6}}</tool_call>', printed + REST) is None


def test_the_order_of_calls_matters() -> None:
    """Two calls in the other order are others; one of two is not both."""
    other = PRINTED.replace("timer", "oven")
    compact = [call.replace("\n", "") for call in (PRINTED, other)]
    assert behind("".join(compact), f"{PRINTED}\n{other}{REST}") == REST
    assert behind("".join(compact), f"{other}\n{PRINTED}{REST}") is None
    assert behind("".join(compact), f"{PRINTED}{REST}") is None


def test_a_thought_that_the_prompt_opened() -> None:
    """Where the prompt ends with the beginning of a thought, a reply begins within it, and so does what replaces it."""
    reply = "hm\n</think>\n\nFirst we bake."
    assert behind(reply, f"</think>\n\nFirst we bake.{REST}", opened="<think>\n") == REST
    assert behind(reply, f"</think>\n\nThen we bake.{REST}", opened="<think>\n") is None
    assert behind(reply, f"First we bake.{REST}", opened="<think>\n") is None


def test_a_reply_without_speech_is_no_reply() -> None:
    """A thought alone says nothing that could be recognised: what stands there now is rendered anew."""
    for reply in ("<think>\nhm", "<think>\nhm\n</think>\n\n"):
        assert behind(reply, f"Sorry, I got stuck on that.{REST}") is None


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='ab"\\ \n{}é', max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), values), min_size=1, max_size=3), st.booleans()
)
def test_any_arguments_in_any_spelling(arguments: list[dict[str, Any]], compact: bool) -> None:
    """Calls are recognised whatever their values are, and a single changed value is seen."""

    def spelled(given_values: list[dict[str, Any]], **style: Any) -> str:
        calls = [json.dumps({"name": "f", "arguments": one}, **style) for one in given_values]
        return "".join(f"<tool_call>\n{call}\n</tool_call>\n" for call in calls)

    style: dict[str, Any] = (
        {"separators": (",", ":")} if compact else {"sort_keys": True, "ensure_ascii": False}
    )
    reply, printed = spelled(arguments, **style), spelled(arguments).rstrip()
    rest = behind(reply, printed + REST)
    assert rest is not None
    assert rest.strip() == REST
    changed = [*arguments[:-1], {**arguments[-1], "z": 0}]
    assert behind(reply, spelled(changed) + REST) is None
