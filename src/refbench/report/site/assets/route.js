/** Addresses: `#/<board>/<page>[/<case>]?<state>`. Every state of a page is in its address, so every view can be sent. */
"use strict";

(() => {
  /** What stays when one goes to another page of the same board. */
  const KEPT = ["protocol", "judge"];

  function decoded(part) {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  }

  function read(hash = location.hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    const [board = "", page = "", ...rest] = path.split("/").map(decoded);
    return { board, page, rest: rest.join("/"), params: new URLSearchParams(query) };
  }

  /**
   * Where one is, with board and page named in the address: one that leaves the board out is about the first board, and
   * a page that does not exist is the overview. Links of a page start from its address, so it is put right at once,
   * without a new entry in the history.
   */
  function settled(boards, pages) {
    const { board: first, page: second, rest, params } = read();
    const [board, page, ...more] = boards.includes(first) ? [first, second, rest] : pages.includes(first) ? [boards[0], first, second, rest] : [boards[0], second, rest];
    const here = pages.includes(page) ? { board, page, rest: more.filter(Boolean).join("/"), params } : { board, page: "overview", rest: "", params };
    if (write(here) !== location.hash) {
      history.replaceState(null, "", write(here));
    }
    return here;
  }

  function write({ board, page, rest = "", params = {} }) {
    const query = new URLSearchParams();
    const given = params instanceof URLSearchParams ? params.entries() : Object.entries(params);
    for (const [name, value] of given) {
      if (value !== null && value !== undefined && value !== "") {
        query.set(name, value);
      }
    }
    const path = ["#", board, page, rest].filter((part) => part !== "").map((part) => (part === "#" ? part : encodeURIComponent(part)));
    const text = query.toString().replaceAll("%2C", ",");
    return path.join("/") + (text ? `?${text}` : "");
  }

  /** The address of this page with some of its state changed; null or "" removes. */
  function changed(changes, from = read()) {
    const params = new URLSearchParams(from.params);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") {
        params.delete(name);
      } else {
        params.set(name, value);
      }
    }
    return write({ ...from, params });
  }

  /** The address of another page of the board, with the protocol and judge one has chosen. */
  function to(page, { rest = "", params = {}, from = read() } = {}) {
    const kept = Object.fromEntries(KEPT.filter((name) => from.params.has(name)).map((name) => [name, from.params.get(name)]));
    return write({ board: from.board, page, rest, params: { ...kept, ...params } });
  }

  function go(address) {
    location.hash = address;
  }

  /** Changes the address without a new entry in the history: for what is typed, dragged or looked through. */
  function replace(address) {
    history.replaceState(null, "", address);
    window.dispatchEvent(new Event("refbench:route"));
  }

  window.refbench.route = { read, settled, write, changed, to, go, replace };
})();
