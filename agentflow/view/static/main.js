// Which page the address asks for, the colours, and when to look again: the server says so when a file has changed.

import { Missing, file } from "./data.js";
import { el, home } from "./dom.js";
import { runsPage } from "./runs.js";
import { tracePage } from "./trace.js";
import { runPage } from "./run.js";
import { groupsPage } from "./groups.js";
import { tokensPage } from "./tokens.js";
import { pairsPage } from "./pairs.js";
import { reportPage } from "./report.js";

const main = document.getElementById("main");
let page = null;
let wanted = 0;

function route() {
  const [path, query] = (location.hash.replace(/^#\/?/, "") || (file?.home.slice(2) ?? "")).split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const asked = Object.fromEntries(new URLSearchParams(query ?? ""));
  if (parts.length === 0) return [runsPage, {}];
  if (parts[0] === "pairs") return [pairsPage, asked];
  if (parts[0] === "report" && parts.length === 2) return [reportPage, { sources: parts[1], ...asked }];
  if (parts[0] === "run" && parts[2] === "step" && parts[4] === "tokens") return [tokensPage, { source: parts[1], step: parts[3], group: parts[5] }];
  if (parts[0] === "run" && parts[2] === "step") return [groupsPage, { source: parts[1], step: parts[3] }];
  if (parts[0] === "run" && parts.length === 3) return [tracePage, { source: parts[1], name: parts[2], ...asked }];
  if (parts[0] === "run" && parts.length === 2) return [runPage, { source: parts[1], ...asked }];
  return [null, {}];
}

async function go() {
  const [open, parameters] = route();
  const mine = (wanted += 1);
  page?.leave?.();
  page = null;
  document.body.dataset.ready = "no";
  const holder = el("div", { class: "page" });
  try {
    if (!open) throw new Missing("There is no such page.");
    const made = await open(holder, parameters);
    if (mine !== wanted) { made?.leave?.(); return; }
    page = made;
  } catch (error) {
    if (mine !== wanted) return;
    holder.replaceChildren(el("h1", {}, "Not found"), el("p", {}, problem(error)), el("p", {}, el("a", { href: home[1] }, home[0])));
    page = { refresh: go }; // what is asked for may be there after the next change
  }
  main.replaceChildren(holder);
  window.scrollTo(0, 0);
  page?.shown?.();
  document.body.dataset.ready = "yes";
}

const problem = (error) => (error instanceof Missing ? error.message : `The server does not answer (${error.message}).`);

// ---------------------------------------------------------------- changes

let refreshing = false;
let again = false;

async function refresh() {
  if (refreshing) { again = true; return; }
  refreshing = true;
  do {
    again = false;
    try {
      await page?.refresh?.();
    } catch (error) {
      if (!(error instanceof Missing || error instanceof TypeError)) throw error; // what is shown stays until the server is back
    }
    await new Promise((resolve) => setTimeout(resolve, 400));
  } while (again);
  refreshing = false;
}

function listen() {
  const connection = document.getElementById("connection");
  const say = (state, text) => { connection.className = `connection ${state}`; connection.textContent = text; };
  if (file) { say("still", `AgentFlow ${file.version}`); return; }
  const events = new EventSource("/api/events");
  let first = true;
  events.onopen = () => say("on", "watching");
  events.onerror = () => say("off", "the server is gone");
  events.onmessage = () => { if (!first) refresh(); first = false; };
}

// ---------------------------------------------------------------- colours

// A frame without an origin, as some sites show reports in, has no storage.
const stored = () => { try { return localStorage; } catch { return null; } };
const THEMES = [["", "as the system"], ["light", "light"], ["dark", "dark"]];

function colours() {
  const button = document.getElementById("theme");
  let at = Math.max(0, THEMES.findIndex(([name]) => name === (stored()?.getItem("theme") ?? "")));
  const apply = () => {
    document.documentElement.style.colorScheme = THEMES[at][0] || "light dark";
    button.setAttribute("aria-label", `Colours: ${THEMES[at][1]}`);
    button.title = `Colours: ${THEMES[at][1]}`;
  };
  button.addEventListener("click", () => { at = (at + 1) % THEMES.length; stored()?.setItem("theme", THEMES[at][0]); apply(); });
  apply();
}

document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", go);
colours();
listen();
go();
