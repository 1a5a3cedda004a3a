"""How certain a run's numbers are: ranks, variance, weights, failures."""
