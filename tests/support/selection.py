"""Which tests `make quick` runs: those that need no model, no server and no other process, as their code tells.

A test needs what a name in its code needs, what a function or fixture of its module needs that it names, and so on. What names do
not tell, such as a home that is opened with the default embedder, stands in a list; so do tests that take long.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
HEAVY_FIXTURES = {"edgevox", "edgevox_path", "llama_server", "minilm", "vocabularies"}
"""Fixtures of `conftest.py` that bring a model, a server or a program."""
HEAVY_IMPORTS = {
    "http", "llama_cpp", "multiprocessing", "nox", "pty", "socket", "socketserver", "subprocess",
    "click.testing", "edgemem.bench", "edgemem.llama.models.fetch", "lab", "support.servers",
}  # fmt: skip
"""What starts a process or a server, computes with a model, or measures."""
_SLOW = """
a_broken_index_costs_no_reply a_cell_that_holds_what_we_never_wrote_costs_nothing
a_closed_model_says_so a_fact_is_stored_or_refused_in_words a_forgotten_name_has_no_sound_any_more
a_forgotten_person_leaves_no_byte_and_others_stay a_forgotten_person_takes_their_last_conversation_along
a_forked_child_is_told_to_open_its_own a_kill_at_any_step_leaves_a_whole_file a_long_conversation_needs_no_more_memory_than_a_short_one
a_megabyte_of_speech_is_summarised_within_its_budget a_misheard_name_reaches_what_is_known_of_the_person
a_name_that_fell_stays_as_long_as_some_text_has_it a_name_that_is_known_is_taken_as_it_was_said
a_preference_is_recalled_before_and_after_it_is_indexed a_python_with_another_sqlite_is_refused
a_real_model_finds_facts
a_summary_repeats_no_tool_once_another_process_has_forgotten a_whole_home_is_taken_over_once
a_write_to_files_that_are_gone_is_refused_and_check_says_so
an_acknowledged_message_survives_a_kill
an_unknown_common_word_is_nobodys_name both_kinds_do_the_same each_turn_logs_one_line_of_figures
every_look_alike_is_seen_by_the_quick_checks every_prompt_is_whole_wherever_turns_are_cut
every_test_says_what_it_tests export_import_export_gives_the_same_bytes facts_agree_with_a_naive_model
forgetting_a_person_tells_where_the_name_still_stands growth_and_lag_follow_the_clock
it_is_erased_from_the_index_blocks_tool_results_and_backups it_is_what_plain_python_says
llama_embed_puts_prefixes_before_questions_and_texts
llama_embed_refuses_a_model_that_gives_no_vector_of_a_text llama_embed_takes_text_of_any_length
many_threads_ask_while_another_writes memory_finds_what_the_file_does
of_hundreds_of_versions_that_of_the_month_is_first
private_talk_is_no_session_for_others the_tool_forgets_an_episode_by_the_name_that_it_was_found_under
the_tool_forgets_nothing_that_the_speaker_may_not_erase
vectors_are_written_with_the_rows_that_they_belong_to what_compaction_writes_is_recalled
what_held_within_a_time_is_what_of_all_meets_it
what_was_closed_since_it_was_indexed_is_not_recalled what_was_lived_through_leaves_no_byte whatever_a_tool_gets_and_returns_the_turn_is_kept
"""
SLOW_TESTS = {f"test_{name}" for name in re.findall(r"\w+", _SLOW)}
"""Tests that open the default model, or start a process, without a name in their module that tells it, or take half a second."""
HEAVY_EVENTS = {"os.fork", "os.posix_spawn", "os.system", "socket.bind", "socket.connect", "subprocess.Popen"}
"""What Python tells its audit hooks when a process begins or somebody speaks to a server."""
MODEL = "all-minilm-l6-v2-q8_0.gguf"
"""The file of the default embedder, which a home opens unless its profile says otherwise."""
LONG = bool(os.environ.get("EDGEMEM_LONG"))  # whether this is `make test-long`


class Watch:
    """Lets a test of `make quick` fail that opens the model, starts a process or speaks to a server after all."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if event in HEAVY_EVENTS or (event == "open" and str(args[0]).endswith(MODEL)):
            self._seen.append(event)

    def pytest_collection_finish(self) -> None:
        """Forget what imports did."""
        self._seen.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Blame the test that has just run."""
        yield
        seen, self._seen = self._seen, []
        assert not seen, (
            f"{item.name} is no quick test ({', '.join(seen)}): support.homes.BY_WORDS is a profile without a model"
        )


def is_quick(item: pytest.Function) -> bool:
    """Tell whether a test belongs to `make quick`."""
    if item.get_closest_marker("long") is not None or not HEAVY_FIXTURES.isdisjoint(item.fixturenames):
        return False
    return item.originalname not in SLOW_TESTS | heavy_names(item.path)


@cache
def heavy_names(path: Path) -> frozenset[str]:
    """Return the names at the top of a module whose code needs a model, a server or another process."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    defined = (node for node in module.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    uses = {node.name: _used(node) for node in defined}
    for node in module.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            uses |= {name.id: _used(node) for name in names}
    heavy = HEAVY_FIXTURES | {name for node in module.body for name in _heavy_imports(node)}
    while more := {name for name, used in uses.items() if name not in heavy and used & heavy}:
        heavy |= more
    return frozenset(heavy)


def _used(node: ast.AST) -> set[str]:
    """Return the names that stand in some code; arguments too, since they name fixtures."""
    used: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            used.add(part.id)
        elif isinstance(part, ast.arg):
            used.add(part.arg)
        elif _heavy_imports(part):
            used |= HEAVY_FIXTURES
    return used


def _heavy_imports(node: ast.AST) -> set[str]:
    """Return the names that a statement imports and that are heavy."""
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names if _is_heavy(alias.name)}
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return set()
    neighbour = TESTS / f"{node.module.replace('.', '/')}.py"
    heavy = heavy_names(neighbour) if neighbour.is_file() else frozenset()
    return {item.asname or item.name for item in node.names if _is_heavy(node.module) or item.name in heavy}


def _is_heavy(module: str) -> bool:
    return any(f"{module}.".startswith(f"{heavy}.") for heavy in HEAVY_IMPORTS)


def cases(full: int) -> int:
    """Return how many of the `full` cases of a long test to try now: all, or a twentieth."""
    return full if LONG else max(1, full // 20)
