"""The version of RefBench, alone in a file so that anything may import it."""

__version__ = "0.1.0"
