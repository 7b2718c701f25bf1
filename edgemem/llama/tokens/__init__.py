"""Exact tokens: vocabularies, the tokenizer that renders and counts, and an estimate for when no model is loaded."""
