"""What fits a window, and what is left out when not everything does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from word_tokenizer import WordTokenizer

from edgemem.context.budget import fit
from edgemem.context.grouping import repair_orphans

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = {"role": "system", "content": "You help in the kitchen."}
TOOLS = [{"type": "function", "function": {"name": "timer", "description": "set a timer", "parameters": {}}}]


def talk(turns: int, *, words: int = 10) -> list[dict[str, Any]]:
    """Return a conversation whose messages can be told apart."""
    out: list[dict[str, Any]] = [SYSTEM]
    for n in range(turns):
        out.append({"role": "user", "content": f"question {n} " + "word " * words})
        out.append({"role": "assistant", "content": f"answer {n} " + "word " * words})
    return out


messages = st.lists(
    st.one_of(
        st.builds(
            lambda role, words: {"role": role, "content": "word " * words},
            st.sampled_from(["system", "user", "user", "assistant", "tool"]),
            st.integers(0, 60),
        ),
        st.just({"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "timer"}]}),
        st.just({"role": "tool", "tool_call_id": "a", "content": "set"}),
    ),
    max_size=20,
)


@given(messages, st.integers(0, 300), st.none() | st.integers(0, 300), st.integers(0, 9))
def test_fit_always_ends_with_a_legal_list(
    conversation: list[dict[str, Any]], budget: int, target: int | None, dropped: int
) -> None:
    """Any list and any budget: instructions and newest utterance stay, and the count is the real one."""
    tokenizer = WordTokenizer()
    before = [dict(message) for message in conversation]
    fitted = fit(
        conversation, tokenizer=tokenizer, budget_tokens=budget, target_tokens=target, dropped_turns=dropped
    )
    assert tokenizer.counts <= 11
    assert fitted.tokens == WordTokenizer().count(fitted.messages)
    assert fitted.fits == (fitted.tokens <= budget)
    assert fitted.fits or fitted.note
    assert conversation == before
    kept = fitted.messages
    assert repair_orphans(kept) == kept
    users = [message for message in conversation if message["role"] == "user"]
    if users:
        spoken = [message for message in kept if message["role"] != "system"]
        assert spoken[0]["role"] == "user"
        assert any(message is users[-1] for message in kept)
        head = conversation[: next(i for i, m in enumerate(conversation) if m["role"] == "user")]
        for message in head:
            assert message["role"] != "system" or any(message is other for other in kept)


def test_nothing_is_left_out_while_there_is_room() -> None:
    """One count is enough when everything fits, and the messages are the very same objects."""
    tokenizer, conversation = WordTokenizer(), talk(5)
    fitted = fit(conversation, tokenizer=tokenizer, budget_tokens=1000)
    assert [id(message) for message in fitted.messages] == [id(message) for message in conversation]
    assert (fitted.dropped_turns, fitted.fits, fitted.note, tokenizer.counts) == (0, True, "", 1)


def test_as_many_turns_stay_as_fit() -> None:
    """One turn more would be over the budget."""
    conversation = talk(400)
    tokenizer = WordTokenizer()
    fitted = fit(conversation, tokenizer=tokenizer, budget_tokens=500)
    assert fitted.fits
    assert 0 < fitted.dropped_turns < 400
    assert tokenizer.counts <= 12
    more = [SYSTEM, *conversation[1 + 2 * (fitted.dropped_turns - 1) :]]
    assert WordTokenizer().count(more) > 500
    assert (
        fitted.note == f"Left out the {fitted.dropped_turns} oldest of 400 turns to stay within 500 tokens."
    )


def test_the_start_of_the_prompt_stays_put_while_a_conversation_grows() -> None:
    """With a target below the budget, the cut moves in few large steps instead of every turn."""
    conversation = talk(200)
    dropped, cuts = 0, 0
    for turns in range(1, 201):
        fitted = fit(
            conversation[: 2 * turns],
            tokenizer=WordTokenizer(),
            budget_tokens=1000,
            target_tokens=500,
            dropped_turns=dropped,
        )
        assert fitted.fits
        cuts += fitted.dropped_turns != dropped
        dropped = fitted.dropped_turns
    assert 0 < cuts < 12


def test_a_huge_newest_turn_may_pass_the_target_but_not_the_budget() -> None:
    """When the target cannot be met, as much stays as the budget allows."""
    conversation = [*talk(10), {"role": "user", "content": "word " * 400}]
    fitted = fit(conversation, tokenizer=WordTokenizer(), budget_tokens=500, target_tokens=300)
    assert fitted.fits
    assert len(fitted.messages) > 2


def test_it_says_when_the_newest_turn_alone_does_not_fit() -> None:
    """The smallest legal list comes back, with one sentence on what, by how much and what to do."""
    conversation = [*talk(3), {"role": "user", "content": "word " * 100}]
    fitted = fit(conversation, tokenizer=WordTokenizer(), budget_tokens=50)
    assert not fitted.fits
    assert fitted.messages == [SYSTEM, conversation[-1]]
    assert f"need {fitted.tokens:,} tokens, {fitted.tokens - 50:,} more than the budget of 50" in fitted.note
    assert "shorten" in fitted.note


def test_tools_count() -> None:
    """Tool schemas take their part of the budget."""
    conversation = talk(4)
    bare = fit(conversation, tokenizer=WordTokenizer(), budget_tokens=120)
    tooled = fit(conversation, tokenizer=WordTokenizer(), budget_tokens=120, tools=TOOLS)
    assert tooled.fits
    assert tooled.tokens <= 120
    assert tooled.dropped_turns > bare.dropped_turns


def test_a_conversation_without_a_user_keeps_its_only_turn() -> None:
    """There is nothing to put first, so what there is stays."""
    conversation = [SYSTEM, {"role": "assistant", "content": "Good morning."}]
    assert fit(conversation, tokenizer=WordTokenizer(), budget_tokens=100).messages == conversation


def test_counts_are_those_of_a_real_model(vocabularies: Path) -> None:
    """With a real vocabulary and template, tool calls included, the result is exactly as large as said."""
    from edgemem.llama import LlamaTokenizer

    template = (vocabularies / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text()
    tokenizer = LlamaTokenizer(vocabularies / "ggml-vocab-qwen2.gguf", template=template)
    call = {"id": "a", "type": "function", "function": {"name": "timer", "arguments": {"minutes": 3}}}
    conversation = [
        *talk(40),
        {"role": "user", "content": "Set a timer."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    fitted = fit(conversation, tokenizer=tokenizer, budget_tokens=600, tools=TOOLS)
    assert fitted.fits
    assert fitted.tokens == len(tokenizer.render(fitted.messages, tools=TOOLS).ids) <= 600
    assert fitted.messages[-1]["content"] == "no result: interrupted"
    assert fitted.dropped_turns > 20


def hops(n: int, *, words: int = 40) -> list[dict[str, Any]]:
    """Return a newest turn in which a tool was called so often."""
    out: list[dict[str, Any]] = [SYSTEM, *talk(3)[1:], {"role": "user", "content": "look it up"}]
    for i in range(n):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "timer", "arguments": {"n": i}}}
        out.append({"role": "assistant", "content": "", "tool_calls": [call]})
        out.append({"role": "tool", "tool_call_id": f"c{i}", "content": f"result {i} " + "word " * words})
    return out


def test_a_turn_that_alone_is_too_large_loses_its_oldest_calls() -> None:
    """When every other turn is gone, the oldest calls go with their results; the newest and what was asked stay."""
    conversation = hops(6)
    fitted = fit(conversation, tokenizer=WordTokenizer(), budget_tokens=200)
    assert fitted.fits
    assert fitted.tokens <= 200
    assert fitted.messages[:2] == [SYSTEM, {"role": "user", "content": "look it up"}]
    assert fitted.messages[2:] == conversation[-len(fitted.messages) + 2 :]
    assert repair_orphans(fitted.messages) == fitted.messages
    gone = 6 - (len(fitted.messages) - 2) // 2
    assert 0 < gone < 6
    assert fitted.note == f"Left out {gone} of 6 calls of tools in the newest turn to stay within 200 tokens."
    more = [*fitted.messages[:2], *conversation[-len(fitted.messages) :]]
    assert WordTokenizer().count(more) > 200


def test_no_call_goes_while_another_turn_can() -> None:
    """Older turns go first: what was just looked up is what the answer is made of."""
    conversation = hops(2)
    fitted = fit(conversation, tokenizer=WordTokenizer(), budget_tokens=140)
    assert fitted.dropped_turns == 3
    assert fitted.messages == [SYSTEM, *conversation[-5:]]
