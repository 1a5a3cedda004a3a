"""What a judge sees and what fools it, computed from the marks of an audit: figures, verdicts, card, drift, panels."""
