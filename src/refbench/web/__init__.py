"""Pages that a browser asks this process for: what their servers have in common, which is how they keep others out."""
