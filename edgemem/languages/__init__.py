"""Languages: words and phrases, a file a language, without rules and regular expressions, and the one module that reads them.

`words.Words` explains each key. Languages that are known only as far as a yes or no have the keys of `words.Answers` alone.
"""
