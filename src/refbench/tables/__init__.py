"""Evidence to scores, scores to columns, columns to a table with its fingerprint."""
