"""How wrappers and agents ask a VLM about pictures, and how they keep a picture on disk for the next model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare, store_in
from refbench.chat.vlm import VLM
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.pictures import EXTENSIONS, sniff

REPEATS = 100
"""Questions that one seed may ask of a VLM: a repeat is seed x REPEATS + number, so that none is taken for another."""

_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)\n?\s*```", re.DOTALL)
_REFUSAL = re.compile(
    r"(?:i['’]?m|i am) (?:very |really |so )?(?:sorry|unable|not able)|sorry\b|i (?:can['’]?t|cannot|won['’]?t)\b|"
    r"as an ai\b|unfortunately\b",
    re.IGNORECASE,
)
_FAILED_DECODINGS = 200


async def ask(vlm: VLM, parts: Sequence[str | Path], repeat: int, folder: Path) -> Evidence | Failure:
    """The VLM's reply to texts and pictures in this order; pictures that must be re-encoded are put into `folder`."""
    pictures: dict[str, SentPicture] = {}
    chat_parts: list[ChatText | ChatPicture] = []
    for part in parts:
        if isinstance(part, str):
            chat_parts.append(ChatText(text=part))
            continue
        sent = await asyncio.to_thread(prepare, part, PicturePolicy(), store_in(folder))
        if isinstance(sent, Failure):
            return sent
        pictures[sent.sha256] = sent
        chat_parts.append(ChatPicture(sha256=sent.sha256))
    return await vlm.ask(ChatRequest(parts=tuple(chat_parts)), pictures, repeat)


def reply_of(evidence: Evidence) -> str | Failure:
    """The reply, or why there is none that can be used: one that was cut off is not what the VLM meant to say."""
    if evidence.failure is not None:
        return evidence.failure
    if evidence.provenance.startswith("cut off"):
        return Failure(kind="unparsable", detail=f"the reply was {evidence.provenance}")
    return evidence.reply or ""


def seconds_of(evidence: Evidence) -> float | None:
    known = [attempt.seconds for attempt in evidence.attempts if attempt.seconds is not None]
    return sum(known) if known else None


def keep(pictures: Sequence[bytes], folder: Path, stem: str) -> tuple[Path, ...]:
    """The pictures as files, in order."""
    kept = []
    for number, data in enumerate(pictures, 1):
        name = stem if len(pictures) == 1 else f"{stem}-{number}"
        path = folder / f"{name}{EXTENSIONS.get(sniff(data) or '', '.png')}"
        path.write_bytes(data)
        kept.append(path)
    return tuple(kept)


def unfenced(reply: str) -> str:
    """The reply without a code fence around the whole of it."""
    fence = _FENCE.fullmatch(reply.strip())
    return (fence[1] if fence else reply).strip()


def is_refusal(reply: str) -> bool:
    """Whether a text that should be a prompt begins as refusals do: painted, it would be a picture of an excuse."""
    return _REFUSAL.match(reply.strip()) is not None


def json_objects(reply: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a reply. Nothing is repaired."""
    decoder, at, failed = json.JSONDecoder(strict=False), 0, 0
    while failed < _FAILED_DECODINGS and (start := reply.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            failed, at = failed + 1, start + 1
            continue
        yield value
