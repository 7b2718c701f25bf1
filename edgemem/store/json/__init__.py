"""JSON stores: files that a person can read; a damaged one is set aside and never overwritten.

`memory` keeps facts, preferences and episodes, in the form of `records`; `sessions` conversations; `files` replaces a file.
"""
