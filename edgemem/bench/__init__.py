"""The benchmarks that back every number in the README.

Each module with a function `run` is one: its keyword arguments are the options of `edgemem bench NAME`, and what
it returns is what `--json` prints. All data is made from seeds (`corpus`, `evening`).
"""
