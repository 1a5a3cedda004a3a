"""KRIS-Bench: edits that need knowledge of facts, concepts and procedures."""
