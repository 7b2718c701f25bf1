"""The command line in this process, as the tests of commands call it."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from edgemem.cli import main

ROOT = Path(__file__).resolve().parents[2]


def run(*args: object, **settings: Any) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(arg) for arg in args], **settings)


def json_of(*args: object) -> Any:
    """Return what a command prints as JSON."""
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(result: Result) -> str:
    """Return the one sentence of a command that failed."""
    assert isinstance(result.exception, SystemExit), result.output
    return one_sentence(result.exit_code, result.stdout, result.stderr)


def one_sentence(code: int, out: str, err: str) -> str:
    """Return the sentence of a command that failed as it should."""
    assert code == 1, out + err
    assert "Traceback" not in out + err
    (line,) = err.splitlines()
    assert line.startswith("edgemem: ")
    return line
