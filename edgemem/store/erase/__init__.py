"""Forgetting: a record goes from every table, index and copy that we made (law 8).

`delete_rows` deletes rows, with the blocks that showed them to a model; `copies` finds what the memory's tools repeated; `eraser`
takes the bytes out of every file, and finds the names that others wrote. A new file that may hold words of people becomes a
`Place` of the eraser; a new table only needs its declaration.
"""
