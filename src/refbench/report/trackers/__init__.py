"""Experiment trackers: what a run gives them (`logged`), which there are (`kinds`), and one file for each."""
