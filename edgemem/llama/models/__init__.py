"""Model files. A new model is a row of `models/catalog.toml`; a new way for a file to come is a function in `fetch`."""
