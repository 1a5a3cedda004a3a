"""The same answer from fewer calls: which to judge, whose scores to lean on, small sets with a stated error."""
