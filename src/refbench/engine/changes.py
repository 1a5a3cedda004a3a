"""What changed since it was recorded: pictures, judges or prompts. Refused before anything is paid for, because the run
would take new money and show old numbers, or mix both."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.benchmarks import Dataset
from refbench.case import AnyCase
from refbench.evidence import Purpose
from refbench.failure import Failure
from refbench.models import AnyModel
from refbench.models.model import ImageModel
from refbench.output import Output, StoredPicture
from refbench.pictures import facts_of
from refbench.record import RefBenchError, content_key
from refbench.runs import Blobs, LedgerWriter, Run
from refbench.runs.ledger import KnownPicture, file_state

_SHAPES = {"parts": "prompt or pictures", "system": "prompt", "json_schema": "form of the reply"}
"""How keys of a request are called where they would not be understood."""


def check_pictures(
    run: Run, writer: LedgerWriter, dataset: Dataset, models: Sequence[AnyModel], *, replace: bool = False
) -> None:
    """Refuse pictures of cases and outputs of folders that are not those on record.

    With `replace`, outputs that changed are recorded in place of the old ones, all of them at once, and what was said
    about the old ones is retired.
    """
    looks = _Looks(run.pictures(), writer)
    _check_inputs(run, dataset, looks)
    changed = _changed_outputs(run, dataset, models, looks)
    if changed and not replace:
        _, first, now = changed[0]
        names = ", ".join(sorted({model.name for model, _, _ in changed}))
        what = "is gone" if isinstance(now, Failure) else "is another picture"
        raise RefBenchError(
            f"--model {names}: {len(changed)} outputs changed since they were recorded in {run.path} (first: "
            f"{first.case}, which {what}): choose another --out or name, or give --replace to score the new ones in "
            "place of the old"
        )
    for model, before, now in changed:
        writer.replace_output(before, _output(run.blobs, model, before, now))
    writer.commit()


class _Looks:
    """Hashes of files, from the record where a file has not been touched since."""

    def __init__(self, known: Iterable[KnownPicture], writer: LedgerWriter) -> None:
        self._known = {(picture.name, picture.path, picture.state): picture.sha256 for picture in known}
        self._writer = writer

    def sha256(self, path: Path, name: str = "") -> str | None:
        """The hash of a picture's bytes; None where there is no such file."""
        try:
            place, state = str(path.absolute()), file_state(path)
            known = self._known.get((name, place, state))
            if known is None:
                known = hashlib.sha256(path.read_bytes()).hexdigest()
                self._known[name, place, state] = known
                if not name:  # a touched input is noted once it is known to be the same
                    self._writer.know(KnownPicture(name, place, state, known))
        except OSError:
            return None
        return known


def _check_inputs(run: Run, dataset: Dataset, looks: _Looks) -> None:
    first = run.inputs()
    now = {name: looks.sha256(dataset.picture_root / name, name) for name in first}
    changed = [name for name, sha256 in first.items() if now[name] != sha256]
    if changed:
        what = "is gone" if now[changed[0]] is None else "is another picture"
        raise RefBenchError(
            f"{len(changed)} pictures of the cases changed since they were used in {run.path} (first: "
            f"{dataset.picture_root / changed[0]}, which {what}): restore them, or choose another --out"
        )


def _changed_outputs(
    run: Run, dataset: Dataset, models: Sequence[AnyModel], looks: _Looks
) -> list[tuple[AnyModel, Output, tuple[Path, ...] | Failure]]:
    """What stands for models whose pictures are found, and is not what is found now. All cases, whatever the shard:
    half a model replaced would be two models in one table."""
    cases: Mapping[str, AnyCase] = dataset.by_id()
    finders = {model.name: model for model in models if not isinstance(model, ImageModel)}
    changed: list[tuple[AnyModel, Output, tuple[Path, ...] | Failure]] = []
    for output in run.outputs():
        model = finders.get(output.model)
        if model is None or not output.pictures or output.step is not None or output.case not in cases:
            continue
        now = model.find(cases[output.case], output.seed)
        hashes = None if isinstance(now, Failure) else [looks.sha256(path) for path in now]
        if hashes != [picture.sha256 for picture in output.pictures]:
            changed.append((model, output, now))
    return changed


def _output(blobs: Blobs, model: AnyModel, before: Output, paths: tuple[Path, ...] | Failure) -> Output:
    place = {"case": before.case, "model": before.model, "seed": before.seed}
    if isinstance(paths, Failure):
        return Output(**place, failure=paths)
    stored = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            return Output(**place, failure=Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}"))
        facts = facts_of(data)
        if isinstance(facts, Failure):
            return Output(**place, failure=Failure(kind="unreadable_picture", detail=f"{path.name}: {facts.detail}"))
        blobs.put_copy(data, facts.sha256, facts.format)
        stored.append(StoredPicture.of(facts))
    family = getattr(model, "family", "")
    return Output(**place, pictures=tuple(stored), provenance={"path": paths[0].name, "family": family})


@dataclass
class OnRecord:
    """What is on record for each purpose, which addresses judges had, and what is read as failed in a way that is to
    be tried again."""

    run: Run
    acts: dict[Purpose, tuple[str, ...]] = field(default_factory=dict)
    endpoints: dict[str, set[str]] = field(default_factory=dict)
    asked_for: dict[str, tuple[Mapping[str, Any], tuple[Purpose, ...]]] = field(default_factory=dict)
    """Acts that are with a provider, in a batch."""

    @classmethod
    def of(cls, run: Run, asked_for: Mapping[str, tuple[Mapping[str, Any], tuple[Purpose, ...]]]) -> OnRecord:
        before = cls(run, asked_for=dict(asked_for))
        for act, (request, purposes) in before.asked_for.items():
            before._take(act, request, purposes)
        for purpose, evidence in run.evidence():
            if evidence.failure is None or not evidence.failure.transient:
                before._take(evidence.id, evidence.request, (purpose,))
        return before

    def _take(self, act: str, request: Mapping[str, Any], purposes: Iterable[Purpose]) -> None:
        for purpose in purposes:
            self.acts[purpose] = (*self.acts.get(purpose, ()), act)
            if "endpoint" in request:
                self.endpoints.setdefault(purpose.judge, set()).add(str(request["endpoint"]))

    def examples(
        self, dataset: Dataset, models: Sequence[AnyModel], judges: Collection[str]
    ) -> list[tuple[AnyCase, AnyModel, int]]:
        """An output (case, model, seed) for each part and protocol that these judges were asked about; the judge ""
        stands for what is measured."""
        cases, named = dataset.by_id(), {model.name: model for model in models}
        chosen: dict[tuple[str, str, str], Purpose] = {}
        for purpose in self.acts:
            if purpose.case in cases and purpose.model in named and purpose.judge in judges and purpose.output:
                chosen.setdefault((purpose.judge, purpose.part, purpose.protocol), purpose)
        places = dict.fromkeys((purpose.case, purpose.model, purpose.seed) for purpose in chosen.values())
        return [(cases[case], named[model], seed) for case, model, seed in places]

    def known_as(self, purpose: Purpose, canonical: Mapping[str, Any]) -> str:
        """The act that is on record for a purpose, where the same was asked at whatever address, else the new act's
        id. Refuses to ask something else: the old reply would stand, and the new one would be paid for."""
        act = content_key({"kind": "chat", **canonical})
        before = self._acts(purpose)
        if not before or act in before:
            return act
        for endpoint in sorted(self.endpoints.get(purpose.judge, ())):
            moved = content_key({"kind": "chat", **canonical, "endpoint": endpoint})
            if moved in before and str(canonical.get("endpoint")).partition(" ")[0] == endpoint.partition(" ")[0]:
                return moved
        raise self._refusal(purpose, before[0], canonical)

    def check_measured(self, purpose: Purpose, request: Mapping[str, Any]) -> None:
        """Refuse to measure otherwise than what is on record was measured, unless by a newer version of the metric."""
        before = self._acts(purpose)
        if not before or content_key({"kind": "measure", **request}) in before:
            return
        if all(int(self._request(act).get("version", 0)) < int(request["version"]) for act in before):
            return
        raise self._refusal(purpose, before[0], request)

    def _acts(self, purpose: Purpose) -> tuple[str, ...]:
        """Those about this output; or about one that is not known, as imported replies are."""
        return self.acts.get(purpose) or self.acts.get(purpose.model_copy(update={"output": ""}), ())

    def _request(self, act: str) -> Mapping[str, Any]:
        if act in self.asked_for:
            return self.asked_for[act][0]
        return next((evidence.request for _, evidence in self.run.evidence() if evidence.id == act), {})

    def _refusal(self, purpose: Purpose, act: str, now: Mapping[str, Any]) -> RefBenchError:
        then = self._request(act)
        keys = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
        differences = ", ".join(
            _SHAPES[key] if key in _SHAPES else f"{key}: {_short(then.get(key))} then, {_short(now.get(key))} now"
            for key in keys
        )
        who = f"--judge {purpose.judge} is asked" if purpose.judge else f"{purpose.part} is measured"
        other = " or give the judge another name" if purpose.judge else ""
        return RefBenchError(
            f"{who} otherwise than what {self.run.path} holds (first: {purpose.case}; {differences}): choose another "
            f"--out{other}"
        )


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
