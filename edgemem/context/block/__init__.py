"""The block: what memory puts before an utterance, and at the head of an epoch.

`select` chooses what is worth its tokens, `delta` leaves out what the prompt holds and makes the head of an epoch, `render`
writes the lines and shortens what was said.
"""
