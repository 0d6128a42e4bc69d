// All runs: trainings, evaluations, solved questions.

import { get } from "./data.js";
import { address, ago, bar, breakable, count, el, labelled, liveDot, percent, plural, redraw, svg, trail } from "./dom.js";

export async function runsPage(holder) {
  trail(["All runs"]);
  const list = el("div", {});
  holder.append(el("h1", { class: "visually-hidden" }, "All runs"), list);
  const refresh = async () => draw(list, await get("/api/sources"));
  await refresh();
  return { refresh };
}

function draw(list, { sources, roots, complete }) {
  const of = (...kinds) => sources.filter((one) => kinds.includes(one.kind));
  if (sources.length === 0) { redraw(list, complete ? nothing(roots) : el("p", {}, "Reading …")); return; }
  redraw(list,
    of("training").length ? section("Trainings", [table(["", "name", "preset", "steps", "reward", "held-out accuracy", "written"], of("training").map(trainingRow))]) : null,
    of("evaluation").length ? section("Evaluations", [compareForm(of("evaluation")),
      table(["", "name", "benchmark", "planner", "ended", "accuracy", "written"], of("evaluation").map(evaluationRow))]) : null,
    of("traces").length ? section("Solved questions", [table(["", "name", "latest question", "traces", "written"], of("traces").map(fileRow))]) : null);
}

function nothing(roots) {
  return el("section", { class: "card empty" }, el("h2", {}, "Nothing to look at yet"),
    el("p", {}, `The page looks at ${roots.join(" and ")} and shows what comes, while it comes. Try in another terminal:`),
    el("pre", {}, 'agentflow solve "How many feet are 3 yards?" --trace runs/first.jsonl\nagentflow eval atlas --limit 50 --out runs/trained\nagentflow train --preset atlas-cpu'));
}

const section = (title, inside) => el("section", { "aria-label": title }, el("h2", {}, title), ...inside);

function table(columns, rows) {
  return el("div", { class: "scroll card flush" }, el("table", { class: "list cards-if-narrow" },
    el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col", class: name === "written" || name === "traces" ? "n" : null }, name || el("span", { class: "visually-hidden" }, "state"))))),
    el("tbody", {}, rows.map((row) => labelled(row, columns)))));
}

const nameCell = (one) => el("td", { class: "name" }, el("a", { href: address("run", one.id), class: "open" }, breakable(one.name)),
  one.broken ? el("small", { class: "warn" }, `${plural(one.broken, "line")} could not be read`) : null);
const written = (one) => el("td", { class: "n quiet" }, ago(one.changed));
const state = (one) => el("td", { class: "state" }, liveDot(one.live));

function trainingRow(one) {
  const last = (values) => values.filter((value) => value !== null).at(-1);
  const first = one.accuracies.find((value) => value !== null);
  return el("tr", {}, state(one), nameCell(one), el("td", {}, one.what),
    el("td", {}, bar(one.steps ? one.step / one.steps : 0, `step ${one.step} of ${one.steps}`), el("small", {}, `${one.step} of ${one.steps}`), one.doing ? el("small", {}, one.doing) : null),
    el("td", {}, spark(one.rewards, "reward by step"), el("small", {}, last(one.rewards)?.toFixed(3) ?? "–")),
    el("td", {}, spark(one.accuracies, "held-out accuracy by validation"), el("small", {}, one.accuracies.length > 1 ? `${percent(first)} → ${percent(last(one.accuracies))}` : percent(last(one.accuracies)))),
    written(one));
}

function evaluationRow(one) {
  return el("tr", {}, state(one), nameCell(one), el("td", {}, one.what ?? ""), el("td", {}, breakable(one.planner ?? "")),
    el("td", {}, bar(one.number ? one.ended / one.number : 0, `${one.ended} of ${one.number}`), el("small", {}, `${count(one.ended)} of ${count(one.number)}`)),
    el("td", {}, bar(one.so_far, `accuracy ${percent(one.so_far)}`, "right"), el("small", {}, one.ended < one.number ? `${percent(one.so_far)} so far` : percent(one.accuracy))),
    written(one));
}

function fileRow(one) {
  return el("tr", {}, state(one), nameCell(one), el("td", { class: "long" }, one.what), el("td", { class: "n" }, count(one.ended)), written(one));
}

function spark(values, label) {
  const points = values.filter((value) => value !== null);
  if (points.length < 2) return null;
  const [low, high] = [Math.min(...points), Math.max(...points)];
  const place = (value, at) => `${(2 + (96 * at) / (points.length - 1)).toFixed(1)},${(20 - (16 * (value - low)) / (high - low || 1)).toFixed(1)}`;
  return svg("svg", { class: "spark", viewBox: "0 0 100 24", width: 100, height: 24, role: "img", "aria-label": label },
    svg("polyline", { points: points.map(place).join(" ") }));
}

function compareForm(evaluations) {
  if (evaluations.length < 2) return null;
  const select = (label, chosen) => el("label", {}, label, el("select", { "data-key": `compare ${label}` }, evaluations.map((one, at) => el("option", { value: one.id, selected: at === chosen }, one.name))));
  const oldest = evaluations.length - 1;
  const [before, after] = [select("Compare", oldest), select("with", 0)];
  const open = () => { location.hash = `#/pairs?before=${before.lastChild.value}&after=${after.lastChild.value}`; };
  return el("form", { class: "compare", onsubmit: (event) => { event.preventDefault(); open(); } }, before, after, el("button", { "data-key": "compare" }, "Side by side"),
    el("button", { type: "button", "data-key": "report", onclick: () => { location.hash = `#/report/${[...new Set([before, after].map((one) => one.lastChild.value))]}`; } }, "Report"));
}
