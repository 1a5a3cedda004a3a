"""A short caption of a picture through any VLM: the request, the reading of the reply, and both in one call."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import PicturePolicy, prepare
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.machine import scratch_folder

WORDS = 20
_QUOTES = "\"'`“”„«»‘’*"
# Chinese and Japanese put no spaces between words: there, two characters are taken for a word.
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")
_LEAD = re.compile(r"(?:(?:here is|here's|this is) (?:the|a|your) )?caption(?: for th[ei]s? \w+)?\s*[:：]\s*", re.I)


async def caption(vlm: VLM, picture: Path, *, subject: str | bool = False, repeat: int = 0) -> str | Failure:
    """The picture's caption, at most twenty words. `subject` asks for its main subject, or for the one named."""
    with scratch_folder() as folder:

        def store(data: bytes, picture_format: str) -> Path:
            path = folder / f"sent.{picture_format}"
            path.write_bytes(data)
            return path

        sent = prepare(picture, PicturePolicy(), store)
        if isinstance(sent, Failure):
            return sent
        evidence = await vlm.ask(caption_request(sent.sha256, subject), {sent.sha256: sent}, repeat)
    if evidence.failure is not None:
        return evidence.failure
    return read_caption(evidence.reply or "")


def caption_request(sha256: str, subject: str | bool = False) -> ChatRequest:
    """What is asked about the picture of that hash."""
    named = f", the {subject}," if isinstance(subject, str) else ""
    focus = _text("caption_focus.txt").format(named=named) if subject else ""
    text = _text("caption.txt").format(words=WORDS, focus=focus).strip()
    return ChatRequest(parts=(ChatText(text=text), ChatPicture(sha256=sha256)), max_tokens=300)


def _text(name: str) -> str:
    return resources.files("refbench.extractors").joinpath(name).read_text("utf-8")


def read_caption(reply: str) -> str | Failure:
    """The caption in a reply: one line without quotes or announcement, or why there is none."""
    lines = [line.strip() for line in reply.strip().splitlines() if line.strip()]
    if len(lines) == 2 and lines[0].endswith((":", "：")):  # an announcement on a line of its own
        lines = lines[1:]
    text = " ".join(lines).strip(_QUOTES + " ")
    text = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    text = text.strip(_QUOTES + " ")
    if not text:
        return Failure(kind="empty_reply", detail="the reply has no caption")
    words = len(_WORD.findall(text))
    if words > WORDS:
        # Cutting it would make a caption that nobody wrote.
        return Failure(kind="out_of_range", detail=f"the caption has {words} words, at most {WORDS} were asked for")
    return text
