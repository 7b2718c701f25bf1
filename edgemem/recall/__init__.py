"""Finding: full text, vectors, fusion, the index and its upkeep."""
