"""Loading an attachment by name or path: only what is named, never a folder scan.

A hook file is ordinary Python that runs with the robot's rights; so nothing is loaded that nobody asked for.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from edgemem.errors import ConfigError


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
    """Load an attachment such as `"llama_cpp_loop"` or a hook file of the operator's own.

    Raises:
        ConfigError: there is no such file, or it fails while it is loaded.
    """
    text = str(name_or_path)
    path = Path(text).expanduser()
    if not (path.suffix == ".py" or "/" in text):
        path = hooks_folder() / f"{text}.py"
    if not path.is_file():
        raise ConfigError(
            f"There is no hook {text!r}. Give the path of a .py file, or one of: {', '.join(available())}"
        )
    name = f"edgemem_hook_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path} failed while loading: {type(error).__name__}: {error}") from error
    return module
