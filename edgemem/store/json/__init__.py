"""JSON stores: files that a person can read; a damaged one is set aside and never overwritten.

`memory` keeps facts, preferences and episodes, `sessions` conversations; `records` says what stands in the file of a
memory. `files` replaces a file in one step, `lines` adds to one.
"""
