"""The registry: order, isolation, and who has the last word; hooks made with wrong things say so; attachments load by name or path."""

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.errors import ConfigError, InvalidInputError
from edgemem.hooks import TurnContext, available, hook, load
from edgemem.records import Session
from edgemem.session.points import BEFORE_LLM, ON_RUN_END, ON_RUN_START, HookRegistry, HookResult
from support.refusals import refusal


class Doing:
    def __init__(
        self,
        do: Callable[[Any], HookResult | None],
        *,
        points: Any = frozenset({ON_RUN_START}),
        priority: int = 0,
    ) -> None:
        self.points = points
        self.priority = priority
        self.do = do

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        return self.do(payload)


def broken(payload: Any) -> HookResult | None:
    raise RuntimeError("disk on fire")


def append(name: str) -> Callable[[Any], HookResult]:
    return lambda payload: HookResult.replace([*payload, name])


def test_a_failing_hook_is_isolated_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The others go on, and the failure is there for `edgemem check`."""
    registry = HookRegistry([Doing(broken, priority=1), Doing(append("ok"))])
    for _ in range(3):
        assert registry.fire(ON_RUN_START, None, []).payload == ["ok"]
    (failure,) = registry.failures()
    assert (failure.count, failure.point) == (3, ON_RUN_START)
    assert "disk on fire" in failure.message
    assert len(caplog.records) == 1


def test_a_safety_hook_fails_closed_in_every_list() -> None:
    """What was registered as fail_closed ends the turn when it raises, also in a registry that is made of that one."""
    guard = Doing(broken)
    agent = HookRegistry().register(guard, fail_closed=True)
    for registry in (agent, HookRegistry(agent)):
        assert registry.fire(ON_RUN_START, None, []).is_end


def test_every_hook_hears_of_the_end() -> None:
    """At on_run_end nobody can keep the others from being called."""
    heard: list[str] = []
    steps = (lambda p: HookResult.end("mine"), broken, heard.append)
    registry = HookRegistry([Doing(step, points={ON_RUN_END}) for step in steps])
    assert not registry.fire(ON_RUN_END, None, "bye").is_end
    assert heard == ["bye"]


def test_lists_are_merged_by_priority_then_by_registration() -> None:
    """An agent's hooks do not all act before a context's: priority decides across both (EdgeVox: H402, A417)."""
    agent = [Doing(append("agent 0")), Doing(append("agent 60"), priority=60)]
    context = HookRegistry([Doing(append("context 80"), priority=80), Doing(append("context 0"))])
    context.register(Doing(append("context raised")), priority=70)
    merged = HookRegistry(agent).extend(context)
    assert merged.fire(ON_RUN_START, None, []).payload == [
        "context 80", "context raised", "agent 60", "agent 0", "context 0",
    ]  # fmt: skip


def test_a_hook_of_two_lists_acts_once() -> None:
    """The same hook in the agent's and in the context's list is one hook, and later changes stay apart."""
    shared = Doing(append("shared"))
    agent = HookRegistry([shared])
    merged = HookRegistry(agent).extend([shared, Doing(append("other"))])
    agent.register(Doing(append("late")))
    assert merged.fire(ON_RUN_START, None, []).payload == ["shared", "other"]


NO_POINTS: list[Any] = [{"befor_llm"}, "before_llm", 5, None, [5, "before_llm"]]


@pytest.mark.parametrize(
    "thing", [object(), lambda: None, "hook", None, *(Doing(broken, points=points) for points in NO_POINTS)]
)
def test_what_is_no_hook_is_refused(thing: Any) -> None:
    """The error says what a hook needs, and names a misspelt point; firing one is refused too."""
    refusal(InvalidInputError, HookRegistry().register, thing, match=r"is no hook|befor_llm")
    refusal(InvalidInputError, HookRegistry().fire, "on_run_strat", None, {}, match="no point 'on_run_strat'")


class Answer:
    def __init__(self, payload: Any, *, end: bool = False, reason: str | None = None) -> None:
        self.payload, self.reason = payload, reason
        self.is_end, self.is_modify, self.is_continue = end, not end, False


def test_results_of_another_framework_are_read() -> None:
    """Its `modify` and `end` act as ours, and what it did not hand back stays in the payload."""
    asked = {"messages": [1], "hop": 0, "tools": []}
    registry = HookRegistry([Doing(lambda p: Answer({"messages": [2]}), points={BEFORE_LLM})])  # type: ignore[arg-type, return-value]
    fired = registry.fire(BEFORE_LLM, None, asked)
    assert isinstance(fired, HookResult)
    assert fired.payload == {"messages": [2], "hop": 0, "tools": []}
    registry.register(Doing(lambda p: Answer("no", end=True), points={BEFORE_LLM}))  # type: ignore[arg-type, return-value]
    assert (registry.fire(BEFORE_LLM, None, asked).is_end, registry.failures()) == (True, [])


@pytest.mark.parametrize("answer", ["text", HookResult.replace(None), HookResult.replace("text"), object()])
def test_an_answer_of_the_wrong_kind_is_a_failure(answer: Any) -> None:
    """A hook that answers nonsense is isolated like one that raises: the loop gets its payload."""
    registry = HookRegistry([Doing(lambda p: answer, points={BEFORE_LLM})])
    assert registry.fire(BEFORE_LLM, None, {"messages": [1]}).payload == {"messages": [1]}
    (failure,) = registry.failures()
    assert "InvalidInputError: it " in failure.message


@pytest.mark.parametrize(
    ("make", "wrong", "match"),
    [
        *[
            (make, wrong, "open one and pass it")
            for wrong in (None, "./memory.db", edgemem.SQLiteMemoryStore)
            for make in (
                edgemem.MemoryInjectionHook, edgemem.EpisodeLoggerHook, edgemem.NotesInjectorHook,
                lambda store: edgemem.PersistSessionHook(store, session_id="s"),
            )
        ],
        *[
            (make, wrong, "whole number")
            for wrong in (None, "3000")
            for make in (
                edgemem.TokenBudgetHook, edgemem.Compactor, edgemem.ToolOutputTruncatorHook, lambda number: edgemem.Compactor(3000, number),
            )
        ],
        (lambda header: edgemem.NotesInjectorHook(edgemem.NotesFile("n.md"), header=header), None, "header"),
    ],
)  # fmt: skip
def test_a_hook_of_the_wrong_thing_says_so(make: Callable[[Any], object], wrong: Any, match: str) -> None:
    """A path or a class in a store's place, and a number as text, are told at once, in one sentence."""
    refusal(InvalidInputError, make, wrong, match=match)


@pytest.mark.parametrize("make", [edgemem.MemoryInjectionHook, edgemem.EpisodeLoggerHook])
def test_a_store_has_two_names(make: Any, tmp_path: Path) -> None:
    """`store` is ours, `memory_store` EdgeVox's; given under both it is refused."""
    with edgemem.JSONMemoryStore(tmp_path / "m.json") as store:
        assert make(store).part.store is make(memory_store=store).part.store is store
        refusal(InvalidInputError, make, store, match="not both", memory_store=store)


def test_a_star_import_leaves_the_builtin_open_alone() -> None:
    """`edgemem.open` is there, and stays out of the names that a star import takes."""
    names: dict[str, Any] = {}
    exec("from edgemem import *", names)
    assert "open" not in names
    assert names["AgentLoop"] is edgemem.AgentLoop
    assert edgemem.open is not builtins.open
    assert "open" in dir(edgemem)


def test_a_function_becomes_a_hook() -> None:
    """As in EdgeVox: with two arguments or three, at its points and in the order of its priority."""
    order: list[str] = []

    @hook("before_llm", priority=80)
    def shorten(ctx: Any, payload: Any) -> HookResult:
        order.append("shorten")
        return HookResult.replace({**payload, "messages": payload["messages"][-1:]})

    @hook("before_llm", "on_run_start")
    def tap(point: str, ctx: Any, payload: Any) -> None:
        order.append(point)

    registry = HookRegistry([tap, shorten])
    ctx = TurnContext(Session())
    registry.fire("on_run_start", ctx, {"task": "hi"})
    fired = registry.fire("before_llm", ctx, {"messages": [1, 2], "hop": 0, "tools": []})
    assert fired.payload["messages"] == [2]
    assert order == ["on_run_start", "shorten", "before_llm"]
    assert (shorten.name, shorten.priority, tap.priority) == ("shorten", 80, 0)


@pytest.mark.parametrize("points", [(), ("before_breakfast",), (print,)])
def test_a_function_needs_points_that_exist(points: Any) -> None:
    """`@hook` without its points, or with wrong ones, names those that there are."""
    refusal(InvalidInputError, hook, *points, match="before_llm")


def test_small_names_of_the_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that changed only its import goes on finding its files, and begins new sessions."""
    monkeypatch.setenv("EDGEVOX_MEMORY_DIR", str(tmp_path))
    assert edgemem.default_memory_dir() == tmp_path
    monkeypatch.delenv("EDGEVOX_MEMORY_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert edgemem.default_memory_dir() == tmp_path / ".edgevox" / "memory"
    ids = {edgemem.new_session_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(len(each) == 12 and int(each, 16) >= 0 for each in ids)


class Bare:
    """A hook as EdgeVox takes it: no priority."""

    points = frozenset({ON_RUN_START})

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult:
        return HookResult.replace([*payload, "bare"], reason="bare")


def test_a_hook_without_a_priority_acts_at_0() -> None:
    """As in EdgeVox, where priority is optional, and registering returns the registry."""
    registry = HookRegistry().register(Doing(append("low"), priority=-1)).register(Bare())  # type: ignore[arg-type]
    registry.extend([Doing(append("high"), priority=1, points=(ON_RUN_START,))])  # type: ignore[arg-type]
    fired = registry.fire(ON_RUN_START, None, [])
    assert fired.payload == ["high", "bare", "low"]
    assert "bare" in fired.reason
    assert ON_RUN_START in registry
    assert BEFORE_LLM not in registry


def test_shipped_attachments_load_by_name() -> None:
    """Every file in hooks/ defines attach(), and is loaded once, also by an import: it knows what it is attached to."""
    from edgemem.attach import llama_cpp_loop

    assert load("llama_cpp_loop") is llama_cpp_loop
    others = {"langchain_loop", "openai_agents_loop"}  # tests/attach has these, with their frameworks
    assert others < set(available())
    for name in {*available()} - others:
        assert callable(load(name).attach)
        assert load(name) is load(name)


def test_a_file_of_the_operator_loads_by_path(tmp_path: Path) -> None:
    """A path to a Python file is enough; it is read each time, since its owner edits it."""
    file = tmp_path / "mine.py"
    for answer in ("mine", "mine, edited"):
        file.write_text(f"def attach():\n    return {answer!r}\n")
        assert load(file).attach() == answer


@pytest.mark.parametrize("name", ["no_such_loop", "/does/not/exist.py"])
def test_a_missing_hook_is_named(name: str) -> None:
    """The error says what there is."""
    refusal(ConfigError, load, name, match="llama_cpp_loop")


def test_a_hook_that_fails_while_loading_is_one_sentence(tmp_path: Path) -> None:
    """The file and the cause are named."""
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    refusal(ConfigError, load, file, match=r"broken\.py failed while loading: ZeroDivisionError")
