"""Text: what a sentence says by its words: stems, numbers, language and tense.

The lists of words are in `edgemem/languages`, the rules that read them here. A change of a rule by which a text has
its stems changes `analyse.WORDS_VERSION`, so that the index makes its words anew; a change of the lists has it do so by itself.
"""
