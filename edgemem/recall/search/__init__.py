"""Searching: finds a question's candidates by words and by vectors, scores them, and selects the best.

The lab (`tests/lab`) learns the weights, readable in `ranking.toml` and `gate.toml`. The ways to find candidates and the features
may be changed, with their gain on data that they were not made on.
"""
