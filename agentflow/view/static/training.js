// A training: what went wrong, its curves, the held-out questions over the steps, and the ways to its groups and to before and after.

import { address, count, el, percent, plural, redraw, region } from "./dom.js";
import { curves, stacks } from "./charts.js";

const number = (digits) => (value) => value.toFixed(digits);
const share = (value) => `${(100 * value).toFixed(value !== 0 && Math.abs(value) < 0.001 ? 2 : 1)} %`;

export function trainingSections(source) {
  const [raised, charts, compared, ways, matrix] = ["", "charts curves", "", "card ways", ""].map((kind) => el("div", { class: kind || null }));
  const box = el("div", {}, raised, el("section", { "aria-label": "Curves" }, charts), compared, el("section", { "aria-label": "A closer look" }, el("h2", {}, "A closer look"), ways),
    el("section", { "aria-label": "Held-out questions" }, el("h2", {}, "Held-out questions, before to after"), matrix));
  let drawn = "";
  return {
    box,
    draw: (run) => {
      redraw(raised, lost(run), alarms(run.lines));
      redraw(charts, run.lines.length ? figures(run) : []);
      redraw(compared, beforeAndAfter(run.lines));
      const state = JSON.stringify([run.train_steps, run.test_steps]);
      if (state !== drawn) redraw(ways, closer(source, run));
      drawn = state;
      redraw(matrix, questions(source, run.matrix));
    },
  };
}

// Rollouts under way that did not end by themselves, where they are more than one in fifty.
function lost({ lines, measured, settings }) {
  const written = new Set(lines.map((line) => `${line.split} ${line.step}`));
  return measured.filter((one) => !written.has(`${one.split} ${one.step}`)).map(({ rollouts, lost }) => {
    const number = Object.values(lost).reduce((sum, one) => sum + one, 0);
    const why = Object.entries(lost).map(([status, times]) => `${count(times)} ${status}`).join(", ");
    return 50 * number <= rollouts ? null : el("p", { class: "alarm" }, el("strong", {}, `${count(number)} of ${plural(rollouts, "rollout")} under way did not end: `),
      why, lost.timed_out ? `; a rollout has rollout_seconds=${settings.rollout_seconds ?? "?"}` : "");
  });
}

// The validations that lost too many tries, then the first alarm of each cause.
function alarms(lines) {
  const lost = lines.filter((line) => line.lost).map((line) => el("p", { class: "alarm" }, el("strong", {}, `Validation after step ${line.step}. `), line.lost));
  const found = new Map();
  for (const { step, alarm } of lines) if (alarm && !found.has(alarm.cause)) found.set(alarm.cause, { step, ...alarm });
  return [...lost, ...[...found.values()].map(({ step, cause, evidence, remedy }) => el("p", { class: "alarm" }, el("strong", {}, `Alarm at step ${step}: ${cause}. `), `${evidence}; ${remedy}`))];
}

function figures({ lines, measured }) {
  const intervals = new Map(measured.map((one) => [`${one.split} ${one.step}`, one.interval]));
  const of = (split, name, from = lines) => from.filter((line) => line.split === split && typeof line[name] === "number").map((line) => [line.step, line[name]]);
  const within = (split, points) => points.map(([step, value]) => [step, value, ...(intervals.get(`${split} ${step}`) ?? [])]);
  const both = (name, from) => [["training", of("train", name, from)], ["held-out", of("test", name, from), true]];
  const tools = (split) => measured.filter((one) => one.split === split).map((one) => [one.step, one.tools]);
  const chosen = tools("train");
  const totals = {};
  for (const [, parts] of chosen) for (const [tool, calls] of Object.entries(parts)) totals[tool] = (totals[tool] ?? 0) + calls;
  const frequent = Object.keys(totals).sort((a, b) => totals[b] - totals[a]);
  const order = frequent.length > 6 ? [...frequent.slice(0, 5), "others"] : frequent;
  const gathered = chosen.map(([step, parts]) => [step, Object.fromEntries(order.map((tool) => [tool, tool === "others" ? frequent.slice(5).reduce((sum, one) => sum + (parts[one] ?? 0), 0) : parts[tool] ?? 0]))]);
  return [
    curves("Reward and held-out accuracy", [["reward", within("train", of("train", "reward"))], ["reward of the finished", of("train", "reward_finished", lines.filter((line) => line.reward_finished !== line.reward))], ["held-out accuracy", within("test", of("test", "accuracy", lines.filter((line) => !line.lost))), true], ...passes(lines)], number(3), { bottom: 210 }),
    curves("Rollouts that were left out, share", both("left_out"), share),
    curves("Tool-call errors, share of calls", both("tool_error_rate"), share),
    stacks("Tools chosen, share of turns", gathered, order),
    curves("Signal, share of groups", [["groups", of("train", "groups_with_signal")]], share),
    curves("Supervised loss, nats a token", [["loss", of("train", "nll")]], number(3)),
    curves("KL to the reference", [["KL", of("train", "kl")]], number(4)),
    curves("Turns of a rollout", both("turns", measured), number(2)),
    curves("Tokens that the policy wrote, per rollout", both("sampled", measured), number(0)),
    curves("Tokens that the policy wrote, per second", [["tokens", of("train", "tokens_per_second")]], number(0)),
    curves("Tokens of a reply", [["tokens", of("train", "reply_tokens")]], number(1)),
    curves("Entropy, nats a token", [["entropy", of("train", "entropy")]], number(3)),
    curves("Change of a token's log-probability, nats", [["by the update", of("train", "logprob_change")], ["between the engines", of("train", "drift")]], number(4)),
    curves("Clipped share of tokens", [["clipped", of("train", "clip_fraction")]], share),
    ...byNode(lines),
    curves("Seconds of a step", [["step", of("train", "seconds/step")], ["rollouts", of("train", "seconds/rollouts")], ["update", of("train", "seconds/update")]], number(0)),
  ];
}

// pass@k of the held-out questions, for the most tries.
const passed = (line) => Object.entries(line.pass_at ?? {}).at(-1);
function passes(lines) {
  const tests = lines.filter((line) => line.split === "test" && !line.lost && passed(line));
  return tests.length ? [[`held-out pass@${passed(tests.at(-1))[0]}`, tests.map((line) => [line.step, passed(line)[1]]), true]] : [];
}

// Several nodes that learn: the same figures of each.
function byNode(lines) {
  const paths = [...new Set(lines.flatMap((line) => Object.keys(line.nodes ?? {})))].sort();
  const of = (name) => paths.map((path) => [path, lines.filter((line) => typeof line.nodes?.[path]?.[name] === "number").map((line) => [line.step, line.nodes[path][name]])]);
  return paths.length < 2 ? [] : [
    curves("Reward where a node spoke", of("reward"), number(3)),
    curves("Tokens of a reply, by node", of("reply_tokens"), number(1)),
    curves("Entropy by node, nats a token", of("entropy"), number(3)),
  ];
}

// The first and the last validation: accuracy by family, tools chosen, error classes.
function beforeAndAfter(lines) {
  const tests = lines.filter((line) => line.split === "test");
  if (tests.length < 2) return [];
  const sides = [tests[0], tests.at(-1)];
  const part = (counts, name) => `${((100 * (counts[name] ?? 0)) / Math.max(1, Object.values(counts).reduce((sum, one) => sum + one, 0))).toFixed(0)} % (${counts[name] ?? 0})`;
  const table = (title, field, value) => {
    const names = [...new Set(sides.flatMap((side) => Object.keys(side[field] ?? {})))].sort();
    return names.length === 0 ? null : el("table", { class: "list" }, el("thead", {}, el("tr", {}, [title, "before", "after"].map((name, at) => el("th", { scope: "col", class: at ? "n" : null }, name)))),
      el("tbody", {}, names.map((name) => el("tr", {}, el("th", { scope: "row" }, name || "(none)"), sides.map((side) => el("td", { class: "n" }, value(side[field] ?? {}, name)))))));
  };
  const tables = [table("family", "families", (shares, name) => (name in shares ? percent(shares[name]) : "–")), table("tool chosen", "tools", part), table("error of a turn", "errors", part)];
  const best = (side) => (passed(side) ? `, pass@${passed(side)[0]} ${percent(passed(side)[1])}` : "");
  const rate = (side) => side.lost ?? `${percent(side.accuracy)} right${best(side)}, ${percent(side.tool_error_rate)} of tool calls failed`;
  return [el("section", { "aria-label": "Before and after" }, el("h2", {}, "Before and after, held out"), el("p", { class: "quiet" }, `Step ${sides[0].step}: ${rate(sides[0])}. Step ${sides[1].step}: ${rate(sides[1])}.`),
    el("div", { class: "charts" }, tables.filter(Boolean).map((one) => region(`Before and after, by ${one.rows[0].cells[0].textContent}`, "card flush", one))))];
}

function closer(source, run) {
  const steps = run.train_steps;
  const select = (label, key, options, chosen) => el("label", {}, label, el("select", { "data-key": key }, options.map((step) => el("option", { value: step, selected: step === chosen }, `step ${step}`))));
  const parts = [];
  if (steps.length) {
    const which = select("Groups of", "groups", steps, steps.at(-1));
    parts.push(el("form", { onsubmit: (event) => { event.preventDefault(); location.hash = address("run", source, "step", which.lastChild.value); } },
      which, el("button", { "data-key": "open groups" }, "Show the trajectories and their advantages")));
  }
  if (run.test_steps.length > 1) {
    const [before, after] = [select("Before:", "before", run.test_steps, run.test_steps[0]), select("after:", "after", run.test_steps, run.test_steps.at(-1))];
    parts.push(el("form", { onsubmit: (event) => { event.preventDefault(); location.hash = `#/pairs?before=${source}&before_step=${before.lastChild.value}&after=${source}&after_step=${after.lastChild.value}`; } },
      before, after, el("button", { "data-key": "open pairs" }, "The same questions side by side")));
  }
  return parts.length ? parts : [el("p", { class: "quiet" }, "No step has been recorded yet.")];
}

function questions(source, { steps, rows }) {
  if (steps.length === 0) return [el("p", { class: "quiet" }, "No validation yet.")];
  const cell = (value, step, row) => el("td", {}, value === null ? "" : el("a", {
    class: "heat", href: `#/pairs?${new URLSearchParams({ before: source, before_step: steps[0], after: source, after_step: step, question: row.question })}`,
    "aria-label": `step ${step}: ${percent(value)} right`, title: `step ${step}: ${percent(value)} right`, "data-share": value === 0 ? "none" : value === 1 ? "all" : "some" }, value === 0 ? "✗" : value === 1 ? "✓" : `${Math.round(100 * value)}`));
  return [el("p", { class: "quiet" }, "A column is a validation, a row a question: ✓ right in every try, ✗ in none, else the percentage. A cell opens the question before and after."),
    region("Held-out questions by step", "card flush tall", el("table", { class: "matrix" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "question"), el("th", { scope: "col" }, "family"), steps.map((step) => el("th", { scope: "col", class: "n" }, String(step))))),
      el("tbody", {}, rows.slice(0, 300).map((row) => el("tr", {}, el("th", { scope: "row", class: "long" }, row.question.slice(0, 200)), el("td", { class: "quiet" }, row.family), row.shares.map((value, at) => cell(value, steps[at], row)))))))];
}
