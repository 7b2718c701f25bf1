"""Learning: what is made of what was said and done.

`learning` says what a learner is, runs those that the profile names while nobody speaks, and shows and undoes what they learnt; each learner is
a module of its own. `reflections` keeps sentences about several memories, `regularities` makes facts of episodes, `routines` counts
what people say at the same time of day, `upcoming` knows what is still to come. What is learnt
is as private as its sources, which are of one readership, bears an edge to each of them, and goes with them. `lists` changes a
list, for a learner and for the tool.
"""
