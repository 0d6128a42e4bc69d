// Curves and bars by step, as SVG, each with its numbers as a table for those who do not see it.

import { el, region, svg } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 392, 12, 150];

// Round values from below `low` to above `high`, 1, 2 or 5 times a power of ten apart, whose labels differ.
export function ticks(low, high, label, most = 4) {
  if (high === low) high = low + (Math.abs(low) || 1);
  for (let power = 10 ** Math.floor(Math.log10((high - low) / most)); ; power *= 10) {
    for (const step of [1, 2, 5].map((digit) => digit * power)) {
      const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
      const found = Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
      if (found.length <= most + 1 && new Set(found.map(label)).size === found.length) return found;
    }
  }
}

// A label without the zeros that say nothing: 0.200 is 0.2, and 10.0 % is 10 %.
const bare = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

function scale(points, least, most, format, bottom) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const lines = ticks(Math.min(least, ...ys), Math.max(most, ...ys), (value) => bare(format(value)));
  const [low, high] = [lines[0], lines.at(-1)];
  return {
    first, last, lines, bottom,
    x: (step) => LEFT + ((RIGHT - LEFT) * (step - first)) / Math.max(1, last - first),
    y: (value) => bottom - ((bottom - TOP) * (value - low)) / (high - low),
  };
}

function frame({ first, last, lines, bottom, y, x }, format, unit) {
  const grid = lines.flatMap((value) => [
    svg("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: y(value), y2: y(value) }),
    svg("text", { class: "y", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, bare(format(value)))]);
  const steps = first === last ? [first] : ticks(first, last, (step) => step.toFixed(0)).filter((step) => step >= first && step <= last);
  const labels = steps.map((step) => svg("text", { class: "x", x: x(step), y: bottom + 20, "text-anchor": x(step) > RIGHT - 8 ? "end" : "middle" }, String(step)));
  return [...grid, ...labels, svg("text", { x: 0, y: bottom + 20 }, unit)];
}

// series: [name, [[step, value, low, high], …], dotted]; low and high, of an interval, may be missing.
export function curves(title, series, format, { least = 0, high = -Infinity, unit = "step", bottom = BOTTOM } = {}) {
  const kept = series.map(([name, points, dots]) => [name, points.filter(([, value]) => value !== null && value !== undefined), dots]).filter(([, points]) => points.length > 0);
  if (kept.length === 0) return null;
  const plane = scale(kept.flatMap(([, points]) => points.flatMap(([step, value, ...ends]) => [value, ...ends].map((one) => [step, one]))), least, high, format, bottom);
  const drawn = kept.map(([name, points, dots], at) => svg("g", { class: `series-${at}` },
    svg("polyline", { class: "curve", points: points.map(([step, value]) => `${plane.x(step).toFixed(1)},${plane.y(value).toFixed(1)}`).join(" ") }),
    dots ? points.filter(([, , below]) => below !== undefined).map(([step, , below, above]) => svg("line", { class: "curve", x1: plane.x(step), x2: plane.x(step), y1: plane.y(below), y2: plane.y(above) }))
      : svg("polygon", { class: "band", points: band(points, plane) }),
    (dots || points.length === 1 ? points : points.slice(-1)).map(([step, value]) => svg("circle", { class: "point", cx: plane.x(step), cy: plane.y(value), r: 3.5 },
      svg("title", {}, `${name}, ${unit} ${step}: ${format(value)}`)))));
  const said = kept.map(([name, points]) => `${name} ${format(points[0][1])} at ${unit} ${points[0][0]}, ${format(points.at(-1)[1])} at ${unit} ${points.at(-1)[0]}`).join("; ");
  return figure(title, svg("svg", { viewBox: `0 0 400 ${bottom + 26}`, role: "img", "aria-label": `${title}: ${said}` }, frame(plane, format, unit), drawn),
    kept.map(([name, points]) => [name, format(points.at(-1)[1])]), stepTable(kept, format, unit));
}

function band(points, plane) {
  const known = points.filter(([, , low]) => low !== undefined);
  const edge = (end) => known.map((point) => `${plane.x(point[0]).toFixed(1)},${plane.y(point[end]).toFixed(1)}`);
  return [...edge(2), ...edge(3).reverse()].join(" ");
}

// shares: [[step, { part: count }], …]
export function stacks(title, shares, order) {
  const steps = shares.filter(([, parts]) => Object.values(parts).some(Boolean));
  if (steps.length === 0) return null;
  const width = Math.min(40, (RIGHT - LEFT) / steps.length);
  const bars = steps.flatMap(([step, parts], at) => {
    const all = Object.values(parts).reduce((sum, one) => sum + one, 0);
    let top = BOTTOM;
    return order.map((part, number) => {
      const height = ((BOTTOM - TOP) * (parts[part] ?? 0)) / all;
      top -= height;
      return height === 0 ? null : svg("rect", { class: `part series-${number % 6}`, x: LEFT + at * width, y: top, width: Math.max(0.8, width - 1.5), height }, svg("title", {}, `step ${step}: ${part} ${(100 * (parts[part] ?? 0) / all).toFixed(1)} %`));
    });
  });
  const grid = [0, 0.5, 1].flatMap((share) => [svg("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: BOTTOM - (BOTTOM - TOP) * share, y2: BOTTOM - (BOTTOM - TOP) * share }),
    svg("text", { x: LEFT - 6, y: BOTTOM - (BOTTOM - TOP) * share + 4, "text-anchor": "end" }, `${100 * share} %`)]);
  const labels = [...new Set([0, steps.length - 1])].map((at) => svg("text", { class: "x", x: LEFT + (at + 0.5) * width, y: 170, "text-anchor": "middle" }, String(steps[at][0])));
  const share = (parts, part) => { const all = Object.values(parts).reduce((sum, one) => sum + one, 0); return all ? `${(100 * (parts[part] ?? 0) / all).toFixed(0)} %` : "–"; };
  const last = steps.at(-1)[1];
  const series = order.map((part) => [part, steps.map(([step, parts]) => [step, share(parts, part)])]);
  return figure(title, svg("svg", { viewBox: "0 0 400 176", role: "img", "aria-label": `${title}; the table below has the numbers` }, grid, bars, labels, svg("text", { x: 0, y: 170 }, "step")),
    order.map((part) => [part, share(last, part)]), stepTable(series, (value) => value));
}

function figure(title, drawing, legend, table) {
  const keys = legend.map(([name, value], at) => el("span", { class: "legend" }, el("span", { class: `key series-${at % 6}`, "aria-hidden": "true" }), `${name} `, el("b", {}, value)));
  return el("figure", { class: "card" }, el("figcaption", {}, title), drawing, el("p", { class: "legends" }, keys),
    el("details", { "data-key": `table ${title}` }, el("summary", {}, "As a table"), region(`${title}, table`, "low", table)));
}

function stepTable(series, format, unit = "step") {
  const steps = [...new Set(series.flatMap(([, points]) => points.map(([step]) => step)))].sort((a, b) => a - b);
  const values = series.map(([, points]) => new Map(points));
  return el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, unit), series.map(([name]) => el("th", { scope: "col", class: "n" }, name)))),
    el("tbody", {}, steps.map((step) => el("tr", {}, el("th", { scope: "row" }, String(step)), values.map((value) => el("td", { class: "n" }, value.has(step) ? format(value.get(step)) : "–"))))));
}
