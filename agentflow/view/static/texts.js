// Long texts fold; any text can be copied, and data downloaded.

import { count, el } from "./dom.js";

const LONG = 1200;

// Preformatted text; a long one is cut until it is opened, and stays open over a redraw by its key.
export function folded(text, key) {
  if (text.length <= LONG && text.split("\n").length <= 24) return el("pre", {}, text);
  const start = text.slice(0, LONG).split("\n").slice(0, 16).join("\n");
  return el("details", { class: "fold", "data-key": `fold ${key}` },
    el("summary", {}, el("pre", { class: "start" }, start, " …"), el("span", { class: "more" }, `Show all ${count(text.length)} characters`), el("span", { class: "less" }, "Show less")), el("pre", {}, text));
}

export function copyButton(label, text) {
  const made = el("button", { type: "button", class: "small", "data-key": `copy ${label}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      made.textContent = "Copied";
    } catch {
      made.textContent = "The browser does not allow it";
    }
    setTimeout(() => { made.textContent = label; }, 1500);
  } }, label);
  return made;
}

export function download(name, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: name.replace(/[^\w.-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
