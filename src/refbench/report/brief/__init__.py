"""One A4 sheet for the person who decides."""
