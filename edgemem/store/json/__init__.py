"""JSON stores: files that a person can read; a damaged one is set aside and never overwritten.

`memory` keeps facts, preferences and episodes, `sessions` conversations and the lines beside them; `records` is
the form of a memory's file. `files` reads and replaces one file.
"""
