"""Dates: the ranges of time that a sentence names, in five languages.

`[dates]` of the files in `edgemem/languages` lists the words and the forms; `lexicon` makes patterns of them, `phrases` finds what a
text names, `calendar` says which days that are. `phrases.mentions` is the door for storing of which days a text is.
"""
