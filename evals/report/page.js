"use strict";
// Every text of a model, a tool or a data set gets into the page as a text node, by `append`; nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const summary = JSON.parse(byId("summary").textContent);
const kept = JSON.parse(byId("kept").textContent);
const paper = summary.paper;

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const percent = (share) => (100 * share).toFixed(1);
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const title = (benchmark) => paper.titles[benchmark] ?? benchmark;
const unique = (values) => [...new Set(values)];
const benchmarks = unique(summary.cells.map((cell) => cell.benchmark));

// ---------------------------------------------------------------- figures

function nameCell(planner, run) {
  const pieces = planner.split(/(?<=[:/@])/).flatMap((piece) => [el("wbr", {}), piece]); // where a long name may break
  return el("td", { class: "name" }, ...pieces, el("small", {}, run));
}
const cellName = (cell) => nameCell(cell.planner, cell.run);

function head(...names) {
  return el("tr", {}, ...names.map(([name, kind]) => el("th", { scope: "col", class: kind ?? "" }, name)));
}

// `rowsOf` gives rows of cells; a column in which all cells are empty is left out.
function sections(columns, rowsOf) {
  const rows = benchmarks.map((benchmark) => rowsOf(benchmark));
  const full = columns.map((_, at) => rows.flat().some((cells) => cells[at].textContent !== "" || cells[at].firstElementChild));
  const of = (cells) => cells.filter((_, at) => full[at]);
  const body = el("tbody", {});
  benchmarks.forEach((benchmark, at) => {
    if (rows[at].length === 0) return;
    const name = el("th", { scope: "colgroup", colspan: of(columns).length }, title(benchmark));
    body.append(el("tr", { class: "section" }, name), ...rows[at].map((cells) => el("tr", {}, ...of(cells))));
  });
  return el("table", {}, el("thead", {}, head(...of(columns))), body);
}

const cellsOf = (benchmark) => summary.cells.filter((cell) => cell.benchmark === benchmark);

function intervalPlot(cell) {
  const x = (share) => 4 + 122 * share;
  const label = `${percent(cell.accuracy)} %, between ${percent(cell.low)} and ${percent(cell.high)} %`;
  return svg("svg", { width: 130, height: 20, viewBox: "0 0 130 20", role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: x(0), x2: x(1), y1: 10, y2: 10 }),
    ...[0, 0.5, 1].map((at) => svg("line", { class: "axis", x1: x(at), x2: x(at), y1: 5, y2: 15 })),
    svg("line", { class: "whisker", x1: x(cell.low), x2: x(cell.high), y1: 10, y2: 10 }),
    svg("circle", { class: "dot", cx: x(cell.accuracy), cy: 10, r: 4.5 }));
}

function showCells() {
  const columns = [["planner", "name"], ["accuracy", "n"], ["interval", "n"], ["0 to 100 %"], ["questions", "n"],
    ["pass@k", "n"], ["most turns", "n"], ["turns", "n"], ["failed calls", "n"], ["undecided", "n"], ["broke off", "n"]];
  byId("cells").append(sections(columns, (benchmark) => cellsOf(benchmark).map((cell) => {
    const pass = Object.entries(cell.pass_at).map(([k, share]) => el("small", {}, `@${k} ${percent(share)}`));
    const others = Object.entries(cell.metrics).map(([name, share]) => el("small", {}, `${name} ${percent(share)}`));
    const missing = cell.number - cell.ended;
    return [cellName(cell),
      el("td", { class: "n" }, percent(cell.accuracy), cell.epochs > 1 ? el("small", {}, `avg@${cell.epochs}`) : null, ...others),
      el("td", { class: "n" }, `${percent(cell.low)} – ${percent(cell.high)}`),
      el("td", {}, intervalPlot(cell)),
      el("td", { class: "n" }, cell.questions.toLocaleString("en"), cell.epochs > 1 ? el("small", {}, `× ${cell.epochs} tries`) : null,
        missing ? el("small", {}, `${missing.toLocaleString("en")} not run yet`) : null),
      el("td", { class: "n" }, ...pass),
      el("td", { class: "n" }, String(cell.max_turns)), el("td", { class: "n" }, cell.turns.toFixed(2)),
      el("td", { class: "n" }, cell.calls ? `${percent(cell.error_rate)} %` : ""), el("td", { class: "n" }, cell.undecided || "",
        cell.undecided ? el("small", {}, `${percent(cell.accuracy)} – ${percent(cell.most)}, as they are decided`) : null),
      el("td", { class: "n" }, cell.failed || "")];
  })));
}

function showFamilies() {
  const columns = [["family", "name"], ["questions", "n"], ...summary.runs.map((run) => [run.name, "n"])];
  const table = sections(columns, (benchmark) => {
    const mine = summary.families.filter((one) => one.benchmark === benchmark);
    const names = unique(mine.map((one) => one.family)).sort();
    return names.length < 2 ? [] : names.map((family) => {
      const of = summary.runs.map((run) => mine.find((one) => one.family === family && one.run === run.name));
      return [el("td", { class: "name" }, family || "(none)"),
        el("td", { class: "n" }, unique(of.filter(Boolean).map((one) => one.questions)).join(", ")),
        ...of.map((one) => el("td", { class: "n" }, one ? percent(one.accuracy) : "",
          one ? el("small", {}, `${percent(one.low)} – ${percent(one.high)}`) : null))];
    });
  });
  byId("families-section").hidden = table.tBodies[0].rows.length === 0;
  byId("families").append(table);
}

function showDifferences() {
  byId("differences-section").hidden = summary.differences.length === 0;
  summary.differences.forEach((one, at) => {
    const said = (value) => value < 0.0001 ? "< 0.0001" : `= ${value.toFixed(4)}`;
    const corrected = one.among > 1 ? `, ${said(one.corrected)} corrected for ${one.among} comparisons` : "";
    const changed = CHANGES.map((change) => [change, [...flips[at].values()].filter((found) => found === change).length])
      .filter(([, number]) => number).map(([change, number]) => flipButton(at, change, number));
    byId("differences").append(el("div", { class: `difference${one.shown ? " shown" : ""}` },
      el("p", {}, el("b", {}, `${title(one.benchmark)}: `), one.verdict),
      el("p", { class: "note" }, `${percent(one.accuracies[0])} % and ${percent(one.accuracies[1])} % on the `
        + `${plural(one.questions, "question")} of both; p ${said(one.p_value)} (exact paired test)${corrected}`),
      changed.length ? el("p", {}, ...changed) : null));
  });
}

function flipButton(at, change, number) {
  const button = el("button", { type: "button" }, `${plural(number, "question")} ${change}`);
  button.addEventListener("click", () => {
    byId("filters").reset();
    byId("filters").elements.flip.value = `${change} ${at}`;
    filter().then(() => byId("traces").focus());
  });
  return button;
}

function showTable() {
  const known = paper.groups.map((group) => ({ name: group.name, benchmarks: group.benchmarks.filter((name) => benchmarks.includes(name)),
    average: group.average && group.benchmarks.every((name) => benchmarks.includes(name)) }));
  const extra = benchmarks.filter((name) => !known.some((group) => group.benchmarks.includes(name)));
  const groups = [...known, { name: "Others", benchmarks: extra, average: false }].filter((group) => group.benchmarks.length);
  const columns = groups.flatMap((group) => [...group.benchmarks, ...(group.average ? [group] : [])]);
  const top = groups.map((group) => el("th", { scope: "colgroup", colspan: group.benchmarks.length + Number(group.average) }, group.name));
  const names = columns.map((column) => el("th", { scope: "col", class: "n" },
    typeof column === "string" ? title(column) : "mean",
    paper.questions[column] ? el("small", {}, `n = ${paper.questions[column]}`) : null));
  const number = (value) => el("td", { class: "n" }, value === undefined ? "–" : value.toFixed(1));
  const printed = (other) => columns.some((column) => other.accuracy[column] !== undefined);
  const theirs = paper.methods.filter(printed).map((method) => el("tr", {}, el("td", { class: "name" }, method.name),
    ...columns.map((column) => number(typeof column === "string" ? method.accuracy[column] : method.averages[column.name]))));
  const later = paper.since.filter(printed);
  const since = later.map((other) => el("tr", {}, el("td", { class: "name" }, other.name),
    ...columns.map((column) => number(other.accuracy[column]))));
  const ours = summary.runs.map((run) => {
    const cells = Object.fromEntries(summary.cells.filter((cell) => cell.run === run.name).map((cell) => [cell.benchmark, cell]));
    const value = (column) => {
      if (typeof column !== "string") {
        const all = column.benchmarks.map((name) => cells[name]?.accuracy);
        return number(all.includes(undefined) ? undefined : (100 * all.reduce((sum, one) => sum + one, 0)) / all.length);
      }
      const cell = cells[column];
      if (!cell) return number(undefined);
      return el("td", { class: "n" }, percent(cell.accuracy), el("small", {}, `${percent(cell.low)} – ${percent(cell.high)}`),
        el("small", {}, `n = ${cell.questions}`));
    };
    return el("tr", { class: "ours" }, nameCell(run.planner, run.name), ...columns.map(value));
  });
  const band = (name, found) => found.length ? [el("tr", { class: "section" },
    el("th", { class: "name", scope: "rowgroup" }, name), el("td", { colspan: columns.length })), ...found] : [];
  byId("table").append(el("table", {},
    el("thead", {}, el("tr", {}, el("th", { class: "name" }), ...top), el("tr", {}, el("th", { class: "name" }, "method"), ...names)),
    el("tbody", {}, ...band("The paper", theirs), ...band("Since the paper, by other protocols", since),
      ...band(theirs.length ? "This report" : "", ours))));
  if (theirs.length) byId("source").append(`Source of the paper's rows: ${paper.source} (${paper.url}). The judge, the tools and the questions of `
    + "ours may be others; only rows of this report are compared with one another.");
  byId("source").after(...later.map((other) => el("p", { class: "note" },
    `${other.name} (${other.url}): ${other.protocol}. Not comparable: ${other.differs}.`)));
}

function showBudgets() {
  let number = 0;
  for (const benchmark of benchmarks) {
    const series = unique(cellsOf(benchmark).map((cell) => cell.planner))
      .map((planner) => cellsOf(benchmark).filter((cell) => cell.planner === planner).sort((a, b) => a.max_turns - b.max_turns))
      .filter((cells) => unique(cells.map((cell) => cell.max_turns)).length > 1);
    if (series.length === 0) continue;
    number += 1;
    byId("budgets").append(el("figure", {}, el("figcaption", {}, title(benchmark)), budgetChart(series, title(benchmark)),
      ...series.map((cells, at) => el("div", { class: "note" }, el("span", { class: `key series-${at % 4}` }), cells[0].planner))));
  }
  byId("budget-section").hidden = number === 0;
}

function budgetChart(series, name) {
  const turns = unique(series.flat().map((cell) => cell.max_turns)).sort((a, b) => a - b);
  const [least, most] = [turns[0], turns[turns.length - 1]];
  const x = (value) => 40 + (300 * (value - least)) / Math.max(1, most - least);
  const y = (share) => 150 - 135 * share;
  const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    svg("line", { class: "axis", x1: 40, x2: 345, y1: y(share), y2: y(share) }),
    svg("text", { x: 34, y: y(share) + 4, "text-anchor": "end" }, `${100 * share}`)]);
  const ticks = turns.map((value) => svg("text", { x: x(value), y: 168, "text-anchor": "middle" }, String(value)));
  const curves = series.map((cells, at) => svg("g", { class: `series-${at % 4}` },
    svg("polyline", { class: "curve", points: cells.map((cell) => `${x(cell.max_turns)},${y(cell.accuracy)}`).join(" ") }),
    ...cells.map((cell) => svg("line", { class: "whisker", x1: x(cell.max_turns), x2: x(cell.max_turns), y1: y(cell.low), y2: y(cell.high) })),
    ...cells.map((cell) => svg("circle", { class: "dot", cx: x(cell.max_turns), cy: y(cell.accuracy), r: 3.5 },
      svg("title", {}, `${cell.planner}, ${cell.max_turns} turns: ${percent(cell.accuracy)} %`)))));
  return svg("svg", { viewBox: "0 0 360 185", role: "img", "aria-label": `Accuracy by most turns, ${name}` },
    ...grid, ...ticks, ...curves, svg("text", { x: 190, y: 183, "text-anchor": "middle" }, "most turns"));
}

function shareBar(share, kind) {
  return svg("svg", { width: 90, height: 8, viewBox: "0 0 90 8", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 90, height: 8, rx: 3 }), svg("rect", { class: `bar ${kind}`, width: 90 * share, height: 8, rx: 3 }));
}

function showTools() {
  const columns = [["planner", "name"], ["tool"], ["calls", "n"], ["of calls", "n"], ["of questions", "n"], ["failed", "n"], ["errors"]];
  const share = (part, whole, kind) => el("td", { class: "n" }, `${percent(part / Math.max(1, whole))} %`, shareBar(part / Math.max(1, whole), kind));
  const table = (benchmark) => el("table", {}, el("thead", {}, head(...columns)), el("tbody", {}, ...cellsOf(benchmark).flatMap((cell) =>
    Object.entries(cell.tools).map(([name, tool], at) => el("tr", {}, at ? el("td", { class: "name" }) : cellName(cell), el("td", {}, name),
      el("td", { class: "n" }, tool.calls.toLocaleString("en")), share(tool.calls, cell.calls, ""), share(tool.questions, cell.number, ""),
      share(Object.values(tool.errors).reduce((sum, one) => sum + one, 0), tool.calls, "failed"),
      el("td", {}, Object.entries(tool.errors).map(([kind, count]) => `${kind} ${count}`).join(", ") || "–"))))));
  for (const benchmark of benchmarks) {
    const name = `${title(benchmark)}, tools`;
    byId("tools").append(el("h3", {}, title(benchmark)),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, table(benchmark)), ...paperTools(benchmark));
  }
}

function paperTools(benchmark) {
  const shares = Object.entries(paper.tools[benchmark] ?? {}).map(([tool, [before, after]]) => `${tool} ${before} to ${after} %`);
  const fewer = paper.fewer_errors[benchmark];
  const said = [shares.length ? `training moved the share of calls: ${shares.join(", ")}` : "",
    fewer ? `calls that failed became fewer by ${fewer} points` : ""].filter(Boolean);
  return said.length ? [el("p", { class: "note" }, `In the paper ${said.join("; ")}.`)] : [];
}

function definitions(all) {
  return el("dl", {}, ...all.filter(([, text]) => text).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

function showPassports() {
  const columns = [["benchmark"], ["flagged", "n"], ["accuracy", "n"], ["if these are wrong", "n"], ["reasons, by tries"]];
  const audited = ({ benchmark, number, accuracy, audit }) => el("tr", {}, el("td", {}, title(benchmark)),
    el("td", { class: "n" }, `${audit.tries.toLocaleString("en")} of ${number.toLocaleString("en")}`),
    el("td", { class: "n" }, percent(accuracy)),
    el("td", { class: "n" }, percent(audit.accuracy), el("small", {}, `${percent(audit.low)} – ${percent(audit.high)}`)),
    el("td", {}, Object.entries(audit.reasons).map(([reason, tries]) => `${reason} ${tries}`).join(", ") || "–"));
  for (const one of summary.passports) {
    const table = el("table", {}, el("thead", {}, head(...columns)), el("tbody", {}, ...one.scores.map(audited)));
    byId("passports").append(el("h3", {}, one.name),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${one.name}, audit` }, table),
      el("details", { class: "passport" }, el("summary", {}, "What it was made with"), definitions(made(one))));
  }
}

function made(one) {
  const lines = (found) => found.filter(Boolean).join("\n");
  const module = ([name, { model, served, weights, sampling, prompt, own_prompt }]) => [`${name}: ${model}`,
    weights ? `weights ${weights}` : served.length ? `served as ${served.join(", ")}` : "", `temperature ${sampling.temperature}`,
    sampling.seed === null ? "" : `seed ${sampling.seed}`,
    prompt ? `prompt ${prompt}${own_prompt ? " (set by the run)" : ""}` : ""].filter(Boolean).join(", ");
  const behind = { "": "no model", tools: "the run's model for tools", unknown: "whether a model is behind it is unknown" };
  const tool = ([name, { model, card }]) => `${name}: ${behind[model] ?? `model ${model}`}, card ${card}`;
  const program = ({ at, before, call, versions }) => [`${at}${before ? `, after try ${before}` : ""}`, call,
    Object.entries(versions).map((pair) => pair.join(" ")).join(", ")];
  return [["Modules", lines(Object.entries(one.modules).map(module))],
    ["Tools", lines(Object.entries(one.provenance.at(-1)?.tools ?? {}).map(tool))],
    ["Judge", one.judge || "none"],
    ["Searched", Object.entries(one.answered).map((pair) => pair.join(" ")).join(", ")],
    ["Made", lines(one.provenance.flatMap(program))],
    ["Traces", `SHA-256 ${one.traces}`],
    ["To repeat it", lines(one.doubts) || "nothing is known that stands against it"]];
}

// ---------------------------------------------------------------- traces

async function unpacked(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

let rows, partOf;
const texts = new Map();
const loading = new Map();
const parts = [...document.getElementsByClassName("part")];

function loaded(part) {
  if (!loading.has(part)) {
    loading.set(part, unpacked(parts[part].textContent).then((lines) => {
      for (const line of lines.split("\n")) texts.set(Number(line.slice(1, line.indexOf(","))), line);
    }));
  }
  return loading.get(part);
}

const named = (kind, row) => rows.names[kind][rows.columns[kind][row]];
const questionOf = (row) => rows.questions[rows.columns.question[row]];
const runAt = (row) => summary.runs[rows.columns.run[row]];

// `least`: values that it takes for a choice; every trace has one run, but not every one has an error.
const FILTERS = {
  run: { least: 2, all: () => summary.runs.map((run) => [run.name, run.name === run.planner ? run.name : `${run.name}: ${run.planner}`]), of: (row) => [runAt(row).name] },
  benchmark: { least: 2, all: () => rows.names.benchmark.map((name) => [name, title(name)]), of: (row) => [named("benchmark", row)] },
  family: { least: 1, all: () => rows.names.family.filter(Boolean).map((name) => [name, name]), of: (row) => [named("family", row)] },
  outcome: { least: 2, all: () => ["correct", "incorrect", "undecided", "failed"].map((name) => [name, OUTCOMES[name]]), of: (row) => [named("outcome", row)] },
  tool: { least: 1, all: () => rows.names.tool.map((name) => [name, name]), of: (row) => rows.columns.tools[row].map((at) => rows.names.tool[at]) },
  flag: { least: 1, all: () => rows.names.flag.map((name) => [name, name]), of: (row) => rows.columns.flags[row].map((at) => rows.names.flag[at]) },
  flip: { least: 1, all: () => flips.flatMap((found, at) => CHANGES.filter((change) => [...found.values()].includes(change)).map((change) => [`${change} ${at}`, flipName(change, at)])),
    of: (row) => flips.flatMap((found, at) => inDifference(at, row) < 0 ? [] : `${found.get(rows.columns.question[row])} ${at}`) },
  error: { least: 1, all: () => rows.names.error.map((name) => [name, name]), of: (row) => rows.columns.errors[row].map((at) => rows.names.error[at]) },
};
const CHANGES = ["lost", "gained"];
const OUTCOMES = { correct: "correct", incorrect: "wrong", undecided: "undecided", failed: "broke off" };
const PAGE = 50;

let flips; // of each difference the questions that came out otherwise in its second run: "lost" or "gained", by number

const inDifference = (at, row) => {
  const { benchmark, first, second } = summary.differences[at];
  return named("benchmark", row) === benchmark ? [first, second].indexOf(runAt(row).name) : -1;
};
const flipName = (change, at) => {
  const { benchmark, first, second } = summary.differences[at];
  return `${change} in ${second}, against ${first}${benchmarks.length > 1 ? `, ${title(benchmark)}` : ""}`;
};

function flipped(at) {
  const tries = new Map();
  rows.columns.question.forEach((question, row) => {
    const side = inDifference(at, row);
    if (side < 0) return;
    if (!tries.has(question)) tries.set(question, [[], []]);
    tries.get(question)[side].push(named("outcome", row) === "correct");
  });
  const share = (found) => found.filter(Boolean).length / found.length;
  const changes = [...tries].map(([question, [before, after]]) => [question, share(after) - share(before)]);
  return new Map(changes.filter(([, change]) => change).map(([question, change]) => [question, change < 0 ? "lost" : "gained"]));
}

let matching = [];
let shown = 0;
let search = 0;
let asked = "";

async function filter() {
  const chosen = Object.fromEntries(new FormData(byId("filters")));
  if (asked === JSON.stringify(chosen)) return; // typing and Enter both ask: a trace opened in between stays open
  asked = JSON.stringify(chosen);
  const wanted = Object.entries(FILTERS).filter(([name]) => chosen[name]);
  const text = chosen.text.trim().toLowerCase();
  const mine = (search += 1);
  if (text) {
    if (texts.size < kept.shown) byId("found").textContent = "Unpacking the texts …";
    await Promise.all(parts.map((_, part) => loaded(part)));
    if (mine !== search) return; // a later call has other filters
  }
  const escaped = JSON.stringify(text).slice(1, -1);
  const has = (row) => questionOf(row).some((part) => part.toLowerCase().includes(text))
    || rows.columns.answer[row].toLowerCase().includes(text) || (texts.get(row) ?? "").toLowerCase().includes(escaped);
  matching = rows.columns.run.map((_, row) => row)
    .filter((row) => wanted.every(([name, one]) => one.of(row).includes(chosen[name])) && (!text || has(row)));
  remember(chosen);
  byId("list").replaceChildren();
  shown = 0;
  more();
  const correct = matching.filter((row) => named("outcome", row) === "correct").length;
  byId("found").textContent = matching.length
    ? `${plural(matching.length, "trace")}, ${correct.toLocaleString("en")} correct (${percent(correct / matching.length)} %)` : "No trace matches.";
}

function more() {
  const next = matching.slice(shown, shown + PAGE);
  byId("list").append(...next.map(trace));
  shown += next.length;
  byId("more").hidden = shown >= matching.length;
  byId("more").textContent = `Show ${Math.min(PAGE, matching.length - shown)} more of ${(matching.length - shown).toLocaleString("en")}`;
}

function remember(chosen) {
  const set = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
  if (set.size || location.hash.includes("=")) history.replaceState(null, "", `#${set}`);
}

function trace(row) {
  const [id, question, gold] = questionOf(row);
  const outcome = named("outcome", row);
  const column = (name) => rows.columns[name][row];
  const facts = [column("answer") ? `answer ${column("answer")}` : "", outcome !== "correct" && gold ? `gold ${gold}` : "",
    plural(column("turns"), "turn"), named("family", row) || title(named("benchmark", row)),
    summary.runs.length > 1 ? runAt(row).name : "", column("sample") ? `try ${column("sample") + 1}` : "",
    column("flags").length ? "flagged" : ""];
  const made = el("details", { class: "trace" }, el("summary", {},
    el("span", { class: `outcome ${outcome}` }, OUTCOMES[outcome]),
    el("span", {}, question || `question ${id} of ${title(named("benchmark", row))}`),
    el("span", { class: "facts" }, facts.filter(Boolean).join(" · "))));
  made.addEventListener("toggle", () => { if (made.open && made.childElementCount === 1) open(made, row); });
  return made;
}

async function open(made, row) {
  const inside = el("div", { class: "inside" });
  made.append(inside);
  if (partOf[row] === null) {
    inside.append(el("p", { class: "note" }, kept.hidden.includes(named("benchmark", row))
      ? "The terms of this benchmark forbid showing its questions, and turns repeat them; its texts are left out."
      : "The page is as large as it may be; the texts of this trace are left out."), facts(row, []));
    return;
  }
  await loaded(partOf[row]);
  const [, question, gold, answer, analysis, error, decider, metrics, turns] = JSON.parse(texts.get(row));
  inside.append(facts(row, [["Question", question], ["Gold", gold], ["Answer", answer || "none"], ["Decided by", decider],
    ["Broke off", error], ["Scores", Object.entries(metrics).map(([name, value]) => `${name} ${value}`).join(", ")], ["Analysis", analysis]]));
  const run = runAt(row);
  const before = (at) => () => memory(question, analysis, turns.slice(0, at), run.max_turns);
  inside.append(...turns.map((turn, at) => turnBox(turn, at, run.agent === "agentflow" ? before(at) : null)));
  const again = el("button", { type: "button" }, "This question in every run and try");
  again.addEventListener("click", () => {
    byId("filters").reset();
    byId("filters").elements.text.value = questionOf(row)[0];
    filter().then(() => byId("traces").focus());
  });
  if (rows.columns.question.filter((one) => one === rows.columns.question[row]).length > 1) inside.append(again);
}

function facts(row, texts) {
  const run = runAt(row);
  const column = (name) => rows.columns[name][row];
  const why = column("why").map((at) => rows.names.why[at]).join("\n");
  const all = [...texts, ["Flagged", why], ["Run", `${run.name}, planner ${run.planner}`], ["Ended", `${named("status", row)}, ${plural(column("turns"), "turn")}, `
    + `${column("seconds")} s, ${plural(column("tokens"), "token")}`], ["Question's id", questionOf(row)[0]]];
  return definitions(all);
}

function turnBox([subGoal, context, tool, call, output, error, seconds, analysis, signal], at, remembered) {
  const box = el("section", { class: "turn" }, el("h3", {}, `Turn ${at + 1}`), el("dl", {},
    el("dt", {}, "Sub-goal"), el("dd", {}, subGoal || "(no step could be read)"),
    ...(context ? [el("dt", {}, "Context"), el("dd", {}, context)] : []),
    el("dt", {}, "Call"), el("dd", {}, tool || "(none)", call && call !== "{}" ? el("pre", {}, call) : null),
    el("dt", {}, "Result"), el("dd", { class: error ? "failed" : "" }, error ? `failed (${error}), ${seconds} s` : `${seconds} s`, el("pre", {}, output)),
    el("dt", {}, "Verdict"), el("dd", {}, el("b", {}, signal), ` ${analysis}`)));
  const seen = el("details", { class: "memory" }, el("summary", {}, "Memory as the planner saw it in this turn"));
  seen.addEventListener("toggle", () => { if (seen.open && seen.childElementCount === 1) seen.append(...remembered()); });
  if (remembered) box.append(seen);
  return box;
}

// What nodes/planner.py asks with, after its instructions; a test compares the two.
function memory(question, analysis, turns, maxTurns) {
  const said = [["user", `Question: ${question}\nAnalysis: ${analysis}\nTurns left: ${maxTurns}`]];
  turns.forEach(([subGoal, context, tool, , output, error, , judged, , plan], at) => {
    said.push(["planner", plan || `Sub-Goal: ${subGoal}\nTool: ${tool}\nContext: ${context}`]);
    const result = error ? `Failed (${error}): ${output}` : `Result: ${output}`;
    said.push(["user", `${result}\nVerifier: ${judged}\nTurns left: ${maxTurns - at - 1}`]);
  });
  return said.map(([role, text]) => el("div", { class: "message" }, el("b", {}, role), el("pre", {}, text)));
}

// ---------------------------------------------------------------- start

async function start() {
  const number = summary.cells.reduce((sum, cell) => sum + cell.ended, 0);
  byId("about").append(`${plural(summary.runs.length, "evaluation")} on ${benchmarks.map(title).join(", ")}: `
    + `${plural(number, "trace")}. AgentFlow ${summary.version}.`);
  rows = JSON.parse(await unpacked(byId("rows").textContent));
  flips = summary.differences.map((_, at) => flipped(at));
  for (const show of [showCells, showFamilies, showDifferences, showTable, showBudgets, showTools, showPassports]) show();
  rows.columns.run ??= [];
  let rank = 0;
  partOf = rows.columns.run.map((_, row) => {
    const mine = kept.hidden.includes(named("benchmark", row)) ? kept.shown : rank++;
    return mine < kept.shown ? Math.floor(mine / kept.part) : null;
  });
  const without = partOf.filter((part, row) => part === null && !kept.hidden.includes(named("benchmark", row))).length;
  const gated = rows.columns.run.filter((_, row) => kept.hidden.includes(named("benchmark", row))).length;
  byId("left-out").textContent = [
    without ? `The page holds the texts of ${kept.shown.toLocaleString("en")} traces; of ${without.toLocaleString("en")} more, for its size, only the row.` : "",
    gated ? `Texts of ${plural(gated, "trace")} of ${kept.hidden.map(title).join(" and ")} are left out, whose terms forbid showing them.` : "",
  ].join(" ").trim();
  const form = byId("filters");
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, one] of Object.entries(FILTERS)) {
    const options = one.all();
    const select = form.elements[name];
    select.append(el("option", { value: "" }, "all"), ...options.map(([value, label]) => el("option", { value }, label)));
    select.parentElement.hidden = options.length < one.least;
    if (options.some(([value]) => value === given.get(name))) select.value = given.get(name);
  }
  form.elements.text.value = given.get("text") ?? "";
  let pause;
  form.elements.text.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(filter, 200); });
  form.addEventListener("change", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  byId("more").addEventListener("click", more);
  await filter();
  document.body.dataset.ready = "yes";
}

start();
