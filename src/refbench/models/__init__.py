"""Image models: whoever gives a picture for a request. For now: folders of pictures that are already there."""

from refbench.models.folder import FolderModel

__all__ = ["FolderModel"]
