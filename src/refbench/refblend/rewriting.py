"""Rewriting: an instruction in the voice of a persona by a VLM, taken only when it still asks for the same.

The released code states the same conditions in its prompt and never checks them. Here a reply that breaks one is asked
for once more; then the original stays, and the sample says why.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from refbench.benchmarks.multiref.entries import CAPTION_MARK
from refbench.chat.vlm import VLM
from refbench.engine.interviews import Interviews
from refbench.failure import Failure
from refbench.models.asking import is_refusal, unfenced
from refbench.models.wrapped import wording
from refbench.record import clean_text
from refbench.refblend.instructions import TOKEN
from refbench.refblend.sample import Sample

_SPACING = "\n\t\u200c\u200d"
"""Not printable by Unicode's account, but what lines, Persian and emoji are made with."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "„": "“", "‘": "’"}
_ARTICLE = re.compile(r"^(?:an?|the|one|some)\s+", re.IGNORECASE)
_HEAD_ENDS = re.compile(r"[,;:.(]|\s(?:who|whose|that|which|with|from|in|at|on|for|of|by|and|to)\s", re.IGNORECASE)


async def rewrite(interviews: Interviews, vlm: VLM, sample: Sample, persona: str) -> Sample:
    """The sample with its instruction rewritten, or with why it was not. What is on record is not asked for again."""

    def read(reply: str) -> str | Failure:
        return read_rewriting(sample.instruction, reply, persona)

    text = rewrite_text(sample.instruction, persona)
    told = await interviews.ask(vlm, sample.id, "rewriting", [text], read, max_tokens=1000)
    done: dict[str, Any]
    if isinstance(told, str):
        done = {"enhanced": (told,), "persona": persona, "rewriting": "rewritten", "why_kept": None}
    else:  # the transport has tried again what is transient; the next build may
        done = {"enhanced": (), "persona": persona, "rewriting": "kept", "why_kept": told}
    return sample.model_copy(update=done)


def rewrite_text(instruction: str, persona: str) -> str:
    """What the VLM is asked."""
    return wording("refbench.refblend", "data/rewrite.txt", persona=persona, instruction=instruction).strip()


def read_rewriting(original: str, reply: str, persona: str) -> str | Failure:
    """The new text in a reply, freed of a fence or quotation marks around the whole of it, or what is wrong with it."""
    plain = reply.strip()
    if not plain:
        return Failure(kind="empty_reply", detail="it is empty")
    bare = unfenced(plain)
    unquoted = bare[1:-1].strip() if len(bare) > 1 and _QUOTES.get(bare[0]) == bare[-1] else bare
    for text in (plain, bare, unquoted):
        if not fault(original, text, persona):
            return text
    if is_refusal(plain):
        return Failure(kind="refused", detail=plain[:300])
    return Failure(kind="unparsable", detail=fault(original, unquoted, persona))


def fault(original: str, rewritten: str, persona: str) -> str:
    """What makes a rewriting another request than the original, "" when nothing does."""
    if not rewritten.strip():
        return "it is empty"
    if len(rewritten) > 4 * len(original) + 1000:
        return f"it has {len(rewritten)} characters where the request has {len(original)}"
    if clean_text(rewritten) != rewritten or any(
        not c.isprintable() and c not in _SPACING + original for c in rewritten
    ):
        return "it has characters that cannot be shown"
    wanted, found = Counter(TOKEN.findall(original)), Counter(TOKEN.findall(rewritten))
    if wanted != found:
        lost, added = sorted((wanted - found).elements()), sorted((found - wanted).elements())
        said = [f"it lacks {', '.join(lost)}"] * bool(lost) + [f"it adds {', '.join(added)[:200]}"] * bool(added)
        return " and ".join(said)
    before, mark, caption = rewritten.partition(CAPTION_MARK)
    if (mark, caption) != original.partition(CAPTION_MARK)[1:]:
        return "what follows caption: is not the same" if mark else "it has lost the caption"
    if rewritten.count("<") != original.count("<") or rewritten.count(">") != original.count(">"):
        return "it has stray angle brackets"
    named = mentioned(persona, before, original)
    return f"it mentions the person ({named})" if named else ""


def mentioned(persona: str, text: str, original: str) -> str:
    """The part of the persona that the text mentions and the original does not: the whole, its role, or its noun."""
    whole = _ARTICLE.sub("", " ".join(persona.split()).rstrip("."))
    role = _HEAD_ENDS.split(whole, maxsplit=1)[0].strip()
    noun = role.rpartition(" ")[2]
    for words in (whole, role, noun, "persona"):
        if len(words) >= 3 and _has(words, text) and not _has(words, original):
            return words
    return ""


def _has(words: str, text: str) -> bool:
    spaced = r"\s+".join(map(re.escape, words.split()))
    return re.search(rf"(?<!\w){spaced}(?!\w)", text, re.IGNORECASE) is not None
