"""Fail where modules import one another in a circle, imports for types included; import-linter does not see those.

usage: circles.py FOLDER ...
"""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path


def modules(root: Path) -> dict[str, Path]:
    """Return the modules of a package by their dotted names."""
    paths = sorted(root.rglob("*.py"))
    names = (".".join(path.relative_to(root.parent).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports, wherever in it; its own package is none."""
    targets = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            targets.update(inner & known.keys() or {node.module})
    return {target for target in targets if target in known and not f"{name}.".startswith(f"{target}.")}


def main(folders: list[str]) -> int:
    """Look at each folder, and return 1 where there is a circle."""
    for folder in folders:
        known = modules(Path(folder).resolve())
        try:
            TopologicalSorter({name: imported(name, path, known) for name, path in known.items()}).prepare()
        except CycleError as error:
            print(
                f"Modules import one another in a circle: {' -> '.join(error.args[1])}. Move what both need below them."
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
