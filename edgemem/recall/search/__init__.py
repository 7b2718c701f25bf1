"""Searching: finds the candidates of a question in the table of the index, by words and by vectors.

What may be changed: how candidates are found. How they are ordered is `recall.rank`; this part stands above both.
"""
