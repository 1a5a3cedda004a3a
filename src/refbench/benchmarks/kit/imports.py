"""Replies that were given elsewhere, as evidence: what every benchmark's import of released replies shares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError, clean_text
from refbench.text.files import file_bytes


def only_model(models: Sequence[str] | None, default: str, what: str) -> str:
    """The model that files without its name are about: the only one of `models`, else `default`."""
    if models and len(set(models)) > 1:
        raise RefBenchError(f"--model may be given once: {what} about one model")
    return models[0] if models else clean_text(default)


def imported_reply(
    benchmark: str, purpose: Purpose, reply: str | Failure, origin: str, **further: str
) -> tuple[Purpose, Evidence]:
    """A reply, or why there is none, under the purpose that it was given for; `origin` is where it was found."""
    request = {"imported": benchmark, "case": purpose.case, "judge": purpose.judge, "model": purpose.model, **further}
    failure = reply if isinstance(reply, Failure) else None
    text = None if isinstance(reply, Failure) else reply
    return purpose, Evidence(kind="chat", request=request, reply=text, failure=failure, provenance=clean_text(origin))


def place_in(folder: Path, path: Path) -> str:
    """Where a file lies, told from the folder that was given."""
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def reply_in(path: Path) -> str | Failure:
    """The text of a reply file as it is: error texts and empty files are the readers' business."""
    try:
        return file_bytes(path).decode("utf-8", "replace")
    except RefBenchError as error:
        return Failure(kind="missing_reply", detail=str(error).replace(str(path), path.name))
