"""Tasks, local models and local judges on the nodes of a Ray cluster."""
