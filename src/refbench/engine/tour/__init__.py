"""The doctor's tour: everything that a judge's provider has to be able to do, tried once within a stated budget."""
