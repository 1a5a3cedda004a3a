"""One target of the input campaign, guided by coverage: what reaches new code is kept and changed further.

    python tests/campaigns/guided.py 'cases.jsonl' -max_total_time=60

Needs atheris (`pip install 'refbench[fuzz]'`). Ends in another code than 0 with the input that was not held.
"""

from __future__ import annotations

import contextlib
import csv
import random
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found,unused-ignore]

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

with atheris.instrument_imports(include=["refbench"]):
    from test_fuzz_inputs import targets

    from support.fuzzing import fault_of, mutated


def main(name: str, *options: str) -> None:
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        (target,) = (one for one in targets(Path(home), stack) if one.name == name)
        corpus = Path(home) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            (corpus / str(number)).write_bytes(seed)

        def look(data: bytes) -> None:
            if fault := fault_of(target, data):
                raise AssertionError(f"{name}: {fault}")

        def change(data: bytes, most: int, seed: int) -> bytes:
            """By the structure where the input still has it, by libFuzzer's own ways else."""
            rng = random.Random(seed)
            with contextlib.suppress(ValueError, IndexError, RecursionError, csv.Error):
                if rng.random() < 0.7:
                    return mutated(data, target.form, rng)[:most]
            return bytes(atheris.Mutate(data, most))

        atheris.Setup([sys.argv[0], str(corpus), "-max_len=300000", *options], look, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
