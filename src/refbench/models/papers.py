"""The models that the benchmarks' papers evaluated: how each is run here, and ids that are gone upstream, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from refbench.record import Record, RefBenchError
from refbench.specs import Spec, nearest

_TABLE = Path(__file__).with_name("papers.toml")


class KnownModel(Record):
    """How a model is run; papers.toml explains the columns."""

    name: str
    route: str
    licence: str
    references: str
    state: Literal["tested small", "wire format tested", "route untested", "not provided", "shut down"]
    note: str = ""
    usd: float | None = None
    """Dollars for a picture at list price; `priced` says where that is read."""
    priced: str = ""
    id: str = ""
    """`kind:ID` of what the papers used; "" where it is the route's own."""

    @property
    def gone(self) -> str:
        """What became of the papers' own id upstream; "" while it lives."""
        found = gone(*_id(self.id or self.route))
        return "" if found is None else f"{_id(self.id or self.route)[1]} {found.said}"


class Gone(Record):
    """An id that no longer answers at its provider's own address, or whose end is only announced."""

    said: str
    """What became of it, and when."""
    now: str
    """What people use in its place. Weights elsewhere are the same model; an API's successor is another one."""
    announced: bool = False


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    return tomllib.loads(_TABLE.read_text("utf-8"))


@lru_cache(maxsize=1)
def known_models() -> Mapping[str, KnownModel]:
    return {name: KnownModel.model_validate(table) for name, table in _tables()["models"].items()}


def models_of(paper: str) -> Mapping[str, KnownModel]:
    """The rows of a paper's tables, each with the route of that paper; `today` for what people use now."""
    papers = _tables()["papers"]
    if paper not in papers:
        raise RefBenchError(f"--of {paper}: nothing is known of its models: {nearest(paper, list(papers))}")
    found = {}
    for label, row in papers[paper].items():
        given = {"model": row} if isinstance(row, str) else dict(row)
        found[label] = known_models()[given.pop("model")].model_copy(update=given)
    return found


def _id(text: str) -> tuple[str, str]:
    """Kind and model of a spec, of a wrapped one those inside."""
    spec = Spec.parse(text).innermost if text else None
    return ("", "") if spec is None else (spec.kind, spec.what)


def gone(kind: str, model: str) -> Gone | None:
    """What is known of an id's end; None where it lives."""
    table = _tables()["gone"].get(kind, {}).get(model)
    return None if table is None else Gone.model_validate(table)
