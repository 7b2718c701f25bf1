"""Benchmarks of this machine, which an installed edgemem carries.

A module with a function `run` is one: its keyword arguments are the options of `edgemem bench NAME`, its result is the output of
`--json`. The others are shared parts. All data is made from seeds (`corpus`) or written by hand (`evening`). Experiments on
edgemem itself, its recall above all, are in `tests/lab`, outside the package.
"""
