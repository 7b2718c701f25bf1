"""Languages: what edgemem knows about the words of each, a file a language, and the one module that reads them.

A file holds lists of words and phrases, no rules and no regular expressions; another language is another file.
`words.Words` explains each key. Languages that are known only as far as an answer goes, yes or no, have a file
with the keys of `words.Answers` alone.
"""
