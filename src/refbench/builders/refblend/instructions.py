"""Instructions: the references of a planned sample put into words, from ten templates a type.

The form is MultiRef's: a lead, one phrase for each type, and the caption last. The wording is ours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from refbench.benchmarks.multiref.cases import CAPTION_MARK, type_of, type_of_token
from refbench.builders.kit.draws import pick, shuffled
from refbench.builders.refblend.plan import PlannedSample
from refbench.builders.refblend.rules import Rules
from refbench.builders.refblend.samples import Sample, SampleReference
from refbench.builders.refblend.types import Type, joined
from refbench.failure import Failure
from refbench.record import RefBenchError, clean_text
from refbench.text.files import file_text, json_file

LEAD = "Generate an image"
CAPTION_LEAD = f"following the {CAPTION_MARK} "
TOKEN = re.compile(r"<[^<>]*>")
"""Anything in angle brackets: in an instruction, the name of a reference."""

Templates: TypeAlias = Mapping[Type, tuple[str, ...]]
"""Phrases by type, each with `{}` where the references are named."""

_SHIPPED = Path(__file__).with_name("data") / "templates.txt"
_ENDS = (".", "!", "?", "…", "。", "！", "？")
_CLOSING = "\"'”’»)]"


def load_templates(rules: Rules, path: Path | None = None) -> Templates:
    """Our phrases, those of a user's file, or those of the release's condition_mapping.json, as they are."""
    path = path or _SHIPPED
    by_type = _released(path, rules) if path.suffix.lower() == ".json" else _own(path)
    missing = [each for each in rules.use if each != "caption" and not by_type.get(each)]
    if missing:
        raise RefBenchError(f"{path} has no template for {', '.join(missing)}: add a section [{missing[0]}]")
    return {each: tuple(phrases) for each, phrases in by_type.items()}


def _own(path: Path) -> dict[Type, list[str]]:
    """A line `[type]`, then a phrase a line with one token in angle brackets; lines that are empty or begin with # do
    not count."""
    lines = file_text(path).splitlines()
    by_type: dict[Type, list[str]] = {}
    kind: Type | None = None
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        where = f"{path}, line {number}"
        if line.startswith("["):
            kind = type_of(line.strip("[]"))
            if kind is None or kind == "caption":
                raise RefBenchError(f"{where}: {line} is no type that has templates")
            by_type.setdefault(kind, [])
            continue
        if kind is None:
            raise RefBenchError(f"{where}: a line [type] has to come before the first template")
        by_type[kind].append(_template(line, kind, where))
        spoken = [each.casefold().rstrip(". ") for each in by_type[kind]]
        if spoken.count(spoken[-1]) > 1:  # as one of the released subject templates is
            raise RefBenchError(f"{where}: the same template stands above already: {line}")
    return by_type


def _released(path: Path, rules: Rules) -> dict[Type, list[str]]:
    """The release's form: for each type its phrases, the token in them, and the key of its pictures. Full stops stay,
    and a phrase that stands twice is drawn twice as often: both as in the release."""
    content = json_file(path)
    by_type: dict[Type, list[str]] = {}
    for word, said in content.items() if isinstance(content, dict) else ():
        kind, where = type_of(word), f"{path}: {word}"
        phrases = said.get("template") if isinstance(said, dict) else None
        if kind is None or not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
            raise RefBenchError(f"{where}: a reference type with a list of texts under template is wanted")
        rule = rules.types[kind]
        wanted = {"path_key": rule.path_key, "image_fill_key": rule.placeholder}
        for key, ours in wanted.items():
            if said.get(key) != ours:
                raise RefBenchError(f"{where}: {key} is {said.get(key)!r}, and {ours!r} in the rules {rules.name}")
        by_type[kind] = [_template(phrase, kind, where, verbatim=True) for phrase in phrases]
    return by_type


def _template(line: str, kind: Type, where: str, *, verbatim: bool = False) -> str:
    tokens = TOKEN.findall(line)
    if len(tokens) != 1 or type_of_token(tokens[0].strip("<>")) != kind or "{" in line or "}" in line:
        raise RefBenchError(
            f"{where}: a template names its reference once, as <{kind}_image>, and has no braces: {line}"
        )
    if CAPTION_MARK in line:
        raise RefBenchError(f"{where}: {CAPTION_MARK!r} begins the caption of an instruction, no template may have it")
    return (line if verbatim else line.rstrip(". ")).replace(tokens[0], "{}")


def compose(
    planned: PlannedSample,
    rules: Rules,
    templates: Templates,
    path_of: Callable[[Type, int], str],
    caption: str | None = None,
    *,
    seed: int = 0,
) -> Sample | Failure:
    """The sample in words; `path_of(type, instance)` is where the reference lies in the dataset.

    Order and phrases belong to the seed and the sample's id. Fails where a caption is needed and cannot be used.
    """
    chosen = dict(zip(planned.types, planned.instances, strict=True))
    usable = usable_caption(caption) if "caption" in chosen else None
    if isinstance(usable, Failure):
        return usable
    order = shuffled([kind for kind in planned.types if kind != "caption"], seed, planned.id, "order")
    phrases, references = [LEAD], []
    for kind in order:
        tokens = rules.types[kind].tokens(len(chosen[kind]))
        named = [f"<{token}>" for token in tokens]
        phrase = templates[kind][pick(len(templates[kind]), seed, planned.id, kind)]
        phrases.append(phrase.format(joined(named)))
        references += [
            SampleReference(type=kind, instance=number, token=token, path=path_of(kind, number))
            for token, number in zip(tokens, chosen[kind], strict=True)
        ]
    if usable is not None:
        references.append(SampleReference(type="caption", instance=chosen["caption"][0]))
        phrases.append(CAPTION_LEAD + usable)
    return Sample(
        id=planned.id,
        picture=planned.picture,
        references=tuple(references),
        caption=usable,
        instruction=_with_full_stop(" ".join(phrases)),
    )


def usable_caption(caption: str | None) -> str | Failure:
    """The caption on one line, without control characters.

    One with angle brackets is refused: they would read as the name of a reference.
    """
    shown = (" " if unicodedata.category(c) == "Cc" else c for c in clean_text(caption or ""))
    text = " ".join("".join(shown).split())
    if not text:
        return Failure(kind="undefined", detail="the picture has no caption")
    if TOKEN.search(text):
        return Failure(kind="unparsable", detail=f"the caption has angle brackets in it: {text[:200]}")
    return text


def _with_full_stop(text: str) -> str:
    """With one full stop: the released code puts a second one behind captions that end in their own."""
    return text if text.rstrip(_CLOSING).endswith(_ENDS) else f"{text}."
