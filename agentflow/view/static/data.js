// Where data comes from: the server, or the page's own file, which is then a report (`agentflow/view/export.py`).

export class Missing extends Error {}

const blocks = [...document.querySelectorAll("script.data")];

async function unpacked(block) {
  const bytes = Uint8Array.from(atob(block.textContent), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// The data of a report; null where a server is asked.
export const file = blocks.length ? JSON.parse(await unpacked(blocks[0])) : null;
const kept = new Map(file ? JSON.parse(await unpacked(blocks[1])).map((row, place) => [row, place]) : []); // where the texts of a row are
const rows = file ? Array.from({ length: file.rows }, (_, number) => ({ number, ...Object.fromEntries(
  Object.entries(file.columns).map(([name, { values, at }]) => [name, values[at ? at[number] : number]])) })) : [];

export async function get(path, parameters = {}) {
  const asked = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  if (file) return answer(path.split("/").slice(2).map(decodeURIComponent), Object.fromEntries(asked));
  const reply = await fetch(`${path}${asked.size ? `?${asked}` : ""}`);
  if (!reply.ok) throw new Missing(await reply.text());
  return reply.json();
}

// ---------------------------------------------------------------- answers from the file, as view/app.py gives them

async function answer([kind, ids, what, name, , group], asked) {
  const found = kind === "pairs" ? pairs(asked) : kind === "reports" ? file.report
    : what === "traces" ? (name === undefined ? select(ids.split(","), asked) : trace(ids, name))
    : what === "steps" ? (group === undefined ? file.steps?.[name] : file.tokens?.[`${name}/${group}`]) : file.sources[ids];
  if (!found) throw new Missing("This report does not have it.");
  return found;
}

const parts = new Map();

function linesOf(part) {
  if (!parts.has(part)) parts.set(part, unpacked(blocks[2 + part]).then((lines) => lines.split("\n")));
  return parts.get(part);
}

const lineOf = async (row) => (kept.has(row.number) ? (await linesOf(Math.floor(kept.get(row.number) / file.part)))[kept.get(row.number) % file.part] : null);

const VALUES = { question: (row) => row.question.toLowerCase(), reward: (row) => row.reward ?? -1 };

async function select(ids, asked) {
  const all = rows.filter((row) => ids.includes(row.source));
  let found = all.filter((row) => ["outcome", "family", "benchmark"].every((name) => !asked[name] || asked[name] === row[name])
    && (!asked.tool || row.tools.includes(asked.tool)) && (!asked.error || row.errors.includes(asked.error))
    && (!asked.split || row.id.includes(`-${asked.split}-`)) && (!asked.step || row.step === Number(asked.step)));
  const text = (asked.text ?? "").trim().toLowerCase();
  if (text) {
    const [escaped, lines] = [JSON.stringify(text).slice(1, -1), await Promise.all(found.map(lineOf))];
    found = found.filter((row, at) => [row.question, row.answer, row.gold].some((one) => one.toLowerCase().includes(text))
      || (lines[at] ?? "").replace(/"\w+":/g, "").toLowerCase().includes(escaped)); // the names of fields are no text
  }
  const value = VALUES[asked.order] ?? ((row) => row[asked.order]);
  if ((asked.order ?? "written") !== "written") found.sort((a, b) => (asked.down ? -1 : 1) * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  else if (asked.down) found.reverse();
  const start = Number(asked.offset ?? 0);
  return { all: all.length, number: found.length, correct: found.filter((row) => row.outcome === "correct").length, rows: found.slice(start, start + Number(asked.limit)) };
}

async function trace(id, name) {
  const own = rows.filter((row) => row.source === id);
  const at = own.findIndex((row) => row.id === name);
  if (at < 0) return null;
  const row = own[at];
  const line = await lineOf(row);
  const same = rows.filter((one) => one !== row && row.question && one.question === row.question && one.task === row.task);
  const note = file.hidden.includes(row.benchmark) ? "The terms of this benchmark forbid showing its questions, and turns repeat them; its texts are left out."
    : "The file is as large as it may be; the texts of this trace are left out.";
  const { name: run, kind } = file.sources[id];
  return { ...row, ...(line ? JSON.parse(line) : { note }), source: { id, name: run, kind }, previous: own[at - 1]?.id ?? null, next: own[at + 1]?.id ?? null,
    same: same.slice(0, 60).map((one) => ({ ...one, from: file.sources[one.source].name })), same_number: same.length };
}

const ORDER = ["gained", "lost", "wrong", "right"];

function pairs(asked) {
  const [before, after] = ["before", "after"].map((name) => {
    const source = file.sources[asked[name]];
    const steps = source.test_steps ?? [];
    const step = Number(asked[`${name}_step`] ?? steps.at(-1));
    const own = rows.filter((row) => row.source === source.id && row.question && (!asked.benchmark || row.benchmark === asked.benchmark)
      && (source.kind !== "training" || row.id.startsWith(`${step}-test-`)));
    return { about: { ...source, step, test_steps: steps }, tries: Map.groupBy(own, (row) => row.question) };
  });
  const share = (tries) => tries.filter((row) => row.outcome === "correct").length / tries.length;
  const found = [...before.tries].filter(([question]) => after.tries.has(question)).map(([question, one]) => {
    const [other, { gold, family }] = [after.tries.get(question), one[0]];
    const [earlier, later] = [share(one), share(other)];
    return { question, gold, family, before: one, after: other, change: earlier === later ? (later > 0.5 ? "right" : "wrong") : later > earlier ? "gained" : "lost" };
  });
  const counts = Object.fromEntries(ORDER.map((change) => [change, found.filter((one) => one.change === change).length]));
  found.sort((a, b) => ORDER.indexOf(a.change) - ORDER.indexOf(b.change));
  return { pairs: found, number: found.length, counts, before: before.about, after: after.about };
}
