"""Taking over what another memory wrote: read its files, never change them, write what they hold into a home once.

One module for each system. What may be changed: which versions of its files are read, and what becomes of what edgemem has no place for.
"""
