"""What VLMs are asked and what they reply: prompts, one JSON object read from a reply, and checks of the texts in it.

Nothing is repaired: what is cut off or broken is asked for once more, for a text that is nearly there would be shipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from refbench.failure import Failure
from refbench.judges.prompts import filled
from refbench.judges.values import Pairs, answer_text, decoded, objects, refusal
from refbench.record import clean_text, content_key

Options = ParamSpec("Options")
Read = TypeVar("Read")


@dataclass(frozen=True)
class Prompts:
    """The prompts of a builder: text files in the folder `prompts` of its package."""

    package: str
    names: tuple[str, ...]

    def __call__(self, name: str, **values: str) -> str:
        """The prompt with its places filled."""
        return filled(package_text(self.package, f"prompts/{name}.txt").strip(), values)

    def key(self, *more: Any) -> str:
        """Of the words as they are shipped, and of `more` that they are filled with: others make another dataset."""
        return content_key([*map(self, self.names), *more])[:16]


def package_text(package: str, path: str) -> str:
    """A text file that is shipped with a package."""
    return resources.files(package).joinpath(path).read_text("utf-8")


def numbered(label: str, pictures: Iterable[Path]) -> list[str | Path]:
    """Each picture behind its label, in which {} is its number."""
    return [part for number, path in enumerate(pictures, 1) for part in (label.format(number), path)]


def reads(
    *keys: str,
) -> Callable[
    [Callable[Concatenate[dict[str, Any], Options], Read | Failure]],
    Callable[Concatenate[str, Options], Read | Failure],
]:
    """Makes a reader of the object with these keys a reader of replies that hold it."""

    def of_reply(
        read: Callable[Concatenate[dict[str, Any], Options], Read | Failure],
    ) -> Callable[Concatenate[str, Options], Read | Failure]:
        @wraps(read)
        def reader(reply: str, /, *more: Options.args, **options: Options.kwargs) -> Read | Failure:
            said = read_object(reply, keys)
            return said if isinstance(said, Failure) else read(said, *more, **options)

        return reader

    return of_reply


def unusable(detail: str) -> Failure:
    """A reply that cannot be used: it is quoted back with the detail, and asked for once more."""
    return Failure(kind="unparsable", detail=detail)


def read_object(reply: str, keys: Sequence[str]) -> dict[str, Any] | Failure:
    """The object that has all the keys. Two that differ, or a key that is there twice, are no answer."""
    text = answer_text(reply)
    if isinstance(text, Failure):
        return text
    values, _ = decoded(text)
    found = [pairs for value in values for pairs in objects(value) if set(keys) <= {key for key, _ in pairs}]
    if not found:
        if not values and (refused := refusal(text)):
            return refused
        wanted = ", ".join(f'"{key}"' for key in keys)
        return unusable(f"no complete JSON object with the keys {wanted} is in it")
    if any(other != found[0] for other in found[1:]):
        return unusable("several JSON objects are in it, and they differ")
    names = [key for key, _ in found[0]]
    if len(set(names)) < len(names):
        return unusable("a key is there twice")
    return _plain(found[0])


def reason_of(why: Failure) -> str:
    """What dropped.jsonl and the card count a failure under."""
    return {"unparsable": "unusable reply"}.get(why.kind, why.kind.replace("_", " "))


def line(value: Any) -> str:
    """A text in one line; empty for anything that is no text."""
    return " ".join(clean_text(value).split()) if isinstance(value, str) else ""


def lines(value: Any) -> tuple[str, ...]:
    """The texts of a list, each in one line; those that are no text or empty are left out."""
    return tuple(said for item in value if (said := line(item))) if isinstance(value, list) else ()


def _plain(pairs: Pairs) -> dict[str, Any]:
    return {key: _value(item) for key, item in pairs}


def _value(item: Any) -> Any:
    if isinstance(item, Pairs):
        return _plain(item)
    return [_value(one) for one in item] if isinstance(item, list) else item


# --- checks of texts ------------------------------------------------------------------------------------------

_TOO_ALIKE = 0.8
"""Share of common words above which two instructions count as one. Of 123 released ones no two reach 0.3."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_OPEN_QUESTION = re.compile(r"(?:what|which|who|whom|whose|where|when|why|how)\b", re.IGNORECASE)
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|may|might|must)(?:n['’]t)?\b",
    re.IGNORECASE,
)
_SMALL_WORDS = frozenset(
    word
    for words in (
        ("a", "an", "the", "is", "are", "was", "were", "does", "do", "did", "has", "have", "had", "can", "could"),
        ("will", "would", "in", "of", "on", "at", "to", "and", "with", "its", "it", "this", "that", "there", "be"),
        ("been", "image", "picture", "edited", "still"),
    )
    for word in words
)


def same_question(text: str) -> frozenset[str]:
    """Questions with the same words, small ones apart, ask the same."""
    return frozenset(words(text)) - _SMALL_WORDS or frozenset(words(text))


def repeats(text: str, others: Iterable[str]) -> str:
    """The one of the others that this instruction repeats, "" when it is of its own."""
    return next((other for other in others if alike(text, other) >= _TOO_ALIKE), "")


def alike(one: str, other: str) -> float:
    """The words that two texts share, as a share of all their words."""
    mine, theirs = set(words(one)), set(words(other))
    return len(mine & theirs) / len(mine | theirs) if mine or theirs else 1.0


def words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def text_fault(text: str, least: int, most: int, what: str = "the instruction") -> tuple[str, str] | None:
    """The kind of what makes a text unfit to ship (to count by) and what it is, for its writer to act on."""
    count = len(words(text))
    if not least <= count <= most:
        return "length", f"{what} has {count} words, not {least} to {most}"
    if not text.isprintable():
        return "unprintable", f"{what} has characters that cannot be shown"
    return None


def is_one_question(text: str) -> bool:
    return text.count("?") == 1 and text.endswith("?")


def is_yes_or_no(text: str) -> bool:
    """Whether Yes or No answers the question."""
    return not _OPEN_QUESTION.match(text) and bool(_AUXILIARY.search(text))
