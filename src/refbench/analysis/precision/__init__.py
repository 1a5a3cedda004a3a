"""How sure one may be of a run's numbers: ranks, variance, weights, failures."""
