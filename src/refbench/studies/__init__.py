"""Studies: people rate, compare and review, and their marks count like a judge's.

A study is a folder. `study.toml` says what is asked (design.py), `items.jsonl` about what (items.py), `raters.jsonl`
who may answer (raters.py), `leases.jsonl` who was shown what, in which order (plan.py), `marks.jsonl` what they said
(marks.py). `Study` in study.py opens the folder and answers everything that the server asks.
"""
