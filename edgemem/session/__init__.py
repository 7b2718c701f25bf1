"""The door of a turn, and the list of its steps.

`conversation` and `turn` are the door: what a loop tells, it tells there. `steps` lists what is done at each moment of a turn, in its
order; one module holds each step. `points` and `registry` are for hooks of the user's own, which are fired from that list. A step
may be changed alone; who said what is decided in `turn`, and written by `log`.
"""
