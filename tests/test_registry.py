"""The registry: order, isolation, and who has the last word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgemem.errors import InvalidInputError
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_END, ON_RUN_START, Hook, HookResult
from edgemem.hooks.registry import HookRegistry, ending


class Doing:
    """A hook that does what a test says."""

    def __init__(
        self, do: Callable[[Any], HookResult | None], *, points: set[str] | None = None, priority: int = 0
    ) -> None:
        self.points = frozenset(points or {ON_RUN_START})
        self.priority = priority
        self.do = do

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        return self.do(payload)


def broken(payload: Any) -> HookResult | None:
    raise RuntimeError("disk on fire")


def append(name: str) -> Callable[[Any], HookResult]:
    return lambda payload: HookResult.replace([*payload, name])


def test_priority_comes_before_registration() -> None:
    """Higher priority acts first; equals act in the order they came in."""
    registry = HookRegistry([Doing(append("a")), Doing(append("b"), priority=5), Doing(append("c"))])
    assert registry.fire(ON_RUN_START, None, []).payload == ["b", "a", "c"]


def test_each_hook_sees_what_the_one_before_left() -> None:
    """Replaced payloads are handed on, and an unchanged fire says so."""
    registry = HookRegistry([Doing(lambda p: None), Doing(lambda p: HookResult.cont())])
    fired = registry.fire(ON_RUN_START, None, [1])
    assert fired.is_continue
    assert fired.payload == [1]


def test_the_first_that_ends_the_turn_wins() -> None:
    """Later hooks are not called once one has ended the turn."""
    called: list[str] = []
    registry = HookRegistry(
        [Doing(lambda p: HookResult.end("no")), Doing(lambda p: called.append("late"))]  # type: ignore[func-returns-value]
    )
    fired = registry.fire(ON_RUN_START, None, [])
    assert (fired.is_end, fired.payload, called) == (True, "no", [])


def test_a_failing_hook_is_isolated_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The others go on, and the failure is there for `edgemem check`."""
    registry = HookRegistry([Doing(broken, priority=1), Doing(append("ok"))])
    for _ in range(3):
        assert registry.fire(ON_RUN_START, None, []).payload == ["ok"]
    (failure,) = registry.failures()
    assert (failure.count, failure.point) == (3, ON_RUN_START)
    assert "disk on fire" in failure.message
    assert len(caplog.records) == 1


def test_a_safety_hook_fails_closed() -> None:
    """A hook registered as fail_closed ends the turn when it raises."""
    registry = HookRegistry()
    registry.register(Doing(broken), fail_closed=True)
    assert registry.fire(ON_RUN_START, None, []).is_end


def test_every_hook_hears_of_the_end() -> None:
    """At on_run_end nobody can keep the others from being called, and an error changes nothing."""
    heard: list[str] = []
    registry = HookRegistry(
        [
            Doing(lambda p: HookResult.end("mine"), points={ON_RUN_END}),
            Doing(broken, points={ON_RUN_END}),
            Doing(heard.append, points={ON_RUN_END}),
        ]
    )
    with pytest.raises(KeyError), ending(registry, None, ["bye"]):
        raise KeyError("model died")
    assert heard == ["bye"]


def test_an_unknown_point_is_refused() -> None:
    """A misspelt point is named when the hook is registered."""
    with pytest.raises(InvalidInputError, match="befor_llm"):
        HookRegistry([Doing(lambda p: None, points={"befor_llm"})])


def test_a_copy_shares_hooks_and_not_failures() -> None:
    """A copied registry can be extended without changing the first."""
    first = HookRegistry([Doing(broken)])
    first.fire(ON_RUN_START, None, [])
    twin = first.copy()
    twin.register(Doing(lambda p: None, points={BEFORE_LLM}))
    assert (len(first), len(twin), twin.failures()) == (1, 2, [])
    assert all(isinstance(hook, Hook) for hook in twin)


def test_lists_are_merged_by_priority_then_by_registration() -> None:
    """An agent's hooks do not all act before a context's: priority decides across both (EdgeVox: H402, A417)."""
    agent = [Doing(append("agent 0")), Doing(append("agent 60"), priority=60)]
    context = HookRegistry([Doing(append("context 80"), priority=80), Doing(append("context 0"))])
    context.register(Doing(append("context raised")), priority=70)
    merged = HookRegistry.merged(agent, context)
    assert merged.fire(ON_RUN_START, None, []).payload == [
        "context 80",
        "context raised",
        "agent 60",
        "agent 0",
        "context 0",
    ]


def test_a_hook_of_two_lists_acts_once() -> None:
    """The same hook in the agent's and in the context's list is one hook, and later changes stay apart."""
    shared = Doing(append("shared"))
    agent = HookRegistry([shared])
    merged = HookRegistry.merged(agent, [shared, Doing(append("other"))], [])
    agent.register(Doing(append("late")))
    assert merged.fire(ON_RUN_START, None, []).payload == ["shared", "other"]


def test_a_safety_hook_stays_one_when_it_is_merged_or_copied() -> None:
    """What was registered as fail_closed still ends the turn."""
    agent = HookRegistry()
    agent.register(Doing(broken), fail_closed=True)
    for registry in (agent.copy(), HookRegistry.merged([], agent), HookRegistry(agent)):
        assert registry.fire(ON_RUN_START, None, []).is_end


def test_what_guards_safety_in_one_list_guards_it_in_all() -> None:
    """A hook that was registered as fail_closed anywhere ends the turn, although another list came first."""
    guard = Doing(broken)
    agent = HookRegistry().register(guard, fail_closed=True)
    assert HookRegistry.merged([guard], agent).fire(ON_RUN_START, None, []).is_end


class Bare:
    """A hook as EdgeVox takes it: no priority."""

    points = frozenset({ON_RUN_START})

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult:
        return HookResult.replace([*payload, "bare"], reason="bare")


def test_a_hook_without_a_priority_acts_at_0() -> None:
    """As in EdgeVox, where priority is optional, and registering returns the registry."""
    registry = HookRegistry().register(Doing(append("low"), priority=-1)).register(Bare())  # type: ignore[arg-type]
    registry.extend([Doing(append("high"), priority=1)])
    fired = registry.fire(ON_RUN_START, None, [])
    assert fired.payload == ["high", "bare", "low"]
    assert "bare" in fired.reason
    assert ON_RUN_START in registry
    assert BEFORE_LLM not in registry


@pytest.mark.parametrize("thing", [object(), lambda: None, "hook", None])
def test_what_is_no_hook_is_refused(thing: Any) -> None:
    """The error says what a hook needs."""
    with pytest.raises(InvalidInputError, match="is no hook"):
        HookRegistry().register(thing)


def test_firing_a_misspelt_point_is_refused() -> None:
    """A loop that fires a point that nobody could ever act at is told so."""
    with pytest.raises(InvalidInputError, match="no point 'on_run_strat'"):
        HookRegistry().fire("on_run_strat", None, {})


class Answer:
    """A result of another framework."""

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


@pytest.mark.parametrize(
    "answer", ["a string", HookResult.replace(None), HookResult.replace("text"), object()]
)
def test_an_answer_of_the_wrong_kind_is_a_failure(answer: Any) -> None:
    """A hook that answers nonsense is isolated like one that raises: the loop gets its payload."""
    registry = HookRegistry([Doing(lambda p: answer, points={BEFORE_LLM})])
    assert registry.fire(BEFORE_LLM, None, {"messages": [1]}).payload == {"messages": [1]}
    (failure,) = registry.failures()
    assert "InvalidInputError: it " in failure.message
