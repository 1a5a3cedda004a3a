/** Pages of a run that goes on: what it has by now, and the pages anew when that has changed. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, format } = rb;
  const ASK_MS = 4000;
  const LEAST_MS = 12000;
  /** Scoring anew takes this share of the time at most. */
  const SHARE = 10;

  let shown = null;
  let asked = 0;
  let busy = false;

  function told(run) {
    const parts = [format.count(run.pictures, "picture"), run.replies > 0 && format.count(run.replies, "reply", "replies"), run.measured > 0 && format.count(run.measured, "measurement"),
      run.failed > 0 && h("a", { href: rb.route.to("failures") }, `${format.whole(run.failed)} failed`), run.spent_usd > 0 && `${format.dollars(run.spent_usd)} spent`].filter(Boolean);
    return [h("bdi", {}, run.name), `: ${format.whole(run.cases)} of ${format.count(run.of, "case")} begun`, ...parts.flatMap((part) => [" · ", part])];
  }

  function draw(progress, fresh) {
    const place = document.getElementById("live");
    const newest = progress.runs.flatMap((run) => run.newest).slice(0, 5);
    rb.keepingFocus(() => place.replaceChildren(
      h("p", {}, progress.runs.map((run, n) => [n > 0 && h("br", {}), told(run)]), h("span", { class: "quiet" }, fresh ? " · these pages are up to date" : " · the run has grown since these pages were made "),
        !fresh && h("button", { type: "button", class: "quiet", id: "renew", on: { click: () => renew(progress) } }, "Show it now")),
      newest.length > 0 ? h("details", { id: "newest", open: place.querySelector("#newest")?.open ?? false }, h("summary", {}, "Newest failures"),
        h("ul", { class: "remarks" }, newest.map((one) => h("li", {}, h("bdi", {}, one.model), `, ${one.case}: ${format.words(one.kind)} `, h("span", { class: "detail", dir: "auto" }, one.detail))))) : ""));
    place.hidden = false;
  }

  /** Whether someone is in the middle of something that a new page would take away. */
  function taken() {
    return document.hidden || document.querySelector("dialog[open], details.menu[open]") !== null
      || document.activeElement?.matches?.("input, textarea, select") || !["overview", "failures"].includes(document.getElementById("main").dataset.page);
  }

  async function renew(progress) {
    if (busy) {
      return;
    }
    busy = true;
    const began = performance.now();
    try {
      await rb.renew();
      shown = progress.state;
      draw(progress, true);
    } finally {
      busy = false;
      asked = performance.now() + SHARE * (performance.now() - began);
    }
  }

  async function look() {
    try {
      const reply = await fetch("progress");
      const progress = reply.ok ? await reply.json() : null;
      if (progress) {
        shown ??= progress.state;
        const fresh = progress.state === shown;
        draw(progress, fresh);
        if (!fresh && !taken() && performance.now() > Math.max(asked, LEAST_MS)) {
          await renew(progress);
        }
      }
    } catch {
      document.getElementById("live").replaceChildren(h("p", {}, "The server does not answer: these pages stay as they are."));
    }
    setTimeout(look, ASK_MS);
  }

  rb.live = { start: look };
})();
