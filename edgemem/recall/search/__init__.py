"""Searching: the rows that may be found, their words in memory, and what of a question stands in which of them.

One table holds what is indexed and what is not yet; words are counted in postings, meaning comes from the vectors of the index. What
may be changed: how candidates are found. How they are ordered is `recall.rank`.
"""
