"""DreamBench++: one subject or style, one prompt; concept preservation and prompt following."""
