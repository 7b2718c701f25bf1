"""Exact tokens: vocabularies, the tokenizer that renders and counts, and the log of what a model has seen.

The estimate, for when no model is loaded, is here too.
"""
