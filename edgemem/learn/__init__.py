"""Learning: what is made of what was said and done.

One module a thing that is learnt: `regularities` makes facts of episodes. It runs when it is asked, never while a turn does. What is learnt is
as private as its sources, bears an edge to each of them, and goes with them.
"""
