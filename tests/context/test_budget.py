"""The budget: a window divided to the token, the messages that fit their share, and sizes that are never too low."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.config import ContextSettings, NotesSettings, Profile, Settings, load_profile
from edgemem.context import budget as budgets
from edgemem.context.messages import repair_orphans
from edgemem.errors import ConfigError, ContextOverflowError
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.loop import AgentLoop
from edgemem.records import Message
from support.homes import BY_WORDS, check_of, opened
from support.models import Model
from support.refusals import refusal
from support.tokenizers import WordTokenizer

sizes = st.integers(0, 9000)
one = st.builds(lambda a, b: budgets.Bounds(min(a, b), max(a, b)), sizes, sizes)
all_bounds = st.fixed_dictionaries(dict.fromkeys(budgets.PARTS, one))


def fits(plan: budgets.Plan, bounds: dict[str, budgets.Bounds]) -> None:
    """Check what holds of every plan: it is the window, and each part lies between its bounds."""
    assert sum(plan.shares.values()) == plan.window_tokens
    assert plan.room == plan.window_tokens - plan["answer"]
    for part, tokens in plan.shares.items():
        assert tokens >= bounds[part].floor
        assert tokens <= bounds[part].ceiling or part == "answer"


@given(st.integers(1, 40_000), all_bounds)
@example(4096, dict.fromkeys(budgets.PARTS, budgets.Bounds(0, 0)))
def test_the_parts_are_the_window_within_bounds(window: int, bounds: dict[str, budgets.Bounds]) -> None:
    """Any window and any bounds: an exact division, with less than the floors only where these are too much."""
    floors = sum(bound.floor for bound in bounds.values())
    plan = budgets.divide(window, bounds)
    if floors > window:
        assert sum(plan.shares.values()) == window
        assert all(tokens >= 0 for tokens in plan.shares.values())
        return
    fits(plan, bounds)
    left = window - floors
    history = plan["history"] - bounds["history"].floor
    assert history >= left // 3 or plan["history"] == bounds["history"].ceiling
    assert plan["answer"] == bounds["answer"].floor or plan["history"] == bounds["history"].ceiling
    # What comes earlier in the order is full before a later part gets more than its floor.
    grown = [part for part in budgets.FILLED if plan[part] > bounds[part].floor]
    for part in budgets.FILLED[: budgets.FILLED.index(grown[-1])] if grown else ():
        assert plan[part] == bounds[part].ceiling


counts = st.integers(0, 500)
most = {"window_tokens": 5000, "reply_tokens": 600, "summary_tokens": 500, "keep_last_turns": 60}
contexts = st.fixed_dictionaries(
    {name: st.integers(1, high) for name, high in most.items()}
    | dict.fromkeys(("block_tokens", "notes_tokens"), counts)
)


@given(contexts, st.integers(0, 3000), st.integers(0, 3000))
def test_every_valid_profile_divides_its_window(keys: dict[str, Any], instructions: int, tools: int) -> None:
    """A profile is refused with its keys, or there is a plan: with every head that fits, and with every other too."""
    try:
        context = msgspec.convert(keys, ContextSettings)
    except msgspec.ValidationError as error:
        refused: str | None = str(error)
    else:
        refused = None
    if refused is not None:
        assert "_tokens`" in refused
        return
    budget = budgets.Budget(Settings(Profile(context=context)), WordTokenizer())
    bounds = budget.bounds()
    fits(budget.plan, bounds)
    system: list[Message] = [{"role": "system", "content": "please " * instructions}] if instructions else []
    offered = [{"name": "look " * tools}] if tools else []
    budget.measure(system, offered)
    instructions, tools = budgets.measure_head(WordTokenizer(), system, offered)
    assert sum(budget.plan.shares.values()) == context.window_tokens
    least = sum(bound.floor for bound in bounds.values()) + instructions + tools
    if least > context.window_tokens:
        refusal(ContextOverflowError, budget.check_head, match=f"at least {least:,} ")
    else:
        assert budget.check_head() == least


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("window_tokens = 100\nreply_tokens = 10\nblock_tokens = 0\nsummary_tokens = 1\nkeep_last_turns = 1000",
         "`keep_last_turns` is 1,000, but what `window_tokens` leaves beside `reply_tokens` holds 5 turns"),
        ("window_tokens = 400\nreply_tokens = 380",
         "`reply_tokens` is 380, and 64 more for what is said are above the 400 of `window_tokens`"),
        ("window_tokens = 1\nreply_tokens = 1\nblock_tokens = 0\nsummary_tokens = 1", "below `window_tokens`"),
    ],
)  # fmt: skip
def test_an_absurd_profile_is_told_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    """Bounds that cannot hold together are refused when the profile is read, with the keys that are meant."""
    file = tmp_path / "p.toml"
    quiet = "block_tokens = 0\nsummary_tokens = 1\n" if "reply_tokens = 380" in text else ""
    file.write_text(f"[context]\n{quiet}{text}\n")
    refusal(ConfigError, load_profile, file, match=says)


class Windowed(WordTokenizer):
    """A tokenizer that came with a model of some window."""

    n_ctx = 600


def quiet(**context: Any) -> Profile:
    return Profile(context=msgspec.convert(context, ContextSettings), llama=BY_WORDS.llama)


def test_notes_have_their_tokens_and_show_nothing_twice(tmp_path: Path) -> None:
    """The newest lines that fit are shown; what did not fit does not come a turn later."""
    profile = msgspec.structs.replace(quiet(notes_tokens=40), notes=NotesSettings(level="shared"))
    with edgemem.open(tmp_path, profile=profile, worker=False) as memory:
        memory.notes.path.write_text("".join(f"- note {n} of the house and its garden\n" for n in range(12)))
        loop = AgentLoop(Model(), hooks=memory.hooks(session_id="s", tokenizer=WordTokenizer()))
        first, second = (str(loop.run(said).handed[-1][-1]["content"]) for said in ("Hello.", "And now?"))
        assert "note 11 " in first
        assert "note 2 " not in first
        assert len(WordTokenizer().encode(first)) < 40 + 12
        assert "note" not in second


def test_check_tells_which_window_counts(tmp_path: Path) -> None:
    """The profile's alone, a model's that is smaller, and one that is too small for what the loop was given later."""
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        assert (check_of(memory, "window").state, check_of(memory, "window").detail) == (
            "ok",
            "4,096 tokens, as the profile says",
        )
        hooks = memory.hooks(session_id="s", tokenizer=Windowed())
        found = check_of(memory, "window")
        assert found.state == "warn"
        assert found.detail == "the model's has 600 tokens and the profile says 4,096: the model's counts"
        assert "window_tokens = 600" in found.advice
        AgentLoop(Model(), hooks=hooks, instructions="word " * 700).run("Hello.")
        found = check_of(memory, "window")
        assert found.state == "fail"
        assert "The instructions take 702 tokens" in found.detail
        assert "a window of at least 1,022 (n_ctx, or -c of its server), or shorten" in found.detail
        del hooks


def test_an_overflow_that_nobody_could_foresee_is_in_check(tmp_path: Path) -> None:
    """A loop of one's own gives a tokenizer only; what its model then refuses is told, in another process too."""
    refusals = [ContextOverflowError("The prompt has 700 tokens, the context window 512") for _ in range(2)]
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        loop = AgentLoop(Model(*refusals), hooks=memory.hooks(session_id="s", tokenizer=WordTokenizer()))
        for _ in range(2):
            refusal(ContextOverflowError, loop.run, "Hello.")
        assert loop.hooks.failures() == []
    with edgemem.open(tmp_path, profile=quiet(), worker=False) as memory:
        found = check_of(memory, "window")
        assert found.state == "warn"
        assert "the context window 512" in found.detail
        assert "at least 2 times" in found.detail
        assert "hooks(model=" in found.advice
        assert check_of(memory, "hooks").state == "ok"


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
    fitted = budgets.fit(
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


def test_an_estimate_says_so(tmp_path: Path) -> None:
    """Without a tokenizer of its own the memory measures roughly, and says that too."""
    with opened(tmp_path / "home", "[context]\nwindow_tokens = 1024\n") as memory:
        with pytest.raises(ContextOverflowError, match=r"^The instructions take about [\d,]+ tokens .*\.$"):
            memory.hooks(instructions="You are a robot. " * 300)
        assert memory.hooks(instructions="You are a robot.")
        assert memory.hooks()


def test_the_start_of_the_prompt_stays_put_while_a_conversation_grows() -> None:
    """With a target below the budget, the cut moves in few large steps instead of every turn."""
    conversation: list[dict[str, Any]] = [{"role": "system", "content": "You help in the kitchen."}]
    for n in range(400):
        role = ("user", "assistant")[n % 2]
        conversation.append({"role": role, "content": f"{role} {n} " + "word " * 10})
    dropped, cuts = 0, 0
    for turns in range(1, 201):
        given = conversation[: 2 * turns]
        how = {"tokenizer": WordTokenizer(), "budget_tokens": 1000, "target_tokens": 500}
        fitted = budgets.fit(given, **how, dropped_turns=dropped)
        assert fitted.fits
        cuts += fitted.dropped_turns != dropped
        dropped = fitted.dropped_turns
    assert 0 < cuts < 12


TEXT = st.text(min_size=1, max_size=60)
TOOLS = [{"type": "function", "function": {"name": "light", "description": "Switches it.", "parameters": {}}}]


@pytest.fixture(scope="module")
def tokenizer(vocabularies: Path) -> Any:
    from edgemem.llama.template.chat_template import CHATML

    with LlamaTokenizer(vocabularies / "ggml-vocab-phi-3.gguf", template=CHATML) as opened:
        yield opened


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=12), limit=st.integers(0, 4000))
def test_the_figure_is_never_too_low(tokenizer: LlamaTokenizer, texts: list[str], limit: int) -> None:
    """As a conversation grows, what the size says is the count or more, and exact above the limit."""
    size = budgets.PromptSize(tokenizer)
    messages: list[dict[str, Any]] = []
    for i, text in enumerate(texts):
        messages.append({"role": "assistant" if i % 2 else "user", "content": text})
        told = size.tokens(messages, tools=None, limit=limit)
        counted = tokenizer.count(messages)
        assert told >= counted
        if told > limit:
            assert told == counted


LOOKS = st.sampled_from(["<|end|>", "<unk>", "</s>", "cup", "Tasse ", "お茶", " ", "\n", '"', "7"])


@settings(max_examples=60, deadline=None)
@given(turns=st.lists(st.lists(LOOKS, min_size=1, max_size=60).map("".join), min_size=1, max_size=8))
@example(turns=["cup", "</s>" * 300])
def test_what_was_measured_ahead_bounds_the_next_prompt(tokenizer: LlamaTokenizer, turns: list[str]) -> None:
    """After each turn the next prompt has a bound, above the count by little, also where another past stands before it."""
    size = budgets.PromptSize(tokenizer)
    system: list[dict[str, Any]] = [{"role": "system", "content": "You are a robot."}]
    said: list[dict[str, Any]] = []
    for text in turns:
        asked = [*system, *said, {"role": "user", "content": text}]
        counted = tokenizer.count(asked, tools=TOOLS)
        bound = size.bound(asked, tools=TOOLS, limit=0)
        if said:
            assert bound is not None
            assert counted <= bound <= counted + 40 + 2 * sum(map(text.count, "<[>"))
            shorter = [*system, *said[-2:], {"role": "user", "content": text}]
            bound = size.bound(shorter, tools=TOOLS, limit=1e6)
            assert bound is not None
            assert bound >= tokenizer.count(shorter, tools=TOOLS)
        else:
            assert bound is None
        said += [asked[-1], {"role": "assistant", "content": text[::-1]}]
        size.settle([*system, *said], tools=TOOLS, limit=0)


def test_no_words_are_kept() -> None:
    """Of texts that were measured nothing is left but numbers, and after a forgetting not even these."""
    sizes = budgets.TokenCache(WordTokenizer())
    sizes.tokens("secret")
    assert "secret" not in repr(vars(sizes))
    sizes.forget()
    assert sizes.counted("secret") is None
