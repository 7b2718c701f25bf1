"""The memory bank: files of text by person and topic, in a folder or in the database."""
