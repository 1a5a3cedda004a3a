"""Study: a folder, opened. Everything that a server, a package or a command asks of it is a method here."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import ValidationError

from refbench.record import RefBenchError
from refbench.studies.adjudication import disputed
from refbench.studies.design import StudyDesign, Training, read_design
from refbench.studies.items import DECISION, EDIT, Entry, Item, ItemPicture, entries_of, items_sha256, read_items
from refbench.studies.items import FILE as ITEMS
from refbench.studies.marks import Mark, Marks, Value
from refbench.studies.pictures import PICTURE_TYPE, ShownPictures
from refbench.studies.plan import RENEW, Lease, Leases, Phase, RaterPlan, Step, sides
from refbench.studies.raters import CROWD_NAMES, Rater, Raters
from refbench.studies.reading import read
from refbench.studies.review import wrong_decision
from refbench.studies.shown import Acknowledgement, Feedback, Incoming, Progress, Refusal, Shown, Slot
from refbench.studies.status import Status, status_of
from refbench.studies.versions import Versions
from refbench.text.files import csv_table, file_text

__all__ = ["PICTURE_TYPE", "Study"]

TrainingState = Literal["", "going", "passed", "again", "failed"]

_GONE = frozenset({"returned", "timed-out", "timed out", "abandoned", "expired", "rejected"})
"""What platforms call a worker who will not finish."""


class Study:
    """A study as it is now. Its files may grow under it: links that were made and marks that were read in by other
    commands are taken in. Methods may be called from several threads."""

    def __init__(self, path: Path, design: StudyDesign, items: Mapping[str, Item], clock: Callable[[], float]) -> None:
        self.path, self.design, self.items, self.clock = path, design, items, clock
        self.raters = Raters(path)
        self.versions = Versions(path, design)
        self._asked: dict[tuple[str, int], dict[str, Entry]] = {}
        self.marks = Marks(path, self._fits)
        self.leases = Leases(path)
        self.pictures = ShownPictures(path, design.picture_side)
        self._plans: dict[str, RaterPlan] = {}
        self._left: dict[str, tuple[tuple[int, int, int], list[str]]] = {}
        self._names: dict[str, dict[str, tuple[str, int]]] = {}
        self._slots: dict[str, dict[str, ItemPicture]] = {}
        self._fallen: tuple[int, float, frozenset[str]] = (0, -np.inf, frozenset())
        self._seen: Counter[tuple[str, tuple[str, ...], tuple[int, ...]]] = Counter()
        self._lock = threading.RLock()
        for lease in self.leases.all.values():
            self._learn(lease)

    @classmethod
    def open(cls, path: Path, clock: Callable[[], float] = time.time) -> Self:
        """Open a study; says plainly what else the path may be."""
        study = cls(path, read_design(path), read_items(path), clock)
        if study.marks.by_id and study.design.items_sha256 not in ("", items_sha256(study.items.values())):
            raise RefBenchError(
                f"{path / ITEMS} is not what the marks were given about: restore it from a copy of the study; "
                "for other items make another study with refbench study new"
            )
        return study

    # --- who ------------------------------------------------------------------------------------------------------

    def rater(self, token: str) -> Rater | None:
        """Whose link it is, the owner's and the adjudicator's among them; None for any other or a revoked one."""
        with self._lock:
            return self.raters.by_token(token)

    def register_crowd(self, params: Mapping[str, str]) -> Rater:
        """The rater of a crowd platform's link, with the token for its cookie."""
        with self._lock:
            return self.raters.of_crowd(params, self.clock())

    def rater_of(self, item: str) -> Rater | None:
        """Whose item goes by this name; names are of one rater each."""
        with self._lock:
            self._refresh()
            found = next((rater for rater, names in self._names.items() if item in names), None)
            return self.raters.all.get(found) if found else None

    def forget(self, rater: str) -> None:
        """Delete what tells who a rater was, comments with it, and free what was open."""
        with self._lock:
            self.raters.forget(rater)
            self.marks.without_comments(rater)
            self._free({rater})

    def free_returned(self, file: Path) -> int:
        """Free the open items of crowd workers who gave up, by a CSV of the platform; returns how many."""
        names = ("participant id", *(name.casefold() for name in CROWD_NAMES))
        columns, lines = csv_table(file_text(file, "give the platform's CSV of submissions"), str(file))
        column = next(
            (one for one in columns if one.strip().casefold().replace("_", " ") in names or one.casefold() in names),
            None,
        )
        if column is None:
            raise RefBenchError(f"{file} has no column {', '.join(CROWD_NAMES)} or Participant id")
        state = next((one for one in columns if one.strip().casefold() == "status"), None)
        with self._lock:
            self._refresh()
            gone = set()
            for _, row in lines:
                known = self.raters.known_to_crowd((row[column] or "").strip())
                if known and (state is None or (row[state] or "").strip().casefold() in _GONE):
                    gone.add(known)
            return self._free(gone)

    def _free(self, raters: set[str]) -> int:
        self._refresh()
        answered = {rater: self._answered(rater) for rater in raters}
        freed = [
            lease.model_copy(update={"released": True})
            for (who, item, occasion), lease in self.leases.all.items()
            if who in raters and not lease.released and (item, occasion) not in answered[who]
        ]
        self._add(freed)
        return len(freed)

    def consent(self, rater: Rater) -> None:
        """Note that the rater agreed to take part."""
        with self._lock:
            if not self._now(rater).consented:
                self.raters.change(rater.id, consented=self.clock())

    # --- what is shown --------------------------------------------------------------------------------------------

    def next_items(self, rater: Rater, n: int = 3) -> list[Shown]:
        """The next items of a rater, which are now kept for this rater for half an hour; the first is the one to show.
        Empty when nothing is left, before consent, and after a failed training."""
        with self._lock:
            self._refresh()
            if self._closed(rater) or self._lacks_consent(rater):
                return []
            steps = self._next_steps(rater.id, n)
            self._lease(rater.id, steps)
            before = self._done(rater.id)
            return [self._shown(rater.id, step, before + k + 1) for k, step in enumerate(steps)]

    def picture(self, rater: Rater, name: str) -> bytes | Refusal:
        """A picture under the name that this rater was told, encoded anew, without anything but pixels."""
        with self._lock:
            known = self._slots_of(rater.id).get(name)
        if known is None:
            return Refusal(kind="unknown", sentence="There is no such picture for you.")
        data = self.pictures.data(known)
        return data if isinstance(data, bytes) else Refusal(kind="picture", sentence="This picture cannot be opened.")

    # --- what is taken --------------------------------------------------------------------------------------------

    def take(self, rater: Rater, mark: Mapping[str, Any]) -> Acknowledgement | Refusal:
        """Take a mark; it is on disk when this returns. A resend under the same id is the same mark."""
        try:
            sent = Incoming.model_validate(mark)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "it"
            return Refusal(kind="invalid", sentence=f"The mark cannot be read: {where}: {first['msg']}.")
        with self._lock:
            answer = self._take(rater, sent)
        self.marks.sync()  # without the lock: marks that come at once share one flush
        return answer

    def _take(self, rater: Rater, sent: Incoming) -> Acknowledgement | Refusal:
        self._refresh()
        known = self.marks.by_id.get((rater.id, sent.id))
        if known is not None:
            return self._acknowledged(sent, known, again=True)
        if refused := self._refused(rater, sent):
            return refused
        item, occasion = self._names[rater.id][sent.item]
        made = self._mark(rater.id, sent, self.leases.all[rater.id, item, occasion])
        if isinstance(made, Refusal):
            return made
        self.versions.freeze(self.clock())
        self.marks.add([made])
        return self._acknowledged(sent, made, again=False)

    def undo(self, rater: Rater) -> Shown | Refusal:
        """Take back the last mark; the item is shown again, with what was said of it."""
        with self._lock:
            self._refresh()
            if self._closed(rater):
                return Refusal(kind="closed", sentence="You have finished; marks cannot be changed any more.")
            last = next((m for m in reversed(self.marks.of(rater.id)) if m.state != "undone"), None)
            if last is None or self._phase(last.item) == "training":
                return Refusal(kind="unknown", sentence="There is no mark to take back.")
            number = sum(1 for who, _ in self.marks.by_id if who == rater.id)
            taken = {"id": f"undo-{number:06d}-{last.id}"[:64], "state": "undone", "time": self.clock()}
            self.marks.add([last.model_copy(update=taken)])
            self.marks.sync()
            step = Step(last.item, last.occasion, "item")
            self._lease(rater.id, [step])
            return self._shown(rater.id, step, self._done(rater.id) + 1, given=last)

    # --- how far --------------------------------------------------------------------------------------------------

    def progress(self, rater: Rater) -> Progress:
        with self._lock:
            self._refresh()
            done, marks = self._done(rater.id), self.marks.of(rater.id)
            total = self._total(rater.id)
            training = self._training(rater.id)
            times = [m.active or m.wall for m in marks if m.state == "given" and self._phase(m.item) == "item"]
            pace = float(np.median(times)) if times else None
            consented = not self._lacks_consent(rater)
            closed = self._closed(rater)
            return Progress(
                done=done,
                total=total,
                skipped=sum(m.state == "skipped" and self.marks.skips[m.place] == 1 for m in marks),
                seconds_left=None if pace is None else pace * (total - done),
                consented=consented,
                training=training,
                finished=consented and training in ("", "passed") and self._finished(rater.id),
                closed=closed,
                full=not closed and self._full(rater.id),
                undo=any(m.state != "undone" and self._phase(m.item) == "item" for m in marks),
            )

    def finish_code(self, rater: Rater) -> str | Refusal:
        """The code that ends a rater's part, only after the last mark; from then on marks stay as they are."""
        with self._lock:
            progress = self.progress(rater)
            if progress.full:
                return Refusal(kind="not_yet", sentence="This study has all its raters: nothing is left to mark.")
            if not progress.finished and not progress.closed:
                left = max(progress.total - progress.done, 1)
                return Refusal(kind="not_yet", sentence=f"The code comes after the last item; {left} are left.")
            if not progress.closed:
                self.raters.change(rater.id, finished=self.clock())
            return self.raters.opaque("finish", rater.id)[:12].upper()

    def status(self) -> Status:
        """Everything that the owner looks at while a study runs."""
        with self._lock:
            self._refresh()
            return status_of(self)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        self.raters.refresh()
        self.marks.refresh()
        for lease in self.leases.refresh():
            self._learn(lease)

    def _add(self, leases: Sequence[Lease]) -> None:
        for lease in self.leases.add(leases):
            self._learn(lease)

    def _learn(self, lease: Lease) -> None:
        """Take in a new lease: the names under which its rater may speak of it, and the sides that were shown."""
        item = self.items.get(lease.item)
        if item is None:
            return
        name = self.raters.opaque("item", lease.rater, lease.item, str(lease.occasion))
        self._names.setdefault(lease.rater, {})[name] = (lease.item, lease.occasion)
        slots = self._slots.setdefault(lease.rater, {})
        for _, picture, opaque in self._pictures_of(item, lease):
            slots[opaque] = picture
        for who in (lease.rater, ""):
            self._seen[who, item.models, lease.order] += 1

    def _fits(self, mark: Mark) -> bool:
        """Whether a mark can have been given: to an item that there is, its outputs each in one place, with values
        that the design asked for at the time."""
        item = self.items.get(mark.item)
        if item is None or (mark.order and sorted(mark.order) != list(range(len(item.outputs)))):
            return False
        if (mark.item, mark.version) not in self._asked:
            entries = entries_of(item, self.versions.design(mark.version))
            self._asked[mark.item, mark.version] = {entry.name: entry for entry in entries}
        asked = self._asked[mark.item, mark.version]
        return all(name in asked and not asked[name].wrong(value) for name, value in mark.values.items())

    def _now(self, rater: Rater) -> Rater:
        return self.raters.all.get(rater.id, rater)

    def withdrawn(self, rater: Rater) -> bool:
        """Whether the rater was forgotten, or the link revoked."""
        known = self._now(rater)
        return known.revoked or known.forgotten

    def _closed(self, rater: Rater) -> bool:
        return self._now(rater).finished > 0

    def _lacks_consent(self, rater: Rater) -> bool:
        return bool(self.design.consent) and not self._now(rater).consented

    def _plan(self, rater: str) -> RaterPlan:
        if rater not in self._plans:
            plain = {"training": Training(items=0), "gold": 0, "attention": 0, "repeats_every": 0, "per_rater": None}
            design = self.design if self.counts(rater) else self.design.model_copy(update=plain)
            self._plans[rater] = RaterPlan(rater, design, self.items)
        return self._plans[rater]

    def _phase(self, item: str) -> Phase:
        return "training" if self.items[item].use == "training" else "item"

    def _names_of(self, rater: str) -> dict[str, tuple[str, int]]:
        self._refresh()
        return self._names.get(rater, {})

    def _slots_of(self, rater: str) -> dict[str, ItemPicture]:
        self._refresh()
        return self._slots.get(rater, {})

    def _answered(self, rater: str) -> dict[tuple[str, int], Mark]:
        """What the rater is through with, in order: given, or skipped a second time."""
        found = {}
        for mark in self.marks.of(rater):
            if mark.state == "given" or (mark.state == "skipped" and self.marks.skips[mark.place] > 1):
                found[mark.item, mark.occasion] = mark
        return found

    def _done(self, rater: str) -> int:
        return sum(self._phase(item) == "item" for item, _ in self._answered(rater))

    def _items_done(self, rater: str) -> list[str]:
        """Items proper that the rater is through with, in order: no gold, no repeats."""
        return [name for name, occasion in self._answered(rater) if occasion == 0 and self.items[name].use == "item"]

    def is_full(self, item: str, rater: str) -> bool:
        """Whether an item has marks of as many others as it wants."""
        return sum(who != rater and self.fills(who) for who in self.marks.givers.get(item, ())) >= self.design.overlap

    def is_free(self, item: str, rater: str) -> bool:
        """Whether an item lacks a rater: marks and open leases of others are fewer than the overlap."""
        taken = {who for who in self.marks.givers.get(item, ()) if who != rater and self.fills(who)}
        if len(taken) >= self.design.overlap:
            return False
        if item in self.leases.of_item:
            held = self.leases.held(item, self.clock(), rater)
            taken |= {who for who in held if who not in taken and self._waits(who, item)}
        return len(taken) < self.design.overlap

    def _waits(self, rater: str, item: str) -> bool:
        mark = self.marks.standing.get((rater, item, 0))
        return (mark is None or mark.state == "undone") and self.fills(rater)

    def counts(self, rater: str) -> bool:
        """Whether it is one of the raters: neither the owner nor whoever adjudicates."""
        known = self.raters.all.get(rater)
        return known is None or known.role == "rater"

    def fills(self, rater: str) -> bool:
        """Whether items need nobody else for what this rater says of them: neither left out nor withdrawn."""
        known = self.raters.all.get(rater)
        withdrawn = known is not None and known.revoked and not known.forgotten
        return self.counts(rater) and not withdrawn and rater not in self._out()

    def _out(self) -> frozenset[str]:
        """Raters who are left out, as far as was known half a minute ago: all marks are read for it."""
        n, now = len(self.marks.by_id), self.clock()
        if n != self._fallen[0] and not 0 <= now - self._fallen[1] < 30:
            self._fallen = n, now, read(self).left_out
        return self._fallen[2]

    def _remaining(self, rater: str) -> list[str]:
        """What `_remaining_now` says, found once as long as nobody marks or opens anything, a second at most."""
        stamp = len(self.marks.by_id), self.leases.lines, int(self.clock())
        if rater not in self._left or self._left[rater][0] != stamp:
            self._left[rater] = stamp, self._remaining_now(rater)
        return self._left[rater][1]

    def _remaining_now(self, rater: str) -> list[str]:
        """Items that the rater may still be given, in the rater's order; those skipped once come last."""
        plan, answered = self._plan(rater), self._answered(rater)
        if self.counts(rater):
            left = [name for name in plan.order if (name, 0) not in answered and self.is_free(name, rater)]
        else:  # whoever adjudicates is given what is in dispute, and what was
            wanted = set(disputed(self))
            left = [name for name in plan.order if (name, 0) not in answered and name in wanted]
        skipped = {name for name in left if self.marks.skips[rater, name, 0]}
        return [name for name in left if name not in skipped] + [name for name in left if name in skipped]

    def _total(self, rater: str) -> int:
        if self._idle(rater):
            return 0
        plan, items = self._plan(rater), self._items_done(rater)
        to_come = min(plan.quota - len(items), len(self._remaining(rater)))
        answered = self._answered(rater)
        whole = len(items) + max(0, to_come)
        checks = sum((name, 0) not in answered and 0 < whole >= after for name, after in plan.checks.items())
        repeats = max(0, plan.repeats_of(whole) - sum(occ == 1 for _, occ in answered))
        return self._done(rater) + max(0, to_come) + checks + repeats

    def _finished(self, rater: str) -> bool:
        return self._done(rater) > 0 and not self._next_steps(rater, 1)

    def _idle(self, rater: str) -> bool:
        """Whether a rater who has marked nothing finds nothing open; gold and repeats alone are not handed out."""
        return not self._done(rater) and not self._remaining(rater)

    def _full(self, rater: str) -> bool:
        """Whether it stays so: no item waits for whoever has it open now."""
        if not self._idle(rater):
            return False
        givers, overlap = self.marks.givers, self.design.overlap
        order = self._plan(rater).order if self.counts(rater) else ()
        return all(sum(self.counts(who) for who in givers.get(name, ())) >= overlap for name in order)

    def _training(self, rater: str) -> TrainingState:
        plan = self._plan(rater)
        if not plan.training:
            return ""
        marks = self.marks.standing
        for attempt in range(self.design.training.retries + 1):
            given = [marks.get((rater, name, attempt)) for name in plan.training]
            if any(mark is None for mark in given):
                return "again" if attempt and all(mark is None for mark in given) else "going"
            right = sum(self.items[mark.item].right(mark.values) for mark in given if mark is not None)
            if right >= min(self.design.training.right, len(plan.training)):
                return "passed"
        return "failed"

    def _next_steps(self, rater: str, n: int) -> list[Step]:
        training = self._training(rater)
        if training == "failed" or self._full(rater):
            return []
        if training in ("going", "again"):
            return self._training_steps(rater)[:n]
        if self._idle(rater):
            return []
        plan, answered = self._plan(rater), self._answered(rater)
        done, items = set(answered), self._items_done(rater)
        remaining = self._remaining(rater)
        open_now = [
            step for step in self._open_steps(rater) if step.occasion or step.item in {*remaining, *plan.checks}
        ]
        steps = open_now[:n]
        taken = {(step.item, step.occasion) for step in steps}
        order = [name for name in remaining if (name, 0) not in taken]
        while len(steps) < n:
            marked = [*items, *(s.item for s in steps if s.occasion == 0 and self.items[s.item].use == "item")]
            room = len(marked) < plan.quota and bool(order)
            if not marked and not room:
                break
            extra = plan.extra(len(marked), done | taken, items)
            last = self.items[steps[-1].item if steps else items[-1]].case if steps or items else None
            step = extra
            if step is None:
                if not room:
                    break
                fresh = [name for name in order if not self.marks.skips[rater, name, 0]] or order
                name = next((name for name in fresh if self.items[name].case != last), fresh[0])
                order.remove(name)
                step = Step(name, 0, "item")
            steps.append(step)
            taken.add((step.item, step.occasion))
        return steps

    def _training_steps(self, rater: str) -> list[Step]:
        marks, plan = self.marks.standing, self._plan(rater)
        for attempt in range(self.design.training.retries + 1):
            left = [name for name in plan.training if (rater, name, attempt) not in marks]
            if left:
                return [Step(name, attempt, "training") for name in left]
        return []

    def _open_steps(self, rater: str) -> list[Step]:
        """What the rater has open already: the same after a reload."""
        answered = self._answered(rater)
        return [
            Step(lease.item, lease.occasion, lease.phase)
            for (_, item, occasion), lease in self.leases.of_rater.get(rater, {}).items()
            if lease.phase == "item" and (item, occasion) not in answered and not self.marks.skips[lease.place]
        ]

    def _lease(self, rater: str, steps: Sequence[Step]) -> None:
        now = self.clock()
        for step in steps:
            before = self.leases.all.get((rater, step.item, step.occasion))
            if before is None:
                order = sides(self.items[step.item], rater, self._seen, self.design.seed)
                made = Lease(
                    rater=rater, item=step.item, occasion=step.occasion, order=order, phase=step.phase, time=now
                )
                self._add([made])
            elif now - before.time > RENEW or before.released:
                self._add([before.model_copy(update={"time": now, "released": False})])

    def _pictures_of(self, item: Item, lease: Lease) -> list[tuple[Slot, ItemPicture, str]]:
        """The pictures of an item in the places in which this rater sees them, under the rater's names."""
        roles = Counter(picture.role for picture in item.inputs)
        numbers: Counter[str] = Counter()
        found: list[tuple[ItemPicture, int | None, int]] = []
        for picture in item.inputs:
            numbers[picture.role] += 1
            found.append((picture, None, numbers[picture.role] if roles[picture.role] > 1 else 0))
        for place, output in enumerate(lease.order):
            several = item.outputs[output].pictures
            found += [(p, place, k if len(several) > 1 else 0) for k, p in enumerate(several, 1)]
        named = []
        for number, (picture, at, of_role) in enumerate(found):
            name = self.raters.opaque("picture", lease.rater, item.id, str(lease.occasion), str(number))
            named.append((Slot(name=name, role=picture.role, number=of_role, output=at), picture, name))
        return named

    def _shown(self, rater: str, step: Step, position: int, given: Mark | None = None) -> Shown:
        item, lease = self.items[step.item], self.leases.all[rater, step.item, step.occasion]
        slots = []
        for slot, picture, _ in self._pictures_of(item, lease):
            width, height = self.pictures.size(picture)
            slots.append(slot.model_copy(update={"width": width, "height": height}))
        training = step.phase == "training"
        return Shown(
            item=self.raters.opaque("item", rater, step.item, str(step.occasion)),
            screen=item.screen,
            phase=step.phase,
            instruction="" if item.attention else item.instruction,
            attention=item.attention,
            text=item.text,
            pictures=tuple(slots),
            outputs=len(item.outputs),
            entries=entries_of(item, self.design),
            row=item.row,
            editable=item.editable,
            given=None if given is None else _outward(given.values, lease.order, item),
            comment=given.comment if given else "",
            position=position,
            total=len(self._plan(rater).training) if training else max(self._total(rater), position),
        )

    def _refused(self, rater: Rater, sent: Incoming) -> Refusal | None:
        if self.withdrawn(rater):
            return Refusal(kind="closed", sentence="This link was withdrawn; its marks are not taken any more.")
        if self._closed(rater):
            return Refusal(kind="closed", sentence="You have finished; marks cannot be changed any more.")
        if self._lacks_consent(rater):
            return Refusal(kind="consent", sentence="Please agree to take part first.")
        if sent.item not in self._names_of(rater.id):
            return Refusal(kind="unknown", sentence="There is no such item for you.")
        item, occasion = self._names_of(rater.id)[sent.item]
        if self._phase(item) == "training" and (rater.id, item, occasion) in self.marks.standing:
            return Refusal(kind="closed", sentence="This training item is done.")
        return None

    def _mark(self, rater: str, sent: Incoming, lease: Lease) -> Mark | Refusal:
        item = self.items[lease.item]
        placed = _inward(sent.values, lease.order, item)
        values: dict[str, Value] = {}
        known = {entry.name: entry for entry in entries_of(item, self.design)}
        if stranger := next((key for key in placed if key not in known), None):
            return Refusal(kind="invalid", sentence=f"This item does not ask for {stranger[:60]}.")
        for entry in () if sent.skip else known.values():
            if any(values.get(needed) != 1 for needed in entry.needs):
                continue
            if entry.name not in placed:
                if entry.optional:
                    continue
                return Refusal(kind="invalid", sentence=f"{entry.label['en']}: the mark is missing.")
            if wrong := entry.wrong(placed[entry.name]):
                return Refusal(kind="invalid", sentence=f"{wrong}.")
            values[entry.name] = placed[entry.name]
        decided = item.screen == "review" and not sent.skip
        if decided and (wrong := wrong_decision(item.row, values.get(DECISION), values.get(EDIT))):
            return Refusal(kind="invalid", sentence=f"This cannot be taken: {wrong}.")
        names = self._slots_of(rater)
        return Mark(
            id=sent.id,
            rater=rater,
            item=lease.item,
            occasion=lease.occasion,
            version=self.versions.number,
            state="skipped" if sent.skip else "given",
            values=values,
            order=lease.order,
            comment=sent.comment,
            reported=tuple(names[name].sha256 for name in sent.reported if name in names),
            active=min(sent.active, sent.wall) if sent.wall else sent.active,
            wall=sent.wall,
            time=self.clock(),
        )

    def _acknowledged(self, sent: Incoming, mark: Mark, *, again: bool) -> Acknowledgement:
        item = self.items[mark.item]
        training = self._training(mark.rater)
        told = item.allowed if item.use == "training" else {}
        right = {name: one.takes(mark.values.get(name)) for name, one in told.items()}
        return Acknowledgement(
            id=sent.id,
            item=sent.item,
            again=again,
            done=self._done(mark.rater),
            total=self._total(mark.rater),
            finished=training in ("", "passed") and self._finished(mark.rater),
            feedback=tuple(Feedback(name=n, right=bool(one)) for n, one in _outward(right, mark.order, item).items()),
            why=item.why if told else {},
            training=training if told else "",
        )


def _inward(values: Mapping[str, Value], order: Sequence[int], item: Item) -> dict[str, Value]:
    """Marks by places on the screen brought to the outputs as the owner has them."""
    return _moved(values, {str(place): str(output) for place, output in enumerate(order)}, item)


def _outward(values: Mapping[str, Value], order: Sequence[int], item: Item) -> dict[str, Value]:
    """The other way: what the owner has of a rater's marks, as this rater saw it."""
    return _moved(values, {str(output): str(place) for place, output in enumerate(order)}, item)


def _moved(values: Mapping[str, Value], to: Mapping[str, str], item: Item) -> dict[str, Value]:
    if item.screen == "set":
        parts = {key: key.partition(".") for key in values}
        return {f"{to.get(a, a)}{dot}{b}": values[key] for key, (a, dot, b) in parts.items()}
    if item.screen == "pair":
        return {key: to.get(value, value) if isinstance(value, str) else value for key, value in values.items()}
    return dict(values)
