"""The other side of a worker's protocol, `recipes/worker.py`, as a real process, and the twenty lines of the documentation."""

from __future__ import annotations

import asyncio
import io
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
from PIL import Image

from refbench.models.model import Commission, Painted, Shown
from refbench.models.process.command import CommandModel
from refbench.specs import Spec

RECIPES = Path(__file__).resolve().parents[2] / "recipes"

PICTURE = """
from PIL import Image
def picture(size): return Image.new("RGB", size, "green")
"""


def shown(folder: Path, roles: tuple[str, ...]) -> tuple[Shown, ...]:
    pictures = []
    for number, role in enumerate(roles):
        pixels = np.zeros((20, 40, 4), np.uint8)
        pixels[10:] = 255  # the lower half is opaque white
        Image.fromarray(pixels if role != "mask" else pixels[:, :, 0]).save(folder / f"{number}.png")
        pictures.append(Shown(folder / f"{number}.png", role))
    return tuple(pictures)


THEIRS = """
class Model:
    def __init__(self, weights): pass
    def edit(self, image, words, width, height, seed): return picture((width, height)) if words != "no" else None
"""


def test_the_twenty_lines_of_the_documentation_are_a_worker(tmp_path: Path) -> None:
    page = (RECIPES.parent / "docs/python-models.md").read_text()
    _, _, lines = page.partition("    # their_worker.py")
    code = textwrap.dedent("    #" + lines.split("    refbench generate")[0]).replace("/src/theirs", str(tmp_path))
    (tmp_path / "theirs.py").write_text(PICTURE + THEIRS)
    (tmp_path / "their_worker.py").write_text(code)
    shutil.copy(RECIPES / "worker.py", tmp_path)
    line = shlex.join([sys.executable, str(tmp_path / "their_worker.py")])
    model = CommandModel(Spec.parse(f"m=command:{line}?mode=worker&timeout=600", "--model"))
    (picture,) = shown(tmp_path, ("source",))

    async def all_of_them() -> list[Painted]:
        asked = [Commission("x", (picture,), (64, 48)), Commission("no", (picture,)), Commission("x")]
        try:
            return [await model.generate(one, 0) for one in asked]
        finally:
            await model.close()

    painted, refused, lacking = asyncio.run(all_of_them())
    assert Image.open(io.BytesIO(painted.pictures[0])).size == (64, 48)
    assert painted.provenance == {"weights": "theirs-1.0", "steps": "50"}
    assert refused.failure is not None and refused.failure.kind == "refused"
    assert lacking.failure is not None and "it edits one picture, not 0" in lacking.failure.detail


def test_transparent_pictures_are_shown_on_white(tmp_path: Path) -> None:
    (picture,) = shown(tmp_path, ("subject",))
    code = f"from worker import upright; i = upright({str(picture.path)!r}); print(i.mode, i.getpixel((0, 0)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=RECIPES, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "RGB (255, 255, 255)"


HELPER = """
import sys; sys.path.insert(0, {recipes!r})
from worker import RefusedError, serve
class OutOfMemoryError(RuntimeError): pass
def load():
    print("noise while loading")
    if "broken" in sys.argv: raise OSError("no weights in ./w")
    def paint(request):
        print("noise", request.instruction)
        if request.instruction == "refuse": raise RefusedError("not this")
        if request.instruction == "full": raise OutOfMemoryError("CUDA out of memory")
        if request.instruction == "cuda": raise RuntimeError("CUDA error: gone")
        if request.instruction == "number": return 42
        from PIL import Image
        return [Image.new("RGB", (9, 8))] * request.n_pictures
    return paint
serve(load, {{"weights": "mine", "steps": 4}})
"""


def test_the_helper_tells_every_end_of_a_request(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HELPER.format(recipes=str(RECIPES)))
    line = shlex.join([sys.executable, str(path)])
    model = CommandModel(Spec.parse(f"mine=command:{line}?mode=worker", "--model"))
    words = ("refuse", "full", "cuda", "number", "boat")

    async def all_of_them() -> list[Painted]:
        try:
            return [await model.generate(Commission(word, n_pictures=2), 0) for word in words]
        finally:
            await model.close()

    refuse, full, cuda, number, boat = asyncio.run(all_of_them())
    kinds = [made.failure.kind if made.failure else "" for made in (refuse, full, cuda, number, boat)]
    assert kinds == ["refused", "worker_died", "worker_died", "missing_output", ""]
    assert len(boat.pictures) == 2
    assert boat.provenance == {"weights": "mine", "steps": "4"}


def test_the_helper_runs_without_any_package_and_on_old_pythons() -> None:
    source = (RECIPES / "worker.py").read_text()
    compile(source, "worker.py", "exec", dont_inherit=True)
    import ast

    ast.parse(source, feature_version=(3, 8))
    subprocess.run([sys.executable, "-I", "-S", "-c", source], check=True)
