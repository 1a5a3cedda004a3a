"""Extractors: a reference (edges, sketch, mask, box, pose, caption) made from a picture."""
