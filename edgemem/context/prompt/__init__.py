"""The prompt of a session: a log of turns that only grows within an epoch.

`log` is the prompt, `turn` one turn of it, and `history` tells the messages that a loop hands over apart by their turns.
Nothing here decides what memory says; that is `edgemem.context.block`.
"""
