"""Finding: full text, vectors, scores, the index and its upkeep."""
