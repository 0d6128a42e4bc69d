// Making elements. Every text of a model, a tool or a data set gets into the page as a text node, by `append`.

import { file } from "./data.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes ?? {}, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes ?? {}, children);

export const count = (number) => number.toLocaleString("en");
export const plural = (number, noun, several = `${noun}s`) => `${count(number)} ${number === 1 ? noun : several}`;
export const percent = (share) => (share === null || share === undefined ? "–" : `${points(share)} %`);
export const points = (share) => (100 * share).toFixed(1);
export const signed = (value, digits) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
export const seconds = (value) => (value < 60 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`);

export function ago(changed) {
  const past = Date.now() / 1000 - changed;
  if (!changed) return "";
  if (past < 5) return "now";
  if (past < 90) return `${Math.round(past)} s ago`;
  if (past < 5400) return `${Math.round(past / 60)} min ago`;
  if (past < 129600) return `${Math.round(past / 3600)} h ago`;
  return new Date(1000 * changed).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}

const OUTCOMES = {
  correct: ["✓", "correct"], incorrect: ["✗", "wrong"], undecided: ["?", "undecided"], failed: ["!", "broke off"],
  answered: ["●", "answered"], out_of_turns: ["…", "out of turns"], out_of_time: ["…", "out of time"], no_plan: ["!", "no plan"], abstained: ["–", "abstained"],
};
export const outcomeName = (outcome) => OUTCOMES[outcome]?.[1] ?? outcome;
export function badge(outcome) {
  const [sign, name] = OUTCOMES[outcome] ?? ["·", outcome];
  return el("span", { class: `badge ${outcome}` }, el("span", { "aria-hidden": "true" }, sign), ` ${name}`);
}

export const liveDot = (live) => (live ? el("span", { class: "live" }, el("span", { class: "dot", "aria-hidden": "true" }), "live") : null);

// Long names break after their separators.
export const breakable = (text) => text.split(/(?<=[:/@._-])/).flatMap((piece, at) => (at ? [el("wbr"), piece] : [piece]));

export function bar(share, label, kind = "") {
  const inner = el("span", { class: `fill ${kind}` });
  inner.style.width = `${100 * Math.min(1, Math.max(0, share ?? 0))}%`;
  return el("span", { class: "bar", role: "img", "aria-label": label }, inner);
}

// Rows whose cells say their column's name where a phone shows each row as a card.
export function labelled(row, names) {
  [...row.cells].forEach((cell, at) => { if (names[at]) cell.dataset.label = names[at]; });
  return row;
}

// What was focused before a redraw is focused after it.
export function redraw(container, ...children) {
  const focused = container.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.dataset.key ?? focused?.getAttribute("href");
  const open = new Set([...container.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key));
  container.replaceChildren(...children.flat().filter(Boolean));
  for (const one of container.querySelectorAll("details[data-key]")) if (open.has(one.dataset.key)) one.open = true;
  if (!key) return;
  const again = [...container.querySelectorAll("[data-key], a[href]")].find((one) => (one.dataset.key ?? one.getAttribute("href")) === key);
  again?.focus({ preventScroll: true });
}

// A box that scrolls sideways, also by the arrow keys.
export const region = (label, kind, ...inside) => el("div", { class: `scroll ${kind}`, tabindex: 0, role: "region", "aria-label": label }, inside);

export const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const home = [file ? "Report" : "All runs", "#/"]; // the first step of a trail

export function trail(...steps) {
  const items = steps.filter(Boolean).map(([name, href]) => el("li", {}, href ? el("a", { href }, name) : el("span", { "aria-current": "page" }, name)));
  document.getElementById("trail").replaceChildren(el("ol", {}, items));
  document.title = [...steps.filter(Boolean).map(([name]) => name).reverse(), "AgentFlow"].join(" · ");
}
