"""Peers: other memories on the same texts and vectors, each run by a Python that has it.

`environment` makes that Python, `peer.py` is what it runs; nothing of a peer is imported by edgemem.
"""
