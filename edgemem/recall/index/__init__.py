"""The index: a second file, made from the truth, with words and vectors of all that can be recalled, and its table in memory.

Upkeep in idle time makes it again if it is deleted. The table holds indexed texts and waiting ones; a question sees it through a
`QueryView`. A change of words, annotations, a record's text or the tables makes the file anew; see `file.RULES_VERSION`.
"""
