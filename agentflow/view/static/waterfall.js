// When each module ran and for how long, with its model and tool calls; and the prompt and reply of every call.

import { count, el, region, seconds } from "./dom.js";
import { copyButton, folded } from "./texts.js";

const took = (value) => (value < 1 ? `${Math.round(1000 * value)} ms` : seconds(value));
const dollars = (value) => (value === null ? "" : `$${value.toPrecision(2)}`);

const inTurn = (module) => ["planner", "executor", "verifier"].includes(module);
const fits = (span, step) => span.kind === "module" && span.name === step.module && (!inTurn(step.module) || span.turn === step.turn);

// The numbers of all spans inside one, itself first.
function within(spans, number) {
  const found = [number];
  spans.forEach((span, at) => { if (at !== number && found.includes(span.parent)) found.push(at); });
  return found;
}

function sums(spans) {
  const calls = spans.filter((span) => span.kind === "model_call");
  const sum = (name) => (calls.some((call) => call[name] !== null) ? calls.reduce((total, call) => total + (call[name] ?? 0), 0) : null);
  return { calls: calls.length, input: sum("input_tokens"), output: sum("output_tokens"), cost: sum("cost") };
}

// One row a module; `to` goes to the step it belongs to.
export function waterfall(found, steps, to) {
  const { spans } = found.calls;
  const end = Math.max(0.001, found.trace.seconds, ...spans.map((span) => span.start + span.seconds));
  const modules = spans.map((span, number) => ({ span, number })).filter(({ span }) => span.kind === "module" && (span.parent === null || spans[span.parent].kind !== "module"));
  const all = sums(spans);
  const priced = all.cost !== null;
  const rows = modules.map(({ span, number }) => {
    const inside = within(spans, number).map((at) => spans[at]);
    const { input, output, cost } = sums(inside);
    const step = steps.findIndex((one) => fits(span, one));
    const name = `${span.name[0].toUpperCase()}${span.name.slice(1)}`;
    const label = [name, span.turn ? el("small", {}, ` turn ${span.turn}`) : null];
    return el("tr", { "data-step": step, class: span.error ? "wrong" : null },
      el("th", { scope: "row" }, step < 0 ? label : el("button", { type: "button", class: "plain", "data-key": `row ${number}`, onclick: () => to(step) }, label)),
      el("td", { class: "lane-bars" }, rail(inside, end)),
      el("td", { class: "n" }, took(span.seconds)), el("td", { class: "n" }, input === null ? "–" : count(input)), el("td", { class: "n" }, output === null ? "–" : count(output)),
      priced ? el("td", { class: "n" }, dollars(cost)) : null);
  });
  const heads = [["module"], [el("span", { class: "scale" }, el("span", {}, "0 s"), legend(), el("span", {}, took(end)))], ["time", "n"], ["read", "n"], ["written", "n"], ...(priced ? [["cost", "n"]] : [])];
  return region("When each module ran, table", "card flush tall", el("table", { class: "list waterfall" }, el("caption", { class: "visually-hidden" }, "When each module ran"),
    el("thead", {}, el("tr", {}, heads.map(([title, kind]) => el("th", { scope: "col", class: kind }, title)))), el("tbody", {}, rows),
    el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, "Together"), el("td", {}, `${all.calls} model calls`), el("td", { class: "n" }, took(end)), el("td", { class: "n" }, count(all.input ?? 0)), el("td", { class: "n" }, count(all.output ?? 0)), priced ? el("td", { class: "n" }, dollars(all.cost)) : null))));
}

const legend = () => el("span", { class: "legends" }, ["model_call", "tool_call"].map((kind) => el("span", {}, el("span", { class: `key ${kind}` }), kind === "model_call" ? "model" : "tool")));

function rail(inside, end) {
  const bars = inside.map((span) => {
    const bar = el("span", { class: `span ${span.kind}${span.error ? " wrong" : ""}`, title: `${span.name}: ${took(span.seconds)}, from ${took(span.start)}${span.error ? `, ${span.error}` : ""}` });
    bar.style.left = `${(100 * span.start) / end}%`;
    bar.style.width = `${(100 * span.seconds) / end}%`;
    return bar;
  });
  const [module] = inside;
  return el("span", { class: "times", role: "img", "aria-label": `from ${took(module.start)} for ${took(module.seconds)}` }, bars);
}

// The calls of a step; of agents with other modules, all of them.
export function callsOf(found, step) {
  if (!found.calls || !step) return null;
  const { spans, messages } = found.calls;
  if (messages.length === 0) return null; // of a training, which records times alone
  const own = spans.flatMap((span, number) => (fits(span, step) ? within(spans, number) : [])).map((at) => spans[at]);
  const known = spans.some((span) => span.kind === "module" && inTurn(span.name));
  const calls = (known ? own : spans).filter((span) => span.kind === "model_call");
  if (calls.length === 0) return null;
  return el("section", { "aria-label": "Calls" }, el("h2", {}, calls.length === 1 ? "The model call " : "The model calls ", el("small", {}, "prompt and reply, to the letter")),
    calls.map((call, at) => oneCall(call, messages, `${step.module} ${step.turn} ${at}`)));
}

function oneCall(call, messages, key) {
  const [prompt, replies] = [call.prompt, call.replies].map((numbers) => numbers.map((number) => messages[number]));
  const facts = [call.name, took(call.seconds), call.input_tokens === null ? "" : `${count(call.input_tokens)} read, ${count(call.output_tokens)} written`, dollars(call.cost), call.finish_reason, call.error].filter(Boolean);
  const both = (all) => all.map((one) => one.text).join("\n\n");
  return el("div", { class: "call card" },
    el("p", { class: "facts-line" }, call.module === "tools" ? el("b", {}, "Model behind the tool · ") : null, el("span", { class: call.error ? "warn" : "quiet" }, facts.join(" · "))),
    el("details", { "data-key": `prompt ${key}` }, el("summary", {}, `Prompt: ${prompt.length} ${prompt.length === 1 ? "message" : "messages"}, ${count(prompt.reduce((sum, one) => sum + one.text.length, 0))} characters`),
      el("p", {}, copyButton("Copy the prompt", () => both(prompt)), " ", copyButton("Copy as JSON", () => JSON.stringify(prompt.map(({ role, text }) => ({ role, content: text })), null, 2))),
      el("ol", { class: "messages" }, prompt.map((one, at) => el("li", { class: `message ${one.role}` }, el("b", {}, one.role), folded(one.text, `${key} ${at}`))))),
    el("div", { class: "reply" }, el("p", {}, el("b", {}, "Reply "), replies.length ? copyButton("Copy the reply", () => both(replies)) : "there was none"), replies.map((one, at) => folded(one.text, `${key} reply ${at}`))));
}
