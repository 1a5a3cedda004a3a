"""What `refbench check CASES --rubric R --show` prints: what a judge is asked about a case, and how a reply is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.benchmarks import Benchmark, Dataset
    from refbench.benchmarks.own.cases import OwnCase
    from refbench.chat.pictures import SentPicture
    from refbench.judges import Rubric
    from refbench.judges.rubric import RubricPart


def asked(bench: Benchmark, rubric: Rubric, dataset: Dataset, reply: Path | None) -> Iterator[str]:
    """Each call about the first case, with a reply to it, made up or the user's, and what is read from that."""
    from refbench.text.files import file_text

    case: OwnCase = dataset.cases[0]
    if reply is not None and len(rubric.parts) > 1:
        raise RefBenchError(f"--reply: the rubric {rubric.name} makes {len(rubric.parts)} calls, and this is one reply")
    said = {
        part.name: file_text(reply) if reply else rubric.contract(part, case.details.questions).example()
        for part in rubric.parts
    }
    for number, part in enumerate(rubric.parts, 1):
        which = f"call {number} of {len(rubric.parts)}, " if len(rubric.parts) > 1 else ""
        yield f"\nWhat a judge is asked about {case.id} ({which}rubric {rubric.name}):\n"
        yield from _request(rubric, part, case, dataset)
        yield f"\n{f'The reply in {reply}' if reply else 'A made-up reply in this form'}:\n"
        yield _inset(said[part.name])
    yield "\nRead as:\n"
    yield from _read(bench, case, said)


def _request(rubric: Rubric, part: RubricPart, case: OwnCase, dataset: Dataset) -> Iterator[str]:
    from refbench.benchmarks.kit.definition import Material
    from refbench.benchmarks.own.judge import request
    from refbench.chat import ChatText

    names: dict[str, str] = {}

    def shown(names_of: Sequence[str]) -> tuple[SentPicture, ...]:
        return tuple(_stand_in(name, names) for name in names_of)

    outputs = ["the model's picture", *(f"its picture {n}" for n in range(2, case.request.n_pictures + 1))]
    inputs, targets = ([picture.name for picture in of] for of in (case.request.pictures, case.targets))
    material = Material(shown(inputs), shown(outputs), shown(targets))
    for one in request(rubric, part, case, material).parts:
        yield _inset(one.text if isinstance(one, ChatText) else f"[{names[one.sha256]}]")


def _stand_in(name: str, names: dict[str, str]) -> SentPicture:
    """A picture that is only its name: requests speak of pictures by a hash and by nothing else."""
    from refbench.chat.pictures import SentPicture
    from refbench.pictures.facts import PictureFacts

    sha256 = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    names[sha256] = name
    facts = PictureFacts(sha256=sha256, format="PNG", width=1, height=1, mode="RGB")
    return SentPicture(sha256, Path(name), "image/png", 1, 1, 0, facts)


def _read(bench: Benchmark, case: OwnCase, said: dict[str, str]) -> Iterator[str]:
    """The measures of the case, and its total as a table would have it."""
    from refbench.evidence import Evidence, Purpose
    from refbench.tables.scorer import score_evidence
    from refbench.tables.scoring import result_of

    acts = [
        (
            Purpose(case=case.id, model="model", judge="judge", part=part),
            Evidence(kind="chat", request={"part": part}, reply=reply),
        )
        for part, reply in said.items()
    ]
    scores = list(score_evidence(bench, [case], acts, ["corrected"]))
    failures = {score.metric: score.failure for score in scores if score.failure is not None}
    for row in result_of(bench, [case], scores, draws=0).rows(level="overall"):
        reason = failures.get(row.metric, "none: a mark that it is made of is missing")
        yield f"  {row.metric}: {f'{row.value:g}' if row.value is not None else reason}"


def _inset(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
