"""JSON stores: files that a person can read; a damaged one is set aside and never overwritten.

`files` replaces a file in one step, `lines` adds to one, and `sessions` keeps conversations in both.
"""
