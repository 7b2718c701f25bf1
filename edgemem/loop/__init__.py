"""The agent loop: an utterance in, a reply out, with the memory's hooks at their points and its tools at hand.

`loop` is the reference loop, `replies` reads a chat model's stream for it, `toolbox` runs the tools that the model calls, and
`memory_tools` and one of `toolbox` are the memory's own tools, within the rights of the speaker. The hooks that are called
live in `edgemem.hooks`, and a loop of your own needs nothing from here but `Tool` and `ToolTurn`.
"""
