// A list of traces: filtered, ordered and cut into pages by the server.

import { get } from "./data.js";
import { address, badge, count, el, labelled, outcomeName, percent, plural, redraw } from "./dom.js";

const SIZE = 100;
const COLUMNS = {
  outcome: ["outcome", "outcome"], question: ["question", "question"], answer: ["answer"], family: ["family"], tools: ["tools"],
  turns: ["turns", "turns", "n"], tokens: ["tokens", "tokens", "n"], seconds: ["seconds", "seconds", "n"],
};

// source: an id, or several with commas between them, whose runs then are to choose from. A folded list is read when it is opened.
export function traceList(source, kind, choices, asked, remember, { runs = [], fold = false } = {}) {
  const state = { outcome: "", family: "", tool: "", error: "", benchmark: "", text: "", split: "", step: "", run: "", order: "written", down: "", offset: 0, ...asked };
  state.offset = Number(state.offset) || 0;
  const found = el("p", { class: "found", role: "status", "aria-live": "polite" });
  const body = el("tbody", {});
  const head = el("thead", {});
  const pager = el("nav", { class: "pager", "aria-label": "Pages" });
  const form = filters(kind, choices, state, runs, () => { state.offset = 0; refresh(); });
  const table = el("table", { class: "list traces cards-if-narrow" }, el("caption", { class: "visually-hidden" }, "Traces"), head, body);
  table.addEventListener("keydown", walk);
  const inside = [form, found, el("div", { class: "scroll card flush" }, table), pager];
  const title = el("h2", {}, kind === "training" ? "Rollouts" : "Traces");
  const folded = fold && el("details", { class: "all-traces", open: Object.keys(asked).length > 0, ontoggle: () => refresh() }, el("summary", {}, title), inside);
  const box = el("section", { "aria-label": "Traces" }, folded || [title, inside]);
  let shown = new Set();
  let latest = 0;

  async function refresh(live = false) {
    if (folded && !folded.open) return;
    const mine = (latest += 1);
    const page = await get(`/api/sources/${state.run || source}/traces`, { ...state, run: "", limit: SIZE });
    if (mine !== latest) return;
    const name = (row) => `${row.source}/${row.id}`;
    const used = Object.keys(COLUMNS).filter((name) => (name !== "family" || choices.family.length > 0));
    redraw(head, el("tr", {}, used.map(heading)));
    redraw(body, page.rows.map((row) => line(row, used, live && shown.size > 0 && !shown.has(name(row)))));
    shown = new Set(page.rows.map(name));
    found.textContent = page.number === 0 ? (page.all ? "No trace matches." : "There is no trace yet.")
      : `${plural(page.number, "trace")}${kind === "traces" ? "" : `, ${count(page.correct)} correct (${percent(page.correct / page.number)})`}`;
    pages(page.number);
    remember(Object.fromEntries(Object.entries(state).filter(([name, value]) => value && !(name === "order" && value === "written"))));
  }

  function heading(name) {
    const [title, order, kindOf] = COLUMNS[name];
    if (!order) return el("th", { scope: "col", class: kindOf }, title);
    const on = state.order === order;
    const turn = () => { state.down = on && !state.down ? "true" : ""; state.order = on && state.down === "" ? "written" : order; state.offset = 0; refresh(); };
    return el("th", { scope: "col", class: kindOf, "aria-sort": on ? (state.down ? "descending" : "ascending") : "none" },
      el("button", { class: "sort", type: "button", "data-key": `sort ${order}`, onclick: turn }, title, el("span", { "aria-hidden": "true" }, on ? (state.down ? " ↓" : " ↑") : "")));
  }

  function line(row, used, fresh) {
    const inside = {
      outcome: () => el("td", {}, badge(row.outcome)),
      question: () => el("td", { class: "long" }, el("a", { class: "open", href: address("run", row.source, row.id) }, row.question || row.task || "(empty)"),
        runs.length || row.sample ? el("small", {}, [runs.find((run) => run.id === row.source)?.name, row.sample ? `try ${row.sample + 1}` : ""].filter(Boolean).join(", ")) : null,
        kind === "training" ? el("small", {}, `step ${row.step}${row.reward === null ? "" : `, reward ${row.reward}`}`) : null),
      answer: () => el("td", { class: "answer" }, el("span", { title: row.answer || null }, row.answer || "–")),
      family: () => el("td", {}, row.family),
      tools: () => el("td", {}, toolMarks(row)),
      turns: () => el("td", { class: "n" }, String(row.turns)),
      tokens: () => el("td", { class: "n" }, count(row.tokens)),
      seconds: () => el("td", { class: "n" }, row.seconds.toFixed(1)),
    };
    return labelled(el("tr", { class: fresh ? "fresh" : null }, used.map((name) => inside[name]())), used);
  }

  function pages(number) {
    const to = (offset) => () => { state.offset = offset; refresh(); box.scrollIntoView(); };
    const last = Math.max(0, Math.floor((number - 1) / SIZE) * SIZE);
    const button = (name, offset, off) => el("button", { type: "button", disabled: off, "data-key": `page ${name}`, onclick: to(offset) }, name);
    redraw(pager, number <= SIZE ? null : [button("First", 0, !state.offset), button("Back", state.offset - SIZE, !state.offset),
      el("span", {}, `${count(state.offset + 1)} – ${count(Math.min(number, state.offset + SIZE))} of ${count(number)}`),
      button("On", state.offset + SIZE, state.offset >= last), button("Last", last, state.offset >= last)]);
    pager.hidden = number <= SIZE;
  }

  return { box, refresh };
}

export function toolMarks(row) {
  const runs = [];
  row.tools.forEach((tool, at) => {
    const last = runs.at(-1);
    if (last && last.tool === tool && last.error === row.errors[at]) last.times += 1;
    else runs.push({ tool, error: row.errors[at], times: 1 });
  });
  return el("span", { class: "tools" }, runs.map(({ tool, error, times }) => el("span", { class: error ? "tool wrong" : "tool", title: error ? `${tool}: ${error}` : tool },
    tool || "none", times > 1 ? ` ×${times}` : "", error ? el("span", { class: "visually-hidden" }, ` failed (${error})`) : null)));
}

function walk(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const links = [...event.currentTarget.querySelectorAll("a.open")];
  const at = links.indexOf(document.activeElement);
  const to = links[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (at < 0 || !to) return;
  event.preventDefault();
  to.focus();
}

function filters(kind, choices, state, runs, changed) {
  const set = (name) => (event) => { state[name] = event.target.value; changed(); };
  const select = (label, name, options) => (options.length < (name === "outcome" ? 2 : 1) ? null : el("label", {}, label,
    el("select", { name, onchange: set(name) }, el("option", { value: "" }, "all"), options.map(([value, text]) => el("option", { value, selected: String(state[name]) === String(value) }, text)))));
  const listed = (name) => choices[name].map(([value, number]) => [value, `${name === "outcome" ? outcomeName(value) : value} (${count(number)})`]);
  let pause;
  const text = el("input", { name: "text", type: "search", value: state.text, autocomplete: "off", placeholder: "in questions, answers and turns",
    oninput: (event) => { clearTimeout(pause); pause = setTimeout(() => set("text")(event), 250); } });
  const several = choices.benchmark.length > 1;
  return el("form", { class: "filters", role: "search", "aria-label": "Filter the traces", onsubmit: (event) => { event.preventDefault(); clearTimeout(pause); state.text = text.value; changed(); } },
    el("label", { class: "wide" }, "Text", text),
    runs.length ? select("Run", "run", runs.map((run) => [run.id, run.name === run.planner ? run.name : `${run.name}: ${run.planner}`])) : null,
    select("Outcome", "outcome", listed("outcome")), several ? select("Benchmark", "benchmark", listed("benchmark")) : null,
    select("Family", "family", listed("family")), select("Tool", "tool", listed("tool")), select("Error", "error", listed("error")),
    kind === "training" ? select("Of", "split", [["train", "training"], ["test", "validation"]]) : null,
    kind === "training" ? select("Step", "step", (choices.steps ?? []).map((step) => [step, String(step)])) : null);
}
