"""Extractors: references taken from pictures (edges, sketches, masks, boxes, poses, captions), each usable alone."""

from refbench.extractors.registry import EXTRACTORS, Extracted, Extractor

__all__ = ["EXTRACTORS", "Extracted", "Extractor"]
