"""The door of a turn (`conversation`, `turn`), and the list of its steps.

`steps` lists the steps of each moment in their order; the other modules hold the parts that take them, each of which may be
changed alone. `points` is for hooks of the user's own. `turn` decides who said what, and `log` writes it.
"""
