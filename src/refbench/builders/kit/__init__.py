"""What all makers of datasets share: what was dropped and why, what people decided, and the data card."""

from refbench.builders.kit.dropped import Dropped, DroppedItems
from refbench.builders.kit.review import Decision, Review

__all__ = ["Decision", "Dropped", "DroppedItems", "Review"]
