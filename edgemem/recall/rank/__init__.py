"""Ranking: what tells that a candidate answers, how much each of that weighs, and whether anything helps at all.

The weights are learnt by the lab (`tests/lab`) and stand in `ranking.toml` and `gate.toml`, each of which can be read. What may be
changed: features, with what they buy on data that they were not made on.
"""
