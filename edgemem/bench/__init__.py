"""Benchmarks of this machine, which an installed edgemem carries; experiments on edgemem itself are in `tests/lab`.

A module with a function `run` is one: its keyword arguments are the options of `edgemem bench NAME`, its result is the output of
`--json`. All data is made from seeds (`corpus`) or written by hand (`evening`).
"""
