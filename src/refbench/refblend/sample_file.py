"""The samples of a build in a file, read one at a time: memory does not grow with the dataset."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import orjson

from refbench.refblend.finished import Finished, entry
from refbench.refblend.rules import Rules
from refbench.refblend.writing import whole_file


async def write_samples(path: Path, samples: AsyncIterable[Finished]) -> None:
    """A line for each sample, in order."""
    with whole_file(path) as file:
        async for sample in samples:
            file.write(orjson.dumps(sample.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE))


class SampleFile(Sequence[Finished]):
    """The samples in a file, by number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        at = 0
        with path.open("rb") as file:
            for line in file:
                self._starts.append(at)
                at += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> Finished: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Finished]: ...
    def __getitem__(self, place: int | slice) -> Finished | Sequence[Finished]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        with self._path.open("rb") as file:
            file.seek(self._starts[place])
            return Finished.model_validate_json(file.readline())

    def __iter__(self) -> Iterator[Finished]:
        with self._path.open("rb") as file:
            for line in file:
                yield Finished.model_validate_json(line)


class Entries(Sequence[dict[str, Any]]):
    """The same samples as entries of the official JSON, made as they are read."""

    def __init__(self, samples: SampleFile, rules: Rules) -> None:
        self._samples, self._rules = samples, rules

    def __len__(self) -> int:
        return len(self._samples)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | Sequence[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        return entry(self._samples[place], self._rules)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (entry(sample, self._rules) for sample in self._samples)
