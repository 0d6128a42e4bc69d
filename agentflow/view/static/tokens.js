// Every token of a group's trajectories: what it was sampled with, what it was credited, what the update made of it.

import { get } from "./data.js";
import { address, badge, count, el, home, plural, signed, trail } from "./dom.js";

const COLOURS = ["advantage", "ratio", "drift", "mask"];
const SHORT = 40; // tokens that were given to the model and are shown without being asked for

export async function tokensPage(holder, { source, step, group }) {
  const run = await get(`/api/sources/${source}`);
  const found = await get(`/api/sources/${source}/steps/${step}/tokens/${group}`);
  trail(home, [run.name, address("run", source)], [`Groups of step ${step}`, address("run", source, "step", step)], ["Tokens"]);
  const about = new WeakMap(); // of each token's element, what is told of it
  const facts = el("aside", { class: "token-facts card", "aria-live": "polite", "aria-label": "The token" }, el("p", { class: "quiet" }, "Point at a token, or go into a row with Tab and along it with ← and →."));
  const show = (one) => { if (about.has(one)) facts.replaceChildren(...told(about.get(one))); };
  const box = el("div", { class: "inspector", onpointerover: (event) => show(event.target), onfocusin: (event) => show(event.target) },
    el("fieldset", { class: "colouring" }, el("legend", {}, "Colour by"), COLOURS.map((name) => el("label", {}, el("input", { type: "radio", name: "colour", value: name, checked: name === COLOURS[0] }), name))),
    el("details", {}, el("summary", {}, "What the words mean"), el("dl", { class: "terms" }, found.terms.flatMap(([name, meaning]) => [el("dt", {}, name), el("dd", {}, meaning)]))),
    found.trajectories.map((one, at) => trajectory(source, one, `${at + 1} of ${found.trajectories.length}`, about)));
  holder.append(el("div", { class: "heading" }, el("h1", { class: "question" }, found.question),
    el("p", { class: "quiet" }, `Of step ${step}. Blue with a solid line is more, orange with a dashed line is less; grey was given to the model.`)), box, facts);
  return {};
}

function trajectory(source, one, which, about) {
  const name = `Trajectory ${which}`;
  const written = one.rows.flatMap((row) => row.parts.filter((part) => "node" in part));
  const sampled = written.reduce((sum, part) => sum + part.tokens.length, 0);
  const advantages = [...new Set(written.map((part) => (part.advantage === null ? "left out" : signed(part.advantage, 2))))];
  return el("section", { class: "card trajectory", "aria-label": name },
    el("h2", {}, name, " ", one.trace ? badge(one.trace.outcome) : null),
    el("p", { class: "quiet" }, `reward ${one.reward ?? "none"} · advantage ${advantages.join(", ") || "none"} · ${plural(sampled, "sampled token")} in ${plural(one.rows.length, "row")}`,
      one.trace ? [" · ", el("a", { href: address("run", source, one.trace.id) }, "turn by turn")] : null),
    one.rows.flatMap((row, at) => [row.why ? el("p", { class: "broken", role: "note" }, el("b", {}, "The prefix broke. "), row.why) : null, tokenRow(row, `${name}, row ${at + 1}`, about)]));
}

function tokenRow(row, name, about) {
  return el("div", { class: "token-row", tabindex: 0, role: "group", "aria-label": `${name}: ${plural(row.length, "token")}; left and right go from token to token`, onkeydown: along },
    row.parts.flatMap((part, at) => ("node" in part ? sampledTokens(part, row, about) : givenTokens(part, row, at === 0, about))));
}

const writer = ({ node, turn }) => `${node}, call ${turn + 1}`;

function sampledTokens(part, row, about) {
  const label = el("span", { class: "call" }, writer(part));
  return [label, ...part.tokens.map((token, at) => {
    const [, text, trained, , , , , , clipped, ratio, drift] = token;
    const made = el("span", { class: `t${trained ? "" : " left"}${clipped ? " clipped" : ""}`, tabindex: -1, "data-a": part.level || null, "data-r": ratio || null, "data-d": drift || null }, text);
    about.set(made, { part, row, token, position: part.start + at });
    return made;
  })];
}

function givenTokens(part, row, first, about) {
  const make = () => part.tokens.map(([id, text], at) => {
    const made = el("span", { class: "g", tabindex: -1 }, text);
    about.set(made, { row, token: [id, text], position: part.start + at });
    return made;
  });
  if (part.tokens.length <= SHORT) return make();
  const inside = el("div", {});
  const told = el("details", { class: "given", ontoggle: () => { if (inside.childElementCount === 0) inside.append(...make()); } },
    el("summary", {}, `${plural(part.tokens.length, "token")} ${first ? "of the prompt" : "given in between"}: ${part.tokens.slice(0, 12).map(([, text]) => text).join("").replace(/\s+/g, " ")} …`), inside);
  return [told];
}

// The arrow keys go along the tokens of a row that can be seen.
function along(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || event.target.tagName === "SUMMARY" || event.ctrlKey || event.altKey || event.metaKey) return;
  const tokens = [...event.currentTarget.querySelectorAll(".t, .g")].filter((one) => one.checkVisibility());
  if (tokens.length === 0) return;
  const to = tokens.indexOf(event.target) + steps[event.key];
  tokens[Math.min(tokens.length - 1, Math.max(0, to))].focus();
  event.preventDefault();
}

const nats = (value) => (value === null ? "not computed" : `${signed(value, 4)} (${(100 * Math.exp(value)).toFixed(1)} %)`);

function told({ part, row, token, position }) {
  const [id, text, trained, rollout, trainer, updated, drift, ratio, clipped] = token;
  const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const shown = [fact("token", el("code", {}, JSON.stringify(text))), fact("id", String(id)), fact("position", `${count(position + 1)} of ${count(row.length)}`)];
  if (part) {
    shown.push(fact("written by", writer(part)), fact("mask", trained ? "1, trained on" : "0, left out"),
      fact("advantage", part.advantage === null ? "none: left out" : signed(part.advantage, 4)), fact("weight", part.weight === null ? "none: left out" : part.weight.toExponential(2)),
      fact("rollout", nats(rollout)), fact("trainer", nats(trainer)), fact("updated", nats(updated)),
      fact("drift", drift === null ? "not computed" : signed(drift, 6)), fact("ratio", ratio === null ? "not computed" : `${ratio.toFixed(4)}${clipped ? ", clipped" : ""}`));
  } else shown.push(fact("mask", "0, given to the model"));
  return [el("dl", {}, shown)];
}
