// Evaluations compared: differences, accuracy, turn limits, families, the paper's table, audits, tools and errors, traces.

import { file, get } from "./data.js";
import { curves } from "./charts.js";
import { address, bar, breakable, count, el, home, plural, points, region, svg, trail } from "./dom.js";
import { traceList } from "./traces.js";

const unique = (values) => [...new Set(values)];
const number = (...inside) => el("td", { class: "n" }, ...inside);
const small = (...inside) => el("small", {}, ...inside);
const between = (one) => `${points(one.low)} – ${points(one.high)}`;

export async function reportPage(holder, { sources, ...asked }) {
  const found = await get(`/api/reports/${sources}`);
  const page = { ...found, benchmarks: unique(found.cells.map((cell) => cell.benchmark)), title: (benchmark) => found.paper.titles[benchmark] ?? benchmark,
    run: (name) => found.runs.find((run) => run.name === name) };
  trail(file ? ["Evaluation report"] : home, file ? null : ["Report"]);
  const traces = found.cells.reduce((sum, cell) => sum + cell.ended, 0);
  holder.append(el("div", { class: "heading" }, el("h1", {}, "Evaluation report"),
    el("p", { class: "about" }, `${plural(found.runs.length, "evaluation")} on ${page.benchmarks.map(page.title).join(", ")}: ${plural(traces, "trace")}.`)),
    findings(page), el("div", { class: "halves" }, [accuracy, turnLimits, families, papersTable, audits, tools].map((make) => make(page))));
  const remember = (state) => history.replaceState(null, "", `#/report/${sources}${Object.keys(state).length ? `?${new URLSearchParams(state)}` : ""}`);
  const list = traceList(sources, "evaluation", found.choices, asked, remember, { runs: found.runs.length > 1 ? found.runs : [], fold: true });
  holder.append(list.box);
  await list.refresh();
  return {};
}

const section = (title, name, note, ...inside) => el("section", { class: name, "aria-label": title }, el("h2", {}, title), note ? el("p", { class: "quiet" }, note) : null, ...inside);
const wide = (label, table) => region(`${label}, table`, "card flush", table);
const row = (cells, kind = null) => el("tr", { class: kind }, cells);
const heads = (columns) => row(columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)));

function planner(page, name, spec = page.run(name).planner) {
  return el("td", { class: "name" }, el("a", { href: address("run", page.run(name).id) }, breakable(spec)), small(name));
}

// A part of a table for each benchmark; a column in which all cells are empty is left out.
function byBenchmark(page, columns, rowsOf) {
  const rows = page.benchmarks.map(rowsOf);
  const full = columns.map((_, at) => rows.flat().some((cells) => cells[at].textContent !== "" || cells[at].firstElementChild));
  const of = (cells) => cells.filter((_, at) => full[at]);
  const body = page.benchmarks.flatMap((name, at) => (rows[at].length === 0 ? [] : [
    row([el("th", { scope: "colgroup", colspan: of(columns).length }, page.title(name))], "section"), ...rows[at].map((cells) => row(of(cells)))]));
  return body.length ? el("table", {}, el("thead", {}, heads(of(columns))), el("tbody", {}, body)) : null;
}

// ---------------------------------------------------------------- tables

function intervalPlot(cell) {
  const x = (share) => 4 + 122 * share;
  const mark = (kind, from, to, y1, y2) => svg("line", { class: kind, x1: x(from), x2: x(to), y1, y2 });
  return svg("svg", { class: "interval", viewBox: "0 0 130 20", role: "img", "aria-label": `${points(cell.accuracy)} %, between ${points(cell.low)} and ${points(cell.high)} %` },
    mark("axis", 0, 1, 10, 10), [0, 0.5, 1].map((at) => mark("axis", at, at, 5, 15)), mark("curve", cell.low, cell.high, 10, 10),
    svg("circle", { class: "point", cx: x(cell.accuracy), cy: 10, r: 4.5 }));
}

function accuracy(page) {
  const columns = [["planner", "name"], ["accuracy", "n"], ["interval", "n"], ["0 to 100 %"], ["questions", "n"], ["pass@k", "n"],
    ["most turns", "n"], ["turns", "n"], ["failed calls", "n"], ["undecided", "n"], ["broke off", "n"]];
  const table = byBenchmark(page, columns, (benchmark) => page.cells.filter((cell) => cell.benchmark === benchmark).map((cell) => {
    const missing = cell.number - cell.ended;
    return [planner(page, cell.run),
      number(points(cell.accuracy), cell.epochs > 1 ? small(`avg@${cell.epochs}`) : null, Object.entries(cell.metrics).map(([name, share]) => small(`${name} ${points(share)}`))),
      number(between(cell)), el("td", {}, intervalPlot(cell)),
      number(count(cell.questions), cell.epochs > 1 ? small(`× ${cell.epochs} tries`) : null, missing ? small(`${count(missing)} not run yet`) : null),
      number(Object.entries(cell.pass_at).map(([k, share]) => small(`@${k} ${points(share)}`))),
      number(String(cell.max_turns)), number(cell.turns.toFixed(2)), number(cell.calls ? `${points(cell.error_rate)} %` : ""),
      number(cell.undecided ? String(cell.undecided) : "", cell.undecided ? small(`${points(cell.accuracy)} – ${points(cell.most)}, as they are decided`) : null),
      number(cell.failed ? String(cell.failed) : "")];
  }));
  return section("Accuracy", "cells", "In percent of all questions that were asked; what broke off or could not be decided counts as wrong. The bar is the 95 % interval. "
    + "Two bars that overlap may still differ, and two that do not may be of different questions: the differences above are of the same questions.", wide("Accuracy", table));
}

// What each planner answers, which differ, and what to look at with doubt.
function findings(page) {
  const share = (cell) => [el("b", {}, `${points(cell.accuracy)} %`), ` of ${plural(cell.questions, "question")} of ${page.title(cell.benchmark)} right (95 %: ${between(cell)})`,
    cell.undecided ? `; ${count(cell.undecided)} undecided, counted as wrong` : "", cell.failed ? `; ${count(cell.failed)} broke off` : ""];
  const doubts = page.audits.flat().reduce((sum, { items }) => sum + items.length, 0);
  return section("Findings", "differences", "", el("ul", {}, page.cells.map((cell) => el("li", {}, `${cell.run}: `, share(cell)))), differences(page),
    doubts ? el("p", { class: "warn" }, `${plural(doubts, "try is", "tries are")} flagged for what may have leaked: see the audit below.`) : null);
}

function differences(page) {
  const is = (value) => (value < 0.0001 ? "< 0.0001" : `= ${value.toFixed(4)}`);
  return page.differences.map((one) => {
    const corrected = one.among > 1 ? `, ${is(one.corrected)} corrected for ${one.among} comparisons` : "";
    const flips = ["lost", "gained"].filter((change) => one[change]).map((change) => el("a", { class: "flip", href: `#/pairs?${new URLSearchParams(
      { before: page.run(one.first).id, after: page.run(one.second).id, benchmark: one.benchmark, change })}` }, `${plural(one[change], "question")} ${change}`));
    return el("div", { class: `difference${one.shown ? " shown" : ""}` }, el("p", {}, el("b", {}, `${page.title(one.benchmark)}: `), one.verdict),
      el("p", { class: "quiet" }, `${points(one.accuracies[0])} % and ${points(one.accuracies[1])} % on the ${plural(one.questions, "question")} of both; p ${is(one.p_value)} (exact paired test)${corrected}`),
      flips.length ? el("p", {}, flips) : null);
  });
}

function families(page) {
  const columns = [["family", "name"], ["questions", "n"], ...page.runs.map((run) => [run.name, "n"])];
  const table = byBenchmark(page, columns, (benchmark) => {
    const mine = page.families.filter((one) => one.benchmark === benchmark);
    const names = unique(mine.map((one) => one.family)).sort();
    return names.length < 2 ? [] : names.map((family) => {
      const of = page.runs.map((run) => mine.find((one) => one.family === family && one.run === run.name));
      return [el("td", { class: "name" }, family || "(none)"), number(unique(of.filter(Boolean).map((one) => one.questions)).join(", ")),
        ...of.map((one) => (one ? number(points(one.accuracy), small(between(one))) : number()))];
    });
  });
  return table && section("By family", "families", "Accuracy in percent of the questions that were begun, and its 95 % interval.", wide("By family", table));
}

function papersTable(page) {
  const { paper, benchmarks } = page;
  const known = paper.groups.map((group) => ({ name: group.name, benchmarks: group.benchmarks.filter((name) => benchmarks.includes(name)),
    average: group.average && group.benchmarks.every((name) => benchmarks.includes(name)) }));
  const extra = benchmarks.filter((name) => !known.some((group) => group.benchmarks.includes(name)));
  const groups = [...known, { name: "Others", benchmarks: extra, average: false }].filter((group) => group.benchmarks.length);
  const columns = groups.flatMap((group) => [...group.benchmarks, ...(group.average ? [group] : [])]);
  const value = (found) => number(found === undefined ? "–" : found.toFixed(1));
  const printed = (other) => columns.some((column) => other.accuracy[column] !== undefined);
  const theirs = (other) => row([el("td", { class: "name" }, other.name), columns.map((column) => value(typeof column === "string" ? other.accuracy[column] : other.averages?.[column.name]))]);
  const ours = page.runs.map((run) => {
    const cells = Object.fromEntries(page.cells.filter((cell) => cell.run === run.name).map((cell) => [cell.benchmark, cell]));
    const mean = (names) => value(names.every((name) => cells[name]) ? (100 * names.reduce((sum, name) => sum + cells[name].accuracy, 0)) / names.length : undefined);
    return row([planner(page, run.name), columns.map((column) => (typeof column !== "string" ? mean(column.benchmarks)
      : cells[column] ? number(points(cells[column].accuracy), small(between(cells[column])), small(`n = ${cells[column].questions}`)) : value()))], "ours");
  });
  const [methods, later] = [paper.methods.filter(printed), paper.since.filter(printed)];
  const band = (name, rows) => (name && rows.length ? [row([el("th", { class: "name", scope: "rowgroup" }, name), el("td", { colspan: columns.length })], "section"), ...rows] : rows);
  const head = el("thead", {}, row([el("th", { class: "name" }), groups.map((group) => el("th", { scope: "colgroup", colspan: group.benchmarks.length + Number(group.average) }, group.name))]),
    row([el("th", { class: "name" }, "method"), columns.map((column) => el("th", { scope: "col", class: "n" }, typeof column === "string" ? page.title(column) : "mean",
      paper.questions[column] ? small(`n = ${paper.questions[column]}`) : null))]));
  return section("Planners and benchmarks", "paper", "Accuracy in percent; below each of ours its 95 % interval and the number of questions. Where the paper has the benchmark, its rows stand above.",
    wide("Planners and benchmarks", el("table", {}, head, el("tbody", {}, band("The paper", methods.map(theirs)), band("Since the paper, by other protocols", later.map(theirs)),
      band(methods.length ? "This report" : "", ours)))),
    methods.length ? el("p", { class: "quiet" }, `Source of the paper's rows: ${paper.source} (${paper.url}). The judge, the tools and the questions of ours may be others; only rows of this report are compared with one another.`) : null,
    later.map((other) => el("p", { class: "quiet" }, `${other.name} (${other.url}): ${other.protocol}. Not comparable: ${other.differs}.`)));
}

function turnLimits(page) {
  const charts = page.benchmarks.map((benchmark) => {
    const cells = page.cells.filter((cell) => cell.benchmark === benchmark);
    const series = unique(cells.map((cell) => cell.planner)).map((name) => [name, cells.filter((cell) => cell.planner === name).sort((a, b) => a.max_turns - b.max_turns)
      .map((cell) => [cell.max_turns, cell.accuracy, cell.low, cell.high]), true]);
    return curves(page.title(benchmark), series.filter(([, line]) => unique(line.map(([turns]) => turns)).length > 1), (share) => `${points(share)} %`, { unit: "turns", high: 1 });
  }).filter(Boolean);
  return charts.length ? section("Accuracy by most turns", "budgets", "Each point is an evaluation of its own with that limit; the bar is the 95 % interval.", el("div", { class: "charts" }, charts)) : null;
}

function tools(page) {
  const columns = [["planner", "name"], ["tool"], ["calls", "n"], ["of calls", "n"], ["of questions", "n"], ["failed", "n"], ["errors"]];
  const share = (part, whole, kind) => number(`${points(part / Math.max(1, whole))} %`, bar(part / Math.max(1, whole), `${points(part / Math.max(1, whole))} %`, kind));
  const table = byBenchmark(page, columns, (benchmark) => page.cells.filter((cell) => cell.benchmark === benchmark).flatMap((cell) => Object.entries(cell.tools).map(([name, tool], at) => [
    at ? el("td", { class: "name" }) : planner(page, cell.run), el("td", {}, name), number(count(tool.calls)), share(tool.calls, cell.calls), share(tool.questions, cell.number),
    share(Object.values(tool.errors).reduce((sum, one) => sum + one, 0), tool.calls, "failed"), el("td", {}, Object.entries(tool.errors).map(([kind, times]) => `${kind} ${times}`).join(", ") || "–")])));
  return table && section("Tools and errors", "tool-use", "Share of the calls, and of the questions in which the tool was chosen; then the calls that failed.", wide("Tools and errors", table),
    page.benchmarks.map((benchmark) => papersTools(page, benchmark)));
}

function papersTools({ paper, title }, benchmark) {
  const shares = Object.entries(paper.tools[benchmark] ?? {}).map(([tool, [before, after]]) => `${tool} ${before} to ${after} %`);
  const fewer = paper.fewer_errors[benchmark];
  const facts = [shares.length ? `training moved the share of calls: ${shares.join(", ")}` : "", fewer ? `calls that failed became fewer by ${fewer} points` : ""].filter(Boolean);
  return facts.length ? el("p", { class: "quiet" }, `${title(benchmark)} in the paper: ${facts.join("; ")}.`) : null;
}

// ---------------------------------------------------------------- audits

function audits(page) {
  const columns = [["benchmark"], ["flagged", "n"], ["accuracy", "n"], ["if these are wrong", "n"], ["reasons, by tries"]];
  const audited = (run, { benchmark, items, reasons, ...strict }) => {
    const cell = page.cells.find((one) => one.run === run.name && one.benchmark === benchmark);
    return row([el("td", {}, page.title(benchmark)), number(`${count(items.length)} of ${count(cell.number)}`), number(points(cell.accuracy)), number(points(strict.accuracy), small(between(strict))),
      el("td", {}, Object.entries(reasons).map(([reason, tries]) => `${reason} ${tries}`).join(", ") || "–")]);
  };
  return section("Audit", "audits", "What an audit of the turns has flagged: the question itself as a query, copies of it, pages that have the benchmark's answers, "
    + "a language model behind a tool. A flag says where to look; the accuracy beside it takes every flagged try for wrong.",
    page.runs.map((run, at) => el("section", { "aria-label": run.name }, el("h3", {}, run.name),
      wide(`${run.name}, audit`, el("table", {}, el("thead", {}, heads(columns)), el("tbody", {}, page.audits[at].map((one) => audited(run, one))))), flagged(page, run, page.audits[at]),
      el("details", { class: "made" }, el("summary", {}, "What it was made with"), el("pre", {}, JSON.stringify(run.settings, null, 1))))));
}

const MOST = 500; // flagged tries that are listed

function flagged(page, run, found) {
  const items = found.flatMap((one) => one.items.map((item) => ({ ...item, benchmark: one.benchmark })));
  if (items.length === 0) return null;
  return el("details", { class: "flagged" }, el("summary", {}, `${plural(items.length, "flagged try", "flagged tries")}`), el("ul", {}, items.slice(0, MOST).map((item) => el("li", {},
    el("a", { href: address("run", run.id, item.trace) }, `${page.title(item.benchmark)} ${item.id}${item.sample ? `, try ${item.sample + 1}` : ""}`),
    ` ${item.flags.join("; ")}`))), items.length > MOST ? el("p", { class: "quiet" }, `and ${count(items.length - MOST)} more`) : null);
}
