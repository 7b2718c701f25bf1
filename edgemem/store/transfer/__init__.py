"""Transfer: the truth as lines of JSON that people can carry away, and the way back into another memory.

`export` makes the line of each row, by the declaration of its kind; `merge` takes lines in beside the rows that are here. A new
kind needs nothing here, unless its rows depend on others.
"""
