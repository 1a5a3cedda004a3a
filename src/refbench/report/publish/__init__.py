"""A run as a dataset that others can read and check: files, licences, card, Croissant, the Hub, and the check."""
