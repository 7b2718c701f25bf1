"""Compaction: which turns leave the prompt (`planner`; `compactor` for a plain list), and the summary in their place."""
