// One evaluation, training or file of traces.

import { file, get } from "./data.js";
import { address, badge, bar, breakable, count, el, home, liveDot, percent, plural, redraw, trail } from "./dom.js";
import { traceList } from "./traces.js";
import { trainingSections } from "./training.js";

export async function runPage(holder, { source, ...asked }) {
  const about = el("div", {});
  let run = await get(`/api/sources/${source}`);
  trail(home, [run.name]);
  const training = run.kind === "training" ? trainingSections(source) : null;
  const steps = training ? [...new Set([...run.train_steps, ...run.test_steps])].sort((a, b) => a - b) : [];
  const remember = (state) => history.replaceState(null, "", `#/run/${source}${Object.keys(state).length ? `?${new URLSearchParams(state)}` : ""}`);
  const list = traceList(source, run.kind, { ...run.choices, steps }, asked, remember, { fold: run.kind === "training" });
  holder.append(about, training?.box ?? "", list.box);
  const draw = () => { redraw(about, heading(run)); training?.draw(run); };
  draw();
  await list.refresh();
  return {
    refresh: async () => {
      run = await get(`/api/sources/${source}`);
      draw();
      await list.refresh(true);
    },
  };
}

function heading(run) {
  const parts = [el("h1", {}, run.name, " ", liveDot(run.live))];
  if (run.kind === "evaluation") parts.push(evaluationFacts(run), file || !run.ended ? null : el("p", {}, el("a", { href: address("report", run.id), "data-key": "report" }, "Report: families, tools, audit, and the paper’s numbers")));
  if (run.kind === "training") parts.push(run.doing ? el("p", { class: "doing", role: "status" }, run.doing) : null, trainingFacts(run));
  if (run.broken) parts.push(el("p", { class: "warn" }, `${plural(run.broken, "line")} of its files could not be read and ${run.broken === 1 ? "is" : "are"} left out.`));
  return el("div", { class: "heading" }, parts.filter(Boolean));
}

const fact = (name, ...value) => el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, ...value));

function evaluationFacts(run) {
  const outcomes = run.choices.outcome.map(([outcome, number]) => el("span", { class: "of" }, badge(outcome), ` ${count(number)}`));
  return el("dl", { class: "facts" },
    fact("accuracy", el("b", { class: "big" }, percent(run.ended < run.number ? run.so_far : run.accuracy)), run.ended < run.number ? " so far" : "", bar(run.so_far, `accuracy ${percent(run.so_far)}`, "right")),
    fact("ended", `${count(run.ended)} of ${count(run.number)}`, bar(run.number ? run.ended / run.number : 0, `${run.ended} of ${run.number}`)),
    fact("benchmark", run.what ?? "unknown: its settings cannot be read"), fact("planner", run.planner ?? ""), fact("outcomes", ...outcomes));
}

function trainingFacts(run) {
  const own = run.settings;
  return el("dl", { class: "facts" },
    fact("step", el("b", { class: "big" }, String(run.step)), ` of ${run.steps}`, bar(run.steps ? run.step / run.steps : 0, `step ${run.step} of ${run.steps}`)),
    fact("a step", `${own.questions ?? "?"} questions × ${own.rollouts ?? "?"} rollouts`), fact("learning rate", String(own.lr ?? "?")),
    fact("KL weight", String(own.kl ?? "?")), fact("clip", `${own.clip_low ?? "?"} / ${own.clip_high ?? "?"}`),
    fact("algorithm", own.flow?.algorithm?.name ?? "?"), fact("app", breakable(own.app ?? "?")), fact("seed", String(own.seed ?? "?")));
}

