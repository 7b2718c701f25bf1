"""What measures this machine: the benchmarks that an installed edgemem carries.

Each module with a function `run` is one: its keyword arguments are the options of `edgemem bench NAME`, and what it
returns is what `--json` prints. The others are what these stand on. All data is made from seeds (`corpus`) or written by hand (`prefill.toml`).
What measures edgemem itself, its recall above all, lies in `tests/lab`, outside the package.
"""
