"""CREval: creative edits under complex instructions, judged by yes/no questions on three metrics."""
