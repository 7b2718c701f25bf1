"""Loading hooks: a file by name or path, and what installed packages offer as entry points.

A hook is ordinary Python that runs with the robot's rights; so nothing is loaded that nobody asked for: no
folder is scanned, and entry points are looked at only when `load_entry_points` is called, as `edgemem check` does.
Hooks of EdgeVox and plain functions (`@hook`) act here too.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ConfigError, InvalidInputError
from edgemem.hooks.points import ON_RUN_START, POINTS, Hook, HookResult, unknown_points
from edgemem.hooks.registry import HookFailure, HookRegistry, hook_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


log = logging.getLogger("edgemem.hooks")

GROUPS = ("edgemem.hooks", "edgevox.hooks")
"""The entry point groups; hooks written for EdgeVox act here as they are."""

LOADING = "loading"
"""Stands for the point in a failure that happened before a hook could act."""


class LoadedHooks(msgspec.Struct, frozen=True):
    """What the entry points gave: hooks by the name of their entry point, and what failed."""

    hooks: dict[str, Hook]
    failures: tuple[HookFailure, ...] = ()


def hooks_folder() -> Path:
    """Return the folder of the attachments that come with edgemem."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "hooks"
    # In a checkout the folder beside the package is the living one; a wheel carries a copy inside.
    return checkout if (checkout / "llama_cpp_loop.py").is_file() else package / "_hooks"


def available() -> list[str]:
    """Return the names that `load` knows without a path."""
    return sorted(path.stem for path in hooks_folder().glob("*_loop.py"))


def load(name_or_path: str | Path) -> ModuleType:
    """Load an attachment such as `"llama_cpp_loop"`, once, or a hook file of the operator's own, each time anew.

    Raises:
        ConfigError: there is no such file, or it fails while it is loaded.
    """
    text = str(name_or_path)
    path = Path(text).expanduser()
    is_name = not (path.suffix == ".py" or "/" in text)
    if is_name:
        path = hooks_folder() / f"{text}.py"
    if not path.is_file():
        raise ConfigError(
            f"There is no hook {text!r}. Give the path of a .py file, or one of: {', '.join(available())}"
        )
    name = f"edgemem_hook_{path.stem}"
    loaded = sys.modules.get(name) if is_name else None
    if loaded is not None and loaded.__file__ == str(path):
        return loaded  # it knows what it is attached to
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickling look a module up by name
    try:
        # Compiled here, because a cache of bytecode does not notice a second edit within one second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - that is what loading is
    except (Exception, SystemExit) as error:  # a file that ends the program must not end the robot's
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise ConfigError(f"{path} failed while loading: {type(error).__name__}: {error}") from error
    return module


def load_entry_points(groups: Sequence[str] = GROUPS, *, only: Sequence[str] | None = None) -> LoadedHooks:
    """Load the hooks that installed packages offer; one that is broken is named and keeps no other from loading.

    An entry point is a hook, a class or function that returns one when it is called without arguments, or a list of
    such; those of a list are named `name`, `name.2` and so on.

    Args:
        groups: the entry point groups, in the order in which their hooks are registered.
        only: the names to load; None loads all. A name that is not there is a failure.
    """
    hooks: dict[str, Hook] = {}
    failures: dict[str, HookFailure] = {}

    def failed(name: str, message: str, package: str = "") -> None:
        count = failures[name].count + 1 if name in failures else 1
        message = f"{message} ({package})" if package else message
        failures[name] = HookFailure(name, LOADING, count, message)
        log.warning("the hook %s could not be loaded: %s", name, message)

    offers = _offers(groups, failed)
    # Sorted, because the order in which packages stand on the disk would else decide who acts first.
    points = [
        point
        for group in groups
        for point in sorted((offer for offer in offers if offer.group == group), key=lambda p: p.name)
    ]
    for point in points:
        if only is not None and point.name not in only:
            continue
        if point.name in hooks:
            failed(
                point.name,
                f"there is another hook of this name, so {point.value} was left out",
                _package(point),
            )
            continue
        try:
            offered = point.load()
            several = list(offered) if isinstance(offered, (list, tuple, HookRegistry)) else [offered]
            loaded = [_hook_from(item) for item in several]
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's package may raise anything; it is named
            failed(point.name, f"{type(error).__name__}: {error}", _package(point))
            continue
        for n, entry in enumerate(loaded, 1):
            hooks[point.name if n == 1 else f"{point.name}.{n}"] = entry
    names = {point.name for point in points}
    for name in sorted(set(only or ()) - names):
        failed(name, f"no installed package offers it; there are: {', '.join(sorted(names)) or 'none'}")
    return LoadedHooks(hooks, tuple(failures.values()))


def _offers(groups: Sequence[str], failed: Callable[[str, str], None]) -> list[EntryPoint]:
    """Return the entry points of installed packages; where not all can be read, package by package."""
    # Late: it reads mails, and with them half of the standard library, 10 ms of every start.
    from importlib.metadata import distributions, entry_points

    try:
        return [point for group in groups for point in entry_points(group=group)]
    except Exception:  # noqa: BLE001 - one package whose file is no text hides those of all others; it is named below
        offers: dict[str, list[EntryPoint]] = {}
    for package in distributions():
        name = str(getattr(package, "_path", "a package"))
        try:
            name = package.name
            # The first of two with one name is the one that Python imports.
            offers.setdefault(name, [point for point in package.entry_points if point.group in groups])
        except Exception as error:  # noqa: BLE001 - as above
            failed(name, f"its entry points cannot be read: {type(error).__name__}: {error}")
    return [point for points in offers.values() for point in points]


def _package(point: EntryPoint) -> str:
    """Return the package that offers an entry point, with its version."""
    try:
        return f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
    except Exception:  # noqa: BLE001 - a package that cannot say its name is told by that of its entry point
        return ""


def _hook_from(offered: Any) -> Hook:
    """Return an offered hook, made if it is not yet, or one that stands for it."""
    hook = offered
    if isinstance(offered, type) or (callable(offered) and not hasattr(offered, "points")):
        hook = offered()
    if not callable(hook) or not hasattr(hook, "points"):
        raise InvalidInputError(f"{hook!r} is not a hook: it needs `points` and to be callable")
    return hook if isinstance(hook, Hook) and not unknown_points(hook.points) else ForeignHook(hook)


class HookFile:
    """A Python file that defines `hook(memory)`, which returns the hook of one session.

    Args:
        path: loaded at once; raises ConfigError where that fails.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = 0
        self._make: Callable[[Any], object]
        self.load()

    def load(self) -> None:
        """Load the file, or, if that fails, go on with what was loaded before.

        Raises:
            ConfigError: the file is not there, fails, or defines no such function.
        """
        make = getattr(load(self.path), "hook", None)
        if not callable(make):
            raise ConfigError(f"{self.path} defines no function hook(memory); write one that returns a hook.")
        self._make = make
        self.version += 1

    def make(self, memory: Any) -> Hook:
        """Return a hook for a session of this memory."""
        hook = self._make(memory)
        made_by = f"What hook(memory) in {self.path} returns"
        if not isinstance(hook, Hook) or not callable(hook):
            raise ConfigError(f"{made_by} is no hook; it needs points, priority and __call__.")
        if unknown := unknown_points(hook.points):
            raise ConfigError(f"{made_by} names the {unknown}.")
        return hook


class OwnHook:
    """The newest version of a file's hook for one session; a new one begins with a turn.

    Order and failing closed are those of the first version: a registry has sorted it in.
    """

    points = POINTS

    def __init__(self, file: HookFile, memory: Any) -> None:
        self.name = file.path.stem
        self._file = file
        self._memory = memory
        self._version = file.version
        self._hook = file.make(memory)
        self.priority = self._hook.priority
        self.fail_closed = bool(getattr(self._hook, "fail_closed", False))

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Act as the file's hook does."""
        if point == ON_RUN_START and self._version != self._file.version:
            # Counted as taken before it is made: one that cannot be made is reported once, and the old one stays.
            self._version = self._file.version
            self._hook = self._file.make(self._memory)
        return self._hook(point, ctx, payload) if point in self._hook.points else None


class ForeignHook:
    """A hook that has no priority, or that names points of its own framework, which never come up here."""

    def __init__(self, hook: Any) -> None:
        self.points = frozenset(hook.points) & POINTS
        if not self.points:
            named = ", ".join(sorted(map(str, hook.points))) or "none"
            raise InvalidInputError(
                f"{type(hook).__name__} acts at points that do not exist here ({named}); there are: {', '.join(sorted(POINTS))}"
            )
        self.priority = int(getattr(hook, "priority", 0) or 0)
        self.fail_closed = bool(getattr(hook, "fail_closed", False))
        self.name = hook_name(hook)
        self._hook = hook

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Call the hook; the registry reads its answer whatever its class."""
        answer: HookResult | None = self._hook(point, ctx, payload)
        return answer


_WITH_POINT = 3  # arguments of a function that wants to know the point, before the context and the payload


class FunctionHook:
    """A function that acts at some points."""

    def __init__(self, act: Callable[..., HookResult | None], points: frozenset[str], priority: int) -> None:
        self.points = points
        self.priority = priority
        self.name = hook_name(act)
        self.__doc__ = act.__doc__
        self._act = act
        self._wants_point = len(inspect.signature(act).parameters) >= _WITH_POINT

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Call the function."""
        return self._act(point, ctx, payload) if self._wants_point else self._act(ctx, payload)


def hook(*points: str, priority: int = 0) -> Callable[[Callable[..., HookResult | None]], FunctionHook]:
    """Make a hook of a function that takes `(ctx, payload)` or `(point, ctx, payload)`.

    Args:
        points: where it acts, such as `"before_llm"`.
        priority: hooks of a higher one act first.

    Raises:
        InvalidInputError: no point is named, or one that does not exist.
    """
    if not points or not all(isinstance(point, str) for point in points):
        raise InvalidInputError(
            f'Name the points at which the hook acts, as in @hook("before_llm"); there are: {", ".join(sorted(POINTS))}'
        )
    if unknown := unknown_points(frozenset(points)):
        raise InvalidInputError(f"@hook names the {unknown}")

    def decorate(act: Callable[..., HookResult | None]) -> FunctionHook:
        return FunctionHook(act, frozenset(points), priority)

    return decorate
