"""Plants faults in a copy of the code, one at a time, and shows that the oracle catches each: python mutants.py [NAME ...].

Each is a text that is replaced by another; a text that is not there any more stops the script, so that no fault is
believed to be caught because it was never planted. `--random N` plants N small faults by chance instead (a comparison,
a sign, a condition, a number) in the files that numbers go through, and lists those that survive.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """A fault: what is wrong, where, and by which words."""

    what: str
    file: str
    right: str
    wrong: str


MUTANTS = (
    Mutant(
        "direction lost: a benchmark in one file never says of which measures less is better",
        "benchmarks/kit/constructor.py",
        "            rules.lower,\n            judges_mean,",
        "            frozenset(),\n            judges_mean,",
    ),
    Mutant("the leaderboard is upside down", "tables/table.py", "-_turned(one[0], lower))", "_turned(one[0], lower))"),
    Mutant(
        "a total is taken of marks that were averaged over seeds first",
        "tables/table.py",
        "            found |= self.per_case(given, columns.away)\n",
        "            found |= self.per_case({m: np.repeat(mean_of_those_there(d, axis=2)[:, :, None], d.shape[2], 2) for m, d in "
        "given.items()}, columns.away)\n",
    ),
    Mutant(
        "a failed seed beside one with a value is not counted",
        "tables/table.py",
        "            kinds[metric][at] = KINDS.index(score.failure.kind)\n",
        "            kinds[metric][at] = KINDS.index(score.failure.kind) if score.seed == 0 else -1\n",
    ),
    Mutant(
        "what was never asked is a failure",
        "tables/scorer.py",
        'return {"failure": _ABSENT} if judge in self._imported else {"not_asked": True}',
        'return {"failure": _ABSENT}',
    ),
    Mutant(
        "a model's refusal counts as the judge's",
        "tables/scorer.py",
        'update={"by_model": failure.kind not in CIRCUMSTANCES}',
        'update={"by_model": False}',
    ),
    Mutant(
        "a combined measure takes each part over its own pictures",
        "tables/table.py",
        "    if measure.any_part or len(parts) < 2:\n        return {}\n",
        "    return {}\n",
    ),
    Mutant("zeros of the official script are left out", "tables/table.py", "self.imputed.items() if not side else ()", "()"),
    Mutant(
        "bounds take failures for what they would be at best, on both sides",
        "tables/table.py",
        'end = measure.low if side == "low" else measure.high',
        "end = measure.high",
    ),
    Mutant("a category counts items, not dimensions", "tables/table.py", "    if not where.parts:\n        return mean(metric, where.members)\n", "    if True:\n        return mean(metric, where.members)\n"),
    Mutant("4:4:2 is 4:3:3", "benchmarks/creval/table.py", '"VC": 0.4, "VQ": 0.2', '"VC": 0.3, "VQ": 0.3'),
    Mutant(
        "a gate that is shut lets answers through",
        "benchmarks/ideabench/table.py",
        "return list(answers) if opened else [0.0] * len(answers)",
        "return list(answers)",
    ),
    Mutant("an error counts as if more were better", "benchmarks/multiref/table.py", "1.0 - values[kind] if kind in ERRORS", "values[kind] if kind in ERRORS"),
    Mutant(
        "the mean of judges is over those that answered",
        "judges/panel.py",
        "not (all_needed and (failures or waiting))",
        "True",
    ),
    Mutant("of two results of one act the failure stands", "runs/ledger.py", "return 0 if kind is None else", "return 3 if kind is None else"),
    Mutant("the first decimal reading is rounded up", "benchmarks/multibanana/replies.py", "marks[criterion] = float(match[1])", "marks[criterion] = float(match[1]) + (float(match[1]) == 7)"),
    Mutant("a repaired reply is read by the paper's protocol too", "tables/scorer.py", 'or (repair and name == "paper")', ""),
    Mutant("a limit is forgotten by the table", "tables/scoring.py", "    if wanted is None:\n        return cases\n", "    return cases\n"),
    Mutant("the judge's parameters are not in the fingerprint", "tables/scoring.py", 'who = {key: act.asked[key] for key in ("model", "parameters")}', 'who = {"model": act.asked["model"], "parameters": {}}'),
    Mutant("the digest does not see values", "tables/scoring.py", "                repr(score.value),\n", ""),
    Mutant("a sentence has the sign of its gap wrong", "analysis/compare/records.py", "the gap is {signed(pair.gap, digits)}", "the gap is {signed(-pair.gap, digits)}"),
    Mutant("what is printed has one digit of its own", "report/leaderboard.py", 'return "-" if value is None else f"{value:.{digits}f}"', 'return "-" if value is None else f"{value + 0.01:.{digits}f}"'),
)  # fmt: skip

FILES = (
    "tables/table.py",
    "tables/table.py",
    "tables/scorer.py",
    "tables/scoring.py",
    "judges/panel.py",
    "judges/panel.py",
    "runs/run.py",
)
FOLDERS = ("stats/interval.py", "analysis/compare/pairing.py", *(f"benchmarks/{b}/{f}.py" for b in ("creval", "multibanana", "ideabench", "icebench", "multiref") for f in ("table", "replies")))  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", help="words of the faults to plant; all by default")
    options.add_argument("--random", type=int, default=0, help="plant so many small faults by chance instead")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--runs", type=int, default=100, help="runs of the oracle for each fault")
    asked = options.parse_args()
    chosen = list(by_chance(asked.random, asked.seed)) if asked.random else MUTANTS
    chosen = [m for m in chosen if not asked.names or any(name in m.what for name in asked.names)]
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        if is_caught(Mutant("nothing", "tables/table.py", "", ""), Path(name) / "src", asked.runs):
            sys.exit("the oracle's tests fail without any fault: mend that first")
        for mutant in chosen:
            caught = is_caught(mutant, Path(name) / "src", asked.runs)
            print(f"{'caught  ' if caught else 'SURVIVED'}  {mutant.file}: {mutant.what}", flush=True)
            survivors += [] if caught else [mutant]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    return bool(survivors)


def is_caught(mutant: Mutant, copy: Path, runs: int) -> bool:
    """Whether the oracle's tests fail on a copy of the code with the fault in it."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "refbench" / mutant.file
    text = file.read_text("utf-8")
    if mutant.right not in text:
        sys.exit(f"{mutant.file} has no {mutant.right!r}: the fault cannot be planted, write it anew")
    if mutant.right:
        file.write_text(text.replace(mutant.right, mutant.wrong), "utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "REFBENCH_ORACLE_RUNS": str(runs),
        "REFBENCH_ORACLE_UNSHRUNK": "1",
    }
    command = [sys.executable, "-m", "pytest", str(ROOT / "tests/oracle"), "-x", "-q", "--no-header"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def by_chance(count: int, seed: int) -> Iterator[Mutant]:
    """Small faults at random places: a comparison turned, a sign changed, a condition taken away, a number off by one."""
    rng = random.Random(seed)
    places = []
    for name in (*FILES, *FOLDERS):
        text = (ROOT / "src/refbench" / name).read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            for wrong, what in changes(node):
                right = ast.get_source_segment(text, node)
                if right and text.count(right) == 1:
                    line = getattr(node, "lineno", 0)
                    places.append(Mutant(f"line {line}: {right!r} becomes {wrong!r} ({what})", name, right, wrong))
    yield from rng.sample(places, min(count, len(places)))


COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in"}  # fmt: skip
REVERSED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.BitAnd: "|", ast.BitOr: "&"}


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield f"{left} {COMPARED[type(node.ops[0])]} {right}", "comparison"
    if isinstance(node, ast.BinOp) and type(node.op) in REVERSED:
        yield f"({ast.unparse(node.left)}) {REVERSED[type(node.op)]} ({ast.unparse(node.right)})", "operator"
    if isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.orelse)})", "condition"
    if isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        yield other.join(f"({ast.unparse(value)})" for value in node.values), "and, or"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield f"({ast.unparse(node.operand)})", "negation"


if __name__ == "__main__":
    sys.exit(main())
