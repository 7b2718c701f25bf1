"""Compaction: which turns leave the prompt, and the summary that replaces them.

`planner` decides when a session's next epoch begins; `extractive` and `model` write its summary. `compactor` does the same for
a plain message list, without a session.
"""
