// The groups of a step: the trajectories of one question, with the rewards and the advantages that they were trained with.

import { get } from "./data.js";
import { address, badge, count, el, home, plural, redraw, signed, trail } from "./dom.js";
import { toolMarks } from "./traces.js";

export async function groupsPage(holder, { source, step }) {
  const run = await get(`/api/sources/${source}`);
  const wanted = Number(step);
  trail(home, [run.name, address("run", source)], [`Groups of step ${wanted}`]);
  const list = el("div", {});
  holder.append(list);
  const refresh = async () => draw(list, source, await get(`/api/sources/${source}/steps/${wanted}`));
  await refresh();
  return { refresh };
}

function draw(list, source, found) {
  const at = found.steps.indexOf(found.step);
  const way = (to, text) => (to === undefined ? el("span", { class: "quiet" }, text) : el("a", { href: address("run", source, "step", to), "data-key": text }, text));
  const select = el("select", { "data-key": "step", "aria-label": "Step", onchange: (event) => { location.hash = address("run", source, "step", event.target.value); } }, found.steps.map((step) => el("option", { value: step, selected: step === found.step }, `step ${step}`)));
  const teaching = found.groups.filter((group) => !group.settled);
  const settled = found.groups.filter((group) => group.settled);
  const most = Math.max(0.01, ...found.groups.flatMap((group) => group.trajectories.map((one) => Math.abs(one.advantage ?? 0))));
  redraw(list, el("div", { class: "heading" }, el("h1", {}, `Groups of step ${found.step}`),
    el("div", { class: "stepper" }, way(found.steps[at - 1], "← step before"), select, way(found.steps[at + 1], "step after →")),
    el("p", {}, el("b", { class: "formula" }, found.formula)),
    el("p", { class: "quiet" }, explained(found, teaching.length, settled.length))),
  found.groups.length === 0 ? el("p", {}, "There is no rollout of this step.") : null,
  teaching.map((group) => card(source, found.step, group, most)),
  settled.length ? el("details", { class: "settled", "data-key": "settled", open: teaching.length === 0 }, el("summary", {}, `${plural(settled.length, "group")} with nothing to compare`), settled.map((group) => card(source, found.step, group, most))) : null);
}

function explained(found, teaching, settled) {
  if (!found.credited) return "The advantages of this step have not been computed: its rollouts are under way, or none can be trained on.";
  const said = [`${plural(teaching, "group")} of this step ${teaching === 1 ? "has" : "have"} trajectories that did better than others; in ${count(settled)} all did the same, and their advantage is 0.`,
    "Where the calls of a trajectory have different advantages, their mean is shown, and each below it."];
  if (found.penalty) said.push(`A call that led to a failure has ${found.penalty} taken off.`);
  if (found.mask_cut_off) said.push("Rollouts with a reply that was cut off are left out of training.");
  return said.join(" ");
}

function card(source, step, group, most) {
  const rewards = group.mean === null ? "no reward" : `mean reward ${group.mean.toFixed(2)}, spread ${group.spread.toFixed(2)}`;
  const sorted = [...group.trajectories].sort((a, b) => (b.advantage ?? -Infinity) - (a.advantage ?? -Infinity));
  return el("section", { class: "card group", "aria-label": `Group: ${group.question.slice(0, 80)}` },
    el("h2", {}, group.question), el("p", { class: "quiet" }, [group.family, `gold: ${group.gold}`, sorted.length === 1 ? "1 trajectory" : `${sorted.length} trajectories`, rewards].filter(Boolean).join(" · "),
      group.tokens === null ? null : [" · ", el("a", { href: address("run", source, "step", step, "tokens", group.tokens), "data-key": `tokens ${group.tokens}` }, "its tokens")]),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Trajectories" }, el("table", { class: "list" },
      el("thead", {}, el("tr", {}, ["outcome", "reward", "advantage", "tools", "answer", "turns that failed"].map((name) => el("th", { scope: "col", class: name === "reward" || name.startsWith("turns") ? "n" : null }, name)))),
      el("tbody", {}, sorted.map((one) => el("tr", {}, el("td", {}, el("a", { class: "open", href: address("run", source, one.id) }, badge(one.outcome))), el("td", { class: "n" }, one.reward === null ? "–" : String(one.reward)),
        el("td", { class: "advantage" }, diverging(one.advantage, most), perCall(one.advantages)), el("td", {}, toolMarks(one)), el("td", { class: "answer" }, el("span", { title: one.answer || null }, one.answer || "–")),
        el("td", { class: "n" }, one.faults ? `${one.faults} of ${one.turns}` : "–")))))));
}

// The advantages of the calls, where they differ.
function perCall(advantages) {
  return new Set(advantages).size > 1 ? el("span", { class: "quiet" }, advantages.map((one) => signed(one, 2)).join(", ")) : null;
}

function diverging(value, most) {
  if (value === null) return el("span", { class: "quiet" }, "left out");
  const fill = el("span", { class: value < 0 ? "minus" : "plus" });
  fill.style.width = `${(50 * Math.abs(value)) / most}%`;
  return el("span", { class: "diverging" }, el("span", { class: "number" }, signed(value, 2)), el("span", { class: "rail", "aria-hidden": "true" }, fill));
}
