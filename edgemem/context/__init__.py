"""What the model sees: layout, block, budget, compaction."""
