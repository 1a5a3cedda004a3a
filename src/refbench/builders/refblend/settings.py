"""What a build is asked for: one record for the command line and for Python, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from refbench.builders.refblend.layouts import SourceLayout, load_layout
from refbench.builders.refblend.plan import instances_of
from refbench.builders.refblend.presets import chosen_rules
from refbench.builders.refblend.rules import Rules, allowed_sets
from refbench.builders.refblend.types import TYPES, Type, read_type
from refbench.calls.prices import Budget
from refbench.record import RefBenchError

FORMATS = ("json", "parquet", "webdataset")
VARIANTS: Mapping[str, Type] = {"sketch_dodge": "sketch", "semantic_map_low_iou": "semantic_map"}
"""Other ways to make references of a type, as they are called among the types."""


@dataclass(frozen=True)
class Settings:
    """A build as `refbench blend build` has it, whose help the texts below the fields are."""

    pictures: Path
    """Folder of pictures, table of them (.csv, .jsonl, .json, .parquet), or a Hugging Face dataset"""
    _: KW_ONLY
    out: Path
    """Directory of the dataset; the same command resumes it"""
    engine: Literal["embedded", "ray"] = "embedded"
    """Where references are made"""
    address: str | None = None
    """Ray: HOST:PORT of a cluster, or auto; a fresh one without"""
    seed: int = 0
    """Fixes every draw: colours, plan, words, split"""
    types: tuple[str, ...] | None = None
    """Types of references, with commas: canny,caption,... Other ways: sketch_dodge, semantic_map_low_iou"""
    captions: str | None = None
    """source, objects (what a small detector sees), or a VLM such as openai:gpt-4o-mini"""
    judge: str | None = None
    """VLM that marks every reference from 1 to 5, kept from 3; or a folder of refbench calibrate, with its own cuts"""
    rewriter: str | None = None
    """VLM that rewrites instructions in the voice of personas"""
    personas: Path | None = None
    """Personas for the rewriter, one a line; ours by default"""
    preset: str | None = None
    """Rules by name: table7 (default), matrix, sampler, sources, r31, ... (docs/refblend.md)"""
    rules: Path | None = None
    """Rules of your own in TOML, or condition-conpa.csv, see docs/refblend.md"""
    sizes: str | None = None
    """How many types a set has, for example 2,3"""
    samples: int | str | None = None
    """How many samples; as many as pictures by default, all for every allowed set"""
    several: tuple[str, ...] | None = None
    """TYPE=N: up to N references of a type in a sample: subject=2, pose=2"""
    limit: int | None = None
    """Only the first N pictures, by name, or rows of the table"""
    layout: str = "folder"
    """What folders mean: folder, subjects, styles, dreambooth, ..., or your own TOML file"""
    formats: tuple[str, ...] | None = None
    """json,parquet,webdataset: all that can be written by default"""
    test_share: float = 0.1
    """Share of the pictures whose samples are for testing"""
    thresholds: Path | None = None
    """Limits for poor references in TOML, see the docs"""
    templates: Path | None = None
    """Phrases for instructions, or condition_mapping.json, see the docs"""
    review: Path | None = None
    """What people decided, .jsonl or .csv; OUT/review.jsonl by default"""
    licence: str = ""
    """Licence of the pictures, where the source does not say"""
    device: str = "cpu"
    """Where networks run: cpu, cuda"""
    budget: str | None = None
    """Most that VLMs may cost, for example 5usd"""
    concurrency: int = 32
    """Most calls in flight at an endpoint"""
    timeout: float = 180.0
    """Seconds to wait for a reply"""

    def __post_init__(self) -> None:
        if not 0 <= self.test_share <= 1:
            raise RefBenchError(f"--test-share {self.test_share:g}: give a share from 0 to 1")
        if self.limit is not None and self.limit < 1:
            raise RefBenchError(f"--limit {self.limit}: give 1 or more")
        if isinstance(self.samples, str) and self.samples != "all":
            raise RefBenchError(f"--samples {self.samples}: give a number, or all")
        if isinstance(self.samples, int) and self.samples < 1:
            raise RefBenchError(f"--samples {self.samples}: give 1 or more, or all")
        if self.concurrency < 1 or not self.timeout > 0:
            raise RefBenchError("--concurrency and --timeout: give numbers above 0")
        Budget.parse(self.budget)
        if not allowed_sets(self.rule_book.restricted(self.reference_types)):
            names = ", ".join(sorted(self.reference_types))
            raise RefBenchError(f"--types {names}: {self.rule_book.name} allows no set of these: refbench blend combos")
        instances_of(self.rule_book, self.most_of_type)
        load_layout(self.layout)
        if self.personas is not None and self.rewriter is None:
            raise RefBenchError(f"--personas {self.personas}: instructions are rewritten by a VLM, so add --rewriter")
        for name in self.wanted_formats or ():
            if name not in FORMATS:
                raise RefBenchError(f"--formats {name}: choose from {', '.join(FORMATS)}")

    @property
    def work(self) -> Path:
        """Where the build keeps what it has done."""
        return self.out / "work"

    @cached_property
    def rule_book(self) -> Rules:
        return chosen_rules(self.preset, self.rules, self.sizes)

    @property
    def variants(self) -> Mapping[Type, str]:
        """Types whose references are made in another way than the paper's, with the extractor."""
        words = map(str.casefold, _words(self.types or ()))
        return {VARIANTS[word]: word for word in words if word in VARIANTS}

    @cached_property
    def reference_types(self) -> tuple[Type, ...]:
        """The types that were asked for, all by default."""
        if self.types is None:
            return TYPES
        named = [read_type(VARIANTS.get(word.casefold(), word), "--types") for word in _words(self.types)]
        for kind, way in self.variants.items():
            if named.count(kind) > 1:
                raise RefBenchError(f"--types: {kind} and {way} are two kinds of pictures, never mixed: choose one")
        if not named:
            raise RefBenchError("--types: name reference types with commas between, for example canny,caption")
        return tuple(dict.fromkeys(named))

    @cached_property
    def most_of_type(self) -> Mapping[Type, int]:
        """The most references of a type in a sample, for types of which there may be several."""
        numbers = {}
        for text in self.several or ():
            kind, _, most = text.partition("=")
            if not most.isascii() or not most.isdecimal():
                raise RefBenchError(f"--several {text}: write it as TYPE=N, for example subject=2")
            numbers[read_type(kind, f"--several {text}")] = int(most)
        return numbers

    @property
    def source_layout(self) -> SourceLayout:
        described = load_layout(self.layout)
        return described.model_copy(update={"licence": self.licence or described.licence})

    @property
    def layout_name(self) -> str:
        return Path(self.layout).stem

    @property
    def wanted_formats(self) -> tuple[str, ...] | None:
        """None for all that can be written here."""
        return None if self.formats is None else tuple(_words(self.formats))


def _words(texts: Iterable[str]) -> list[str]:
    """Words with commas between, in one option or in several."""
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]
