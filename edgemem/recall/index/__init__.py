"""The index: a second file, made from the truth, with words and vectors of all that can be recalled, and its table in memory.

Upkeep in idle time makes it again if it is deleted. The table holds indexed texts and waiting ones; a question sees it through a
`QueryView`. A change of words, annotations or a record's text needs a new `file.RULES_VERSION`, one of the tables a new file.
"""
