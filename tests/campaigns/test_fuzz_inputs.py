"""Every reader of outside text under hostile inputs: only RefBenchError, or a valid record, leaves it.

`make slow` gives them a share, `make campaigns` a million inputs, and then some more that coverage guides, where atheris
is installed (`guided.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from refbench.analysis.agree.people import read_people, read_scores
from refbench.benchmarks import Dataset, benchmark
from refbench.benchmarks.creval import replies as creval_replies
from refbench.benchmarks.icebench import replies as icebench_replies
from refbench.benchmarks.ideabench import replies as ideabench_replies
from refbench.benchmarks.kit.rows import rows
from refbench.benchmarks.multibanana import replies as multibanana_replies
from refbench.benchmarks.multiref import replies as multiref_replies
from refbench.benchmarks.own.cases import load_cases
from refbench.builders.creval.dimensions import dimensions
from refbench.builders.kit.review import Review
from refbench.builders.kit.sources import read_rows
from refbench.builders.multibanana.filters import load_filters
from refbench.builders.refblend import references, tables
from refbench.builders.refblend.instructions import load_templates
from refbench.builders.refblend.layouts import SourceLayout, load_layout
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.rewriting import load_personas
from refbench.calls.prices import Budget, price_of
from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat import ChatRequest, ChatText
from refbench.chat.replay import read_replies
from refbench.chat.vlm import make_vlm
from refbench.engine.options import read_experiment
from refbench.judges import Contract, Criterion, Scale, Text, YesNo
from refbench.judges.rubric import load_rubric
from refbench.models.folder import FolderModel
from refbench.models.process import workers
from refbench.report.publish.publish import Publishing, publish_folder
from refbench.report.publish.verify import verify
from refbench.runs.published import MANIFEST
from refbench.runs.run import Shard, cases_fingerprint
from refbench.specs import JUDGES, Spec, judge_options, model_options
from support import blend, checkout, icebench, ideabench, multibanana, multiref
from support.brief_runs import evaluated
from support.campaigns import size
from support.fuzzing import Target, attack, fault_of, file_target

WHOLE = 1_000_000
SHARE = 60_000
"""Inputs over all targets."""
MOST_MEMORY = 1 << 30
"""Bytes by which one target may make this process grow."""


def valid(dataset: Dataset) -> None:
    """Cases that a run can be made of: they have a fingerprint, and their oddities can be told."""
    cases_fingerprint(dataset.cases)
    assert all(case.id for case in dataset.cases)
    dataset.lacking()


def checked(name: str, root: Path) -> Callable[[], None]:
    bench = benchmark(name)

    def load() -> None:
        dataset = bench.data.load(root, None)
        valid(dataset)
        orjson.dumps([anomaly.model_dump() for anomaly in bench.data.anomalies(dataset)])
        bench.data.describe(dataset)

    return load


def imported(name: str, dataset: Dataset, folder: Path) -> Callable[[], None]:
    take = benchmark(name).asking.import_replies

    def load() -> None:
        assert take is not None
        for purpose, act in take(dataset, folder, None, None).replies():
            act.model_dump_json(), purpose.model_dump_json()

    return load


def benchmarks(home: Path) -> Iterator[Target]:
    """The five loaders: each file of a small dataset in turn."""
    creval = checkout.write_checkout(home / "creval", checkout.plain_items(2))
    ice = icebench.write_dataset(home / "icebench", icebench.every_task(1)[:3])
    idea = ideabench.write_checkout(home / "ideabench", ideabench.designs(1)[:2])
    banana = multibanana.write_dataset(home / "multibanana", multibanana.every_task(1)[:2])
    ref = multiref.write_combined(home / "multiref", multiref.blends()[:1], multiref.requests(1))
    hub = multiref.write_hub_release(home / "hub", multiref.blends()[:1], multiref.requests(1))
    multiref.write_real_world(hub / "older", multiref.requests(1))
    for name, root in (
        ("creval", creval),
        ("icebench", ice),
        ("ideabench", idea),
        ("multibanana", banana),
        ("multiref", ref),
        ("multiref", hub),
    ):
        suffixes = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".txt": "text"}
        seen: set[str] = set()
        for path in sorted(root.rglob("*")):
            kind = f"{path.parent.name if name == 'creval' else ''}{path.name if name != 'creval' else path.suffix}"
            if path.is_file() and path.suffix in suffixes and path.stat().st_size and kind not in seen:
                seen.add(kind)
                yield _kept(file_target(f"{root.name} {kind}", suffixes[path.suffix], path, checked(name, root)), path)  # type: ignore[arg-type]


def _kept(target: Target, path: Path) -> Target:
    """The target, after which its file is as it was."""
    before = path.read_bytes()

    def read(data: bytes) -> object:
        try:
            return target.read(data)
        finally:
            path.write_bytes(before)

    return Target(target.name, target.form, target.seeds, read, target.names, target.share)


ROW = {
    "id": "a", "instruction": "Put the hat on the dog", "source": "dog.png", "references": ["hat.png", {"path": "o.png", "role": "style"}],
    "targets": ["t.png"], "questions": ["Is it a dog?"], "groups": {"kind": "x"}, "tags": ["t"], "cluster": "c",
    "size": [512, 768], "n_pictures": 2,
}  # fmt: skip
TABLE = (
    "id,instruction,source,references,groups,tags,size,n_pictures\na,Do it,dog.png,a.png;b.png,k=v;l=w,x;y,512x768,1\n"
)
RUBRIC = '+++\nname = "mine"\ndialect = "json_object"\nrange = [1, 10]\ntotal = "mean"\n[[criteria]]\nname = "one"\ndescription = "x"\n[[criteria]]\nname = "two"\nkind = "yes_no"\n+++\nLook at {instruction}. {criteria} {format}\n'
SCORES = "case,model,metric,rater,score,category\na,m,total,human,3,x\nb,m,total,human,4.5,y\na,n,total,judge,-1,x\n"
EXPERIMENT = 'benchmark = "creval"\nseeds = 2\nbudget = "5usd"\n[models]\na = "folder:out"\nb = {kind = "openai", what = "gpt-image-1", quality = "high"}\n[judges.q]\nkind = "openai"\nwhat = "q"\nbase_url = "http://h:1/v1"\n[settings]\nwording = "own"\n'


def own(home: Path) -> Iterator[Target]:
    """Cases, rubrics, ratings, lists and settings of a user's own."""
    sample = {"input_images": ["/a.png", "/b/c.png"], "instruction": "Blend them", "output_image": "/d.png"}
    for suffix, form, seed in (
        (".jsonl", "jsonl", json.dumps(ROW)),
        (".csv", "csv", TABLE),
        ("_training.jsonl", "jsonl", json.dumps(sample)),
    ):
        path = home / f"cases{suffix}"
        yield file_target(f"cases{suffix}", form, path, lambda path=path: valid(load_cases(path)), [seed])  # type: ignore[arg-type,misc]
    plain = home / "rows.json"
    yield file_target("rows.json", "json", plain, lambda: list(rows(plain)), [json.dumps([ROW, ROW])])
    rubric = home / "rubric.md"
    yield file_target("rubric", "text", rubric, lambda: load_rubric(rubric), [RUBRIC])
    scores = home / "scores.csv"
    yield file_target("ratings", "csv", scores, lambda: (read_scores(scores), read_people(scores)), [SCORES])
    experiment = home / "experiment.toml"
    yield file_target("experiment", "text", experiment, lambda: read_experiment(experiment), [EXPERIMENT])
    replay = home / "evidence.jsonl"
    act = {"reply": "7", "request": {"system": "s", "parts": [{"text": "x"}], "max_tokens": 5, "repeat": 0}}
    yield file_target("replay", "jsonl", replay, lambda: read_replies(replay), [json.dumps(act)])
    cases = load_cases(_written(home / "known.jsonl", json.dumps(ROW))).cases
    for suffix, form, seed in (
        (".jsonl", "jsonl", json.dumps({"id": "a", "path": "known.jsonl", "seed": 0, "n": 1})),
        (".json", "json", json.dumps({"a": "known.jsonl"})),
        (".csv", "csv", "id,path,seed,n\na,known.jsonl,0,1\n"),
    ):
        path = home / f"list{suffix}"
        spec = Spec.read(f"m=folder:{path}")
        load: Any = lambda spec=spec: FolderModel(spec, cases, lambda case: [case.id])  # noqa: E731
        yield file_target(f"list{suffix}", form, path, load, [seed])  # type: ignore[arg-type]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


REVIEW = {"id": "a", "decision": "edit", "edit": {"instruction": "x"}, "comment": "c", "instruction": "y"}
LABELS = {"image": "a.png", "caption": "a dog", "boxes": [[0, 0, 5, 5]], "keypoints": [[1, 2, 2]] * 17, "style": "oil"}
COCO = {
    "images": [{"id": 1, "file_name": "a.png"}],
    "annotations": [{"image_id": 1, "keypoints": [1, 2, 2] * 17, "bbox": [1, 2, 3, 4]}],
}


def builders(home: Path) -> Iterator[Target]:
    """What builders and RefBlend read."""
    for suffix, form, seed in (
        (".jsonl", "jsonl", json.dumps(REVIEW)),
        (".csv", "csv", "id,decision,comment,instruction\na,edit,c,x\nb,accept,,\n"),
    ):
        review = home / f"review{suffix}"
        yield file_target(f"review{suffix}", form, review, lambda review=review: Review.read(review), [seed])  # type: ignore[arg-type,misc]
    examples = home / "examples.json"
    seed = json.dumps([{"class_id": 1, "input_prompt": "x"}, {"dimension": "y", "input_prompt": "z"}])
    yield file_target("examples", "json", examples, lambda: dimensions(examples), [seed])
    personas = home / "personas.txt"
    lists = ["a nurse\n# no\na cook\n", json.dumps([{"persona": "a nurse"}]), '{"persona": "a cook"}\n']
    yield file_target("personas", "text", personas, lambda: load_personas(personas), lists)
    rules, templates, layout = home / "rules.toml", home / "templates.txt", home / "layout.toml"
    book = load_rules()
    text = 'extends = "multiref"\nsizes = [2]\nuse = ["canny", "style"]\n[types.canny]\nnumbered = true\n[matrix]\ncanny = {style = "possible"}\n[needs.caption]\nof = ["style"]\n'
    yield file_target("rules", "text", rules, lambda: load_rules(rules), [text])
    shipped = Path(references.__file__).with_name("data") / "templates.txt"
    yield file_target("templates", "text", templates, lambda: load_templates(book, templates), [shipped.read_text()])
    engine = blend.write_engine_checkout(home / "engine")
    matrix, phrases = engine / "conditions/condition-conpa.csv", engine / "data/condition_mapping.json"
    yield file_target("released rules", "csv", matrix, lambda: load_rules(matrix))
    yield file_target("released phrases", "json", phrases, lambda: load_templates(book, phrases))
    text = 'table = "*.csv"\nsidecar = true\nlicence = "cc"\n[columns]\npicture = "file"\n'
    yield file_target("layout", "text", layout, lambda: load_layout(str(layout)), [text])
    limits, filters = home / "thresholds.toml", home / "filters.toml"
    yield file_target(
        "thresholds", "text", limits, lambda: references._read(limits), ["[canny]\nedges = {least = 0.1}\n"]
    )
    yield file_target("filters", "text", filters, lambda: load_filters(filters), ["[aesthetic]\nleast = 3\n"])
    for suffix, form, seed in (
        (".jsonl", "jsonl", json.dumps(LABELS)),
        (".json", "json", json.dumps([LABELS])),
        ("_judged.json", "json", blend.write_judged(home / "judged", 1).read_text()),
        (".csv", "csv", 'image,caption,boxes\na.png,a dog,"[[0,0,5,5]]"\n'),
    ):
        table = home / f"labels{suffix}"
        load: Any = lambda table=table: list(tables.labels(table, SourceLayout(), home))  # noqa: E731
        yield file_target(f"labels{suffix}", form, table, load, [seed])  # type: ignore[arg-type]
    coco = home / "coco.json"
    yield file_target("coco", "json", coco, lambda: list(tables.coco_labels(coco)), [json.dumps(COCO)])
    source = home / "source.jsonl"
    task = {
        "task": "logo",
        "instruction": "Draw",
        "pictures": ["a.png"],
        "outputs": 2,
        "uid": "0001",
        "keywords": ["x"],
    }
    spelt = {name: (name,) for name in task}
    load = lambda: [  # noqa: E731
        (row.texts("pictures"), row.number("outputs", 2))
        for row in read_rows(source, spelt, (), lambda a, b: ({}, ""))[0]
    ]
    yield file_target("sources", "jsonl", source, load, [json.dumps(task)])


def replies_imported(home: Path) -> Iterator[Target]:
    """Replies and results that were made elsewhere."""
    items = checkout.plain_items(1)
    dataset = benchmark("creval").data.load(checkout.write_checkout(home / "c", items), None)
    folder = checkout.write_replies(home / "creval_replies", "m", items)
    (path,) = (folder / "IF" / "m").glob("*.txt")
    yield file_target("creval replies", "text", path, imported("creval", dataset, folder))
    result = path.with_suffix(".json")
    path.unlink()
    yield file_target(
        "creval results", "json", result, imported("creval", dataset, folder), ['{"error": "x", "a": [1]}']
    )
    dataset = benchmark("icebench").data.load(icebench.write_dataset(home / "i", icebench.every_task(1)[:2]), None)
    case = dataset.cases[0]
    path = home / "eval_result.txt"
    line = f'{case.id}#;#{case.groups["code"]}#;#{{"aesthetic": 5.5, "imaging": NaN, "vllmqa": 1}}\n'
    separated = line.replace("#;#", icebench_replies.SEPARATOR)
    yield file_target("icebench results", "text", path, imported("icebench", dataset, path), [separated])
    dataset = benchmark("ideabench").data.load(ideabench.write_checkout(home / "d", ideabench.designs(1)[:1]), None)
    path = home / "gemini.csv"
    columns = [*ideabench_replies._COLUMNS]
    cells = [dataset.cases[0].id if "case" in name else "1" for name in columns]
    yield file_target(
        "ideabench replies",
        "csv",
        path,
        imported("ideabench", dataset, path),
        [f"{','.join(columns)}\n{','.join(cells)}\n"],
    )
    few = multiref.blends()[:1]
    dataset = benchmark("multiref").data.load(multiref.write_checkout(home / "r", few, multiref.requests(1)), None)
    told = {few[0].name: {"depth": 0.2, "fid": float("nan"), "caption_error": "x", "aesthetics": 5}}
    path = multiref.write_evaluation(home / "evaluated.json", home / "m", few, {few[0].name: "a.png"}, told)
    outputs = benchmark("multiref").data.listed_outputs
    assert outputs is not None
    both = imported("multiref", dataset, path)
    yield file_target("multiref evaluation", "json", path, lambda: (both(), outputs(path, dataset.cases)))


REPLIES = [
    '{"one": 7, "two": "Yes", "why": "so"}', '```json\n{"one": "7/10", "two": true}\n```', "One: 7/10\nTwo: yes", "[7, 8.5]", "No",
    json.dumps([{"Question": "Q1: Is it?", "explanation": "x", "answer": "Yes"}]), "Score: 7\nFinal: 1", "<think>8</think> 1",
]  # fmt: skip
MARKS = (Criterion("one", Scale(1, 10)), Criterion("two", YesNo()), Criterion("why", Text(), optional=True))


def judge_replies(home: Path) -> Iterator[Target]:
    """What judges say, under every reader."""
    questions = benchmark("creval").data.load(
        checkout.write_checkout(home / "q", checkout.plain_items(1)), None
    ).cases[0].details.questions["IF"]  # fmt: skip
    numbers = Contract("number_list", (Criterion("a", Scale(0, 10)), Criterion("b", Scale(0, 10))))
    readers: dict[str, Callable[[str], Any]] = {
        "creval": lambda t: (creval_replies.read_paper(t, questions), creval_replies.read_corrected(t, questions)),
        "icebench": lambda t: (icebench_replies.read_paper(t), icebench_replies.read_corrected(t)),
        "ideabench": lambda t: (ideabench_replies.read_paper(t), ideabench_replies.read_corrected(t)),
        "multibanana": lambda t: (multibanana_replies.read_paper(t), multibanana_replies.read_corrected(t)),
        "multiref": lambda t: (
            multiref_replies.read_overall(t),
            multiref_replies.read_references(t, ["canny", "style"]),
        ),
        "json_object": Contract("json_object", MARKS).read,
        "labelled_lines": Contract("labelled_lines", MARKS).read,
        "json_per_question": Contract(
            "json_per_question", tuple(Criterion(f"Q{n}", YesNo(), "Is it?") for n in (1, 2))
        ).read,
        "number_list": numbers.read,
        "binary": Contract("binary", (Criterion("two", YesNo()),)).read,
    }
    seeds = [reply.encode() for reply in REPLIES]
    for name, read in readers.items():
        yield Target(
            f"reply {name}", "text", seeds, lambda data, read=read: read(data.decode("utf-8", "replace")), share=4
        )  # type: ignore[misc]


ANSWERS = {
    "openai": {"choices": [{"message": {"content": "7", "refusal": None}, "finish_reason": "stop"}],
               "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "7"}]}, "finishReason": "STOP"}],
               "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}},
    "anthropic": {"content": [{"type": "text", "text": "7"}], "stop_reason": "end_turn",
                  "usage": {"input_tokens": 10, "output_tokens": 2}},
}  # fmt: skip


class Answering:
    """A server on loopback that answers everything with one body, and the judges that ask it, in one loop."""

    def __init__(self, stack: ExitStack) -> None:
        self.body, self.status = b"", 200
        self._loop = stack.enter_context(asyncio.Runner())
        self._loop.run(self._start())
        stack.callback(lambda: self._loop.run(self._stop()))

    async def _start(self) -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        self._transport = await Transport(policy=RetryPolicy(attempts=1), timeout=20).__aenter__()

    async def _stop(self) -> None:
        await self._transport.__aexit__(None, None, None)
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(status=self.status, body=self.body, content_type="application/json")

    def asked(self, kind: str, status: int) -> Callable[[bytes], object]:
        vlm = make_vlm(Spec.read(f"j={kind}:m?base_url={self._url}&price=1,2"), self._transport)
        asked = ChatRequest(parts=(ChatText(text="How good?"),), max_tokens=50)

        def read(data: bytes) -> object:
            self.body, self.status = data, status
            return self._loop.run(vlm.ask(asked, {}, 0)).model_dump_json()

        return read


def answers(home: Path, stack: ExitStack) -> Iterator[Target]:
    """Bodies of servers, errors of providers, and what workers print."""
    server = Answering(stack)
    for kind, answer in ANSWERS.items():
        yield Target(f"answer {kind}", "json", [json.dumps(answer).encode()], server.asked(kind, 200))
    error = {"error": {"message": "no", "type": "t", "code": "content_policy_violation", "param": None}}
    yield Target("error body", "json", [json.dumps(error).encode()], server.asked("openai", 400))
    reply = {"id": 1, "pictures": ["a.png", {"base64": "aGk="}], "cost_usd": 1, "seconds": 2, "provenance": {"a": "b"}}
    failed = {"id": 1, "error": "x", "kind": "refused"}

    def worker(data: bytes) -> None:
        message = workers.read(data)
        if message is not None:
            workers.is_reply(message)
            workers.painted_of(message, home, 2, {})

    seeds = [json.dumps(said).encode() for said in (reply, failed)]
    yield Target("worker line", "json", seeds, worker, share=2)


SPECS = [
    "m=folder:out/{id}.png", "openai:gpt-4o?temperature=0&max_tokens=100", "q=openai:q?base_url=http://h:1/v1&price=1,2",
    "j=command:./paint.py {prompt}?timeout=5", "w=rephrase(openai:m, folder:x)", "a=python:./m.py:f?batch=4", 'x=gemini:"a, b"?n=1',
]  # fmt: skip


def specs(home: Path) -> Iterator[Target]:
    def read(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        spec = Spec.read(text)
        spec.model_dump_json()
        try:
            model_options(spec)
        finally:
            if spec.kind in JUDGES:
                judge_options(spec)

    yield Target("spec", "text", [spec.encode() for spec in SPECS], read, share=6)
    amounts: list[Callable[[str], object]] = [
        Budget.parse,
        Shard.parse,
        lambda text: price_of("openai", text, None),
    ]
    for number, parse in enumerate(amounts):
        name = ("budget", "shard", "price")[number]
        seeds = ([b"5usd", b"$ 5.50"], [b"3/8"], [b"gpt-4o", b"o3"])[number]
        yield Target(name, "text", seeds, lambda data, parse=parse: parse(data.decode("utf-8", "replace")), share=2)  # type: ignore[misc]


def published_folders(home: Path) -> Iterator[Target]:
    """A stranger's folder, whose manifest always fits its files: hashes are no protection from who wrote them."""
    folder = home / "published"
    publish_folder(evaluated(home, {"A": (0.8, 0.5, 0), "B": (0.3, 0.5, 1)}, cases=3), folder, Publishing(draws=100))
    manifest, acts = folder / MANIFEST, folder / "evidence/00001.jsonl"
    told, evidence = orjson.loads(manifest.read_bytes()), acts.read_bytes()

    def tampered(data: bytes) -> object:
        acts.write_bytes(data)
        files = {**told["files"], "evidence/00001.jsonl": hashlib.sha256(data).hexdigest()}
        manifest.write_bytes(orjson.dumps({**told, "files": files}))
        try:
            return verify(folder)
        finally:
            acts.write_bytes(evidence)

    yield Target("published evidence", "jsonl", [b"\n".join(evidence.split(b"\n")[:4])], tampered)
    yield file_target("published manifest", "json", manifest, lambda: verify(folder), [orjson.dumps(told).decode()])


def targets(home: Path, stack: ExitStack) -> list[Target]:
    """All of them, with files below `home` and a server that ends with the stack."""
    found: list[Target] = []
    for source in (benchmarks, own, builders, replies_imported, judge_replies, published_folders, specs):
        (home / source.__name__).mkdir()
        found += source(home / source.__name__)
    return [*found, *answers(home, stack)]


def counts(found: Sequence[Target], inputs: int) -> list[int]:
    parts = sum(target.share for target in found)
    return [max(1, inputs * target.share // parts) for target in found]


def test_hostile_inputs_end_in_a_sentence_or_a_valid_record(tmp_path: Path) -> None:
    faults: dict[str, Any] = {}
    with ExitStack() as stack:
        found = targets(tmp_path, stack)
        for target, count in zip(found, counts(found, size(SHARE, WHOLE)), strict=True):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for seed in target.seeds:
                assert not fault_of(target, seed), f"{target.name}: the seed itself fails: {fault_of(target, seed)}"
            wrong = attack(target, count)
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            if wrong or grown > MOST_MEMORY:
                faults[target.name] = dict(wrong) or f"{grown:,} bytes more"
    assert not faults, "\n".join(f"{name}: {said}" for name, said in faults.items())


@pytest.mark.skipif(size(0, 1) == 0, reason="a part of the whole campaign")
def test_inputs_that_reach_new_code_are_held_too(tmp_path: Path) -> None:
    """libFuzzer's search, where atheris is installed: `pip install 'refbench[fuzz]'`."""
    pytest.importorskip("atheris")
    with ExitStack() as stack:
        names = [target.name for target in targets(tmp_path, stack)]
    for name in names:
        words = [sys.executable, str(Path(__file__).with_name("guided.py")), name, "-max_total_time=30"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stdout[-1000:]} {done.stderr[-1000:]}"
