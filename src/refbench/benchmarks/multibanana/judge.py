"""What is asked of the judge: a pure function from a case and picture hashes to the one call that gives all marks.

The order is the official one: text, all references, the instruction, the output, the rubric. Reference 0 is
among them; the released script for the API judges starts at index 1 and never shows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Literal

from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.multibanana.cases import PART, MultiBananaCase
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.record import Record, RefBenchError

MAX_TOKENS = 8192
INSTRUCTION, COUNT = "{instruction}", "{count}"


class Wording(Record):
    """The words of the rubric: `a` before the references, `b` around the instruction, `c` after the output.

    Both protocols ask with the same words, so that one call serves both. The official text calls every task a
    replacement; ours does not, in either.
    """

    name: Literal["own", "user"]
    a: str
    b: str
    c: str

    @property
    def sha256(self) -> str:
        """Goes into the fingerprint: numbers judged with other words are other numbers."""
        return hashlib.sha256("\0".join((self.a, self.b, self.c)).encode()).hexdigest()


def own_wording() -> Wording:
    return Wording(name="own", a=_own("a.txt"), b=_own("b.txt"), c=_own("c.txt"))


def wording_from(folder: Path) -> Wording:
    """Other words, from a.txt, b.txt and c.txt in a folder of the user's.

    The official text is part of a Python file and cannot be read from there; who wants it puts it in such files.
    """
    texts = {}
    for name in ("a.txt", "b.txt", "c.txt"):
        try:
            texts[name] = (folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RefBenchError(
                f"{folder / name} cannot be read: a wording is a.txt, b.txt and c.txt in UTF-8"
            ) from error
    if INSTRUCTION not in texts["b.txt"]:
        raise RefBenchError(f"{folder / 'b.txt'} has no {INSTRUCTION}: put it where the set's instruction belongs")
    return Wording(name="user", a=texts["a.txt"], b=texts["b.txt"], c=texts["c.txt"])


def judge_requests(
    case: MultiBananaCase,
    reference_sha256s: Sequence[str],
    output_sha256: str,
    wording: Wording,
) -> list[ChatRequest]:
    """The one call that judges an output. `reference_sha256s` are those of all references, in their order."""
    if len(reference_sha256s) != len(case.request.pictures):
        raise ValueError(
            f"{case.id} has {len(case.request.pictures)} references, {len(reference_sha256s)} hashes were given"
        )
    parts = (
        ChatText(text=wording.a.replace(COUNT, str(len(reference_sha256s)))),
        *(ChatPicture(sha256=sha256) for sha256 in reference_sha256s),
        ChatText(text=wording.b.replace(INSTRUCTION, case.request.instruction)),
        ChatPicture(sha256=output_sha256),
        ChatText(text=wording.c),
    )
    return [ChatRequest(parts=parts, max_tokens=MAX_TOKENS)]


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """One call for all five marks, the same for both protocols. `prompts` may also name a folder of wording."""
    prompts = settings["prompts"]
    wording = own_wording() if prompts == "own" else wording_from(Path(prompts))

    def ask(case: MultiBananaCase, material: Material) -> list[Asked]:
        references = [picture.sha256 for picture in material.inputs]
        (request,) = judge_requests(case, references, material.outputs[0].sha256, wording)
        return [Asked(PART, request)]

    return Judging(ask, {**settings, "prompts": wording.name, "wording": wording.sha256})


def _own(name: str) -> str:
    folder = resources.files("refbench.benchmarks.multibanana").joinpath("rubric")
    return folder.joinpath(name).read_text("utf-8").strip()
