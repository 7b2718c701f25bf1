"""Transfer: the truth as lines of JSON that people can carry away, and the way back into another memory.

`records` says what a line of each kind holds and in which columns of which table it stands; a new table that is to be
carried is added there. `export` writes lines, `merge` takes them in beside what is here already.
"""
