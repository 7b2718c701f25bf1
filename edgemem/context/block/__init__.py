"""The block: the lines of memory before an utterance, and at the head of an epoch.

`select` chooses the items that are worth their tokens, `delta` leaves out those that the prompt holds and makes the head of
an epoch, `render` writes the lines and shortens messages.
"""
