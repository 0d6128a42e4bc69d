// One trace: stepped through module by module, with what the planner saw, what came of it, and what it cost.

import { get } from "./data.js";
import { address, badge, bar, count, el, home, plural, redraw, region, seconds, trail } from "./dom.js";
import { agentGraph } from "./graph.js";
import { copyButton, download, folded } from "./texts.js";
import { callsOf, waterfall } from "./waterfall.js";

const PAUSE = 1100;

export async function tracePage(holder, { source, name, at }) {
  const found = await get(`/api/sources/${source}/traces/${encodeURIComponent(name)}`);
  trail(home, [found.source.name, address("run", source)], [`Trace ${name}`]);
  if (found.note) {
    holder.append(el("div", { class: "heading" }, heading({ ...found, trace: { answer: found.answer, turns: found.tools, usage: {}, seconds: found.seconds } })), el("p", { class: "warn" }, found.note));
    return {};
  }
  const graph = agentGraph();
  const [head, track, now, calls, memory, costs, same] = [el("div", { class: "heading" }), el("div", {}), el("section", { class: "card now", "aria-label": "This step" }),
    el("div", {}), el("div", {}), el("div", {}), el("div", {})];
  const steps = stepsOf(found);
  let place = Math.min(Math.max(0, Number(at ?? 0) || 0), Math.max(0, steps.length - 1));
  let timer = null;

  const play = el("button", { type: "button", class: "play", onclick: () => (timer ? pause() : start()) });
  const slider = el("input", { type: "range", min: 0, "aria-label": "Step", oninput: (event) => to(Number(event.target.value)) });
  const said = el("p", { class: "said", role: "status", "aria-live": "polite" });
  const button = (sign, label, action) => el("button", { type: "button", "aria-label": label, title: label, onclick: action }, sign);
  const transport = el("div", { class: "transport" }, button("|◀", "First step (Home)", () => to(0)), button("◀", "Step back (←)", () => to(place - 1)), play,
    button("▶", "Step on (→)", () => to(place + 1)), button("▶|", "Last step (End)", () => to(steps.length - 1)), slider);
  holder.append(head, el("div", { class: "stage" }, el("section", { class: "card flow", "aria-label": "The graph" }, graph.drawing, transport, said), now),
    el("section", { "aria-label": "Timeline" }, el("h2", {}, "Timeline"), track), calls, memory, costs, same);

  function pause() { clearInterval(timer); timer = null; label(); }
  function start() { if (place >= steps.length - 1) to(0); timer = setInterval(() => (place < steps.length - 1 ? to(place + 1, true) : pause()), PAUSE); label(); }
  function label() { play.textContent = timer ? "❚❚ Pause" : "▶ Play"; play.title = "Play or pause (space)"; }

  function to(wanted, playing = false) {
    if (!playing) { clearInterval(timer); timer = null; label(); }
    place = Math.min(Math.max(0, wanted), steps.length - 1);
    show();
  }

  function show() {
    const step = steps[place];
    slider.max = Math.max(0, steps.length - 1);
    slider.value = place;
    graph.show(step, steps[place - 1], step ? step.remembered : 0);
    said.textContent = step ? `Step ${place + 1} of ${steps.length}: ${step.said}` : "There is no step to show.";
    slider.setAttribute("aria-valuetext", said.textContent);
    redraw(now, step ? body(step, found) : el("p", {}, found.trace.error || "The run ended before its first step."));
    for (const one of track.querySelectorAll("[data-step]")) {
      if (Number(one.dataset.step) === place) one.setAttribute("aria-current", "step"); else one.removeAttribute("aria-current");
      one.classList.toggle("past", Number(one.dataset.step) < place);
    }
    const [box, current] = [track.firstElementChild, track.querySelector("[aria-current]")];
    if (box && current) box.scrollTop = Math.max(0, current.offsetTop - box.clientHeight / 2);
    redraw(calls, callsOf(found, step));
    redraw(memory, memoryOf(found, step));
    history.replaceState(null, "", `${address("run", source, name)}?at=${place}`);
  }

  function keys(event) {
    if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { ArrowLeft: () => to(place - 1), ArrowRight: () => to(place + 1), Home: () => to(0), End: () => to(steps.length - 1) }[event.key];
    if (event.key === " " && !event.target.closest("button, a, summary")) { event.preventDefault(); play.click(); return; }
    if (action && !event.target.closest(".scroll")) { event.preventDefault(); action(); }
  }

  function draw() {
    redraw(head, heading(found));
    redraw(track, found.calls ? waterfall(found, steps, to) : el("ol", { class: "track", "aria-label": "Steps" }, chips(steps, to)));
    redraw(costs, costsOf(found));
    redraw(same, elsewhere(found));
    show();
  }

  document.addEventListener("keydown", keys);
  label();
  draw();
  return {
    leave: () => { document.removeEventListener("keydown", keys); clearInterval(timer); },
  };
}

export function stepsOf(found) {
  const { turns, analysis, answer, status, error } = found.trace;
  const steps = [];
  const add = (module, turn, remembered, said, more = {}) => steps.push({ module, turn, remembered, said, ...more });
  if (analysis) add("analyst", 0, 0, "the analyst looks at the question");
  turns.forEach((turn, at) => {
    add("planner", turn.turn, at, `turn ${turn.turn}, the planner chooses ${turn.tool || "no tool"}`, { wrong: turn.result.error === "bad_plan" || turn.result.error === "unknown_tool" });
    add("executor", turn.turn, at, `turn ${turn.turn}, the executor calls ${turn.tool || "nothing"}${turn.result.error ? ` (${turn.result.error})` : ""}`, { tool: turn.tool, wrong: turn.result.error });
    add("verifier", turn.turn, at + 1, `turn ${turn.turn}, the verifier says ${turn.verdict.signal}`, { signal: turn.verdict.signal });
  });
  if (answer || status !== "failed") add("generator", turns.length, turns.length, "the generator writes the answer");
  if (status === "failed" && error) add("end", turns.length, turns.length, "the run broke off", { wrong: true });
  return steps;
}

const NAMES = { analyst: "Analyst", planner: "Planner", executor: "Executor", verifier: "Verifier", generator: "Generator", end: "Broke off" };

function chips(steps, to) {
  const chip = (step, at) => el("button", { type: "button", "data-key": `step ${at}`, "data-step": at, class: `chip ${step.module}${step.wrong ? " wrong" : ""}${step.signal === "stop" ? " stop" : ""}`, onclick: () => to(at) }, NAMES[step.module] ?? step.module);
  const lanes = new Map();
  steps.forEach((step, at) => {
    const key = ["planner", "executor", "verifier"].includes(step.module) ? `Turn ${step.turn}` : NAMES[step.module] ?? step.module;
    lanes.set(key, [...(lanes.get(key) ?? []), chip(step, at)]);
  });
  return [...lanes].map(([title, inside]) => el("li", { class: "lane" }, el("span", { class: "lane-name" }, title.startsWith("Turn") ? title : ""), inside));
}

const item = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

function body(step, found) {
  const turn = found.trace.turns[step.turn - 1];
  const title = el("h2", {}, NAMES[step.module] ?? step.module, step.turn && step.module !== "generator" && step.module !== "end" ? el("small", {}, ` turn ${step.turn}`) : "");
  const inside = {
    analyst: () => [el("p", { class: "quiet" }, "Reads the question once; what it writes is the beginning of the memory."), folded(found.trace.analysis, "analysis")],
    planner: () => [el("dl", {}, item("Sub-goal", turn.sub_goal || "(no step could be read)"), item("Tool", el("b", {}, turn.tool || "(none)")), turn.context ? item("Context", turn.context) : []),
      turn.plan && !found.calls ? el("details", { "data-key": "plan" }, el("summary", {}, "Its words, to the letter"), folded(turn.plan, "plan")) : null],
    executor: () => [el("dl", {}, item("Call", el("b", {}, turn.tool || "(none)"), args(turn.arguments)),
      item(turn.result.error ? "Failed" : "Result", turn.result.error ? el("span", { class: "badge failed" }, turn.result.error) : "", folded(turn.result.output, "result")),
      item("Took", `${turn.result.seconds.toFixed(2)} s`, turn.result.sandbox ? ` in the ${turn.result.sandbox} sandbox` : "", turn.result.provider ? `, answered by ${turn.result.provider}` : ""))],
    verifier: () => [el("p", {}, el("span", { class: `badge ${turn.verdict.signal}` }, turn.verdict.signal === "stop" ? "■ stop" : "↻ continue"), turn.verdict.probability ? ` with probability ${turn.verdict.probability.toFixed(2)}` : ""), folded(turn.verdict.analysis, "verdict")],
    generator: () => [longAnswer(found.trace.answer), found.gold ? el("dl", {}, item("Gold", found.gold), item("Outcome", badge(found.outcome), found.decided_by ? ` by ${found.decided_by}` : "", Object.entries(found.metrics ?? {}).map(([name, value]) => ` · ${name} ${value}`))) : el("p", {}, badge(found.outcome))],
    end: () => [el("p", { class: "warn" }, found.trace.error)],
  }[step.module];
  const ended = (turn && ["planner", "executor", "verifier"].includes(step.module) ? turn : found.trace).finish_reasons?.[step.module] ?? [];
  const cut = ended.at(-1) === "length" ? el("p", { class: "warn" }, "This reply was cut off at its limit of tokens (finish_reason length).")
    : ended.includes("length") ? el("p", { class: "quiet" }, `finish_reason: ${ended.join(", ")}`) : null;
  return [title, cut, ...(inside ? inside().flat(2) : [])].filter(Boolean);
}

const longAnswer = (answer) => (answer.length > 300 ? el("div", {}, folded(answer, "answer"), copyButton("Copy the answer", answer)) : el("p", { class: "answer-text" }, answer || "(no answer)"));

function args(given) {
  const values = Object.entries(given);
  if (values.length === 0) return null;
  if (values.length === 1 && typeof values[0][1] === "string") return [el("small", {}, ` ${values[0][0]}`), folded(values[0][1], "arguments")];
  return folded(JSON.stringify(given, null, 2), "arguments");
}

function memoryOf(found, step) {
  if (!step || !found.trace.turns.length || !found.memory.length) return null;
  const seen = step.module === "generator" || step.module === "end" ? found.memory.length : 2 * Math.max(1, step.turn) - 1 + (step.module === "verifier" ? 2 : 0);
  const messages = found.memory.slice(0, step.module === "analyst" ? 1 : seen);
  const size = messages.reduce((sum, [, text]) => sum + text.length, 0);
  const fresh = step.module === "verifier" ? 2 : 0;
  const words = { planner: `what the planner reads in turn ${step.turn}`, executor: `as the planner read it in turn ${step.turn}`, verifier: `turn ${step.turn} has been written into it` }[step.module] ?? "";
  return el("section", { "aria-label": "Memory" }, el("h2", {}, "Memory ", el("small", {}, words)),
    el("p", { class: "quiet" }, `${plural(messages.length, "message")}, ${count(size)} characters; the instructions and the tools stand before them. It only ever grows.`),
    el("p", {}, bar(messages.length / Math.max(1, found.memory.length), `${messages.length} of ${found.memory.length} messages`)),
    el("ol", { class: "messages" }, messages.map(([role, text], at) => el("li", { class: `message ${role}${at >= messages.length - fresh ? " new" : ""}` }, el("b", {}, role === "planner" ? "planner" : at ? "result and verdict" : "question"), folded(text, `memory ${at}`)))));
}

function heading(found) {
  const { trace } = found;
  const tokens = Object.values(trace.usage.models ?? {}).reduce((sum, one) => sum + one.input_tokens + one.output_tokens, 0) || found.tokens;
  const facts = [plural(trace.turns.length, "turn"), trace.usage.calls ? plural(trace.usage.calls, "model call") : "", tokens ? `${count(tokens)} tokens` : "", trace.seconds ? seconds(trace.seconds) : "",
    typeof trace.confidence === "number" ? `confidence ${trace.confidence.toFixed(2)}` : "",
    found.family, found.benchmark, found.split ? `step ${found.step}, ${found.split === "test" ? "validation" : "training"}` : "", found.reward === null ? "" : `reward ${found.reward}`].filter(Boolean);
  const way = (name, label) => (name === null ? null : el("a", { href: address("run", found.source.id, name), rel: label === "Next" ? "next" : "prev", "data-key": label }, label === "Next" ? "next trace →" : "← previous"));
  return [el("div", { class: "ways-between" }, way(found.previous, "Previous"), way(found.next, "Next")),
    el("h1", { class: "question" }, found.question || found.task || "(empty question)"),
    el("p", { class: "result" }, badge(found.outcome), " ", el("b", {}, trace.answer ? trace.answer.slice(0, 300) : ""), found.gold && found.outcome !== "correct" ? el("span", { class: "quiet" }, ` — gold: ${found.gold.slice(0, 300)}`) : ""),
    el("p", { class: "quiet" }, facts.join(" · ")),
    trace.status ? el("p", { class: "tasks" }, copyButton("Copy the answer", trace.answer), " ", copyButton("Copy a link to this step", () => location.href), " ",
      el("button", { type: "button", class: "small", "data-key": "download", onclick: () => download(`${found.source.name}-${found.id}.json`, JSON.stringify({ question: found.question, gold: found.gold, ...trace, calls: found.calls }, null, 1)) }, "Download as JSON")) : null,
    found.flags?.length ? el("p", { class: "warn" }, `Flagged: ${found.flags.join("; ")}`) : null,
    trace.error ? el("p", { class: "warn" }, trace.error) : null];
}

function costsOf(found) {
  const modules = Object.entries(found.trace.usage.modules ?? {});
  const tools = {};
  for (const turn of found.trace.turns) {
    const one = (tools[turn.tool || "(none)"] ??= { calls: 0, seconds: 0, failed: 0 });
    one.calls += 1;
    one.seconds += turn.result.seconds;
    one.failed += turn.result.error ? 1 : 0;
  }
  if (modules.length === 0 && Object.keys(tools).length === 0) return null;
  const rows = modules.flatMap(([module, models]) => Object.entries(models).map(([model, tokens]) => [module, model, tokens]));
  const most = Math.max(1, ...rows.map(([, , tokens]) => tokens.input_tokens + tokens.output_tokens));
  const took = found.trace.usage.seconds ?? {};
  return el("section", { "aria-label": "Costs" }, el("h2", {}, "What it cost"), el("div", { class: "two" },
    rows.length ? region("Cost by module", "card flush", el("table", { class: "list" }, el("thead", {}, el("tr", {}, ["module", "model", "read", "written", "seconds", ""].map((title, at) => el("th", { scope: "col", class: at > 1 && at < 5 ? "n" : null }, title || el("span", { class: "visually-hidden" }, "share"))))),
      el("tbody", {}, rows.map(([module, model, tokens]) => el("tr", {}, el("th", { scope: "row" }, module), el("td", {}, model), el("td", { class: "n" }, count(tokens.input_tokens)), el("td", { class: "n" }, count(tokens.output_tokens)),
        el("td", { class: "n" }, took[module] === undefined ? "–" : took[module].toFixed(2)), el("td", {}, bar((tokens.input_tokens + tokens.output_tokens) / most, `${tokens.input_tokens + tokens.output_tokens} tokens`))))))) : null,
    Object.keys(tools).length ? region("Cost by tool", "card flush", el("table", { class: "list" }, el("thead", {}, el("tr", {}, ["tool", "calls", "failed", "seconds"].map((title, at) => el("th", { scope: "col", class: at ? "n" : null }, title)))),
      el("tbody", {}, Object.entries(tools).map(([tool, one]) => el("tr", {}, el("th", { scope: "row" }, tool), el("td", { class: "n" }, String(one.calls)), el("td", { class: "n" }, String(one.failed)), el("td", { class: "n" }, one.seconds.toFixed(2))))))) : null));
}

function elsewhere(found) {
  if (!found.same.length) return null;
  return el("section", { "aria-label": "The same question elsewhere" }, el("h2", {}, "The same question elsewhere"),
    el("ul", { class: "same" }, found.same.map((one) => el("li", {}, badge(one.outcome), " ", el("a", { href: address("run", one.source, one.id) }, `${one.from}${one.step || one.reward !== null ? `, step ${one.step}` : ""}`), el("span", { class: "quiet" }, ` ${plural(one.turns, "turn")}`)))),
    found.same_number > found.same.length ? el("p", { class: "quiet" }, `and ${count(found.same_number - found.same.length)} more`) : null);
}

// A trace in short, for side by side.
export function column(found) {
  const { trace } = found;
  return [el("p", { class: "result" }, badge(found.outcome), " ", el("b", {}, trace.answer.slice(0, 300) || "–")),
    trace.error ? el("p", { class: "warn" }, trace.error) : null,
    el("p", { class: "quiet" }, [plural(trace.turns.length, "turn"), found.reward === null ? "" : `reward ${found.reward}`, trace.seconds ? seconds(trace.seconds) : ""].filter(Boolean).join(" · "), " · ",
      el("a", { href: address("run", found.source.id, found.id) }, "step through it")),
    el("ol", { class: "turns" }, trace.turns.map((turn) => el("li", { class: `turn${turn.result.error ? " wrong" : ""}` },
      el("p", {}, el("b", {}, turn.sub_goal || "(no step could be read)")),
      el("p", { class: "call" }, el("span", { class: "tool" }, turn.tool || "none"), " ", el("code", {}, inline(turn.arguments))),
      turn.result.error ? el("span", { class: "badge failed" }, turn.result.error) : null, folded(turn.result.output, `${found.source.id} ${turn.turn}`),
      el("p", {}, el("span", { class: `badge ${turn.verdict.signal}` }, turn.verdict.signal === "stop" ? "■ stop" : "↻ continue"), ` ${turn.verdict.analysis.slice(0, 400)}`))))].filter(Boolean);
}

function inline(given) {
  const values = Object.values(given);
  return (values.length === 1 && typeof values[0] === "string" ? values[0] : JSON.stringify(given)).slice(0, 300);
}
