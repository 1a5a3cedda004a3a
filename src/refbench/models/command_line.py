"""A command line with places for a request: split once, filled argument by argument, never seen by a shell."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from refbench.failure import Failure
from refbench.models.function_options import digest
from refbench.models.model import Commission
from refbench.record import RefBenchError, clean_text

_PLACE = re.compile(r"\{([a-z_]+)(\d*)\}")
PLACES = ("instruction", "request", "output", "folder", "seed", "width", "height", "n_pictures", "pictures", "picture1")


@dataclass(frozen=True)
class CommandLine:
    """The arguments as written, with their places."""

    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, name: str, *, asked: bool) -> CommandLine:
        """Split as a shell would and check that the program and the places exist. `asked`: it will read requests."""
        try:
            arguments = tuple(shlex.split(text))
        except ValueError as error:
            raise RefBenchError(f"--model {name}: the command {text} cannot be split: {error}") from error
        if not arguments:
            raise RefBenchError(f"--model {name}: the command is empty")
        if shutil.which(arguments[0]) is None:
            raise RefBenchError(f"--model {name}: there is no program {arguments[0]} here")
        places = {match[1] for argument in arguments for match in _PLACE.finditer(argument)}
        if asked and places:
            raise RefBenchError(
                f"--model {name}: with mode=worker requests come on standard input, so {{{min(places)}}} has no meaning"
            )
        if not asked:
            _check(arguments, name)
        return cls(arguments)

    def filled(self, values: Mapping[str, str], commission: Commission) -> list[str] | Failure:
        """The arguments of one request; a place that the request has nothing for is a Failure."""
        pictures = [str(shown.path.absolute()) for shown in commission.pictures]
        filled: list[str] = []
        for argument in self.arguments:
            if argument == "{pictures}":
                filled += pictures
                continue
            lacking = ""

            def fill(match: re.Match[str]) -> str:
                nonlocal lacking
                if match[1] == "picture":
                    number = int(match[2])
                    if number <= len(pictures):
                        return pictures[number - 1]
                    lacking = f"the command wants {match[0]}, but this case shows {len(pictures)} pictures"
                elif not values[match[1]]:
                    lacking = f"the command wants {match[0]}, but this case names no size: add ?size=1024x1024"
                return values.get(match[1], "")

            text = _PLACE.sub(fill, argument)
            if lacking:
                return Failure(kind="missing_output", detail=lacking)
            filled.append(clean_text(text).replace("\0", ""))
        return filled

    def sources(self) -> str:
        """The files among the arguments with hashes of their content: they may be edited between two runs."""
        found = []
        for number, argument in enumerate(self.arguments):
            path = Path(argument.rpartition("=")[2] if argument.startswith("-") else argument)
            if _PLACE.search(argument) or not path.is_file():
                continue
            if number == 0 and path.read_bytes()[:2] != b"#!":
                continue  # an interpreter: the same program wherever it is installed
            found.append(f"{path.name}={digest(path)}")
        return " ".join(found)


def _check(arguments: tuple[str, ...], name: str) -> None:
    places: set[str] = set()
    for argument in arguments:
        for match in _PLACE.finditer(argument):
            place, number = match[1], match[2]
            good = place == "picture" if number else place in PLACES and place != "picture1"
            if not good or number == "0":
                raise RefBenchError(f"--model {name}: the command has {match[0]}, there are {{{'}, {'.join(PLACES)}}}")
            if place == "pictures" and argument != "{pictures}":
                raise RefBenchError(
                    f"--model {name}: {{pictures}} becomes several arguments and must stand alone, not as {argument}"
                )
            places.add(place)
    if not places & {"output", "folder"}:
        raise RefBenchError(f"--model {name}: the command has no {{output}}, so it cannot know where to write")
    if not places & {"instruction", "request"}:
        raise RefBenchError(f"--model {name}: the command has no {{instruction}}, so it cannot know what to paint")
