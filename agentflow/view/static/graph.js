// The agent's graph, with the module at work lit, the edge that led there, and the memory as a stack that grows.

import { svg } from "./dom.js";

const NODES = {
  analyst: [16, 40, 104, "Analyst"], planner: [176, 40, 112, "Planner"], executor: [344, 40, 112, "Executor"],
  verifier: [512, 40, 112, "Verifier"], generator: [512, 150, 112, "Generator"],
};
const EDGES = {
  "analyst-planner": "M120 62H170", "planner-executor": "M288 62H338", "executor-verifier": "M456 62H506",
  "verifier-planner": "M568 38C568 4 232 4 232 34", "verifier-generator": "M568 84V144",
};
const MEMORY = 12;

export function agentGraph() {
  const nodes = Object.fromEntries(Object.entries(NODES).map(([name, [x, y, width, title]]) => [name, svg("g", { class: "node" },
    svg("rect", { x, y, width, height: 44, rx: 10 }), svg("text", { x: x + width / 2, y: y + 27, "text-anchor": "middle" }, title))]));
  const edges = Object.fromEntries(Object.entries(EDGES).map(([name, d]) => [name, svg("path", { class: "edge", d, "marker-end": "url(#arrow)" })]));
  const tool = svg("text", { class: "tool-name", x: 400, y: 164, "text-anchor": "middle" });
  const toolBox = svg("g", { class: "node tool-node" }, svg("rect", { x: 326, y: 140, width: 148, height: 38, rx: 19 }), tool);
  const call = svg("path", { class: "edge", d: "M400 84V134", "marker-end": "url(#arrow)", "marker-start": "url(#arrow)" });
  const blocks = Array.from({ length: MEMORY }, (_, at) => svg("rect", { class: "block", x: 180 + (at % 6) * 18, y: 146 + Math.floor(at / 6) * 18, width: 14, height: 14, rx: 3 }));
  const written = svg("text", { class: "small", x: 232, y: 196, "text-anchor": "middle" });
  const read = svg("path", { class: "edge", d: "M232 136V90", "marker-end": "url(#arrow)" });
  const signals = [svg("text", { class: "small", x: 400, y: 20, "text-anchor": "middle" }, "continue"), svg("text", { class: "small", x: 577, y: 118 }, "stop")];
  const label = svg("title", {});
  const drawing = svg("svg", { class: "graph", viewBox: "0 0 640 204", role: "img" }, label,
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0L8 4L0 8z" }))),
    Object.values(edges), call, read, svg("rect", { class: "memory-box", x: 172, y: 138, width: 120, height: 44, rx: 8 }), blocks, written, toolBox, Object.values(nodes), signals);

  // What is lit: a step, the one before it, and how many turns memory holds.
  return {
    drawing,
    show(step, before, turns) {
      for (const [name, node] of Object.entries(nodes)) node.classList.toggle("lit", name === step?.module);
      const led = `${before?.module}-${step?.module}`;
      for (const [name, edge] of Object.entries(edges)) edge.classList.toggle("lit", name === led);
      const calling = step?.module === "executor";
      toolBox.classList.toggle("lit", calling);
      toolBox.classList.toggle("wrong", calling && Boolean(step.wrong));
      call.classList.toggle("lit", calling);
      read.classList.toggle("lit", step?.module === "planner");
      tool.textContent = calling ? (step.tool || "no tool").slice(0, 20) : "tools";
      blocks.forEach((block, at) => block.classList.toggle("full", at < turns));
      written.textContent = `memory: ${turns} turn${turns === 1 ? "" : "s"}`;
      label.textContent = step ? `The graph; the ${step.module} is at work${calling ? ` with ${step.tool || "no tool"}` : ""}, memory holds ${turns} turns` : "The graph";
    },
  };
}
