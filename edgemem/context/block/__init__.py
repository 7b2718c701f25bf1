"""The block: the lines of memory before an utterance, and at the head of an epoch."""
