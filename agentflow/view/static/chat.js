// Asking the agent: a conversation, each of whose questions shows its turns as they come.

import { file, get, post } from "./data.js";
import { address, el, home, liveDot, redraw, seconds, trail } from "./dom.js";
import { copyButton, folded } from "./texts.js";

const EXAMPLES = ["How many feet are 3 yards?", "What is the country of Nusozeg, the city?"];
const ENDS = { answered: "", out_of_turns: "It ran out of turns; the answer was not verified.", out_of_time: "It ran out of time; the answer was not verified.", no_plan: "The model does not follow the planner's format.", failed: "" };

export async function chatPage(holder, { conversation = "" }) {
  trail(home, ["Ask"]);
  if (file) { holder.append(el("p", {}, "A report answers no questions; agentflow view does.")); return {}; }
  const about = await get("/api/chat");
  const state = { id: conversation, exchanges: [], problem: null };
  let events = null;

  const list = el("div", { class: "exchanges" });
  const said = el("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  const problem = el("div", { role: "alert" });
  const text = el("textarea", { name: "question", rows: 2, maxlength: 20000, "aria-label": "Question", placeholder: "Ask a question; Enter sends it", onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); ask(); }
  } });
  const send = el("button", { type: "submit", class: "play" }, "Ask");
  const stop = el("button", { type: "button", class: "stop", onclick: () => post(`/api/chat/${state.id}/stop`, {}) }, "■ Stop");
  const fresh = el("a", { href: "#/ask", class: "fresh-link" }, "New conversation");
  const form = el("form", { class: "ask-form card", onsubmit: (event) => { event.preventDefault(); ask(); } }, text, el("div", { class: "ask-row" }, send, stop, fresh));
  holder.append(el("h1", {}, "Ask the agent"), el("p", { class: "quiet" }, `${about.models.join(", ")} · ${about.tools.join(", ")} · at most ${about.max_turns} turns${about.approve.length ? ` · you approve ${about.approve.join(", ")}` : ""}`),
    list, said, problem, form);

  const last = () => state.exchanges.at(-1);
  const running = () => Boolean(last() && !last().end);

  function draw() {
    redraw(list, state.exchanges.length ? state.exchanges.map((one, at) => exchange(one, at, about.source, decide)) : examples());
    send.disabled = running();
    stop.hidden = !running();
    fresh.hidden = !state.id;
  }

  function examples() {
    if (!about.models.every((model) => model.startsWith("embedded"))) return null;
    return el("p", { class: "examples" }, "For example: ", EXAMPLES.map((example) => el("button", { type: "button", onclick: () => { text.value = example; ask(); } }, example)));
  }

  async function ask() {
    const question = text.value.trim();
    if (!question || running()) return;
    problem.replaceChildren();
    send.disabled = true;
    const { status, body } = await post("/api/chat", { question, conversation: state.id });
    if (status === 409) busy(body.running);
    else if (status !== 202) problem.replaceChildren(el("p", { class: "warn" }, typeof body === "string" ? body : "The server does not answer."));
    else {
      text.value = "";
      if (body.conversation !== state.id) {
        state.id = body.conversation;
        history.replaceState(null, "", address("ask", state.id));
        follow();
      }
      return;
    }
    send.disabled = false;
  }

  function busy(id) {
    problem.replaceChildren(el("p", { class: "warn" }, "The agent is answering another question, one at a time. ", el("a", { href: address("ask", id) }, "Look at it"), " or ",
      el("button", { type: "button", class: "small", onclick: async () => { await post(`/api/chat/${id}/stop`, {}); problem.replaceChildren(); } }, "stop it")));
  }

  const decide = (decision, reason) => post(`/api/chat/${state.id}/decision`, { decision, reason });

  function follow() {
    events?.close();
    state.exchanges = [];
    events = new EventSource(`/api/chat/${state.id}/events`);
    events.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (event.type === "question") state.exchanges.push({ question: event.question, turns: [], began: Date.now() });
      else if (last()) take(last(), event);
      draw();
      if (event.type !== "partial_answer") said.textContent = spoken(event);
      if (event.type !== "planning") list.lastElementChild?.scrollIntoView({ block: "end" });
    };
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) problem.replaceChildren(el("p", { class: "warn" }, "This conversation is not there any more: the server was started again. ", el("a", { href: "#/ask" }, "Begin another")));
    };
  }

  if (state.id) follow();
  draw();
  return { leave: () => events?.close(), shown: () => text.focus() };
}

// Adds an event to the question that it belongs to.
export function take(one, event) {
  const turn = () => {
    if (one.turns.at(-1)?.turn !== event.turn) one.turns.push({ turn: event.turn });
    return one.turns.at(-1);
  };
  one.at = NOW[event.type]?.(event) ?? one.at;
  if (event.type === "analysed") Object.assign(one, { analysis: event.analysis, understood: event.question });
  if (event.type === "planning") turn();
  if (event.type === "planned") Object.assign(turn(), { goal: event.sub_goal, tool: event.tool, problem: event.problem });
  if (event.type === "tool_called") turn().arguments = event.arguments;
  if (event.type === "result") turn().result = event;
  if (event.type === "verdict") turn().verdict = event;
  if (event.type === "approval") one.approval = event.proposal;
  if (event.type === "decided") one.approval = null;
  if (event.type === "partial_answer" || event.type === "answer") Object.assign(one, { answer: event.answer });
  if (event.type === "ended" || event.type === "stopped") Object.assign(one, { end: event, approval: null, answer: event.answer ?? one.answer });
}

const NOW = {
  analysed: () => "the planner chooses a step", planning: () => "the planner chooses a step", planned: ({ tool }) => (tool ? `the executor writes the call of ${tool}` : "the verifier judges"),
  tool_called: ({ tool }) => `${tool} is at work`, result: () => "the verifier judges", verdict: ({ signal }) => (signal === "stop" ? "the generator writes the answer" : "the planner chooses a step"), approval: () => "it waits for you",
};

const spoken = (event) => ({ question: () => "The agent is at work", planned: () => `Turn ${event.turn}: ${event.sub_goal}`, approval: () => "A call waits for your approval", answer: () => `Answer: ${event.answer}`, ended: () => event.error || `Answer: ${event.answer}`, stopped: () => "Stopped" })[event.type]?.() ?? "";

function exchange(one, at, source, decide) {
  return el("article", { class: "exchange", "aria-label": `Question ${at + 1}` }, el("h2", { class: "asked" }, one.question),
    one.understood && one.understood !== one.question ? el("p", { class: "quiet" }, `Understood as: ${one.understood}`) : null,
    one.analysis ? el("details", { "data-key": `analysis ${at}` }, el("summary", {}, "The analyst’s reading"), folded(one.analysis, `analysis ${at}`)) : null,
    el("ol", { class: "turns" }, one.turns.map((turn) => oneTurn(turn, at))),
    one.approval ? approval(one.approval, decide) : null,
    one.end ? null : el("p", { class: "at-work" }, liveDot(true), ` ${one.at ?? "the analyst reads the question"} …`),
    one.answer ? el("div", { class: "answer card" }, one.end && one.answer.length > 300 ? folded(one.answer, `answer ${at}`) : el("p", { class: "answer-text" }, one.answer)) : null,
    one.end ? ending(one, source) : null);
}

function oneTurn(turn, at) {
  const { result, verdict } = turn;
  return el("li", { class: `turn${result?.error ? " wrong" : ""}` }, el("p", {}, el("small", { class: "quiet" }, `Turn ${turn.turn} `), el("b", {}, turn.goal ?? "…")),
    turn.problem ? el("p", { class: "warn" }, turn.problem) : null,
    turn.tool ? el("p", { class: "call-line" }, el("span", { class: "tool" }, turn.tool), result ? el("small", { class: "quiet" }, ` ${seconds(result.seconds)}`) : null) : null,
    turn.arguments ? folded(Object.values(turn.arguments).length === 1 ? String(Object.values(turn.arguments)[0]) : JSON.stringify(turn.arguments, null, 1), `arguments ${at} ${turn.turn}`) : null,
    result ? el("div", { class: "result-text" }, result.error ? el("span", { class: "badge failed" }, result.error) : null, result.output ? folded(result.output, `result ${at} ${turn.turn}`) : null) : null,
    verdict ? el("p", {}, el("span", { class: `badge ${verdict.signal}` }, verdict.signal === "stop" ? "■ stop" : "↻ continue"), ` ${verdict.analysis.slice(0, 600)}`) : null);
}

function approval(proposal, decide) {
  const reason = el("input", { name: "reason", "aria-label": "Reason", placeholder: "Why not? The planner reads it", maxlength: 500, "data-key": "reason" });
  const one = (decision) => (event) => { event.target.disabled = true; decide(decision, reason.value); };
  return el("section", { class: "card approval", "aria-label": "Approval" }, el("h3", {}, "May this call be made?"), el("p", {}, el("span", { class: "tool" }, proposal.tool), ` ${proposal.sub_goal}`),
    Object.entries(proposal.arguments).map(([name, value]) => [el("small", { class: "quiet" }, name), el("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2))]), proposal.note ? el("p", { class: "warn" }, proposal.note) : null,
    el("p", { class: "ask-row" }, el("button", { type: "button", class: "play", "data-key": "approve", onclick: one("approve") }, "Approve"), el("button", { type: "button", "data-key": "refuse", onclick: one("refuse") }, "Decline"), reason));
}

function ending({ end, answer }, source) {
  if (end.type === "stopped") return el("p", { class: "warn" }, "Stopped. The conversation goes on with the next question.");
  const steps = end.trace === null ? null : el("a", { href: address("run", source, String(end.trace)) }, "Every step, its time and its prompt");
  return el("div", {}, end.error ? el("p", { class: "warn" }, end.error) : null, ENDS[end.status] ? el("p", { class: "warn" }, ENDS[end.status]) : null,
    el("p", { class: "quiet" }, [seconds(end.seconds), end.tokens ? `${end.tokens.toLocaleString("en")} tokens` : ""].filter(Boolean).join(" · "), " · ", answer ? copyButton("Copy the answer", answer) : null, " ", steps));
}
