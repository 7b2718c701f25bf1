"""Loading hooks: a file by name or path, and what installed packages offer as entry points.

A hook is ordinary Python that runs with the robot's rights; so nothing is loaded that nobody asked for: no
folder is scanned, and entry points are looked at only when `load_entry_points` is called, as `edgemem check` does.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ConfigError, InvalidInputError
from edgemem.hooks.foreign import adapted
from edgemem.hooks.points import Hook
from edgemem.hooks.registry import HookFailure, HookRegistry

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
    found = [
        point
        for group in groups
        for point in sorted((each for each in offers if each.group == group), key=lambda p: p.name)
    ]
    for point in found:
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
            made = [adapted(_made(each)) for each in several]
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's package may raise anything; it is named
            failed(point.name, f"{type(error).__name__}: {error}", _package(point))
            continue
        for n, each in enumerate(made, 1):
            hooks[point.name if n == 1 else f"{point.name}.{n}"] = each
    names = {point.name for point in found}
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


def _made(offered: Any) -> Any:
    made = offered
    if isinstance(offered, type) or (callable(offered) and not hasattr(offered, "points")):
        made = offered()
    if not callable(made) or not hasattr(made, "points"):
        raise InvalidInputError(f"{made!r} is not a hook: it needs `points` and to be callable")
    return made
