"""What grouping near-duplicates costs: CPU seconds and memory for hashes that are there already.

    python perf/lookalikes.py [--pictures 1000000]

A tenth of the looks are copies of others with a few bits turned. Beside it all pairs, on as many as take seconds: the
ratio of the time per pair is what comparing by pieces saves.
"""

from __future__ import annotations

import argparse
import json
import time
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from refbench.pictures import collection
from refbench.pictures.collection import lookalikes
from refblend_plan import megabytes

ALL_PAIRS = 50_000
"""Looks of which all pairs are compared."""


def made_looks(pictures: int) -> NDArray[np.uint64]:
    """Hashes as pictures have them, 63 bits of which half are set, a tenth of them near another one."""
    rng = np.random.default_rng(0)
    low = rng.random((pictures, 64), dtype=np.float32)
    bits = low > np.median(low[:, 1:], axis=1)[:, None]
    copies = pictures // 10
    turned = rng.random((copies, 64)) < 0.06
    bits[rng.integers(0, pictures, copies)] = bits[rng.integers(0, pictures, copies)] ^ turned
    bits[:, 0] = False
    return np.packbits(bits, axis=1).view(">u8")[:, 0].astype(np.uint64)


def seconds(looks: NDArray[np.uint64]) -> tuple[float, int]:
    """CPU seconds of grouping, and how many groups there are."""
    start = time.process_time()
    groups = lookalikes(looks)
    return time.process_time() - start, len(np.unique(groups))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--pictures", type=int, default=1_000_000)
    pictures = asked.parse_args().pictures
    few = made_looks(min(ALL_PAIRS, pictures))
    with mock.patch.object(collection, "_MANY", len(few)):
        every, groups = seconds(few)
    by_piece, groups_by_piece = seconds(made_looks(pictures))
    with mock.patch.object(collection, "_MANY", 0):
        same = seconds(few)[1] == groups
    ratio = every / len(few) ** 2 / (by_piece / pictures**2)
    print(f"all pairs of {len(few):,}: {every:.1f} s of CPU; by pieces the same groups: {same}")
    print(f"{pictures:,} by pieces: {by_piece:.1f} s of CPU (target 600), {groups_by_piece:,} groups")
    print(f"memory: {megabytes():.0f} MB at most (target 4096)")
    print(
        json.dumps({"cpu_s": round(by_piece, 1), "mb": round(megabytes()), "pairs_per_second_ratio": round(ratio, 1)})
    )


if __name__ == "__main__":
    main()
