/** From the first item to the last: what is shown, what the keys do, and what becomes of a mark. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t, said } = rb;
  const AHEAD = 3;
  const MOST_ON_SMALL = 3;
  /** As many as the server looks through; a browser that has been offline may keep hundreds of marks. */
  const MOST_HELD = 1000;
  const state = { study: null, progress: null, upcoming: [], done: [], place: -1, current: null, screen: null, page: null, reported: [], asked: 0, ended: false };
  const main = document.getElementById("main");
  let fetching = null;

  // --- the heading ----------------------------------------------------------------------------------------------

  function savedState() {
    const { waiting, failed } = rb.queue.state();
    const file = Boolean(rb.given("pack"));
    if (!waiting) {
      return h("span", { id: "saved", class: "saved", title: t(file ? "saved.browser" : "saved.title") }, state.done.length || state.progress?.done ? `✓ ${t(file ? "saved.kept" : "saved.done")}` : "");
    }
    return h("span", { id: "saved", class: failed ? "saved bad" : "saved busy", role: failed ? "alert" : null }, failed ? t("saved.offline", { n: waiting }) : t("saved.busy"));
  }

  function timeLeft() {
    const seconds = state.progress?.seconds_left;
    if (!seconds) {
      return "";
    }
    const minutes = Math.ceil(seconds / 60);
    return minutes < 60 ? t("left.minutes", { n: minutes }) : t("left.hours", { n: Math.round(minutes / 30) / 2 });
  }

  function heading() {
    const { study, progress, current } = state;
    const training = current?.phase === "training";
    const [done, total] = training ? [current.position - 1, current.total] : [progress?.done ?? 0, progress?.total ?? 0];
    const languages = rb.languages.offered();
    rb.keepingFocus(() => document.getElementById("top").replaceChildren(
      h("strong", { class: "title", dir: "auto" }, said(study?.title) || t("title")),
      total ? h("span", { class: "far" }, training ? h("span", { class: "phase" }, t("training")) : "", h("progress", { max: String(total), value: done, "aria-label": t("progress") }), h("span", { class: "count" }, `${Math.min(done + (current ? 1 : 0), total)} / ${total}`), training ? "" : h("span", { class: "time-left" }, timeLeft())) : "",
      savedState(),
      h("span", { class: "tools" },
        rb.given("pack") && state.progress?.done ? h("button", { type: "button", class: "quiet", id: "download", on: { click: () => rb.source.download() } }, t("pack.short")) : "",
        languages.length > 1 ? h("select", { id: "language", "aria-label": t("language"), on: { change: (event) => rb.languages.choose(event.target.value) } }, languages.map((name) => h("option", { value: name, lang: name, selected: name === rb.languages.now() }, rb.languages.names[name] ?? name))) : "",
        h("button", { type: "button", class: "quiet", id: "help", "aria-label": t("help.title"), title: t("help.title"), on: { click: () => rb.dialogs.help(study?.guidelines) } }, "?"))));
    document.title = said(study?.title) || t("title");
  }

  // --- items ----------------------------------------------------------------------------------------------------

  function preload(item) {
    item.images = item.pictures.map((picture) => {
      const image = new Image();
      image.src = rb.source.picture(picture.name);
      image.decode().catch(() => {});
      return image;
    });
    return item;
  }

  /** Items that this page has, or whose marks are still on their way: the server need not send them again. */
  function held() {
    return [...new Set([...rb.queue.items(), ...state.upcoming.map((item) => item.item), ...(state.current ? [state.current.item] : [])])].filter(Boolean).slice(-MOST_HELD);
  }

  async function fetchMore() {
    const reply = await rb.source.items(AHEAD, held());
    const known = new Set(held());
    state.upcoming.push(...reply.items.filter((item) => !known.has(item.item)).map(preload));
    took(reply.progress);
  }

  function fill() {
    fetching ??= fetchMore().finally(() => (fetching = null));
    return fetching;
  }

  function took(progress) {
    if (progress) {
      state.progress = progress;
      heading();
    }
  }

  /** The next item: one that was looked back from, one that is here already, or what the server has. */
  async function next() {
    if (state.place >= 0 && state.place + 1 < state.done.length) {
      state.place += 1;
      show(state.done[state.place].item, state.done[state.place].mark);
      return;
    }
    state.place = -1;
    state.current = null;
    try {
      if (!state.upcoming.length) {
        put(rb.pages.waiting(rb.queue.state().waiting), "waiting");
        await fill();
      }
      if (!state.upcoming.length) {
        await rb.queue.empty(); // only then does the server know that these are done,
        await fill(); // and only what it says after that is the end: the answer before may be older than the last mark
      }
    } catch (error) {
      failed(error, next);
      return;
    }
    const item = state.upcoming.shift();
    if (item) {
      show(item, item.draft ?? null);
      fill().catch(() => {}); // without a connection the items at hand can be marked all the same
    } else {
      atEnd();
    }
  }

  function put(page, name) {
    state.screen = null;
    state.page = name;
    rb.clock.stop();
    main.dataset.page = name;
    main.replaceChildren(page);
    heading();
    (page.querySelector?.("#go") ?? main).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  /** Shows an item, with the marks that it has. The time runs once all of its pictures can be seen. */
  function show(item, mark) {
    const from = state.asked || performance.now();
    state.asked = 0;
    state.current = item;
    state.page = "item";
    state.reported = [...(mark?.reported ?? [])];
    const screen = new rb.screens[item.screen](item, () => refresh());
    state.screen = screen;
    screen.panel.append(actions(mark?.comment ?? item.comment ?? ""));
    const values = mark?.values ?? item.given;
    main.dataset.page = item.screen;
    main.replaceChildren(item.screen === "set" && item.outputs > MOST_ON_SMALL ? rb.pages.tooSmall(item.outputs, () => submit(true)) : "", screen.node);
    if (values) {
      screen.fill(values);
    }
    refresh();
    heading();
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
    rb.clock.stop();
    const images = [...screen.node.querySelectorAll("img")];
    images.forEach((image) => ["load", "error"].forEach((name) => image.addEventListener(name, () => refresh())));
    Promise.allSettled(images.map((image) => image.decode())).then(() => {
      if (state.screen === screen) {
        rb.clock.start(1000 * (mark?.active ?? 0));
        main.dataset.ready = item.item;
        requestAnimationFrame(() => setTimeout(() => performance.measure("item painted", { start: from, end: performance.now() })));
      }
    });
  }

  /** What stands below the questions of every screen. */
  function actions(comment) {
    const key = (text) => h("kbd", { "aria-hidden": "true" }, text);
    const button = (id, text, sign, act) => h("button", { type: "button", class: "quiet", id, on: { click: act } }, text, " ", key(sign));
    const area = h("textarea", { id: "comment", rows: "2", dir: "auto", "aria-label": t("comment"), placeholder: t("comment.hint"), maxlength: "4000" });
    area.value = comment;
    area.hidden = !comment;
    return h("div", { class: "actions" }, area, h("p", { class: "reported", id: "reported", hidden: true }),
      h("div", { class: "buttons" }, button("undo", t("undo"), "Z", () => undo()), button("skip", t("skip"), "S", () => submit(true)), button("add-comment", t("comment"), "C", () => openComment()), button("report", t("report"), "R", () => report()), h("button", { type: "button", class: "main-button", id: "next", on: { click: () => submit(false) } }, t("next"), " ", key("↵"))));
  }

  function refresh() {
    const { screen } = state;
    const button = document.getElementById("next");
    if (!screen || !button) {
      return;
    }
    button.classList.toggle("ready", screen.complete && !unseen().length);
    document.getElementById("undo").disabled = false;
    const reported = document.getElementById("reported");
    reported.hidden = !state.reported.length;
    reported.textContent = t("report.done", { n: state.reported.length });
  }

  /** Pictures of the item that cannot be seen and were not reported: who has not seen them cannot mark them. */
  function unseen() {
    return state.screen.unseen().filter((entry) => !state.reported.includes(entry.name));
  }

  function openComment() {
    const area = document.getElementById("comment");
    area.hidden = false;
    area.focus();
  }

  function report() {
    if (state.screen?.entries.length) {
      rb.dialogs.report(state.screen.entries, (name, skip) => {
        state.reported = [...new Set([...state.reported, name])];
        refresh();
        if (skip) {
          submit(true);
        }
      });
    }
  }

  // --- marks ----------------------------------------------------------------------------------------------------

  function markOf(skip) {
    const { screen, current } = state;
    const { active_ms: active, wall_ms: wall } = rb.clock.read();
    const comment = document.getElementById("comment").value.trim();
    return { id: rb.newId(), item: current.item, values: skip ? {} : screen.values(), skip, comment, reported: state.reported, active: active / 1000, wall: wall / 1000, at: Date.now() };
  }

  async function submit(skip) {
    const { screen, current } = state;
    if (!screen) {
      return;
    }
    if (screen.looking.isOpen) {
      screen.looking.close();
    }
    if (!skip && !screen.complete) {
      rb.say(screen.faulty ? t("still.wrong") : screen.open());
      return;
    }
    const [missing] = skip ? [] : unseen().sort((a, b) => b.lost - a.lost);
    if (missing) {
      rb.say(missing.lost ? t("still.lost", { picture: missing.title }) : t("still.loading"));
      return;
    }
    state.asked = performance.now();
    const mark = markOf(skip);
    if (current.phase === "training") {
      await train(mark);
      return;
    }
    const before = state.done.findIndex((one) => one.item.item === current.item);
    const entry = { item: current, mark: skip ? null : mark };
    if (before >= 0) {
      state.done[before] = entry;
    } else {
      state.done.push(entry);
    }
    if (!skip && state.progress && before < 0 && !current.given) {
      state.progress = { ...state.progress, done: state.progress.done + 1 };
    }
    rb.queue.add(mark);
    await next();
  }

  /** A training item is answered before the next one comes. */
  async function train(mark) {
    const item = state.current;
    const heard = rb.queue.answer();
    rb.queue.add(mark);
    put(rb.pages.waiting(0), "waiting");
    const reply = await heard;
    const acknowledged = reply.acknowledged.find((one) => one.id === mark.id);
    if (!acknowledged?.feedback.length && acknowledged?.training !== "failed") {
      await next();
      return;
    }
    state.upcoming = acknowledged.training === "again" || acknowledged.training === "passed" ? [] : state.upcoming;
    put(acknowledged.training === "failed" ? rb.pages.failed() : rb.pages.feedback(acknowledged, item, mark.values, next), "feedback");
  }

  /** Takes the last mark on this item back, or, where it has none, goes to the one before. */
  async function undo() {
    if (state.screen?.undo()) {
      return;
    }
    if (state.current?.phase === "training") {
      rb.say(t("undo.none"));
      return;
    }
    const here = state.place >= 0 ? state.place : state.done.length;
    if (here > 0) {
      putBack(here === state.done.length);
      state.place = here - 1;
      show(state.done[state.place].item, state.done[state.place].mark);
      return;
    }
    await undoEarlier();
  }

  /** The item that is left for an earlier one comes right after it, with what was marked of it. */
  function putBack(keep) {
    if (keep && state.current) {
      const draft = state.screen ? { values: state.screen.values(), comment: document.getElementById("comment").value, reported: state.reported, active: rb.clock.read().active_ms / 1000 } : null;
      state.upcoming.unshift(Object.assign(state.current, { draft }));
    }
  }

  /** Marks of an earlier visit are at the server. */
  async function undoEarlier() {
    if (!state.progress?.undo) {
      rb.say(t("undo.none"));
      return;
    }
    try {
      await rb.queue.empty();
      const reply = await rb.source.undo(held());
      took(reply.progress);
      if (reply.item) {
        putBack(true);
        state.place = -1;
        state.upcoming = state.upcoming.filter((item) => item.item !== reply.item.item);
        show(preload(reply.item), null);
      } else {
        rb.say(t("undo.none"));
      }
    } catch {
      rb.say(t("undo.offline"));
    }
  }

  /** A mark that was not taken: why is said, and its item comes next, with what was marked of it. */
  function refused({ id, kind, sentence }) {
    rb.say(t("refused.mark", { why: sentence }));
    const place = state.done.findIndex((one) => one.mark?.id === id);
    if (place < 0 || kind === "closed") {
      return;
    }
    const [{ item, mark }] = state.done.splice(place, 1);
    state.place = -1;
    state.upcoming.unshift(Object.assign(item, { draft: mark }));
  }

  // --- the beginning, the end, and what went wrong ------------------------------------------------------------------

  function atEnd() {
    const { progress } = state;
    if (progress.training === "failed") {
      put(rb.pages.failed(), "failed");
    } else if (rb.given("pack")) {
      put(rb.pages.download(progress, () => rb.source.download()), "ended");
    } else if (progress.closed) {
      finish();
    } else if (progress.full) {
      put(rb.pages.full(), "full");
    } else if (progress.finished) {
      put(rb.pages.finished(progress, undo, finish), "finished");
    } else {
      put(rb.pages.nothing(next), "nothing");
    }
  }

  async function finish() {
    try {
      await rb.queue.empty();
      const reply = await rb.source.finish();
      if (reply.code) {
        state.ended = true;
        put(rb.pages.code(reply.code), "ended");
      } else {
        await next();
      }
    } catch (error) {
      failed(error, finish);
    }
  }

  function failed(error, again) {
    put(rb.pages.wrong(error, again), "wrong");
  }

  async function welcome() {
    const { study } = state;
    if (study.progress.full) {
      atEnd();
    } else if (study.guidelines && Object.keys(study.guidelines).length && !study.progress.done) {
      put(rb.pages.welcome(study, next), "welcome");
    } else {
      await next();
    }
  }

  async function start() {
    try {
      state.study = await rb.source.start();
    } catch (error) {
      rb.languages.begin();
      failed(error, start);
      return;
    }
    const { study } = state;
    rb.languages.begin(study.languages);
    rb.queue.begin(rb.source.scope);
    took(study.progress);
    if (study.progress.full) {
      atEnd();
    } else if (!study.progress.consented) {
      put(rb.pages.consent(study, agree), "consent");
    } else {
      await welcome();
    }
  }

  async function agree() {
    try {
      state.study = await rb.source.consent(rb.languages.now());
      took(state.study.progress);
      await welcome();
    } catch (error) {
      failed(error, start);
    }
  }

  // --- the keyboard ---------------------------------------------------------------------------------------------

  const ACTS = { Enter: () => submit(false), s: () => submit(true), c: () => openComment(), r: () => report(), f: () => state.screen?.flicker(), z: () => undo(), "?": () => rb.dialogs.help(state.study?.guidelines) };

  /** What a key does now; undefined where it does nothing, and the browser may have it. */
  function actOf(event) {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const { screen } = state;
    if (!screen) {
      return key === "z" && ["finished", "ended"].includes(state.page) && !state.ended ? () => undo() : key === "?" ? ACTS["?"] : undefined;
    }
    const look = screen.looking.isOpen ? screen.looking.key(event.key === " " ? " " : key) : null;
    if (look) {
      return look;
    }
    if (screen.press(key)) {
      if (screen.looking.isOpen) {
        rb.say(screen.said());
      }
      return () => refresh();
    }
    if (key === "ArrowDown" || key === "ArrowUp") {
      return screen.looking.isOpen || !screen.move(key === "ArrowDown" ? 1 : -1) ? undefined : () => {};
    }
    return ACTS[key];
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog.help[open]")) {
      return;
    }
    const typing = event.target.closest?.("textarea, select, input:not([type=radio])");
    if (typing) {
      if (event.key === "Escape") {
        typing.blur();
        main.focus({ preventScroll: true });
      }
      return;
    }
    const pressing = event.target.closest?.("button, a, summary");
    if ((pressing && (event.key === "Enter" || event.key === " ")) || (event.target.matches?.("input[type=radio]") && (event.key.startsWith("Arrow") || event.key === " "))) {
      return;
    }
    const act = actOf(event);
    if (act) {
      event.preventDefault();
      act();
    }
  }

  document.addEventListener("keydown", pressed);
  window.addEventListener("study:queue", () => heading());
  window.addEventListener("study:progress", (event) => {
    took(event.detail);
    if (!state.upcoming.length) {
      fill().catch(() => {});
    }
  });
  window.addEventListener("study:refused", (event) => refused(event.detail));
  window.addEventListener("study:language", () => {
    if (state.screen) {
      const { values, comment } = { values: state.screen.values(), comment: document.getElementById("comment").value };
      const { active_ms: active } = rb.clock.read();
      show(state.current, { values, comment, reported: state.reported, active: active / 1000 });
    } else if (state.page === "consent") {
      put(rb.pages.consent(state.study, agree), "consent");
    } else if (state.page === "welcome") {
      put(rb.pages.welcome(state.study, next), "welcome");
    } else if (["finished", "full"].includes(state.page)) {
      atEnd();
    }
    heading();
  });
  start();
})();
