"""The worker's side of RefBench's JSON-lines protocol, without dependencies: copy it into any environment.

Python 3.8 or newer. The protocol itself is in docs/python-models.md.
"""

import json
import os
import sys
import traceback
from pathlib import Path


class RefusedError(Exception):
    """The model declines this request, or its safety filter does."""


class UnsupportedError(Exception):
    """This request is nothing that the model can do."""


class Request:
    """What is to be painted: instruction, pictures (paths) and their roles, width and height (or None), seed, ..."""

    def __init__(self, message):
        self.instruction = message["instruction"]
        self._shown = [(shown["path"], shown["role"]) for shown in message["pictures"]]
        self.pictures = [path for path, _ in self._shown]
        self.roles = [role for _, role in self._shown]
        self.width, self.height = message["width"], message["height"]
        self.n_pictures = message["n_pictures"]
        self.seed = message["seed"]
        self.folder = message["folder"]

    def images(self):
        """The pictures as upright RGB images of Pillow; what is transparent becomes white, as RefBench sees it."""
        return [upright(path) for path in self.pictures]

    def with_role(self, *roles):
        """The paths of the pictures that have one of the roles."""
        return [path for path, role in self._shown if role in roles]

    def without_role(self, *roles):
        """The paths of all others."""
        return [path for path, role in self._shown if role not in roles]

    def size(self, width, height, multiple=16):
        """The size that is wanted, or else the one given, in steps that the model can make."""
        wanted = (self.width or width, self.height or height)
        return tuple(max(multiple, round(side / multiple) * multiple) for side in wanted)


def upright(path, mode="RGB"):
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(Image.open(path))
    if mode == "RGB" and ("A" in image.getbands() or "transparency" in image.info):
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert(mode)


def upstream(directory):
    """Import from a clone of the model's own repository."""
    if directory:
        sys.path.insert(0, str(Path(directory).resolve()))


def serve(load, about=None):
    """Load once, then paint until the requests end.

    `load()` gives `paint(request)`, which gives pictures: images of Pillow, paths or bytes, one or a list. `about` is
    what to remember of the model with every picture: its weights and settings.
    """
    requests, replies = _own_pipes()

    def say(message):
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    try:
        paint = load()
    except Exception as error:  # noqa: BLE001 - whatever it is, no request can succeed
        traceback.print_exc()
        say({"stop": f"the model cannot be loaded: {type(error).__name__}: {error}"})
        return
    known = {k: v for k, v in (about or {}).items() if isinstance(v, (str, int, float)) and v != ""}
    say({**known, "ready": True})
    for line in requests:
        message = json.loads(line)
        say({"id": message["id"], **_answer(paint, Request(message))})


def _answer(paint, request):
    try:
        made = paint(request)
        made = made if isinstance(made, (list, tuple)) else [made]
        return {"pictures": [_saved(one, request.folder, number) for number, one in enumerate(made, 1)]}
    except RefusedError as error:
        return {"error": str(error), "kind": "refused"}
    except UnsupportedError as error:
        return {"error": str(error), "kind": "missing_output"}
    except Exception as error:  # noqa: BLE001 - one request's trouble
        traceback.print_exc()
        if "CUDA error" in str(error) or "HIP error" in str(error):
            sys.stderr.flush()
            os._exit(1)  # no call on this GPU will succeed again; RefBench starts another worker
        full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        said = f"{type(error).__name__}: {error}"
        return {"error": said[:500], "kind": "worker_died" if full else "missing_output"}


def _saved(one, folder, number):
    if isinstance(one, (str, os.PathLike)):
        return os.fspath(one)
    name = f"{number:04d}.png"
    path = Path(folder) / name
    if isinstance(one, bytes):
        path.write_bytes(one)
    elif hasattr(one, "save"):
        one.save(path)
    else:
        raise TypeError(f"the model gave a {type(one).__name__}, which is no picture")
    return name


def _own_pipes():
    """The protocol's pipes, out of everyone's way: what libraries print goes to standard error."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests, replies
