"""The prompt of a session: a log of turns that only grows within an epoch.

`log` is the prompt, and `turn` one turn of it.
Nothing here decides what memory says; that is `edgemem.context.block`.
"""
