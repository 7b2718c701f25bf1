"""Searching: finds the candidates of a question in the table of the index, by words and by vectors.

How candidates are found may be changed here. `recall.rank` orders them.
"""
