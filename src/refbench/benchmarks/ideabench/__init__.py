"""IDEA-Bench (arXiv 2412.11767): professional design with several pictures in and out, six gated questions a case."""
