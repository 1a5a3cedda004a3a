"""What other words do against attacks, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from refbench.analysis.audit.marks import AuditMark, Criterion
from refbench.analysis.audit.rewording import rewording
from refbench.record import RefBenchError

QUALITY = Criterion(name="quality", ability="VQ")
REVERSED = Criterion(name="errors", ability="VQ", better="lower")


def marks(rises: np.ndarray, criterion: str = "quality", sign: int = 1) -> list[AuditMark]:
    """A damaged picture that is marked 4, and as much better under the attack."""
    found = []
    for case, rise in enumerate(rises.tolist()):
        found.append(AuditMark(f"c{case}", "1:other_output", criterion, 0, 4.0))
        found.append(AuditMark(f"c{case}", "27:instruction_strip", criterion, 0, 4.0 + sign * rise))
    return found


@pytest.mark.parametrize(("criterion", "sign"), [(QUALITY, 1), (REVERSED, -1)], ids=["higher", "lower is better"])
def test_the_change_is_that_of_a_paired_test(criterion: Criterion, sign: int) -> None:
    rng = np.random.default_rng(1)
    before, after = rng.uniform(1, 3, 40), rng.uniform(0, 1, 40)
    (row,) = rewording(marks(before, criterion.name, sign), marks(after, criterion.name, sign), [criterion])
    assert row.before.value == pytest.approx(before.mean())
    assert row.after.value == pytest.approx(after.mean())
    assert row.change.value == pytest.approx((after - before).mean())
    low, high = ttest_rel(after, before).confidence_interval()
    assert row.change.ci95 == pytest.approx((low, high), abs=0.05)
    assert (row.verdict, row.still) == ("helps", True)
    (worse,) = rewording(marks(after, criterion.name, sign), marks(before, criterion.name, sign), [criterion])
    assert worse.verdict == "harms"


def test_few_cases_have_no_number_and_cases_of_one_audit_alone_do_not_count() -> None:
    many, few = np.ones(40), np.ones(19)
    (row,) = rewording(marks(many), marks(few), [QUALITY])
    assert (row.verdict, row.change.value, row.change.n, row.still) == ("too few cases", None, 19, None)
    with pytest.raises(RefBenchError, match="no case in common"):
        rewording(marks(many), [one._replace(case=f"other {one.case}") for one in marks(many)], [QUALITY])


def test_an_attack_that_never_lifted_a_mark_is_helped_by_nothing() -> None:
    (row,) = rewording(marks(np.zeros(30)), marks(np.zeros(30)), [QUALITY])
    assert (row.change.value, row.p, row.verdict, row.still) == (0.0, 1.0, "cannot tell", False)
