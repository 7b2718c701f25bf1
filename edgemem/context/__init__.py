"""What the model sees: the prompt of a session, and what memory puts into it within an exact token budget.

Text that a model has seen is never changed between two compactions (law 2).
"""
