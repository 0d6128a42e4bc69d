// The same questions in two places: what was gained, what was lost, and how each was gone about.

import { get } from "./data.js";
import { address, el, home, percent, plural, redraw, trail } from "./dom.js";
import { column } from "./trace.js";

const CHANGES = { gained: "gained", lost: "lost", wrong: "still wrong", right: "still right" };

export async function pairsPage(holder, asked) {
  const load = () => get("/api/pairs", { before: asked.before, before_step: asked.before_step, after: asked.after, after_step: asked.after_step, benchmark: asked.benchmark });
  let found = await load();
  const names = ["before", "after"].map((side) => sideName(found[side], found.before.id === found.after.id));
  trail(home, found.before.id === found.after.id ? [found.before.name, address("run", found.before.id)] : null, ["Side by side"]);
  const [head, list, pair] = [el("div", { class: "heading" }), el("nav", { class: "pairs card", "aria-label": "Questions" }), el("section", { class: "pair", "aria-label": "Side by side", "aria-live": "polite" })];
  holder.append(head, el("div", { class: "beside" }, list, pair));
  let change = asked.change in CHANGES ? asked.change : "";
  let chosen = Math.max(0, found.pairs.findIndex((one) => one.question === asked.question || (!asked.question && one.change === change)));
  let latest = 0;

  const draw = () => {
    const filter = (name) => el("button", { type: "button", class: `filter ${name}`, "aria-pressed": String(change === name), "data-key": `filter ${name}`, onclick: () => { change = change === name ? "" : name; draw(); } }, `${found.counts[name]} ${CHANGES[name]}`);
    redraw(head, el("h1", {}, "Side by side"), el("p", { class: "sides" }, el("b", {}, names[0]), " → ", el("b", {}, names[1])),
      el("p", { class: "quiet" }, `${plural(found.number, "question")} of both.`), el("div", { class: "changes", role: "group", "aria-label": "Show only" }, Object.keys(CHANGES).map(filter)));
    redraw(list, el("ul", {}, found.pairs.map((one, at) => (change && one.change !== change ? null : el("li", {}, el("button", { type: "button", class: `pick ${one.change}`, "data-key": `pick ${at}`, "aria-current": at === chosen ? "true" : null, onclick: () => { chosen = at; draw(); open(); } },
      el("span", { class: "change" }, CHANGES[one.change]), one.question))))));
  };

  async function open() {
    const one = found.pairs[chosen];
    const mine = (latest += 1);
    if (!one) { redraw(pair, el("p", {}, "There is no question that both have.")); return; }
    const sides = await Promise.all(["before", "after"].map((side) => get(`/api/sources/${found[side].id}/traces/${encodeURIComponent(one[side][0].id)}`)));
    if (mine !== latest) return;
    const right = (tries) => (tries.length > 1 ? ` ${percent(tries.filter((each) => each.outcome === "correct").length / tries.length)} of ${tries.length} tries right; the first:` : "");
    if (sides.some((side) => side.note)) { redraw(pair, el("p", { class: "warn" }, sides.find((side) => side.note).note)); return; }
    redraw(pair, el("h2", {}, one.question), el("p", { class: "quiet" }, [one.family, one.gold ? `gold: ${one.gold}` : ""].filter(Boolean).join(" · ")),
      el("div", { class: "columns" }, ["before", "after"].map((side, at) => el("section", { class: "card", "aria-label": names[at] }, el("h3", {}, names[at], el("small", {}, right(one[side]))), column(sides[at])))));
  }

  draw();
  await open();
  return { refresh: async () => {
    const question = found.pairs[chosen]?.question;
    found = await load();
    chosen = Math.max(0, found.pairs.findIndex((one) => one.question === question));
    draw();
  } };
}

function sideName(side, same) {
  if (side.kind === "training") return same ? `Step ${side.step}` : `${side.name}, step ${side.step}`;
  return side.planner ? `${side.name} (${side.planner})` : side.name;
}

