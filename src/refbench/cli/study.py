"""`refbench study`: people rate, compare and review."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from refbench.cli.options import Json, Level, not_negative
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.studies.export import Arena, Exported
    from refbench.studies.new import Made, NewStudy

study_command = App(
    name="study",
    help="Let people rate, compare and review: screens, links, agreement, marks that count like a judge's.",
    default_parameter=Parameter(negative=()),
)

Folder = Annotated[Path, Parameter(help="Folder of the study")]
ScreenName = Literal["rate", "set", "questions", "pair", "reference", "review"]


@study_command.command(name="new")
def _new_command(
    study: Annotated[Path, Parameter(help="Folder to make")],
    *,
    source: Annotated[
        Path,
        Parameter(name="--from", help="Run directory; a build or its review.jsonl (review); a blend (reference)"),
    ],
    screen: Annotated[ScreenName, Parameter(help="How items are shown")],
    rubric: Annotated[
        str | None,
        Parameter(help="What is asked: a judge's rubric, or creval, imagenhub, multiref, references; else the judge's"),
    ] = None,
    items: Annotated[int, Parameter(help="How many items")] = 100,
    raters: Annotated[int, Parameter(help="Raters of each item")] = 3,
    per_rater: Annotated[int | None, Parameter(help="Most items for one rater; by default all")] = None,
    model: Annotated[list[str] | None, Parameter(help="Only this model; may be given several times")] = None,
    sample: Annotated[Path | None, Parameter(help="The list of refbench sample: which outputs people rate")] = None,
    data: Annotated[Path | None, Parameter(help="Where the pictures lie, if not where they were")] = None,
    seed: Annotated[int, Parameter(help="Seed of orders and sides", validator=not_negative)] = 0,
    no_training: Annotated[bool, Parameter(help="Begin without training items", show_default=False)] = False,
    no_gold: Annotated[bool, Parameter(help="Mix no gold items in", show_default=False)] = False,
    attention: Annotated[
        int, Parameter(help="Explicit checks for each rater: choose 3 here", validator=not_negative)
    ] = 0,
    variants: Annotated[
        Path | None, Parameter(help="Gold and training from what refbench audit make has written, as far as it goes")
    ] = None,
    preregister: Annotated[
        Path | None, Parameter(help="Hypotheses, one a line: frozen with the rules and n before the first mark")
    ] = None,
    plan: Annotated[bool, Parameter(help="Only say what it asks of people and can show", show_default=False)] = False,
    json: Json = False,
) -> int:
    """Make a study from a run's outputs, a build's review, or a blend's references. study.toml may be edited before
    the first mark; what is changed later is another version, which export keeps apart."""
    from refbench.studies.new import NewStudy, new_study, prepared

    if items < 1 or raters < 1 or (per_rater is not None and per_rater < 1):
        raise RefBenchError("--items, --raters and --per-rater are 1 or more")
    asked = NewStudy(
        source=source,
        screen=screen,
        rubric=rubric,
        items=items,
        overlap=raters,
        per_rater=per_rater,
        models=model or (),
        sample=sample,
        data=data,
        seed=seed,
        training=not no_training,
        gold=not no_gold,
        attention=attention,
        variants=variants,
        preregister=preregister,
    )
    made = prepared(asked) if plan else new_study(study, asked)
    _print_plan(study, asked, made, json=json, written=not plan)
    return 0


@study_command.command(name="serve")
def _serve_command(
    study: Folder,
    *,
    port: Annotated[int, Parameter(help="Port; by default that of the last time, else a free one")] = 0,
    public: Annotated[
        str | None, Parameter(help="https://... under which a TLS proxy passes raters on; without it, loopback only")
    ] = None,
    host: Annotated[str, Parameter(help="Address to listen at; others than loopback need --public")] = "127.0.0.1",
    owner_public: Annotated[
        bool, Parameter(help="Let the owner's link work through --public too", show_default=False)
    ] = False,
) -> int:
    """Serve the study to its raters until it is stopped. Marks are on disk before a rater sees the tick."""
    from refbench.studies.server import ServeOptions, serve
    from refbench.studies.study import Study

    options = ServeOptions(port=port, host=host, public=public or "", owner_public=owner_public)
    return serve(Study.open(study), options)


@study_command.command(name="links")
def _links_command(
    study: Folder,
    n: Annotated[int, Parameter(help="How many links for raters to make")] = 0,
    *,
    name: Annotated[list[str] | None, Parameter(help="Whose link it is, for you alone; a link each")] = None,
    owner: Annotated[bool, Parameter(help="Make a link for the owner's page", show_default=False)] = False,
    revoke: Annotated[str | None, Parameter(help="Withdraw this rater's link; the marks stay")] = None,
    base: Annotated[
        str, Parameter(help="Address that raters open, https://...; by default that of the running or last server")
    ] = "",
    json: Json = False,
) -> int:
    """Make links, one a rater. They are shown once: the study keeps only a hash of each."""
    from refbench.studies.study import Study

    opened = Study.open(study)
    if revoke is not None:
        opened.raters.change(revoke, revoked=True)
        print(f"{revoke}: the link is withdrawn")
        return 0
    address = _address(study, base)
    names = [*(name or []), *[""] * max(0, n - len(name or []))]
    made = [opened.raters.add(name=one, time=opened.clock()) for one in names]
    made += [opened.raters.add(role="owner", time=opened.clock())] if owner else []
    if not made:
        raise RefBenchError("say how many links to make (refbench study links STUDY 3), or --owner, or --revoke RATER")
    if json:
        import orjson

        rows = [
            {"rater": one.id, "name": one.name, "token": one.token, "url": f"{address}/r/{one.token}"} for one in made
        ]
        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return 0
    for one in made:
        print("  ".join(filter(None, [one.id, one.name, f"{address}/r/{one.token}"])))
    print("Each link is shown this once. Give every rater one of their own; refbench study serve opens them.")
    if not address:
        print(f"Put the address in front that refbench study serve {study} prints, or make links once it has run.")
    return 0


@study_command.command(name="status")
def _status_command(study: Folder, *, json: Json = False) -> int:
    """How far the study is: coverage, each rater's part, gold, time, drift, agreement."""
    from rich.text import Text

    from refbench.studies.study import Study
    from refbench.text.console import console
    from refbench.text.tables import Grid

    told = Study.open(study).status()
    if json:
        print(told.model_dump_json(indent=2))
        return 0
    screen = console()
    full = sum(n for k, n in told.covered.items() if k >= told.overlap)
    screen.print(Text(f"{told.name}: {full} of {told.items} items have all {told.overlap} raters", "bold"))
    screen.print(Text("  ".join(f"{n} with {k}" for k, n in told.covered.items())))
    grid = Grid()
    for title in ("rater", "done", "gold", "s an item", "drift", "state"):
        grid.add_column(title, justify="left" if title in ("rater", "state") else "right")
    for row in told.raters:
        state = ", ".join(
            word
            for word, there in (
                ("withdrawn", row.revoked),
                ("finished", row.finished),
                (f"training {row.training}", row.training not in ("", "passed")),
                (f"{row.reported} reported", row.reported > 0),
                *((rule, True) for rule in row.rules),
            )
            if there
        )
        cells = [
            f"{row.rater} {row.name}".strip(),
            f"{row.done}/{row.total}",
            f"{row.gold_right}/{row.gold_seen}" if row.gold_seen else "-",
            "-" if row.median_seconds is None else f"{row.median_seconds:.1f}",
            "-" if row.drift is None else f"{row.drift:+.2f}",
            state,
        ]
        grid.add_row(*(Text(cell) for cell in cells))
    screen.print(grid)
    for one in told.agreement:
        screen.print(Text(f"{one.criterion}: {_alpha(one.alpha, one.low, one.high)} ({counted(one.items, 'item')})"))
    for note in told.notes:
        screen.print(Text(f"Note: {note}."))
    return 0


@study_command.command(name="pack")
def _pack_command(
    study: Folder,
    *,
    rater: Annotated[str, Parameter(help="Whose package it is, r07")],
    out: Annotated[Path | None, Parameter(help="Folder to write; STUDY-RATER by default")] = None,
) -> int:
    """Write a folder for a rater without network: it opens by double click, and what it saves is read by take."""
    from refbench.studies.pack import pack as write_pack
    from refbench.studies.room import room_of
    from refbench.studies.study import Study

    opened = Study.open(study)
    known = opened.raters.all.get(rater)
    if known is None:
        raise RefBenchError(f"--rater {rater}: there are {', '.join(opened.raters.all) or 'none yet'}; see study links")
    place = out or study.with_name(f"{study.resolve().name}-{rater}")
    room = room_of(opened, known.id)
    n = write_pack(opened, known, place)
    print(f"{counted(n, 'item')} to mark, gold and repeats among them ({room})")
    print(f"{place}: send the folder, and read back what the rater saved with refbench study take {study} FILE")
    return 0


@study_command.command(name="take")
def _take_command(
    study: Folder, file: Annotated[Path, Parameter(help="What a package has saved: marks as JSON")]
) -> int:
    """Read a package's marks into the study; what was read before is not read twice."""
    from refbench.studies.study import Study
    from refbench.studies.taking import take_file

    taken = take_file(Study.open(study), file)
    print(f"{counted(taken.new, 'mark')} read, {taken.again} were there before")
    for sentence in taken.refused:
        print(f"not taken: {sentence}")
    return 1 if taken.refused else 0


@study_command.command(name="export")
def _export_command(
    study: Folder,
    *,
    out: Annotated[Path | None, Parameter(help="Write the marks to this CSV (review: .jsonl) file")] = None,
    everybody: Annotated[bool, Parameter(help="Also the marks of raters who are left out", show_default=False)] = False,
    into: Annotated[
        Path | None, Parameter(help="Make the marks evidence of this run, of a judge called people")
    ] = None,
    version: Annotated[int | None, Parameter(help="Marks of this version of the design; by default the newest")] = None,
    json: Json = False,
) -> int:
    """Marks as files: agree --humans and correct --humans read them as they are. Prints means and agreement, with and
    without the raters who fall to a rule, and who falls to which."""
    from refbench.cli.printing import write_file
    from refbench.studies.evidence import into_run
    from refbench.studies.export import decisions_jsonl, exported, marks_csv
    from refbench.studies.reading import read
    from refbench.studies.study import Study

    opened = Study.open(study)
    reading = read(opened, version)
    if opened.design.screen == "review":
        if out is None or into is not None:
            raise RefBenchError("a review is written as decisions: give --out review.jsonl, and build with --review")
        write_file(out, decisions_jsonl(opened))
        return 0
    told = exported(opened, reading, everybody=everybody)
    if out is not None:
        write_file(out, marks_csv(opened, reading, everybody=everybody).encode(), quiet=json)
    if into is not None:
        print(into_run(opened, reading, into), file=sys.stderr if json else sys.stdout)
    if json:
        print(told.model_dump_json(indent=2))
    else:
        _print_export(told)
    return 0


@study_command.command(name="table")
def _table_command(
    study: Folder,
    *,
    by: Level = "overall",
    json: Json = False,
    csv: Annotated[bool, Parameter(help="Print every row as CSV", show_default=False)] = False,
    markdown: Annotated[bool, Parameter(help="Print the leaderboards as Markdown", show_default=False)] = False,
    out: Annotated[Path | None, Parameter(help="Write the table to this file instead of printing it")] = None,
) -> int:
    """Print the run's table by people alone, over the cases of the study, without the raters who fall to a rule.
    IDEA-Bench is tabled over all cases that have questions for people."""
    from refbench.cli.printing import Format, write_result
    from refbench.studies.reading import read
    from refbench.studies.study import Study
    from refbench.studies.tables import people_result

    opened = Study.open(study)
    result = people_result(opened, read(opened))
    shape: Format = "json" if json else "csv" if csv else "markdown" if markdown else "terminal"
    write_result(result, shape, by=by, out=out)
    return 0


@study_command.command(name="adjudicate")
def _adjudicate_command(
    study: Folder,
    *,
    name: Annotated[str, Parameter(help="Who decides, for you alone")] = "",
    base: Annotated[
        str, Parameter(help="Address that is opened, https://...; by default that of the running or last server")
    ] = "",
) -> int:
    """Give the items on which raters are two steps apart, or split over yes and no, to one person, who sees no marks.
    The answers are one more rater's, called adjudicated."""
    from refbench.studies.adjudication import disputed
    from refbench.studies.study import Study

    opened = Study.open(study)
    items = disputed(opened)
    if not items:
        print("No item is disputed.")
        return 0
    known = next((one for one in opened.raters.all.values() if one.role == "adjudicator" and not one.revoked), None)
    print(f"{counted(len(items), 'item')} to decide")
    if known is None:
        made = opened.raters.add(role="adjudicator", name=name, time=opened.clock())
        print(f"{made.id}  {_address(study, base)}/r/{made.token}")
        print("The link is shown this once; refbench study serve opens it.")
    return 0


@study_command.command(name="forget")
def _forget_command(
    study: Folder,
    rater: Annotated[str | None, Parameter(help="Whose data to delete, r07")] = None,
    *,
    returned: Annotated[
        Path | None, Parameter(help="CSV of a crowd platform with who returned: their open items are freed")
    ] = None,
) -> int:
    """Delete what tells who a rater was: name, link, the platform's names, comments. The marks stay, of nobody."""
    from refbench.studies.study import Study

    opened = Study.open(study)
    if (rater is None) == (returned is None):
        raise RefBenchError("say whom to forget (refbench study forget STUDY r07), or --returned FILE")
    if returned is not None:
        print(f"{counted(opened.free_returned(returned), 'open item')} freed")
        return 0
    opened.forget(rater or "")
    print(f"{rater}: forgotten; the marks stay, without a name or comment")
    return 0


def _address(study: Path, base: str) -> str:
    """What stands before links: as somebody says, else where the study is or was last served; empty before that."""
    from refbench.studies.served import last_served

    if base and not base.startswith(("http://", "https://")):
        raise RefBenchError(f"--base {base}: give the whole address, https://NAME")
    before = last_served(study)
    return base.rstrip("/") or (before.address if before is not None else "")


# --- what is printed ----------------------------------------------------------------------------------------------


def _print_plan(study: Path, asked: NewStudy, made: Made, *, json: bool, written: bool) -> None:
    from refbench.studies.items import entries_of
    from refbench.studies.widths import plan

    design = made.design
    asks = [
        (len(item.outputs) or 1, sum(not entry.optional for entry in entries_of(item, design)))
        for item in made.items
        if item.use == "item"
    ]
    n = len(asks)
    told = plan(asks, design.overlap, asked.per_rater, (design.gold + design.attention, design.training.items))
    if json:
        print(told.model_dump_json(indent=2))
        return
    if written:
        print(f"{study}: {counted(n, 'item')} for {counted(design.overlap, 'rater')} each, screen {design.screen}")
    shown = "" if design.screen in ("review", "reference") else f" of {counted(told.outputs, 'output')}"
    print(
        f"{counted(n, 'screen')}{shown}, {counted(told.marks, 'mark')} in all: "
        f"{counted(told.raters, 'rater')} at least, each shown "
        f"{counted(told.per_rater, 'item')}, about {told.minutes_per_rater:.0f} min"
    )
    if design.screen not in ("review", "pair"):
        print("A correlation of .70 with people will be known to:")
        for one in told.widths:
            here = "  (this study)" if one.items == n else ""
            print(f"  {one.items:>5} items  {one.low:.2f} to {one.high:.2f}{here}")
    for note in made.notes:
        print(f"Note: {note}.")
    if written:
        print(f"Next: refbench study links {study} {told.raters}, then refbench study serve {study}")


def _print_export(told: Exported) -> None:
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    screen = console()
    screen.print(Text(f"{told.study}: {counted(told.raters, 'rater')}, {len(told.left_out)} left out", "bold"))
    for rater, rules in told.left_out:
        screen.print(Text(f"  {rater}: {'; '.join(rules)}"))
    if told.means:
        grid = Grid(names=2)
        for title in ("model", "criterion"):
            grid.add_column(title)
        for title in ("mean", "outputs", "raters", "with everybody"):
            grid.add_column(title, justify="right")
        for row in told.means:
            numbers = ["-" if v is None else f"{v:.3f}" for v in (row.mean, row.mean_of_all)]
            cells = [row.model, row.metric, numbers[0], f"{row.outputs}", f"{row.raters}", numbers[1]]
            grid.add_row(*(Text(cell) for cell in cells))
        screen.print(grid)
    if told.arena is not None:
        _print_arena(told.arena)
    everybody = {one.metric: one for one in told.agreement_of_all}
    for one in told.agreement:
        with_all = everybody[one.metric].alpha
        beside = f"; with everybody {with_all:.2f}" if told.left_out and with_all is not None else ""
        ends = one.interval or (None, None)
        screen.print(Text(f"{one.metric}: {_alpha(one.alpha, *ends)} ({counted(one.items, 'item')}){beside}"))
    for note in told.notes:
        screen.print(Text(f"Note: {note}."))


def _print_arena(arena: Arena) -> None:
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    grid = Grid()
    grid.add_column("model")
    for title in ("strength", "95 %", "won", "lost", "ties", "both bad"):
        grid.add_column(title, justify="right")
    order = sorted(range(len(arena.models)), key=lambda k: (arena.groups[k], -(arena.strengths[k] or 0)))
    for k in order:
        strength, ends = arena.strengths[k], arena.intervals[k]
        cells = [
            arena.models[k],
            "-" if strength is None else f"{strength:+.2f}",
            "-" if ends is None else f"{ends[0]:+.2f} to {ends[1]:+.2f}",
            *(f"{tally[k]}" for tally in (arena.wins, arena.losses, arena.ties, arena.both_bad)),
        ]
        grid.add_row(*(Text(cell) for cell in cells))
    screen = console()
    screen.print(grid)
    if not arena.connected:
        screen.print(
            Text("No strengths: some models never lost to some others, or never met them. More pairs are needed.")
        )


def _alpha(alpha: float | None, low: float | None, high: float | None) -> str:
    if alpha is None:
        return "alpha not known yet"
    ends = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
    return f"alpha {alpha:.2f}{ends}"
