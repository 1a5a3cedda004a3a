/** All pictures of a case under stable names, so that a zoomed or compared pair has an address. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, format } = rb;

  /** Longest side of a thumbnail. */
  const THUMB = 320;

  /** `{key, picture, title, model}` in the order of the page: references, targets, then outputs by model, seed, step. */
  function gallery(ctx, one) {
    const found = [];
    one.references.forEach((picture, i) => found.push({ key: `ref-${i}`, picture, title: givenName(picture, i), model: null }));
    one.targets.forEach((picture, i) => found.push({ key: `target-${i}`, picture, title: `target ${i + 1}`, model: null }));
    const seeds = new Set(one.outputs.map((output) => output.seed));
    for (const output of one.outputs) {
      output.pictures.forEach((picture, i) => {
        const about = [
          rb.shortName(ctx, output.model), output.step === null ? "" : `step ${output.step + 1}`, seeds.size > 1 ? `seed ${output.seed}` : "",
          output.pictures.length > 1 ? `picture ${i + 1}` : "",
        ];
        found.push({ key: keyOf(output, i), picture, title: about.filter(Boolean).join(", "), model: output.model, final: output.step === null });
      });
    }
    return found.filter((entry) => entry.picture.thumb || entry.picture.full);
  }

  /** A picture that was given, as instructions speak of it, with its part in the task. */
  function givenName(picture, i) {
    return `image ${i + 1}${picture.role && picture.role !== "reference" ? `, ${format.words(picture.role)}` : ""}`;
  }

  function keyOf(output, i) {
    return `out-${output.model}-${output.seed}-${output.step ?? "f"}-${i}`;
  }

  /** The thumbnail, and the whole picture where the place and the screen are too large for it: the browser chooses. */
  function sources(picture, sizes) {
    const [thumb, full] = [rb.relative(picture.thumb), rb.relative(picture.full)];
    const plain = [thumb, full].every((path) => path && !/[\s,]/.test(path)) && thumb !== full;
    if (!sizes || !plain || !picture.width || !picture.height) {
      return {};
    }
    const width = Math.max(1, Math.round(picture.width * Math.min(1, THUMB / Math.max(picture.width, picture.height))));
    return width < picture.width ? { srcset: `${thumb} ${width}w, ${full} ${picture.width}w`, sizes } : {};
  }

  /** A picture as a button that opens it; its place is reserved by its size, so nothing moves when it arrives. */
  function pictureButton(picture, title, key, { small = false, sizes = "" } = {}) {
    const size = picture.width && picture.height ? { "aspect-ratio": `${picture.width} / ${picture.height}` } : {};
    if (!picture.thumb && !picture.full) {
      return h("div", { class: small ? "absent small" : "absent", style: small ? {} : size }, h("span", {}, "picture not at hand"), picture.name && h("small", {}, picture.name));
    }
    return h("button", { type: "button", class: small ? "picture small" : "picture", "data-picture": key, "aria-label": `${title}: look closer`, style: small ? {} : size },
      h("img", { ...sources(picture, sizes), src: picture.thumb || picture.full, alt: `${title}${picture.name ? `, ${picture.name}` : ""}`, width: picture.width || null, height: picture.height || null, loading: "lazy", decoding: "async" }));
  }

  Object.assign(rb, { gallery, givenName, pictureKey: keyOf, pictureButton });
})();
