"""`edgemem replay`: a written conversation through the loop with every default hook."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgemem.cli.options import home_and_json, open_home
from edgemem.cli.printing import count, plain, print_json, print_table, progress
from edgemem.errors import InvalidInputError
from edgemem.fence import check_session_id
from edgemem.inspect.script import Line, Question, is_locomo, read_locomo, read_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.memory import Memory
    from edgemem.records import Recalled

CATEGORIES = {0: "lines with evidence", 1: "several turns", 2: "time", 3: "common sense", 4: "one turn"}
"""What LoCoMo's numbers mean; 0 stands for the lines of a script."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--sample", help="Which conversation of a LoCoMo file; default: its first.")
@click.option(
    "--k", default=10, show_default=True, type=click.IntRange(1, 1000), help="How many recalled items count."
)
@click.option("--session", help="Play everything as one conversation of this name.")
@home_and_json
def replay(file: Path, sample: str | None, k: int, session: str | None, home: Path, as_json: bool) -> None:
    """Play FILE, a JSON-lines script or a LoCoMo file, into the memory, as if it were said now.

    The times of the script become event times. Afterwards the questions that the file brings are asked, and recall
    is measured: the share of each question's evidence among the first K items, averaged. Exit code 1 if what a line
    must or must not be shown is otherwise, or a hook fails.
    """
    from edgemem.cli.demo import find_tokenizer
    from edgemem.inspect.replay import Player

    lines, questions = _read(file, sample)
    if session is not None:
        check_session_id(session)
        lines = [msgspec.structs.replace(line, session=session) for line in lines]
    tokenizer = find_tokenizer()
    with (
        closing(tokenizer) if tokenizer else nullcontext(),
        open_home(home, tokenizer=tokenizer, worker=False) as memory,
    ):
        taken = sorted({line.session for line in lines} & set(memory.sessions.list_ids()))
        if taken:
            raise InvalidInputError(
                f"{memory.home} holds session {taken[0]!r} already; give --home a new folder."
            )
        player = Player(memory)
        with progress(player.play(lines), "playing", len(lines)) as turns:
            played = list(turns)
        report: dict[str, Any] = {
            "turns": len(played),
            "messages": sum(1 + bool(line.reply) for line in lines),
            "sessions": len({line.session for line in lines}),
            "checks": sum(len(line.must) + len(line.must_not) for line in lines),
            "checks_failed": sum(len(turn.missing) + len(turn.leaked) for turn in played),
            "tokens_evaluated": sum(turn.new_tokens for turn in played),
            "tokens_memory": sum(turn.block_tokens for turn in played),
            "longest_prompt": max(turn.tokens for turn in played),
            "exact_tokens": memory.tokenizer.exact,
            "hook_failures": list(player.failures),
            "questions": len(questions),
        }
        if questions:
            memory.sessions.journal.settle()  # on a slow disk the last turns may still be on their way
            report |= measure(memory, lines, questions, k=k)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report["checks_failed"] or report["hook_failures"]:
        sys.exit(1)


def _print(report: dict[str, Any]) -> None:
    figures = {name.replace("_", " "): value for name, value in report.items() if not isinstance(value, list)}
    rows = [
        (name, f"{value:.3f}" if isinstance(value, float) else f"{value:,}")
        for name, value in figures.items()
    ]
    print_table(("", "figure"), rows)
    for failure in report["hook_failures"]:
        click.secho(
            f"{failure.hook} failed {count(failure.count, 'time')}: {plain(failure.message)}", fg="red"
        )
    if report["questions"]:
        print_table(
            ("questions about", "n", f"recall@{report['k']}"),
            ((n, str(c), f"{r:.3f}") for n, c, r in report["by_kind"]),
        )


def measure(
    memory: Memory, lines: Sequence[Line], questions: Sequence[Question], *, k: int
) -> dict[str, Any]:
    """Ask each question and return the share of its evidence that recall finds."""
    places = _places(lines)
    shares: dict[int, list[float]] = defaultdict(list)
    with progress(questions, "asking", len(questions)) as asked:
        for question in asked:
            evidence = [places[id_] for id_ in question.evidence if id_ in places]
            if not evidence:
                continue
            items = memory.recall(question.text, k=k)
            hits = sum(any(_holds(item, *place) for item in items) for place in evidence)
            shares[question.category].append(hits / len(evidence))
    every = [share for group in shares.values() for share in group]
    return {
        "asked": len(every),
        "k": k,
        "recall": sum(every) / max(1, len(every)),
        "recall_all": sum(share == 1 for share in every) / max(1, len(every)),
        "recall_any": sum(share > 0 for share in every) / max(1, len(every)),
        "by_kind": [(CATEGORIES.get(c, str(c)), len(g), sum(g) / len(g)) for c, g in sorted(shares.items())],
    }


def _read(file: Path, sample: str | None) -> tuple[list[Line], list[Question]]:
    if is_locomo(file):
        return read_locomo(file, sample)
    if sample is not None:
        raise InvalidInputError(f"{file.name} is a script; --sample is for LoCoMo files.")
    lines = read_script(file)
    return lines, [Question(line.say, line.evidence, 0) for line in lines if line.evidence]


def _places(lines: Sequence[Line]) -> dict[str, tuple[str, int, str]]:
    """Return session, turn and words of each id."""
    places: dict[str, tuple[str, int, str]] = {}
    turns: dict[str, int] = defaultdict(int)
    for line in lines:
        n = turns[line.session]
        turns[line.session] += 1
        places[line.id] = (line.session, n, line.say)
        places[line.reply_id] = (line.session, n, line.reply)
    places.pop("", None)
    return places


def _holds(item: Recalled, session: str, turn: int, words: str) -> bool:
    """Tell whether a recalled item carries these words: the turn alone does not do, its text has to."""
    return (item.session, item.turn) == (session, turn) and _letters(words)[:60] in _letters(item.text)


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text.lower())
