"""Model files: the catalogue, how they come and are checked, and what their headers say.

A new model is a row of `models/catalog.toml`; a new way for a file to come is a function in `fetch`.
"""
