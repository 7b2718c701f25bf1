"""The door of a turn, and the list of its steps.

`conversation` and `turn` are the door, through which a loop tells a turn. `steps` lists the steps of each moment of a turn, in their
order; the other modules hold the parts that take them. `points` is for hooks of the user's own, which are fired from that list. A
part may be changed alone; `turn` decides who said what, and `log` writes it.
"""
