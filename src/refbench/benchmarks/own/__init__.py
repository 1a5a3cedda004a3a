"""The user's own cases: a file of them, judged by a rubric or measured, or both."""
