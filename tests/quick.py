"""Which tests `make quick` runs: those that need no model, no server and no other process, as their code tells.

A test needs what a name in its code needs, what a function or fixture of its module needs that it names, and so on. What names do
not tell, such as a home that is opened with the default embedder, stands in a list; so do tests that take long.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
HEAVY_FIXTURES = {"edgevox", "edgevox_path", "llama_server", "minilm", "vocabularies"}
"""Fixtures of `conftest.py` that bring a model, a server or a program."""
HEAVY_IMPORTS = {
    "broken_server", "edgevox_agent", "http", "llama_cpp", "multiprocessing", "nox", "pty", "socket", "socketserver", "subprocess",
    "click.testing", "edgemem.bench", "edgemem.llama.models.fetch", "lab",
}  # fmt: skip
"""What starts a process or a server, computes with a model, or measures."""
HEAVY_TESTS = {
    "test_09_a_real_model_gets_its_prefixes",
    "test_a_changed_pin_is_installed",
    "test_a_child_that_was_forked_lets_the_file_be",
    "test_a_closed_model_says_so",
    "test_a_forgotten_fact_is_erased_from_the_blocks_that_showed_it",
    "test_a_forgotten_name_has_no_sound_any_more",
    "test_a_forgotten_person_leaves_no_byte_and_others_stay",
    "test_a_forgotten_preference_is_gone_from_the_index",
    "test_a_forked_child_is_told_to_open_its_own",
    "test_a_misheard_name_reaches_what_is_known_of_the_person",
    "test_a_name_that_fell_stays_as_long_as_some_text_has_it",
    "test_a_name_that_is_known_is_taken_as_it_was_said",
    "test_a_preference_is_recalled_before_and_after_it_is_indexed",
    "test_a_preference_reaches_the_model",
    "test_a_preference_that_changed_is_recalled_with_its_new_value_only",
    "test_a_python_with_another_sqlite_is_refused",
    "test_a_real_model_finds_facts",
    "test_a_set_up_that_broke_off_goes_on_where_it_was",
    "test_cmake_args_build_and_install_another_wheel",
    "test_each_turn_logs_one_line_of_figures",
    "test_functions_of_one_model_take_turns",
    "test_growth_and_lag_follow_the_clock",
    "test_hooks_and_recall_know_a_speaker_however_the_name_is_written",
    "test_it_is_erased_from_the_index_blocks_tool_results_and_backups",
    "test_llama_embed_puts_prefixes_before_questions_and_texts",
    "test_llama_embed_refuses_a_model_that_gives_no_vector_of_a_text",
    "test_llama_embed_takes_text_of_any_length",
    "test_only_the_tests_build_a_server",
    "test_private_talk_is_no_session_for_others",
    "test_the_tool_forgets_an_episode_by_the_name_that_it_was_found_under",
    "test_the_tool_forgets_nothing_that_the_speaker_may_not_erase",
    "test_two_people_are_kept_apart_by_the_profile",
    "test_two_spellings_become_one_person",
    "test_what_was_closed_since_it_was_indexed_is_not_recalled",
    "test_whatever_happens_a_forgotten_value_stands_nowhere",
}
"""Tests that load the default model, or start a process, without a name in their module that tells it."""
LONG_TESTS = {
    "test_15_a_locked_file_costs_no_reply",
    "test_a_broken_index_costs_no_reply",
    "test_a_cell_that_holds_what_we_never_wrote_costs_nothing",
    "test_a_damaged_index_costs_no_answer",
    "test_a_damaged_session_is_set_aside_and_never_overwritten",
    "test_a_fact_is_stored_or_refused_in_words",
    "test_a_key_of_a_name_has_itself_as_its_key",
    "test_a_long_conversation_needs_no_more_memory_than_a_short_one",
    "test_a_megabyte_of_speech_is_summarised_within_its_budget",
    "test_a_question_is_known_in_each_language",
    "test_a_summary_repeats_no_tool_of_the_memory_once_another_process_has_forgotten",
    "test_a_time_that_is_none_is_refused",
    "test_a_turn_costs_the_same_after_ten_thousand",
    "test_a_whole_home_is_taken_over_once",
    "test_a_write_to_files_that_are_gone_is_refused_and_check_says_so",
    "test_any_visible_name_is_a_session_of_its_own",
    "test_cleaning_twice_changes_nothing",
    "test_endless_template",
    "test_every_look_alike_is_seen_by_the_quick_checks",
    "test_every_prompt_is_whole_wherever_turns_are_cut",
    "test_every_test_says_what_it_tests",
    "test_export_import_export_gives_the_same_bytes",
    "test_facts_agree_with_a_naive_model",
    "test_history_holds_what_was_heard_of_each_speech",
    "test_it_is_what_plain_python_says",
    "test_late_turns_write_no_more_than_early_ones",
    "test_many_threads_ask_while_another_writes",
    "test_memory_finds_what_the_file_does",
    "test_nearly_all_true_neighbours_are_found",
    "test_no_summary_has_it",
    "test_nothing_was_told_then",
    "test_of_three_thousand_versions_that_of_the_month_is_first",
    "test_only_a_yes_is_a_yes",
    "test_the_answer_is_found_behind_any_number_of_questions",
    "test_the_date_of_a_question_chooses_the_version",
    "test_the_file_scores_as_memory_does",
    "test_the_next_cut_is_far",
    "test_the_next_prompt_has_what_was_heard",
    "test_the_order_of_messages_does_not_matter",
    "test_the_prompt_is_that_of_the_committed_history",
    "test_the_reply_that_plays_is_cut_and_the_prepared_turn_goes_on",
    "test_the_whole_text_can_be_read_in_pieces",
    "test_vectors_are_written_with_the_rows_that_they_belong_to",
    "test_what_compaction_writes_is_recalled",
    "test_what_held_within_a_time_is_what_of_all_meets_it",
    "test_what_is_doubted_does_not_depend_on_the_store",
    "test_what_is_far_behind_is_not_compared",
    "test_what_is_found_is_what_comparing_all_finds",
    "test_what_is_no_sentence_is_left_alone",
    "test_what_is_private_leaves_no_trace_in_a_score",
    "test_what_joins_may_be_read",
    "test_what_no_store_can_take_is_one_sentence",
    "test_what_somebody_said_in_private_changes_nothing_for_others",
    "test_what_was_last_of_three_thousand_versions",
    "test_what_was_saved_last_is_what_is_loaded",
    "test_what_was_told_then_is_found",
    "test_whatever_a_tool_gets_and_returns_the_turn_is_kept",
    "test_whatever_is_called_there_is_an_answer",
    "test_who_asks_how_it_changed_gets_every_value",
    "test_who_looks_for_a_phrase_finds_it",
    "test_who_may_read_what_is_what_sql_says",
    "test_whoever_is_said_to_speak_the_turn_is_kept",
    "test_without_a_good_backup_such_a_robot_begins_empty_and_says_so",
}
"""Tests that take more than half a second, all their cases together."""


def is_quick(item: pytest.Function) -> bool:
    """Tell whether a test belongs to `make quick`."""
    if item.get_closest_marker("long") is not None or not HEAVY_FIXTURES.isdisjoint(item.fixturenames):
        return False
    return item.originalname not in HEAVY_TESTS | LONG_TESTS | heavy_names(item.path)


@cache
def heavy_names(path: Path) -> frozenset[str]:
    """Return the names at the top of a module whose code needs a model, a server or another process."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    uses = {
        node.name: _used(node) for node in module.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    for node in module.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            uses |= {
                name.id: _used(node)
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
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
    neighbour = TESTS / f"{node.module}.py"
    heavy = heavy_names(neighbour) if neighbour.is_file() else frozenset()
    return {
        alias.asname or alias.name for alias in node.names if _is_heavy(node.module) or alias.name in heavy
    }


def _is_heavy(module: str) -> bool:
    return any(f"{module}.".startswith(f"{heavy}.") for heavy in HEAVY_IMPORTS)
