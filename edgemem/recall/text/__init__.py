"""Text: what a sentence says by its words: stems, numbers, language, tense, and the times that it names.

Lists of words are in `edgemem/languages`, their rules here. A change of the rules for stems changes `analyse.WORDS_VERSION`, so
that the index makes its words anew; a change of the lists does so by itself. Of times, `lexicon` makes patterns, `phrases` finds
what a text names, `calendar` says which days that are.
"""
