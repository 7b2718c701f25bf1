"""Text: what a sentence says by its words: stems, numbers, language, tense, and the times that it names.

The lists of words are in `edgemem/languages`, the rules that read them here. A change of a rule by which a text has
its stems changes `analyse.WORDS_VERSION`, so that the index makes its words anew; a change of the lists has it do so by itself.
Of times, `lexicon` makes patterns of `[dates]` in those files, `phrases` finds what a text names, `calendar` says which days that are.
"""
