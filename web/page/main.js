// The frame: status strip, views by the address after #, search, theme.

import { connect, follow, get, manages, store } from "./data.js";
import { arrows, clock, count, duration, fill, h, name, noun, plural, refill, shown } from "./dom.js";
import { FabricView, loadScene, shared } from "./fabric.js";
import { GpusView } from "./gpus.js";
import { HistoryView } from "./history.js";
import { OverviewView } from "./overview.js";
import { PathView } from "./path.js";
import { ReportView } from "./report.js";
import { FindingsView, LinksView, PartitionsView } from "./tables.js";
import { WhatIfView } from "./whatif.js";

const VIEWS = {
  overview: ["Overview", OverviewView],
  fabric: ["Fabric", FabricView],
  path: ["Path", PathView],
  findings: ["Findings", FindingsView],
  report: ["Report", ReportView],
  history: ["History", HistoryView],
  links: ["Links", LinksView],
  partitions: ["Partitions", PartitionsView],
  "what-if": ["What if", WhatIfView],
  "gpu-hosts": ["GPU hosts", GpusView],
};

const by = (id) => document.getElementById(id);
let view;
let viewName;
/** The next view that is shown takes the focus. */
let toView = false;

function go(where, again = false) {
  const hash = `#/${where}`;
  if (location.hash === hash && again) show();
  else location.hash = hash;
}

/** A part of the address; one that is not encoded as it should be is taken as it stands. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Shows the view that the address names. */
async function show() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...rest] = path.split("/");
  const wanted = VIEWS[first] ? first : "overview";
  if (wanted !== viewName) {
    view?.close();
    viewName = wanted;
    const [title, View] = VIEWS[wanted];
    document.title = `${title} – rsm`;
    view = new View(by("view"), go);
    tabs();
  }
  const opened = view.open(rest[0] ? decoded(rest[0]) : undefined, new URLSearchParams(query));
  if (toView) view.focus?.();
  toView = false;
  await opened;
}

/** The tabs are made once: the one that has the focus keeps it while the fabric changes. */
const TABS = Object.entries(VIEWS).map(([key, [title]]) => {
  const number = h("span", { class: "count", hidden: true });
  return { key, number, link: h("a", { href: `#/${key}` }, title, number) };
});

function tabs() {
  const findings = store.status?.findings;
  const total = findings ? Number(findings.error) + Number(findings.warning) : 0;
  for (const { key, number, link } of TABS) {
    if (key === viewName) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    number.hidden = key !== "findings" || !total;
    number.textContent = count(total);
  }
}

/** How many parts routes go around, with the first names as a tip. */
function avoidedChip(avoided) {
  const counts = [["draining", "being drained"], ["drained", "drained"], ["isolated", "isolated"], ["in_use", "in use all the same"]]
    .filter(([key]) => Number(avoided?.[key])).map(([key, words]) => `${count(avoided[key])} ${words}`);
  return counts.length ? h("span", { class: "chip warn", title: avoided.names.map(shown).join(", ") }, counts.join(", ")) : null;
}

const STATES = { up: "good", degraded: "warn", converging: "info", discovering: "info", standby: "info", "not-active": "bad" };

/** What must be known before anything else on the page is believed; empty where all of it holds. */
function notice() {
  const { status, connected, heard } = store;
  if (!connected && status) return `No connection to rsm since ${clock(heard)}. All that is shown is from before; the page connects again by itself.`;
  if (!connected && heard === 0) return failed ? "rsm does not answer, or serves too many pages already. The page tries again by itself." : "";
  if (status?.state === "standby") return `This rsm stands by: ${status.master ? `${status.master.guid} is master and` : "another subnet manager"} manages the subnet. Routes, findings and counts are its own last view, not what is in force.`;
  if (status?.state === "not-active") return `rsm is not attached to the fabric${status.state_reason ? `: ${shown(status.state_reason)}` : ""}. It manages nothing now; what is shown is what it saw last.`;
  return "";
}

/** Whether the stream of changes has failed before anything came. */
let failed = false;

/** Who asks, where the server asks for users. */
let me = {};
get("me").then((answer) => {
  me = answer;
  strip();
}, () => {});

function strip() {
  const { status, connected, heard } = store;
  failed ||= !connected;
  const text = notice();
  by("notice").hidden = !text;
  if (by("notice").textContent !== text) by("notice").textContent = text;
  document.documentElement.dataset.connected = connected ? "yes" : "no";
  if (!status) return;
  const chip = (kind, href, ...children) => h(href ? "a" : "span", { class: `chip ${kind ?? ""}`, href }, children);
  const missing = status.missing?.summary;
  const state = connected
    ? h("span", { class: `chip ${STATES[status.state] ?? ""}`, title: shown(status.state_reason) }, h("span", { class: "dot" }), h("b", {}, status.state ?? "unknown"), missing ? h("span", { class: "missing" }, missing) : null)
    : h("span", { class: "chip bad" }, h("span", { class: "dot" }), h("b", {}, "not connected"), `${status.state ?? "unknown"} at ${clock(heard)}`);
  const last = status.last_convergence;
  refill(by("strip"), state,
    status.state === "standby" && status.master ? chip("", undefined, `master ${status.master.guid}, priority ${status.master.priority}`) : null,
    findingsChip(status, chip), proofChip(status, chip),
    last ? chip("", "#/history", h("b", {}, duration(last.timing_ms?.total)), h("span", { class: "muted cut", title: shown(last.cause) }, shown(last.cause))) : null,
    progressChip(status, chip),
    chip("", undefined, h("b", {}, count(status.switches)), h("span", { class: "muted" }, noun(status.switches, "switch", "switches")), h("b", {}, count(status.cas)), h("span", { class: "muted" }, noun(status.cas, "host")), h("b", {}, count(status.links)), h("span", { class: "muted" }, noun(status.links, "link"))),
    avoidedChip(status.avoided),
    status.engine ? chip("", undefined, h("span", { class: "muted" }, "engine"), h("b", {}, status.engine.name)) : null,
    me.name ? h("span", { class: "chip", title: me.roles }, h("span", { class: "muted" }, "user"), h("b", {}, shown(me.name))) : null);
  document.documentElement.dataset.state = connected ? status.state : "not-connected";
}

/** What is done of how much, while the subnet is brought up or changed. */
function progressChip(status, chip) {
  const { activity } = status;
  if (!activity || !["converging", "discovering"].includes(status.state)) return null;
  const [sets, of] = [Number(activity.sets_acknowledged), Number(activity.sets_expected)];
  const settled = Number(activity.questions_settled);
  const words = {
    sweeping: `sweeping: ${count(activity.nodes)} nodes found, ${count(settled)} of ${count(settled + Number(activity.questions_open))} questions answered so far`,
    planning: "computing routes",
    pushing: `writing: ${count(sets)} of about ${count(of)} (${of ? Math.floor((sets / of) * 100) : 0} %)`,
  };
  return words[activity.stage] ? chip("info", undefined, words[activity.stage]) : null;
}

function findingsChip(status, chip) {
  const findings = status.findings ?? {};
  const words = [Number(findings.error) && plural(Number(findings.error), "error"), Number(findings.warning) && plural(Number(findings.warning), "warning")].filter(Boolean);
  if (!words.length && !manages(status)) return null;
  return chip(Number(findings.error) ? "bad" : Number(findings.warning) ? "warn" : "", "#/findings", words.join(", ") || "no findings");
}

function proofChip(status, chip) {
  const proof = status.verify;
  if (!manages(status)) return null;
  if (!proof) return chip("", undefined, "no proof yet");
  const unreachable = Number(proof.unreachable_pairs ?? 0);
  const words = unreachable ? `${count(unreachable)} pairs unreachable` : !proof.loop_free ? "routes loop" : !proof.credit_loop_free ? "credit loops" : "proved";
  return chip(words === "proved" ? "good" : "bad", undefined, words);
}

// Search: switches from the scene at once, hosts from the server.

let searching;
let options = [];
let chosen = -1;

function draw(note) {
  const list = by("found");
  list.hidden = !options.length && !note;
  by("find").setAttribute("aria-expanded", String(!list.hidden));
  fill(list, options.map((one, at) => h("li", { role: "option", id: `found-${at}`, "aria-selected": String(at === chosen), onpointerdown: (event) => { event.preventDefault(); pick(at); } },
    name(one.name), h("span", { class: "muted" }, one.what))), note ? h("li", { class: "none" }, shown(note)) : null);
  if (chosen >= 0) by("find").setAttribute("aria-activedescendant", `found-${chosen}`);
  else by("find").removeAttribute("aria-activedescendant");
}

async function search() {
  const text = by("find").value.trim();
  searching?.abort();
  searching = new AbortController();
  const { signal } = searching;
  options = [];
  chosen = -1;
  if (!text) return draw();
  const scene = shared.scene ?? await loadScene().catch(() => null);
  if (signal.aborted) return;
  const switches = scene?.find(text, 8).map((at) => ({ guid: scene.guid[at], name: scene.name[at], what: `${scene.isGone(at) ? "gone · " : ""}${scene.tierName(scene.tier(at)).replace(/s$/, "")} · LID ${scene.lid[at]}` })) ?? [];
  options = switches;
  chosen = options.length ? 0 : -1;
  draw(options.length ? undefined : "Looking for hosts …");
  await new Promise((later) => setTimeout(later, 120));
  if (signal.aborted) return;
  // What the server says where no node that is there has the name: it may be gone.
  let answer;
  const hosts = await Promise.all([
    get("node", { node: text }, signal).then(({ node }) => [node]).catch((error) => { answer = error.message; return []; }),
    get("nodes", { kind: "ca", description_contains: text, page_size: 12 }, signal).then(({ nodes }) => nodes).catch(() => []),
  ]);
  if (signal.aborted) return;
  const known = new Set(options.map((one) => one.guid));
  for (const node of hosts.flat()) {
    if (known.has(node.guid)) continue;
    known.add(node.guid);
    options.push({ guid: node.guid, name: node.description, what: `${node.kind === "ca" ? "host" : node.kind} · LID ${node.lids[0] ?? "none"}` });
  }
  if (chosen < 0 && options.length) chosen = 0;
  draw(options.length ? undefined : answer);
}

function pick(at) {
  const one = options[at];
  if (!one) return;
  options = [];
  by("find").value = "";
  by("find").blur();
  draw();
  toView = true;
  go(`fabric/${one.guid}`, true);
}

function listenToSearch() {
  const find = by("find");
  // Where the focus was: Escape gives it back.
  let before = null;
  find.addEventListener("input", search);
  find.addEventListener("blur", () => { options = []; draw(); });
  find.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = options.length ? (chosen + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length : -1;
      draw();
      event.preventDefault();
    } else if (event.key === "Escape") {
      find.value = "";
      find.blur();
      before?.focus({ preventScroll: true });
    }
  });
  by("search").addEventListener("submit", (event) => {
    event.preventDefault();
    pick(chosen);
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      before = document.activeElement;
      find.focus();
    }
  });
}

// Light and dark: the system's, until the operator chooses.

const system = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch { /* Storage is forbidden: the system's theme then. */ }
  document.documentElement.dataset.theme = kept ?? (system.matches ? "dark" : "light");
  view?.restyle?.();
}

by("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", next);
  } catch { /* It lasts as long as the page, then. */ }
  document.documentElement.dataset.theme = next;
  view?.restyle?.();
});
system.addEventListener("change", theme);

// The address after # names views: the link to the content must not.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  by("view").focus();
});

fill(by("tabs"), TABS.map(({ link }) => link));
arrows(by("tabs"), "a", "ArrowLeft", "ArrowRight");
theme();
listenToSearch();
follow((changes) => {
  strip();
  tabs();
  view?.changed?.(changes);
});
addEventListener("hashchange", show);
connect();
show();
