/** A study without a server: items lie in the folder, marks stay in this browser until they are downloaded as one file. */
"use strict";

(() => {
  const rb = window.refbench;

  class Packed {
    constructor(pack) {
      this.pack = pack;
      this.scope = `pack ${pack.pack}`;
      this.kept = `refbench study ${this.scope} marks`;
      this.agreed = null;
      this.lines = this.read();
    }

    read() {
      try {
        const read = JSON.parse(localStorage.getItem(this.kept) ?? "[]");
        return Array.isArray(read) ? read : [];
      } catch {
        return [];
      }
    }

    /** The last mark of each item that stands: what was skipped is still to be marked. */
    standing() {
      const last = new Map(this.lines.map((line) => [line.item, line]));
      return new Map([...last].filter(([, line]) => !line.skip));
    }

    progress() {
      const standing = this.standing();
      const items = this.pack.items.filter((item) => item.phase !== "training");
      const done = items.filter((item) => standing.has(item.item));
      const times = done.map((item) => standing.get(item.item).active).sort((a, b) => a - b);
      const pace = times[Math.floor(times.length / 2)] ?? null;
      const consented = !Object.keys(this.pack.study.consent).length || Boolean(this.consented());
      return { done: done.length, total: items.length, seconds_left: pace === null ? null : pace * (items.length - done.length), consented, training: "", finished: done.length === items.length, closed: false, undo: done.length > 0 };
    }

    consented() {
      try {
        return localStorage.getItem(`${this.kept} consent`) ?? this.agreed;
      } catch {
        return this.agreed;
      }
    }

    async start() {
      return { ...this.pack.study, progress: this.progress() };
    }

    async consent(language) {
      try {
        localStorage.setItem(`${this.kept} consent`, language);
      } catch {
        this.agreed = language;
      }
      return this.start();
    }

    /** In the order of the pack; what was skipped comes back after everything else. */
    async items(n, held) {
      const standing = this.standing();
      const skipped = new Map();
      this.lines.forEach((line, place) => line.skip && skipped.set(line.item, place));
      const open = this.pack.items.filter((item) => !standing.has(item.item) && !held.includes(item.item));
      open.sort((a, b) => (skipped.get(a.item) ?? -1) - (skipped.get(b.item) ?? -1));
      return { items: open.slice(0, n), progress: this.progress() };
    }

    picture(name) {
      return `pictures/${name}.jpg`;
    }

    async send(marks) {
      const known = new Set(this.lines.map((line) => line.id));
      this.lines.push(...marks.filter((mark) => !known.has(mark.id)));
      if (!this.save()) {
        throw new rb.Unanswered(0, "storage");
      }
      const progress = this.progress();
      return { acknowledged: marks.map((mark) => ({ id: mark.id, item: mark.item, feedback: [], training: "" })), refused: [], progress };
    }

    /** The last item that was marked, to be marked anew; until then its mark stands. */
    async undo(held) {
      const last = [...this.standing().values()].filter((line) => !held.includes(line.item)).pop();
      const item = last && this.pack.items.find((one) => one.item === last.item);
      return { item: item ? { ...item, given: last.values, comment: last.comment } : null, progress: this.progress() };
    }

    save() {
      try {
        localStorage.setItem(this.kept, JSON.stringify(this.lines));
        return true;
      } catch {
        return false;
      }
    }

    /** One file with every mark, in the order in which they were made; `refbench study take` reads it. */
    download() {
      const text = JSON.stringify({ pack: this.pack.pack, consented: this.consented() ?? "", marks: this.lines }, null, 1);
      const url = URL.createObjectURL(new Blob([`${text}\n`], { type: "application/json" }));
      const link = rb.h("a", {});
      link.href = url;
      link.download = `marks-${this.pack.pack}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 2000);
    }
  }

  rb.Packed = Packed;
})();
