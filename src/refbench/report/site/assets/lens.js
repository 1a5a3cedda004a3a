/** Pan and zoom of pictures, by pointer, wheel and pinch: of the viewer, and of the screens on which people mark. */
"use strict";

(() => {
  const MOST = 32;

  /** Pan and zoom of one stage or several in step, by pointer, wheel and pinch. */
  class Lens {
    constructor(frame, changed, tapped) {
      Object.assign(this, { frame, stages: [], changed, x: 0, y: 0, zoom: 1, pointers: new Map(), travelled: 0 });
      frame.addEventListener("wheel", (event) => {
        event.preventDefault();
        this.by(Math.exp(-event.deltaY * 0.0016), event.clientX, event.clientY, event.target);
      }, { passive: false });
      frame.addEventListener("pointerdown", (event) => {
        if (!event.target.closest("input, button, .edge")) {
          this.travelled = 0;
          frame.setPointerCapture(event.pointerId);
          this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
        }
      });
      frame.addEventListener("pointermove", (event) => this.moved(event));
      frame.addEventListener("pointerup", (event) => {
        if (this.pointers.delete(event.pointerId) && this.travelled < 4) {
          tapped();
        }
      });
      frame.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
      frame.addEventListener("dblclick", (event) => (this.zoom > 1 ? this.reset() : this.by(3, event.clientX, event.clientY)));
    }

    moved(event) {
      const before = this.pointers.get(event.pointerId);
      if (!before) {
        return;
      }
      const now = [event.clientX, event.clientY];
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
      this.pointers.set(event.pointerId, now);
      this.travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (other) {
        const far = ([x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
        this.by(far(now) / far(before), other[0], other[1]);
      } else {
        this.x += now[0] - before[0];
        this.y += now[1] - before[1];
        this.apply();
      }
    }

    /** The pane that a point lies in; the first where it lies in none. */
    pane(atX, atY) {
      const boxes = this.stages.map((stage) => stage.parentElement.getBoundingClientRect());
      return boxes.find((box) => atX >= box.left && atX <= box.right && atY >= box.top && atY <= box.bottom) ?? boxes[0] ?? this.frame.getBoundingClientRect();
    }

    /** Zooms by a factor and keeps the point under the pointer where it is. */
    by(factor, atX, atY) {
      const box = this.pane(atX ?? NaN, atY ?? NaN);
      const [fromX, fromY] = [(atX ?? box.left + box.width / 2) - box.left - box.width / 2, (atY ?? box.top + box.height / 2) - box.top - box.height / 2];
      const zoom = Math.min(MOST, Math.max(1, this.zoom * factor));
      this.x = fromX - ((fromX - this.x) * zoom) / this.zoom;
      this.y = fromY - ((fromY - this.y) * zoom) / this.zoom;
      this.zoom = zoom;
      if (zoom === 1) {
        this.x = 0;
        this.y = 0;
      }
      this.apply();
    }

    reset() {
      Object.assign(this, { x: 0, y: 0, zoom: 1 });
      this.apply();
    }

    show(stages) {
      this.stages = stages;
      this.apply();
    }

    apply() {
      for (const stage of this.stages) {
        stage.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.zoom})`;
        stage.classList.toggle("close", this.zoom > 4);
      }
      this.changed();
    }

    /** Where a place of the frame lies on the stage, both in per cent of the width. */
    onStage(percent) {
      const { width } = this.frame.getBoundingClientRect();
      return width ? 50 + (percent - 50 - (100 * this.x) / width) / this.zoom : percent;
    }
  }

  window.refbench.Lens = Lens;
})();
