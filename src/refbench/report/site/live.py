"""A site whose chunks are made when a page asks for them, and made anew when the runs have grown since."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from refbench.report.site.album import Album, Wanted
from refbench.report.site.pages import Pages
from refbench.report.site.script import script
from refbench.runs import Run
from refbench.runs.annotations import Annotation, annotate
from refbench.table import DRAWS, SEED

_SLOW = ("/compare", "/agreement")
"""Chunks that are made beside the others; they read the board, and no file that a refresh closes."""
_MOST_KEPT = 64
"""Chunks of cases that are kept; older ones are made again."""


class LiveSite:
    """What a server serves. A page that is loaded looks for news in the runs first."""

    def __init__(
        self,
        runs: Sequence[Path],
        *,
        data: Path | None = None,
        protocol: str = "both",
        refusals: str = "conditional",
        pictures: Wanted = "full",
        draws: int = DRAWS,
        seed: int = SEED,
    ) -> None:
        self.album = Album(pictures)
        self._runs = list(runs)
        self._options = {"data": data, "protocol": protocol, "refusals": refusals, "draws": draws, "seed": seed}
        self._lock = threading.Lock()
        self._slow = threading.Lock()
        self._closed = False
        self._state = self._state_now()
        self._current = self._opened()

    def chunk(self, name: str) -> bytes:
        """The script of a chunk; a name that no chunk has is a KeyError."""
        # Comparing many models on thousands of cases takes minutes: the other pages do not wait for it.
        with self._slow if name.endswith(_SLOW) else self._lock:
            if name == "site":  # what every page loads first: from here on it sees the runs as they are now
                self._refresh()
            pages, kept = self._current
            if name == "annotations":
                return script(name, pages.chunk(name))
            data = kept.get(name)
            if data is None:
                data = script(name, pages.chunk(name))
                while len(kept) >= _MOST_KEPT:
                    kept.pop(next(iter(kept)), None)
                kept[name] = data
            return data

    def annotate(self, board: str, annotation: Annotation) -> None:
        """Note something about a case in the first run of its board; an unknown board or case is a KeyError."""
        with self._lock:
            of_board = self._current[0].boards[board].board
            if annotation.case not in {case.id for case in of_board.cases}:
                raise KeyError(annotation.case)
            annotate(of_board.runs[0], annotation)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._current[0].close()
            self.album.close()

    def _refresh(self) -> None:
        state = self._state_now()
        if state != self._state:
            before, self._current, self._state = self._current, self._opened(), state
            before[0].close()

    def _state_now(self) -> list[object]:
        return [_state_of(Run.open(path)) for path in self._runs]

    def _opened(self) -> tuple[Pages, dict[str, bytes]]:
        """The runs as they are now, and a place for the chunks that are made from them."""
        pages = Pages(self._runs, self.album, live=True, **self._options)  # type: ignore[arg-type]
        kept: dict[str, bytes] = {}
        # Opening every picture takes long, and nobody should wait for it: flags come with a later loading of the page.
        work = threading.Thread(target=self._compare_pictures, args=(pages, kept), name="refbench-copies", daemon=True)
        work.start()
        return pages, kept

    def _compare_pictures(self, pages: Pages, kept: dict[str, bytes]) -> None:
        for name, of_board in pages.boards.items():
            of_board.compare_pictures(lambda: self._closed)
            with self._lock:
                for key in [key for key in kept if key.startswith((f"{name}/index", f"{name}/failures"))]:
                    kept.pop(key, None)


def _state_of(run: Run) -> list[tuple[str, int, int]]:
    """What changes when a run's ledgers grow: which files there are, of what size and age, their logs included."""
    found = []
    for ledger in run.ledgers():
        for path in (ledger, ledger.with_name(f"{ledger.name}-wal")):
            if path.exists():
                stat = path.stat()
                found.append((path.name, stat.st_size, stat.st_mtime_ns))
    return found
