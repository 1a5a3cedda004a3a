"""DreamBench++: 150 pictures of a subject or a style, nine prompts for each; 1,350 cases.

The judge marks concept preservation (CP) and prompt following (PF) from 0 to 4 in a call each, three times over
(`--repeats 3`). Numbers are quarters of marks, means over cases; CP_PF is the product of the two means, as the
leaderboard has it, and `both` the mean of the products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from refbench.benchmarks import kit
from refbench.benchmarks.kit.replies import found_by, no_reply, unread
from refbench.benchmarks.kit.scripts import released_file
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.text.files import file_text, json_file

HOME = "yuangpeng/dreambench_plus"
"""On the Hub and on GitHub."""
CASES = {"animal": 405, "human": 180, "object": 585, "style": 180}
PROMPTS = ("photorealistic",) * 4 + ("style_transfer",) * 3 + ("imaginative",) * 2
"""What the nine prompts of a picture ask for, by their numbers."""
LIVE = ("animal", "human")
PASSES = {"_full": 0, "_full2": 1, "_full3": 2}


def data_root(root: Path) -> Path | None:
    return next((folder for folder in (root, root / "data") if (folder / "captions").is_dir()), None)


def load(root: Path) -> Iterator[AnyCase]:
    folder = data_root(root)
    if folder is None:
        raise RefBenchError(f"{root} has no folder captions or data/captions: unpack data.zip there")
    for path in sorted((folder / "captions").rglob("*.txt")):
        subject, *prompts = (line.strip() for line in file_text(path).splitlines() if line.strip())
        if len(prompts) != len(PROMPTS):
            raise RefBenchError(f"{path} has {len(prompts)} prompts below its subject: {len(PROMPTS)} are wanted")
        category, picture = path.parent.name, (folder / "images" / path.relative_to(folder / "captions"))
        kind = f"live_subject_{category}" if category in LIVE else category
        collection = f"{kind}_{path.stem}_{subject.lower().replace(' ', '_')}"
        source = picture.with_suffix(".jpg").relative_to(root).as_posix()
        for number, (prompt, what) in enumerate(zip(prompts, PROMPTS, strict=True)):
            name, groups = f"{collection}-{number}", {"category": category, "prompt": what}
            output = f"{collection}/{number}_0"
            yield kit.case(name, prompt, {"subject": source}, groups=groups, cluster=collection, output=output)


SENT = kit.Sent(detail="high")


def opened(shown: kit.Material, name: str, **values: str) -> kit.Parts:
    """How a call begins: our text, or the release's with what the judge is made to have said to it."""
    text = shown.text(name, **values)
    return [text, kit.Said(shown.text(f"{name}_said"))] if shown.official else [text]


@kit.asks("CP", reads=kit.last_mark("Score", 0, 4), released=SENT)
def concept_preservation(case: AnyCase, shown: kit.Material) -> kit.Parts:
    family = "style" if case.groups["category"] == "style" else "subject"
    return [*opened(shown, f"cp_{family}"), shown.inputs[0], shown.output]


@kit.asks("PF", reads=kit.last_mark("Score", 0, 4), released=SENT)
def prompt_following(case: AnyCase, shown: kit.Material) -> kit.Parts:
    prompt = case.request.instruction
    payload = [prompt, shown.output] if shown.official else [shown.output]
    return [*opened(shown, "pf", prompt=prompt), *payload]


def read_paper(case: AnyCase, part: str, reply: str) -> Mapping[str, float] | Failure:
    """The only number behind `Score:`, of whatever size; two mentions, bold and brackets are not read."""
    found = found_by(r"(?:score|Score):\s*+[a-zA-Z]*+\s*+(\d{1,15})", reply)
    return no_reply(reply) or ({part: float(found[0][0])} if len(found) == 1 else unread(f"{len(found)} scores"))


def official(checkout: Path) -> dict[str, str]:
    families = {"cp_subject": "subject", "cp_style": "style", "pf": "text"}
    whose = {"": "user", "_said": "gpt"}
    files = {f"{n}{w}": f"{who}_prompt_{f}_full.txt" for n, f in families.items() for w, who in whose.items()}
    folder = "dreambench_plus/prompts"
    return {name: file_text(released_file(checkout, f"{folder}/{file}")).strip() for name, file in files.items()}


def given(dataset: kit.Dataset, folder: Path) -> Iterator[kit.Given]:
    """`concept_preservation_full2/METHOD/*.json`: one reply each, of the pass that the folder names."""
    for part, task in (("CP", "concept_preservation"), ("PF", "prompt_following")):
        for ending, repeat in PASSES.items():
            for path in sorted(folder.rglob(f"{task}{ending}/*/*.json")):
                row = json_file(path)
                name = f"{row['collection_id']}-{row['prompt_index']}"
                yield kit.Given(name, part, row["content"], path.name, repeat, row["method"])


BENCHMARK = kit.benchmark(
    name="dreambenchplus",
    title="DreamBench++",
    paper="arXiv 2406.16855",
    load=load,
    layout="neither captions nor data/captions is in it; data.zip of the Hub's dataset holds them",
    judge=[concept_preservation, prompt_following],
    derived={"both": kit.Derive(lambda marks: marks["CP"] * marks["PF"] / 4, (0, 4))},
    total=kit.Total(lambda means: means["CP"] * means["PF"], ("CP", "PF"), range=(0, 1), name="CP_PF", of_means=True),
    scale=0.25,
    protocols={"paper": kit.Variant(read=read_paper)},
    abilities={"CP": "RC", "PF": "IA"},
    release=kit.Release(
        __package__,
        sources=(kit.Source(HOME, code=HOME, licence="Apache-2.0", unpack=True),),
        prompts=kit.Prompts(__package__, official, "dreambench_plus/prompts/*_full.txt of the authors' code"),
        look=kit.Look(lambda place, own, first: (512, 512)),
        counts={"category": CASES, "prompt": {"photorealistic": 600, "style_transfer": 450, "imaginative": 300}},
        is_checkout=data_root,
        output_names=lambda case: [case.details["output"], f"tgt_image/{case.details['output']}"],
        given=given,
        judge="gpt-4o-2024-05-13",
        published_on={None: 1350},
    ),
)
