"""RISEBench: edits that need reasoning about time, causes, space and logic."""
