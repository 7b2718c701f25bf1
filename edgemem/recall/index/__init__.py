"""The index: a second file with the words and vectors of everything that can be recalled, made from the truth, and its table in memory.

It is kept up in idle time and may be deleted at any moment: whatever changes here, the next upkeep makes it again. The
table in memory holds indexed texts and those that wait; a question sees it through a `QueryView`. A change of what a text
becomes (words, annotations, how a record is spelled out) needs a new `file.RULES_VERSION`, and one of the tables a new file.
"""
