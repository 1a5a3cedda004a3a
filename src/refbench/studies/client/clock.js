/** The time that a rater spends on an item: from the moment all its pictures are decoded, not while the page is hidden,
 * and not after a minute without a touch of mouse, finger or key. */
"use strict";

(() => {
  const rb = window.refbench;
  const IDLE_MS = 60_000;

  class Clock {
    constructor() {
      Object.assign(this, { started: null, counted: null, touched: 0, active: 0, hidden: document.hidden });
      for (const name of ["pointermove", "pointerdown", "keydown", "wheel", "scroll"]) {
        document.addEventListener(name, () => this.touch(), { capture: true, passive: true });
      }
      document.addEventListener("visibilitychange", () => {
        this.count();
        this.hidden = document.hidden;
        this.touched = performance.now();
      });
    }

    /** An item whose earlier marks are looked at again begins where it ended. */
    start(before = 0) {
      const now = performance.now();
      Object.assign(this, { started: now, counted: now, touched: now, active: before });
    }

    stop() {
      this.started = null;
    }

    touch() {
      this.count();
      this.touched = performance.now();
    }

    count() {
      if (this.started === null) {
        return;
      }
      const now = performance.now();
      if (!this.hidden) {
        this.active += Math.max(0, Math.min(now, this.touched + IDLE_MS) - this.counted);
      }
      this.counted = Math.max(this.counted, now);
    }

    read() {
      this.count();
      return { active_ms: Math.round(this.active), wall_ms: this.started === null ? 0 : Math.round(performance.now() - this.started) };
    }
  }

  rb.clock = new Clock();
})();
