"""The lab: what measures edgemem itself, and learns the weights that it ships. It is never installed.

Each module with a function `run` is one experiment: its keyword arguments are the options of `make lab ARGS="NAME …"`, and
what it returns is what `--json` prints. The others are what these stand on: corpora (`weeks`, `homes`, `judged`), the
questions put to them (`recall_cases`), statistics and learning. Corpora and word lists are `.toml` files beside them.
What measures the machine it runs on is `edgemem.bench`, which the lab imports, and which never imports the lab.
"""
