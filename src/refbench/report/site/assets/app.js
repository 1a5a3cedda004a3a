/** The shell: heading, navigation, and the page that the address names. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format } = rb;
  const NAV = ["overview", "audit", "cases", "compare", "figures", "failures", "agreement", "methods"];
  let site = null;
  let open = null;
  let turn = 0;

  /** Where each list was left: coming back to the same address finds the same rows. */
  const left = new Map();

  function heading(ctx) {
    const { board } = ctx;
    const current = ctx.route.page === "case" ? "cases" : ctx.route.page;
    const boards = site.boards.length > 1 && h("select", { id: "board", "aria-label": "Benchmark", on: { change: (event) => route.go(route.write({ board: event.target.value, page: ctx.route.page === "case" ? "cases" : ctx.route.page })) } },
      site.boards.map((one) => h("option", { value: one.id, selected: one === board }, one.title + (one.subset ? ` (${one.subset})` : ""))));
    const judges = board.judges.filter((judge) => judge !== null);
    const facts = [format.count(board.n_cases, "case"), board.subset && `subset ${board.subset}`, board.models_said, judges.length ? `judged by ${rb.judgesSaid(board)}` : "no judge"];
    document.getElementById("top").replaceChildren(
      h("div", { class: "brand" }, h("a", { class: "mark", href: route.write({ board: board.id, page: "overview" }) }, h("img", { src: "icon.svg", alt: "", width: "22", height: "22" }), "RefBench"),
        h("div", { class: "about" }, boards || h("strong", { class: "board" }, board.title), h("span", { class: "facts" }, facts.filter(Boolean).join(" · ")))),
      h("nav", { class: "tabs", "aria-label": "Pages" }, NAV.filter((page) => page !== "audit" || board.audit).map((page) => h("a", { href: route.to(page), "aria-current": page === current ? "page" : null, id: `tab-${page}` }, rb.pages[page].title)),
        rb.theme.button(), h("button", { type: "button", class: "quiet keys", "aria-label": "Keys", title: "Keys (?)", on: { click: rb.keys.help } }, "?")));
    document.getElementById("foot").replaceChildren(h("span", {}, `RefBench ${site.version}`), h("span", {}, "fingerprint ", h("code", {}, board.fingerprint)));
    toTab();
    document.title = `${ctx.route.page === "case" ? ctx.route.rest : rb.pages[ctx.route.page].title} · ${board.title} · RefBench`;
  }

  /** On a phone the tabs do not all fit: the one that is open stays in sight. */
  function toTab() {
    const tabs = document.querySelector(".tabs");
    const tab = tabs?.querySelector("[aria-current]");
    if (tab && tabs.scrollWidth > tabs.clientWidth) {
      tabs.scrollLeft = tab.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
    }
  }

  function broken(error) {
    return h("div", { class: "page" }, h("h1", {}, "This page cannot be shown"), rb.note(`${error.message}.`), rb.note("If this folder was copied, copy all of it: the pages read the files under data/."));
  }

  async function show() {
    let here = route.settled(site.boards.map((board) => board.id), Object.keys(rb.pages));
    if (here.page === "audit" && !site.boards.find((board) => board.id === here.board)?.audit) {
      // Of a run that is no audit, or where one has gone to another board.
      here = { ...here, page: "overview", rest: "", params: new URLSearchParams() };
      history.replaceState(null, "", route.write(here));
    }
    const { page } = here;
    const ctx = rb.context(site, here);
    const name = [ctx.board.id, page, here.rest].join("\n");
    const mine = (turn += 1);
    const scrolled = window.scrollY;
    rb.keepingFocus(() => heading(ctx));
    if (open?.name === name && open.update) {
      open.address = location.hash;
      open.update(ctx);
      return;
    }
    const built = await rb.pages[page].build(ctx).catch((error) => ({ node: broken(error) }));
    if (mine !== turn) {
      return;
    }
    const sameKind = open && open.name.split("\n").slice(0, 2).join("\n") === name.split("\n").slice(0, 2).join("\n");
    if (open) {
      left.set(open.address, scrolled);
    }
    open?.close?.();
    const main = document.getElementById("main");
    rb.keepingFocus(() => main.replaceChildren(built.node));
    open = Object.defineProperties({ name, address: location.hash }, Object.getOwnPropertyDescriptors(built));
    built.opened?.();
    if (!sameKind) {
      window.scrollTo(0, page === "cases" ? left.get(location.hash) ?? 0 : 0);
    }
    main.dataset.page = page;
  }

  /** The same page from the data as they are now. */
  async function renew() {
    rb.forget();
    site = await rb.load("site");
    if (open) {
      open.update = null;
    }
    await show();
  }

  /** A page whose chunks fail to load says which; nothing is left blank. */
  async function start() {
    try {
      site = await rb.load("site");
      await rb.annotations.open(site);
    } catch (error) {
      document.getElementById("main").replaceChildren(broken(error));
      return;
    }
    if (!site.boards.length) {
      document.getElementById("main").replaceChildren(rb.note("These runs hold nothing that could be shown yet."));
      return;
    }
    document.getElementById("skip").addEventListener("click", (event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    });
    window.addEventListener("hashchange", show);
    window.addEventListener("refbench:route", show);
    rb.keys.listen(() => open);
    await show();
    if (site.live) {
      rb.live.start();
    }
  }

  rb.renew = renew;
  start();
})();
