"""Rewriting: an instruction in the voice of a persona by a VLM, taken only when it still asks for the same.

The released code states the same conditions in its prompt and never checks them. Here a reply that breaks one is asked
for once more; then the original stays, and the sample says why.
"""

from __future__ import annotations

import re
from collections import Counter

from refbench.benchmarks.multiref.entries import CAPTION_MARK
from refbench.chat import ChatRequest, ChatText
from refbench.chat.vlm import VLM
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.models.asking import REPEATS, is_refusal, reply_of, unfenced
from refbench.models.wrapped import wording
from refbench.record import clean_text
from refbench.refblend.instructions import TOKEN
from refbench.refblend.sample import Sample

_TRIES = 2
_SPACING = "\n\t\u200c\u200d"
"""Not printable by Unicode's account, but what lines, Persian and emoji are made with."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "„": "“", "‘": "’"}
_ARTICLE = re.compile(r"^(?:an?|the|one|some)\s+", re.IGNORECASE)
_HEAD_ENDS = re.compile(r"[,;:.(]|\s(?:who|whose|that|which|with|from|in|at|on|for|of|by|and|to)\s", re.IGNORECASE)


async def rewrite(vlm: VLM, sample: Sample, persona: str, repeat: int = 0) -> tuple[Sample, tuple[Evidence, ...]]:
    """The sample with its instruction rewritten, or with why it was not; and what was asked and answered."""
    told: list[Evidence] = []
    why = Failure(kind="missing_reply")
    for attempt in range(_TRIES):
        # A refusal is quoted in its failure; only our own words about a rewriting go back.
        request = rewrite_request(sample.instruction, persona, why.detail if why.kind == "unparsable" else "")
        evidence = await vlm.ask(request, {}, repeat * REPEATS + attempt)
        told.append(evidence)
        reply = reply_of(evidence)
        read = reply if isinstance(reply, Failure) else read_rewriting(sample.instruction, reply, persona)
        if isinstance(read, str):
            done = {"enhanced": (read,), "persona": persona, "rewriting": "rewritten", "why_kept": None}
            return sample.model_copy(update=done), tuple(told)
        why = read
        if why.transient:  # the transport has tried again already; the next run may
            break
    kept = {"enhanced": (), "persona": persona, "rewriting": "kept", "why_kept": why}
    return sample.model_copy(update=kept), tuple(told)


def rewrite_request(instruction: str, persona: str, complaint: str = "") -> ChatRequest:
    """What the VLM is asked; the second time with what was wrong with its first answer."""
    said = f"Your last answer could not be used: {complaint}." if complaint else ""
    text = wording(
        "refbench.refblend", "data/rewrite.txt", persona=persona, instruction=instruction, complaint=said
    ).strip()
    return ChatRequest(parts=(ChatText(text=text),), max_tokens=1000)


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
