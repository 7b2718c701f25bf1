"""Searching: finds the candidates of a question by words and by vectors, scores them, and selects the best.

The weights of the scores are learnt by the lab (`tests/lab`) and stand in `ranking.toml` and `gate.toml`, each of which can be read.
What may be changed: how candidates are found, and features, with what they buy on data that they were not made on.
"""
