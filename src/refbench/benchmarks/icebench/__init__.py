"""ICE-Bench (arXiv 2503.14482): 31 tasks of creating and editing pictures, eleven metrics, a question to a judge."""
