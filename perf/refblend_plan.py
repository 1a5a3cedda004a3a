"""What planning and wording a dataset of the paper's size costs: CPU seconds and memory, without any picture.

    python perf/refblend_plan.py [--pictures 10000] [--samples 100728]

Virtual pictures offer what the paper's sources do: most have other pictures of their subject, some a style, a few poses.
The targets are 30 s of CPU and 500 MB for planning; both figures are printed, with the shortfall and the evenness.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator

from refbench.builders.refblend.instructions import compose, load_templates
from refbench.builders.refblend.plan import Offer, plan
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.types import Type

MAPS: tuple[Type, ...] = ("bbox", "mask", "semantic_map", "depth", "canny", "sketch")


def virtual_offers(pictures: int) -> Iterator[Offer]:
    """Of a hundred pictures 62 have a group of one subject, 30 a style, 8 people with poses and a style."""
    for number in range(pictures):
        place = number % 100
        counts: dict[Type, int] = {"caption": 1}
        if place < 92:
            counts |= dict.fromkeys(MAPS, 1)
            counts["subject" if place < 62 else "style"] = 3 + number % 9
        else:
            counts |= {"pose": 3, "style": 3}
        yield Offer(f"virtual/{number:08d}.png", counts)


def megabytes() -> float:
    """The most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--pictures", type=int, default=10_000)
    asked.add_argument("--samples", type=int, default=100_728)
    wanted = asked.parse_args()
    rules = load_rules("table7")
    before = megabytes()
    start = time.process_time()
    made = plan(virtual_offers(wanted.pictures), rules, n=wanted.samples, seed=1)
    dealt = time.process_time() - start
    loads = Counter(sample.picture for sample in made)
    planned = time.process_time() - start
    shortfall = sum(quota.shortfall for quota in made.quotas)
    print(f"planned {len(made)} samples of {wanted.samples} over {wanted.pictures} pictures, shortfall {shortfall}")
    print(f"samples a picture: {min(loads.values())} to {max(loads.values())} over {len(loads)} pictures")
    print(f"CPU: {dealt:.2f} s dealing out, {planned:.2f} s with every sample drawn (target 30 s)")
    print(f"memory: {megabytes():.0f} MB at most, {before:.0f} MB of it before planning (target 500 MB)")
    start = time.process_time()
    templates = load_templates(rules)
    for sample in made:
        compose(sample, rules, templates, lambda kind, number: f"{kind}/{number}.png", "A cup on a table", seed=1)
    print(f"CPU: {time.process_time() - start:.2f} s for planning anew and wording every sample")


if __name__ == "__main__":
    main()
