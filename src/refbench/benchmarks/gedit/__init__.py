"""GEdit-Bench: single edits in English and Chinese, judged for the edit and for the look of the picture."""
