"""People's marks of some outputs: which outputs to have rated, and what their marks correct in a judge's
numbers of all."""
