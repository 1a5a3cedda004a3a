"""From runs to a sheet of pictures: outputs from the runs, references from where the data lies, values by case."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.report.grid_choice import Chosen, Marks, state_of
from refbench.report.grid_sheet import SheetCell, SheetRow, Shot
from refbench.report.site.album import hashes_of
from refbench.report.site.boards import Board, open_boards
from refbench.report.site.sources import picture_root
from refbench.version import __version__


def open_board(runs: Sequence[Path], protocol: str | None) -> Board:
    """The runs as one board: all of the same cases."""
    boards = open_boards(runs, protocol=protocol or "both", draws=0)
    if len(boards) > 1:
        for board in boards:
            board.close()
        said = "; ".join(f"{', '.join(board.run_names)}: {board.bench.title}" for board in boards)
        raise RefBenchError(f"a sheet is about one set of cases, and these runs have {len(boards)} ({said})")
    return boards[0]


def sheet_rows(
    board: Board, marks: Marks, chosen: Chosen, models: Sequence[str], data: Path | None, seed: int = 0
) -> list[SheetRow]:
    """A row for each case: its references by role, then the models' outputs of one seed."""
    root = picture_root(board.runs, board.bench, board.cases, data)
    position = {case.id: n for n, case in enumerate(board.cases)}
    return [
        SheetRow(
            case=case.id,
            instruction=case.request.instruction,
            references=tuple(_reference(board, picture, root) for picture in case.request.pictures),
            cells=tuple(_cell(board, marks, case, position[case.id], model, seed) for model in models),
        )
        for case in chosen.cases
    ]


def _reference(board: Board, picture: Picture, root: Path | None) -> Shot:
    path = root / picture.name if root is not None else None
    if path is None or not path.is_file():
        return Shot(picture.role)
    if hashes_of(picture, board.inputs) - {hashlib.sha256(path.read_bytes()).hexdigest()}:
        other = Failure(kind="unreadable_picture", detail=f"{picture.name} is not the picture that was recorded")
        return Shot(picture.role, failure=other)
    return Shot(picture.role, path)


def _cell(board: Board, marks: Marks, case: AnyCase, position: int, model: str, seed: int) -> SheetCell:
    number = board.model_numbers[model]
    run = board.runs[board.models[number].run]
    outputs = [
        output
        for who, output in board.outputs_by_case.get(case.id, [])
        if who == number and output.step is None and output.seed == seed
    ]
    if not outputs:
        shots: tuple[Shot, ...] = (Shot("output", absent="no output is recorded"),)
        return SheetCell(model, shots, state_of(marks, model, case, position, None))
    output = outputs[0]
    if output.failure is not None:
        shots = (Shot("output", failure=output.failure),)
    else:
        shots = tuple(Shot("output", run.blobs.path(p.sha256, p.format)) for p in output.pictures)
    return SheetCell(model, shots, state_of(marks, model, case, position, output.failure))


def caption_of(board: Board, marks: Marks, chosen: Chosen, models: Sequence[str], seed: int = 0) -> str:
    """What one must know to believe the sheet."""
    seeds = max(board.result.seeds.get(model, 1) for model in models)
    of_seeds = f", mean of {seeds} seeds; the pictures are of seed {seed}" if seeds > 1 else ""
    said = [
        f"{board.bench.title}, {len(board.cases)} cases; shown: {chosen.rule}.",
        f"Under each picture: {marks.said} of this case alone{' (lower is better)' if marks.lower else ''}{of_seeds}.",
        f"RefBench {__version__}; {board.result.measured_by()}; fingerprint {board.result.table.fingerprint}.",
    ]
    return " ".join(said)
