"""Loading hooks: an attachment by name, or a hook file of the operator's own by path; and plain functions as hooks.

A hook is Python that runs with the robot's rights, so nothing is loaded that nobody asked for, and no folder is scanned.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from edgemem.config import read_file
from edgemem.errors import ConfigError, InvalidInputError
from edgemem.session.points import (
    ON_RUN_START,
    POINTS,
    Hook,
    HookResult,
    hook_name,
    traits_of,
    unknown_points,
)


def hooks_folder() -> Path:
    """Return the folder of edgemem's attachments: `edgemem.attach`, in a checkout a link to the folder beside the package."""
    return Path(__file__).resolve().parent.parent / "attach"


def available() -> list[str]:
    """Return the names that `load` knows without a path."""
    return sorted(path.stem for path in hooks_folder().glob("*_loop.py"))


def load(name_or_path: str | Path, *, home: Path | None = None) -> ModuleType:
    """Load an attachment such as `"llama_cpp_loop"`, once, or an operator's hook file, each time anew, or raise ConfigError.

    A hook file is no link, and only we, root and the owner of `home` (None: of its folder) may have written it.
    """
    text = str(name_or_path)
    path = Path(text).expanduser()
    is_name = not (path.suffix == ".py" or "/" in text)
    if is_name:
        path = hooks_folder() / f"{text}.py"
    name = f"edgemem.attach.{path.stem}" if is_name else f"edgemem_hook_{path.stem}"
    before = sys.modules.get(name)
    if is_name and before is not None:
        return before  # it knows what it is attached to
    try:
        code = path.read_bytes() if is_name else read_file(path, links=False, home=home or path.parent)
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no hook {text!r}. Give the path of a .py file, or one of: {', '.join(available())}"
        ) from error
    except OSError as error:
        raise ConfigError(f"The hook {path} cannot be read ({error.strerror}); mend the file.") from error
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a module up by name
    try:
        # Compiled here, because a cache of bytecode does not notice a second edit within one second.
        exec(compile(code, str(path), "exec"), module.__dict__)  # noqa: S102 - that is what loading is
    except (Exception, SystemExit) as error:  # a file that ends the program must not end the robot's
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise ConfigError(f"{path} failed while loading: {type(error).__name__}: {error}") from error
    return module


class HookFile:
    """A Python file that defines `hook(memory)`, which returns the hook of one session; it is loaded at once."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self._home = home
        self.version = 0
        self._make: Callable[[Any], object]
        self.load()

    def load(self) -> None:
        """Load the file, or raise ConfigError and go on with the version loaded before."""
        make = vars(load(self.path, home=self._home)).get("hook")
        if not callable(make):
            raise ConfigError(f"{self.path} defines no function hook(memory); write one that returns a hook.")
        self._make = make
        self.version += 1

    def make(self, memory: Any) -> Hook:
        """Return a hook for a session of this memory."""
        try:
            hook = self._make(memory)
        except Exception as error:
            raise ConfigError(f"hook(memory) in {self.path} failed: {error!r}") from error
        made_by = f"What hook(memory) in {self.path} returns"
        if not isinstance(hook, Hook) or not callable(hook):
            raise ConfigError(f"{made_by} is no hook; it needs points, priority and __call__.")
        try:
            unknown = unknown_points(traits_of(hook).points)
        except InvalidInputError as error:
            raise ConfigError(f"{made_by} cannot be used: {error}.") from error
        if unknown:
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
        self.fail_closed = bool(traits_of(self._hook).fail_closed)

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Act as the file's hook does."""
        if point == ON_RUN_START and self._version != self._file.version:
            # Counted as taken before it is made: one that cannot be made is reported once, and the old one stays.
            self._version = self._file.version
            self._hook = self._file.make(self._memory)
        return self._hook(point, ctx, payload) if point in self._hook.points else None


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
    """Make a hook of a function of `(ctx, payload)` or `(point, ctx, payload)` that acts at points such as `"before_llm"`.

    Hooks of a higher priority act first. No point, or one that does not exist, raises InvalidInputError.
    """
    if not points or not all(isinstance(point, str) for point in points):
        raise InvalidInputError(
            f'Name the points at which the hook acts, as in @hook("before_llm"); there are: {", ".join(sorted(POINTS))}'
        )
    if unknown := unknown_points(frozenset(points)):
        raise InvalidInputError(f"@hook names the {unknown}")
    return lambda act: FunctionHook(act, frozenset(points), priority)
