"""What the model sees: the prompt of a session, and what memory puts into it within an exact token budget.

`prompt` holds the turns, `block` chooses and writes what memory says, `compaction` puts summaries in place of old turns.
`budget` divides the window and `size` measures a prompt; `messages`, `sentences` and `bargein` take messages apart;
`level` tells who may read a turn. Text that a model has seen is never changed between two compactions (law 2).
"""
