"""Learning: what idle time makes of what was said and done.

One learner a module, behind the Protocol `Learner`. It works on what the truth holds, in steps that stop as soon as somebody speaks, and goes
on after a kill where it was: how far it came stands in the truth. What is learnt is as private as its most private source, bears an
edge to each of its sources, and goes with them. Nothing here runs while a turn does.
"""
