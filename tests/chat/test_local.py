"""Local judges: tiny random weights of real architectures, saved and loaded the way users' weights are."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.local import LocalVLM, _drawn
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.evidence import Evidence
from refbench.machine import threads
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.tiny_vlms import MAKERS, REASON, TURN

# --- weights -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    pytest.importorskip("torch", reason=REASON)
    transformers = pytest.importorskip("transformers", reason=REASON)
    transformers.utils.logging.disable_progress_bar()
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = MAKERS[kind](transformers, tmp_path_factory.mktemp(kind))
        return made[kind]

    return make


Judge = Callable[..., LocalVLM]


@pytest.fixture
def judge(repository: Callable[[str], Path]) -> Iterator[Judge]:
    made: list[LocalVLM] = []

    def make(kind: str | Path, **options: object) -> LocalVLM:
        folder = kind if isinstance(kind, Path) else repository(kind)
        given = {"device": "cpu", "dtype": "fp32", "max_tokens": 12, **options}
        query = "&".join(f"{key}={value}" for key, value in given.items() if value is not None)
        made.append(LocalVLM(Spec.parse(f"tiny=local:{folder}?{query}", "--judge")))
        return made[-1]

    yield make
    for vlm in made:
        asyncio.run(vlm.close())


# --- questions ---------------------------------------------------------------------------------------------------


def picture(folder: Path, number: int, height: int, width: int) -> SentPicture:
    path = folder / f"{number}.png"
    path.write_bytes(encode(np.random.default_rng(number).integers(0, 255, (height, width, 3), dtype=np.uint8)))
    sent = prepare(path, PicturePolicy(), lambda data, name: path)
    assert isinstance(sent, SentPicture)
    return sent


@pytest.fixture
def pictures(tmp_path: Path) -> list[SentPicture]:
    return [picture(tmp_path, n, *size) for n, size in enumerate([(40, 60), (80, 30), (56, 56)])]


def question(
    text: str, *pictures: SentPicture, system: str | None = None, max_tokens: int | None = None
) -> ChatRequest:
    shown = [ChatPicture(sha256=p.sha256) for p in pictures]
    return ChatRequest(
        system=system, parts=(ChatText(text=text), *shown, ChatText(text="Well?")), max_tokens=max_tokens
    )


def ask(
    vlm: LocalVLM, requests: Sequence[ChatRequest], pictures: Sequence[SentPicture], repeats: Sequence[int] = ()
) -> list[Evidence]:
    async def work() -> list[Evidence]:
        known = {p.sha256: p for p in pictures}
        which = repeats or [0] * len(requests)
        return await asyncio.gather(*(vlm.ask(r, known, n) for r, n in zip(requests, which, strict=True)))

    return asyncio.run(work())


def weights(vlm: LocalVLM) -> Any:
    """The loaded weights, to spy on."""
    if vlm._loaded.weights is None:
        ask(vlm, [question("wake up", max_tokens=1)], [])
    return vlm._loaded.weights


def spied(monkeypatch: pytest.MonkeyPatch, thing: Any, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    real = getattr(thing, name)

    def spy(*args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        return real(*args, **kwargs)

    monkeypatch.setattr(thing, name, spy)
    return calls


def several(pictures: list[SentPicture]) -> list[ChatRequest]:
    one, two, three = pictures
    return [
        question("Is the picture sharp?", one),
        question("Do these three belong together, and does the last one follow the first?", three, one, two),
        question("Without a picture?"),
        question("Which?", two, three, system="Be fair."),
        question("Which?", three, two, system="Be fair."),
    ]


# --- what is asked -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MAKERS)
def test_a_greedy_reply_does_not_depend_on_its_batch(kind: str, judge: Judge, pictures: list[SentPicture]) -> None:
    requests = several(pictures)
    together = [e.reply for e in ask(judge(kind), requests, pictures)]
    assert None not in together
    assert len(set(together)) == len(together), "the weights see the text, the pictures and their order"
    backwards = [e.reply for e in ask(judge(kind), requests[::-1], pictures)]
    assert backwards[::-1] == together
    alone = [e.reply for e in ask(judge(kind, batch=1), requests, pictures)]
    assert alone == together


@pytest.mark.parametrize("kind", MAKERS)
def test_pictures_reach_the_processor_in_the_order_of_the_parts(
    kind: str, judge: Judge, pictures: list[SentPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = judge(kind)
    mark = "<|image_pad|>" if kind == "qwen" else "<image>"
    seen = spied(monkeypatch, type(weights(vlm).processor), "__call__")
    requests = [question("A", pictures[2], pictures[0]), question("B", pictures[1])]
    ask(vlm, requests, pictures)
    ((_, given),) = seen
    sizes = [[(image.width, image.height) for image in images] for images in given["images"]]
    assert sizes == [[(56, 56), (60, 40)], [(30, 80)]]
    raw = np.random.default_rng(2).integers(0, 255, (56, 56, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(given["images"][0][0]), raw)
    first, second = given["text"]
    assert (first.count(mark), second.count(mark)) == (2, 1)
    assert first.index("A") < first.index(mark) < first.rindex(mark) < first.index("Well?")


def test_text_and_pictures_are_interleaved_as_they_were_asked(judge: Judge, pictures: list[SentPicture]) -> None:
    shown = [ChatPicture(sha256=p.sha256) for p in pictures]
    parts = (ChatText(text="Source:"), shown[0], ChatText(text="Output:"), shown[1], shown[2], ChatText(text="Rate."))
    prompt = weights(judge("qwen")).prompt(ChatRequest(system="Be fair.", parts=parts))
    mark = "<|from|><|image_pad|><|to|>"
    asked = f"Source:{mark}Output:{mark}{mark}Rate."
    assert prompt == f"<|start|>system Be fair.<|stop|><|start|>user {asked}<|stop|><|start|>assistant "


def test_a_template_without_a_system_role_gets_it_in_the_users_text(
    judge: Judge, pictures: list[SentPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = judge("llava")
    request = question("Rate.", pictures[0], system="Be fair.")
    assert weights(vlm).prompt(request) == "<|from|>USER: Be fair.\n\nRate.<image>Well?<|stop|>ASSISTANT:"
    seen = spied(monkeypatch, weights(vlm).model, "generate")
    ask(vlm, [request], pictures)
    first = weights(vlm).processor.tokenizer.bos_token_id
    (row,) = seen[0][1]["input_ids"].tolist()
    assert row.count(first) == 1, "the template begins with the first token already"


def test_a_system_message_may_be_plain_text_to_a_template(
    judge: Judge, repository: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(repository("qwen"), tmp_path / "copy")
    plain = (
        "{% for m in messages %}{% if m['content'] is string %}SYSTEM {{ m['content'] }}{% else %}"
        + TURN
        + "{% endif %}{% endfor %}"
    )
    (folder / "chat_template.jinja").write_text(plain.replace("m['content'] is string", "m['role'] == 'system'"))
    assert weights(judge(folder)).prompt(question("Rate.", system="Be fair.")).startswith("SYSTEM Be fair.")


# --- batches -----------------------------------------------------------------------------------------------------


def test_asks_at_the_same_time_share_batches(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    vlm = judge("llava", batch=4)
    seen = spied(monkeypatch, weights(vlm).model, "generate")
    replies = ask(vlm, [question(f"Number {n}?") for n in range(10)], [])
    assert [len(given["input_ids"]) for _, given in seen] == [4, 4, 2]
    assert len({e.reply for e in replies}) == 10


def test_one_event_loop_after_another_may_ask(judge: Judge) -> None:
    vlm = judge("llava")
    first, second = (ask(vlm, [question("Again?")], [])[0] for _ in range(2))
    assert first == second


def test_memory_that_does_not_suffice_halves_the_batch(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    vlm = judge("llava", batch=8)
    requests = [question(f"Number {n}?") for n in range(8)]
    expected = [e.reply for e in ask(vlm, requests, [])]
    real, sizes = weights(vlm).model.generate, []

    def generate(**given: Any) -> Any:
        sizes.append(len(given["input_ids"]))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(**given)

    monkeypatch.setattr(weights(vlm).model, "generate", generate)
    assert [e.reply for e in ask(vlm, requests, [])] == expected
    assert sizes == [8, 4, 2, 2, 2, 2]
    sizes.clear()
    ask(vlm, requests, [])
    assert sizes == [2, 2, 2, 2], "what did not fit is not tried again"


def test_a_single_request_that_does_not_fit_is_a_failure_with_the_remedy(
    judge: Judge, pictures: list[SentPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = judge("llava")

    def full(**given: Any) -> Any:
        raise MemoryError("no more")

    monkeypatch.setattr(weights(vlm).model, "generate", full)
    (evidence,) = ask(vlm, [question("?", *pictures)], pictures)
    assert evidence.failure is not None
    assert evidence.failure.kind == "api_error"
    assert "3 pictures does not fit" in evidence.failure.detail
    assert "--max-side" in evidence.failure.detail


def test_nobody_pays_for_the_trouble_of_another_request(
    judge: Judge, pictures: list[SentPicture], tmp_path: Path
) -> None:
    vlm = judge("qwen")
    fine, sliver, lost = question("Fine?", pictures[0]), picture(tmp_path, 7, 2, 900), picture(tmp_path, 8, 9, 9)
    expected = ask(vlm, [fine], pictures)[0].reply
    lost.path.unlink()
    requests = [fine, question("A sliver?", sliver), question("Long? " * 100), question("Lost?", lost), fine]
    found = ask(vlm, requests, [*pictures, sliver, lost])
    assert [e.reply for e in (found[0], found[4])] == [expected, expected]
    kinds = [e.failure.kind if e.failure else None for e in found]
    assert kinds == [None, "api_error", "api_error", "unreadable_picture", None]
    assert "aspect ratio" in str(found[1].failure)
    assert "more than the context of 400 tokens" in str(found[2].failure)


# --- replies -----------------------------------------------------------------------------------------------------


def test_each_reply_ends_at_its_own_limit_and_says_so(judge: Judge) -> None:
    vlm = judge("llava", max_tokens=None)
    short, longer = ask(vlm, [question("Rate.", max_tokens=3), question("Rate.", max_tokens=9)], [])
    assert (short.output_tokens, longer.output_tokens) == (3, 9)
    assert short.provenance == longer.provenance == f"cut off at the limit of tokens; {threads()} threads"
    assert short.input_tokens == longer.input_tokens == len("<USER: Rate.Well?>ASSISTANT:")
    assert short.cost_usd == 0
    assert short.id != longer.id
    (bounded,) = ask(judge("llava", max_tokens=2), [question("Rate.", max_tokens=9)], [])
    assert bounded.output_tokens == 2, "the option goes before the request, as with the providers"


def test_a_reply_that_ended_by_itself_is_not_cut_off(
    judge: Judge, repository: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(repository("llava"), tmp_path / "copy")
    vlm = judge("llava")
    read = spied(monkeypatch, weights(vlm), "_read")
    (whole,) = ask(vlm, [question("Rate.")], [])
    ((made, _), _) = read[0]
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(
        json.dumps({**settings, "eos_token_id": [settings["eos_token_id"], made[4]]})
    )
    ended, other = ask(judge(folder), [question("Rate."), question("Something else?")], [])
    place = made.index(made[4]) + 1
    assert (ended.output_tokens, ended.provenance) == (place, f"{threads()} threads")
    assert ended.reply is not None
    assert whole.reply is not None
    assert whole.reply.startswith(ended.reply)
    assert other.reply is not None


@pytest.mark.parametrize("kind", ["qwen", "llava"])
def test_a_sample_is_the_same_whatever_the_batch_and_another_for_each_repeat(
    kind: str, judge: Judge, pictures: list[SentPicture]
) -> None:
    request = question("Rate.", pictures[0])
    repeats = [0, 1, 2, 0, 1]
    replies = [e.reply for e in ask(judge(kind, temperature=1), [request] * 5, pictures, repeats)]
    assert replies[:2] == replies[3:]
    assert len(set(replies)) == 3
    alone = [ask(judge(kind, temperature=1), [request], pictures, [n])[0].reply for n in (2, 1)]
    assert alone == [replies[2], replies[1]]
    (other,) = ask(judge(kind, temperature=1, seed=5), [request], pictures)
    assert other.reply not in replies


def test_samples_follow_the_probabilities() -> None:
    torch = pytest.importorskip("torch", reason=REASON)
    scores = torch.log(torch.tensor([[0.1, 0.3, 0.6]])).repeat(4000, 1)
    drawn = _drawn(torch, 1.0, list(range(4000)))(None, scores).argmax(dim=1)
    assert torch.bincount(drawn).div(4000).tolist() == pytest.approx([0.1, 0.3, 0.6], abs=0.025)
    cold = _drawn(torch, 0.01, list(range(4000)))(None, scores).argmax(dim=1)
    assert set(cold.tolist()) == {2}


# --- who is asked ------------------------------------------------------------------------------------------------


def test_the_act_names_weights_and_parameters(judge: Judge, repository: Callable[[str], Path], tmp_path: Path) -> None:
    request = question("Rate.")
    canonical = judge("llava", temperature=0.5, seed=3).canonical(request, 2)
    assert canonical["endpoint"] == "local"
    assert canonical["parameters"] == {"dtype": "fp32", "max_tokens": 12, "temperature": 0.5, "seed": 3}
    assert canonical["repeat"] == 2
    name = repository("llava").name
    one = shutil.copytree(repository("llava"), tmp_path / "one" / name)
    assert judge(one, batch=1).canonical(request, 0) == judge("llava").canonical(request, 0), (
        "where it lies is no matter"
    )
    trained = bytearray((one / "model.safetensors").read_bytes())
    trained[-1] ^= 1
    (one / "model.safetensors").write_bytes(trained)
    assert judge(one).model != judge("llava").model, "training does not change the size of a file"


def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were installed: these tests load nothing."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


def test_a_revision_is_another_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    plain, pinned = (
        LocalVLM(Spec.parse(f"local:Qwen/Qwen3-VL-8B?device=cpu{more}", "--judge")) for more in ("", "&revision=ab12")
    )
    assert (plain.model, pinned.model) == ("Qwen/Qwen3-VL-8B", "Qwen/Qwen3-VL-8B@ab12")
    assert (plain.name, plain.family) == ("Qwen3-VL-8B", "alibaba")
    assert plain.worst_cost(question("?"), {}) == 0


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("local:./nowhere?device=cpu", "there is no such directory"),
        ("local:{tmp}?device=cpu", "has no config.json"),
        ("local:a/b?device=cpu&batches=3", "no option 'batches': did you mean batch"),
        ("local:a/b?device=cpu&batch=0", "batch=0: write a whole number from 1"),
        ("local:a/b?device=cpu&dtype=int4", "dtype=int4: write bf16 or fp32"),
        ("local:a/b?device=gpu", "device=gpu: write auto, cpu or cuda:0"),
        ("local:a/b?device=cpu&temperature=warm", "temperature=warm"),
    ],
)
def test_a_wrong_spec_is_said_before_anything_is_loaded(
    spec: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch)
    with pytest.raises(RefBenchError, match=says):
        LocalVLM(Spec.parse(spec.format(tmp=tmp_path), "--judge"))


@pytest.mark.parametrize("name", ["torch", "transformers"])
def test_a_missing_package_is_said_with_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda wanted: None if wanted == name else object())
    with pytest.raises(RefBenchError, match=rf"needs {name}: pip install 'refbench\[neural\]'"):
        LocalVLM(Spec.parse("local:a/b?device=cpu", "--judge"))


def test_a_package_that_does_not_import_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise ImportError("libcudart.so.13: cannot open shared object file")

    known(monkeypatch)
    vlm = LocalVLM(Spec.parse("local:a/b?device=cpu", "--judge"))
    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(RefBenchError, match=r"libcudart.*refbench\[neural\]"):
        ask(vlm, [question("?")], [])


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("GatedRepoError", "accept its licence at https://huggingface.co/a/b"),
        ("RepositoryNotFoundError", "is not there or private"),
        ("RevisionNotFoundError", "has no revision v9"),
        ("LocalEntryNotFoundError", "hf download a/b --local-dir DIR"),
    ],
)
def test_a_repository_that_cannot_be_had_is_asked_for_once(
    error: str, says: str, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked = []

    def download(name: str, **_: Any) -> str:
        asked.append(name)
        raise type(error, (OSError,), {})("told at length")

    monkeypatch.setattr(hub, "snapshot_download", download)
    vlm = LocalVLM(Spec.parse("local:a/b?device=cpu&batch=1&revision=v9", "--judge"))
    for _ in range(2):
        with pytest.raises(RefBenchError, match=says):
            ask(vlm, [question("?"), question("!")], [])
    assert asked == ["a/b"]


def test_weights_from_the_hub_are_recorded_with_their_commit(
    judge: Judge, repository: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    snapshot = shutil.copytree(repository("llava"), tmp_path / "snapshots" / "c0ffee")
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **_: str(snapshot))
    vlm = LocalVLM(Spec.parse("local:a/b?device=cpu&max_tokens=4", "--judge"))
    (evidence,) = ask(vlm, [question("?")], [])
    assert evidence.provenance == f"cut off at the limit of tokens; revision c0ffee; {threads()} threads"
    assert evidence.request["model"] == "a/b"
    asyncio.run(vlm.close())


def test_weights_that_are_no_judge_are_said(judge: Judge, repository: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(repository("llava"), tmp_path / "mute")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(RefBenchError, match="has no chat template: choose an instruction-tuned model"):
        ask(judge(folder), [question("?")], [])
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(RefBenchError, match="give a vision-language model that transformers knows"):
        ask(judge(folder), [question("?")], [])

    with pytest.raises(RefBenchError, match="device=cuda:99 is not there or in trouble"):
        ask(judge("llava", device="cuda:99"), [question("?")], [])


# --- the end -----------------------------------------------------------------------------------------------------


def test_a_closed_judge_answers_nobody(judge: Judge) -> None:
    vlm = judge("llava")
    ask(vlm, [question("?")], [])
    asyncio.run(vlm.close())
    assert vlm._loaded.weights is None
    with pytest.raises(RefBenchError, match="was closed"):
        ask(vlm, [question("?")], [])


def test_closing_stops_a_long_reply_and_what_was_said_is_no_reply(judge: Judge) -> None:
    vlm = judge("llava", max_tokens=300)
    torch, loaded = pytest.importorskip("torch"), weights(vlm)
    steps = []

    async def work() -> Evidence:
        loop = asyncio.get_running_loop()
        started = asyncio.Event()

        def watch(module: Any, given: Any, made: Any) -> None:
            steps.append(1)
            if len(steps) == 3:
                loop.call_soon_threadsafe(started.set)

        handle = torch.nn.Module.register_forward_hook(loaded.model, watch)
        asked = asyncio.create_task(vlm.ask(question("?"), {}, 0))
        await started.wait()
        await vlm.close()
        handle.remove()
        return await asked

    with pytest.raises(RefBenchError, match="closed while it worked"):
        asyncio.run(work())
    assert len(steps) < 300


def test_who_no_longer_waits_holds_nobody_up(judge: Judge) -> None:
    vlm = judge("llava")

    async def work() -> Evidence:
        first = asyncio.create_task(vlm.ask(question("Never mind."), {}, 0))
        await asyncio.sleep(0)
        first.cancel()
        return await vlm.ask(question("?"), {}, 0)

    assert asyncio.run(work()).reply == ask(vlm, [question("?")], [])[0].reply
