"""The table for a paper, in LaTeX."""
