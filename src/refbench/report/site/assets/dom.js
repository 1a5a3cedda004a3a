/**
 * Elements from plain values. Whatever comes from people, models or judges enters as a text node or a property,
 * never as markup, and addresses are relative or hashes, or a paper's on arXiv: nothing here can start a script.
 */
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";

  /** A relative path as it is, anything with a scheme, a host or a root as the empty string. */
  function relative(path) {
    const text = String(path ?? "");
    return /^(?:[a-z][a-z0-9+.-]*:|[\\/])/i.test(text.trim()) || text.includes("\\") ? "" : text;
  }

  /** The one place outside that links may lead to: a paper on arXiv. */
  const PAPER = /^https:\/\/arxiv\.org\/abs\/\d{4}\.\d{4,5}$/;

  function fill(node, children) {
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== false) {
        node.append(child instanceof Node ? child : document.createTextNode(String(child)));
      }
    }
    return node;
  }

  function assign(node, given) {
    for (const [name, value] of Object.entries(given ?? {})) {
      if (value === null || value === undefined || value === false) {
        continue;
      }
      if (name === "on") {
        for (const [event, heard] of Object.entries(value)) {
          node.addEventListener(event, heard);
        }
      } else if (name === "style") {
        for (const [property, wanted] of Object.entries(value)) {
          node.style.setProperty(property, wanted);
        }
      } else if (name === "href") {
        const target = String(value);
        node.setAttribute("href", target.startsWith("#") || PAPER.test(target) ? target : relative(target) || "#");
      } else if (name === "src") {
        node.setAttribute("src", relative(value));
      } else if (name === "value" || name === "checked" || name === "open" || name === "selected") {
        node[name] = value;
      } else if (/^on/i.test(name)) {
        throw new Error(`${name}: listeners go under "on"`);
      } else {
        node.setAttribute(name, value === true ? "" : String(value));
      }
    }
    return node;
  }

  /** An HTML element: `h("p", {class: "note"}, "text", child)`. */
  function h(tag, given, ...children) {
    return assign(fill(document.createElement(tag), children), given);
  }

  /** An SVG element. Percentages as coordinates make drawings that follow the width without a script. */
  function s(tag, given, ...children) {
    return assign(fill(document.createElementNS(SVG, tag), children), given);
  }

  /** Puts text on the clipboard and says so; where the browser forbids it, the text is selected to be copied by hand. */
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
      say(`Copied ${what}`);
    } catch {
      const area = h("textarea", { class: "offscreen", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      say(done ? `Copied ${what}` : `The browser does not allow copying ${what}`);
    }
  }

  let quiet = 0;

  /** A short message that screen readers hear too. */
  function say(text) {
    const place = document.getElementById("said");
    place.textContent = text;
    place.classList.add("shown");
    clearTimeout(quiet);
    quiet = setTimeout(() => place.classList.remove("shown"), 2600);
  }

  /** Draws anew, and gives the focus back to the element of the same id. */
  function keepingFocus(draw) {
    const id = document.activeElement?.id;
    draw();
    if (id && document.activeElement?.id !== id) {
      document.getElementById(id)?.focus({ preventScroll: true });
    }
  }

  /** Names written from the right, which would scramble a list or a sentence around them. */
  const RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

  /** A name as it is, kept from turning what stands beside it. */
  function isolated(name) {
    const text = String(name);
    return RIGHT.test(text) ? `\u2068${text}\u2069` : text;
  }

  /** A sentence in which names written from the right are kept to themselves. */
  function sentence(text, names) {
    return names.filter((name) => RIGHT.test(name)).sort((a, b) => b.length - a.length)
      .reduce((said, name) => said.split(name).join(isolated(name)), String(text));
  }

  /** A remark of ours: what stands between backticks is code. */
  function prose(text) {
    return String(text).split(/`([^`\n]+)`/).map((part, place) => (place % 2 ? h("code", {}, part) : part)).filter((part) => part !== "");
  }

  function copyButton(text, what) {
    return h("button", { type: "button", class: "quiet", on: { click: () => copy(text, what) } }, `Copy ${what}`);
  }

  Object.assign(window.refbench, { h, s, relative, copy, copyButton, keepingFocus, say, isolated, sentence, prose });
})();
