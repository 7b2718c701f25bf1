"""Looking: what the next prompt would hold and why, and written conversations that are played through a memory.

Nothing here changes what a robot remembers, but for a replay, which plays a script into the home that it is given.
"""
