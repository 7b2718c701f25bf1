"""The agent loop: an utterance in, a reply out, with the memory's hooks at their points and its tools at hand.

`loop` is the reference loop, `replies` reads a chat model's stream for it, and `memory_tools` and `file_tools` are the memory's
own tools, within the rights of the speaker. A loop of your own needs nothing from here.
"""
