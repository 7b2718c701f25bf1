"""Dates: which times a sentence speaks of, in five languages.

Words become tokens, tokens phrases, and a phrase has one or several readings, as seen from a day. What each word may say
stands in `edgemem/languages`; a phrase or a range is read here.
"""
