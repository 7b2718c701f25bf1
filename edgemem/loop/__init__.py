"""The reference agent loop, its reader of a model's stream, and the memory's own tools; your own loop needs nothing of it."""
