"""The prompts of loops that keep a list of their own: what their model reads in its place, and whose words are kept."""

import asyncio
from typing import Any

import pytest

import edgemem
import edgemem.aio
from edgemem.config import ContextSettings, LlamaSettings, Profile
from edgemem.errors import InvalidInputError
from edgemem.hooks import hook
from edgemem.hooks.list_prompt import ListPrompt
from edgemem.records import Heard

BY_WORDS = Profile(llama=LlamaSettings(embedder=""))
QUESTION = "What is Ines allergic to?"
HEAD = {"role": "system", "content": "You help."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(n: int, form: str) -> list[dict[str, Any]]:
    """Return what a model that calls a tool adds to its list, and the result."""
    if form == "responses":
        return [
            {"type": "reasoning", "id": f"r{n}", "summary": []},
            {"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": "found it"},
        ]
    function = {"name": "look", "arguments": "{}"}
    return [
        {**answer(""), "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": f"c{n}", "content": "found it"},
    ]


def texts(items: list[Any]) -> str:
    return " ".join(str(item.get("content")) for item in items)


@pytest.fixture
def memory(tmp_path):
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
        memory.store.add_fact("ines.allergy", "peanuts", scope="household")
        yield memory


@pytest.fixture
def conversation(memory):
    return memory.session("s", speaker="alice")


@pytest.fixture
def prompts(conversation):
    return ListPrompt(conversation)


def stored(memory, session: str = "s") -> list[tuple[str, str]]:
    turns = memory.sessions.journal.read_turns(session)
    return [((turn.heard and turn.heard.speaker) or "", str(turn.messages[0].content)) for turn in turns]


@pytest.mark.parametrize("form", ["chat", "responses"])
def test_a_prompt_only_grows_over_hops_and_turns(memory, conversation, prompts, form) -> None:
    """The block stands where it was first, all else is the list's own objects, and the list has no block."""
    items: list[Any] = [HEAD]
    newest: list[Any] = []
    for n, question in enumerate([QUESTION, "Where is the ladder?", QUESTION]):
        items.append(user(question))
        for added in ([], call(n, form)):
            items += added
            prompt = prompts.make(items, form=form)
            assert prompt[: len(newest)] == newest
            newest = prompt
        assert prompt[-len(added) :] == added
        assert sum(all(item is not other for other in items) for item in prompt) == 1
        conversation.open_turn.reply(f"Answer {n}.")
        conversation.open_turn.commit()
        items.append(answer(f"Answer {n}."))
    assert "peanuts" in texts(newest)
    assert "peanuts" not in texts(items)
    assert [text for _, text in stored(memory)] == [QUESTION, "Where is the ladder?", QUESTION]


def test_a_new_user_message_opens_a_turn_and_the_same_again_is_a_hop(conversation, prompts) -> None:
    """A model that is asked again, since it failed, goes on with the turn; a list without a user message opens none."""
    assert prompts.make([HEAD]) == [HEAD]
    assert conversation.open_turn is None
    prompt = prompts.make([HEAD, user(QUESTION)])
    turn = conversation.open_turn
    assert prompts.make([HEAD, user(QUESTION)]) == prompt
    assert conversation.open_turn is turn
    prompts.make([HEAD, user(QUESTION), answer("Peanuts."), user("And Bob?")])
    assert conversation.open_turn is not turn
    assert not turn.is_open


def test_a_turn_that_nobody_ended_is_kept_with_the_reply_of_the_list(memory, prompts) -> None:
    """The list tells how it went on."""
    prompts.make([user(QUESTION)])
    prompts.make([user(QUESTION), answer("Peanuts."), user("Thanks.")])
    (turn,) = memory.sessions.journal.read_turns("s")
    assert [str(message.content) for message in turn.messages] == [QUESTION, "Peanuts."]


def test_an_aborted_turn_leaves_no_trace(memory, conversation, prompts) -> None:
    """A reply that was prepared and thrown away, as when somebody speaks on."""
    prompts.make([user("What is")])
    conversation.open_turn.abort()
    prompts.make([user(QUESTION)])
    conversation.open_turn.reply("Peanuts.")
    conversation.open_turn.commit()
    assert stored(memory) == [("alice", QUESTION)]


@pytest.mark.parametrize(("speaker", "name"), [("bob", "bob"), (None, "")])
def test_each_utterance_is_its_speakers(memory, prompts, speaker, name) -> None:
    """One who was not recognised is nobody; who speaks in the next turn is another matter."""
    prompts.make([user("Is there milk?")], speaker=speaker, heard=Heard(asr_confidence=0.9))
    prompts.make([user("Is there milk?"), answer("Yes."), user("Thanks.")])
    prompts.make([user("Is there milk?"), answer("Yes."), user("Thanks."), answer("."), user("Bye.")])
    assert stored(memory) == [(name, "Is there milk?"), ("alice", "Thanks.")]


def test_the_words_of_a_turn_that_failed_are_anothers_when_another_says_them(
    memory, conversation, prompts
) -> None:
    """Without a speaker it is the same one who asks again."""
    for speaker in ({"speaker": "alice"}, {"speaker": "bob"}, {"speaker": None}):
        prompts.make([user("Is there milk?")], **speaker)
        conversation.end_turn(error="The model failed.")
    assert [name for name, _ in stored(memory)] == ["alice", "bob", ""]


def test_who_speaks_a_turn_is_not_who_is_half_heard_meanwhile(conversation, prompts) -> None:
    """The conversation's own speaker is another matter, in every thread and at every moment."""
    usual = []
    conversation.hooks.register(hook("before_llm")(lambda _ctx, _payload: usual.append(conversation.speaker)))
    prompts.make([user("Is there milk?")], speaker="bob")
    assert (usual, conversation.open_turn.reader.speaker) == (["alice"], "bob")


def test_what_cannot_be_kept_is_counted_by_the_conversation(conversation, prompts) -> None:
    """And the model reads the words alone."""
    assert prompts.make([HEAD, user(QUESTION)], heard="loud") == [HEAD, user(QUESTION)]
    (failure,) = conversation.failures()
    assert "heard" in failure.message


@pytest.mark.parametrize("way", ["trimmed", "summarised", "reordered", "dropped"])
def test_a_list_that_its_loop_has_cut_teaches_nothing_new(memory, prompts, way) -> None:
    """What came back was not said again, nor by anybody else."""
    items = [HEAD]
    for n in range(4):
        items += [user(f"I saw the number {n}."), answer(f"Fine {n}.")]
        prompts.make(items[:-1])
    rest = {"trimmed": items[5:], "summarised": [user("Earlier: numbers were seen."), *items[5:]]}
    rest |= {"reordered": [*items[3:5], *items[1:3], *items[5:]], "dropped": [*items[1:3], *items[5:]]}
    prompts.make([HEAD, *rest[way], user("What did I see?")])
    prompts.make([HEAD, *rest[way], user("What did I see?"), answer("Numbers."), user("Bye.")])
    said = [f"I saw the number {n}." for n in range(4)]
    assert [text for _, text in stored(memory)] == [*said, "What did I see?"]


def test_what_left_the_prompt_is_one_user_item(tmp_path) -> None:
    """A long list is cut by memory alone, to fit the window, and what is kept are the loop's own items."""
    profile = Profile(llama=LlamaSettings(embedder=""), context=ContextSettings(window_tokens=1024))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        prompts, items = ListPrompt(memory.session("s", speaker="alice")), [HEAD]
        for n in range(40):
            items.append(user(f"The boat number {n} is as blue as the sea and the sky of the evening."))
            prompt = prompts.make(items)
            items.append(answer("I see, it is as blue as the sea and the sky of the evening."))
    assert len(prompt) < len(items)
    assert [item["role"] for item in prompt].count("system") == 1
    new = [item for item in prompt if all(item is not other for other in items)]
    assert {item["role"] for item in new} <= {"user"}


@pytest.mark.parametrize(
    ("items", "form"),
    [(["words"], "chat"), ([{"content": "words"}], "chat"), ([user("words")], "words"), ([{"type": "function_call"}], "responses")],
)  # fmt: skip
def test_what_is_no_list_of_a_form_is_refused_in_a_sentence(prompts, items, form) -> None:
    """And no turn is opened."""
    with pytest.raises(InvalidInputError, match=r"form"):
        prompts.make(items, form=form)


def test_an_image_stays_where_its_loop_put_it(prompts) -> None:
    """The block comes before the words."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    (prompt,) = prompts.make([{"role": "user", "content": [{"type": "text", "text": QUESTION}, image]}])
    assert "peanuts" in str(prompt["content"])
    assert prompt["content"][-1] == image


@pytest.mark.parametrize(
    ("reply", "error", "texts", "state"),
    [("Yes.", None, [QUESTION, "Yes."], "complete"), ("", None, [QUESTION], "unfinished"), ("", "away", [QUESTION], "unfinished")],
)  # fmt: skip
def test_a_conversation_ends_its_open_turn(memory, conversation, prompts, reply, error, texts, state) -> None:
    """With a reply it is whole; without one, or with an error, it is kept unfinished; where none is open nothing happens."""
    conversation.end_turn("Nobody asked.")
    prompts.make([user(QUESTION)])
    conversation.end_turn(reply, error=error)
    conversation.end_turn()
    (turn,) = memory.sessions.journal.read_turns("s")
    assert ([message.content for message in turn.messages], turn.state) == (texts, state)


def test_a_tool_of_the_memory_runs_in_the_turn_and_its_list_tells_it(memory) -> None:
    """It has the rights of who speaks, and is stored once, however it is called."""
    conversation = memory.session("s", tools=memory.tools())
    prompts = ListPrompt(conversation)
    items = [user("I like tea."), *call(0, "chat")]
    items[1]["tool_calls"][0]["function"] = {
        "name": "remember_fact",
        "arguments": '{"key": "drink", "value": "tea", "scope": "me"}',
    }
    prompts.make(items[:1], speaker="bob")
    items[2]["content"] = conversation.open_turn.run_tool(items[1]["tool_calls"][0]).result
    prompts.make(items, speaker="bob")
    conversation.end_turn("Good.")
    (turn,) = memory.sessions.journal.read_turns("s")
    assert [message.role for message in turn.messages] == ["user", "assistant", "tool", "assistant"]
    assert [fact.key for fact in memory.store.facts(scope="user:bob")] == ["drink"]


def test_an_async_conversation_makes_prompts_and_ends_their_turns(tmp_path) -> None:
    """Its open turn is the one that the prompt has opened."""

    async def talk() -> None:
        async with edgemem.aio.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
            conversation = await memory.session("s", speaker="alice")
            assert conversation.open_turn is None
            prompt = await conversation.prompt([HEAD, user(QUESTION)], speaker="bob")
            assert prompt[0] is HEAD
            await conversation.open_turn.reply("Peanuts.")
            await conversation.open_turn.commit()
            assert conversation.open_turn is None

    asyncio.run(talk())
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
        assert stored(memory) == [("bob", QUESTION)]
