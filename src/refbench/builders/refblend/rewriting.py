"""Rewriting: an instruction in the voice of a persona by a VLM, taken only when it still asks for the same.

The released code states the same conditions in its prompt and never checks them. Here a reply that breaks one is asked
for once more; then the original stays, and the sample says why. Personas come from a user's file, or a list of ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refbench.benchmarks.multiref.cases import CAPTION_MARK
from refbench.builders.kit.draws import pick
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.instructions import TOKEN
from refbench.builders.refblend.samples import Sample
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.models.wrappers.wrapper import is_refusal, unfenced, wording
from refbench.record import RefBenchError, clean_text
from refbench.text.files import file_text, json_value

_SHIPPED = Path(__file__).with_name("data") / "personas.txt"
_LONGEST = 1000
_SPACING = "\n\t\u200c\u200d"
"""Not printable by Unicode's account, but what lines, Persian and emoji are made with."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "„": "“", "‘": "’"}
_ARTICLE = re.compile(r"^(?:an?|the|one|some)\s+", re.IGNORECASE)
_HEAD_ENDS = re.compile(r"[,;:.(]|\s(?:who|whose|that|which|with|from|in|at|on|for|of|by|and|to)\s", re.IGNORECASE)


def load_personas(path: Path | None = None) -> tuple[str, ...]:
    """One persona a line, or `{"persona": "..."}` a line, or a JSON list of such objects; each once, in order.

    Lines that are empty or begin with # do not count.
    """
    path = path or _SHIPPED
    text = file_text(path)
    personas: dict[str, None] = {}
    for where, item in _items(path, text):
        written = item.get("persona") if isinstance(item, dict) else item
        if not isinstance(written, str):
            raise RefBenchError(f'{where}: give a text, or an object with a text under "persona"')
        persona = " ".join(clean_text(written).split())
        if len(persona) > _LONGEST:
            raise RefBenchError(f"{where}: a persona has at most {_LONGEST} characters, this one {len(persona)}")
        if persona:
            personas[persona] = None
    if not personas:
        raise RefBenchError(f"{path} holds no persona: write one a line")
    return tuple(personas)


def _items(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """The texts or objects of the file, each with its place in it."""
    if text.lstrip().startswith("["):
        for number, item in enumerate(json_value(text, str(path)), 1):
            yield f"{path}, entry {number}", item
        return
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        where = f"{path}, line {number}"
        if line.startswith("{"):
            yield where, json_value(line, where)
        elif line and not line.startswith("#"):
            yield where, line


def persona_for(personas: tuple[str, ...], sample_id: str, seed: int = 0) -> str:
    """The persona that belongs to the seed and the sample."""
    return personas[pick(len(personas), seed, sample_id, "persona")]


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
    return wording("refbench.builders.refblend", "data/rewrite.txt", persona=persona, instruction=instruction).strip()


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
    wanted, there = Counter(TOKEN.findall(original)), Counter(TOKEN.findall(rewritten))
    if wanted != there:
        lost, added = sorted((wanted - there).elements()), sorted((there - wanted).elements())
        faults = [f"it lacks {', '.join(lost)}"] * bool(lost) + [f"it adds {', '.join(added)[:200]}"] * bool(added)
        return " and ".join(faults)
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
