"""Image models: whoever gives a picture for a request. Pictures that are there, or made on demand."""

from refbench.models.model import AnyModel, GivenOutputs, ImageModel, seeds_for, seeds_unused

__all__ = ["AnyModel", "GivenOutputs", "ImageModel", "seeds_for", "seeds_unused"]
