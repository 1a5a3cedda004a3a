/**
 * Where items come from and marks go: the study's server, or the folder that this page lies in. Both have the same
 * functions, so that screens need not know.
 */
"use strict";

(() => {
  const rb = window.refbench;

  /** An answer of the server that is no success; `status` 0 where there was none at all. */
  class Unanswered extends Error {
    constructor(status, text) {
      super(text || `status ${status}`);
      this.status = status;
    }
  }

  async function ask(path, given) {
    let reply = null;
    try {
      reply = await fetch(path, given === undefined ? { cache: "no-store" } : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) });
    } catch (error) {
      throw new Unanswered(0, error.message);
    }
    if (!reply.ok) {
      throw new Unanswered(reply.status, (await reply.text()).slice(0, 300));
    }
    return reply.json();
  }

  class Server {
    constructor() {
      this.scope = location.pathname;
    }

    start() {
      return ask("study");
    }

    consent(language) {
      return ask("consent", { language });
    }

    /** The next items, those that this page holds already left out. */
    async items(n, held) {
      return ask("items", { n, held });
    }

    picture(name) {
      return `pictures/${name}`;
    }

    send(marks) {
      return ask("marks", { marks });
    }

    undo() {
      return ask("undo", {});
    }

    check(item, edit) {
      return ask("check", { item, edit });
    }

    finish() {
      return ask("finish", {});
    }
  }

  rb.source = rb.given("pack") ? new rb.Packed(rb.given("pack")) : new Server();
  rb.Unanswered = Unanswered;
})();
