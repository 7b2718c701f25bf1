"""Forgetting: what is erased goes from every table, index and copy that we made (law 8).

`records` deletes rows, with the blocks that carried them before a model; `copies` finds what the memory's tools repeated
of them; `erasings` notes in the same transaction that an erasing began; `eraser` takes the bytes out of every file.
A new file that may hold what people said becomes a `Place` of the eraser.
"""
