"""Asking which references an output uses: a run of its own about the outputs of another run."""
