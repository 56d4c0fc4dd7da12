// The history: what rsm keeps on the disk, of this run and of earlier ones.

import { place } from "./causes.js";
import { svg } from "./chart.js";
import { get } from "./data.js";
import { clock, count, duration, empty, fill, h, keep, name, plural, shown, when } from "./dom.js";
import { ListView, Table } from "./tables.js";
import { FORMS, parseTime } from "./time.js";

/** Events read at a time. */
const PAGE = 200;
/** Events that the page holds; older ones are reached by an earlier end. */
const MOST = 5000;
/** Convergences drawn as bars. */
const BARS = 60;

const node = (guid, text) => h("a", { href: `#/fabric/${encodeURIComponent(guid)}` }, name(text));
const portOf = (key, text) => h("a", { href: `#/fabric/${encodeURIComponent(key.node_guid)}${key.number ? `:${key.number}` : ""}` }, name(text), ` port ${key.number}`);
const end = (one) => portOf(one.port, one.description);
const link = (one) => [end(one.a), " – ", end(one.b)];
const port = (one) => portOf(one.key, one.node_description);
const finding = (one) => [shown(one.message), " ", h("span", { class: "sub mono" }, place(one) ? h("a", { href: place(one) }, shown(one.kind)) : shown(one.kind))];
const lost = () => "bad";

/** The changes of events: a tag, its colour, and what the change says. */
const CHANGES = {
  state_changed: ["state", (one) => (one.state === "up" ? "good" : one.state === "not-active" ? "bad" : "info"), (one) => [shown(one.state), one.reason ? `: ${shown(one.reason)}` : ""]],
  node_appeared: ["node found", () => "good", (one) => node(one.guid, one.description)],
  node_vanished: ["node lost", lost, (one) => node(one.guid, one.description)],
  node_changed: ["node changed", null, (one) => node(one.guid, one.description)],
  port_appeared: ["port found", null, port],
  port_vanished: ["port lost", null, port],
  port_changed: ["port", null, (one) => [port(one), `: ${shown(one.state ?? "changed")}`]],
  link_appeared: ["link found", () => "good", link],
  link_vanished: ["link lost", lost, link],
  link_changed: ["link", null, (one) => [link(one), `: ${shown(one.state ?? "changed")}`]],
  routes_changed: ["routes", null, (one) => `${plural(Number(one.entries), "entry", "entries")} in ${plural(one.switches, "switch", "switches")}`],
  finding_raised: ["finding", (one) => (one.severity === "error" ? "bad" : one.severity === "warning" ? "warn" : "info"), finding],
  finding_cleared: ["finding gone", () => "good", finding],
  manager_started: ["started", () => "info", (one) => `version ${shown(one.version)}, ${shown(one.fabric)}`],
  operator_acted: ["operator", (one) => (one.refusal ? "warn" : "info"), (one) => [
    h("b", {}, `${shown(one.action)} ${shown(one.detail)}`), one.refusal ? ` refused: ${shown(one.refusal)}` : "", h("div", { class: "sub" }, `by ${shown(one.operator)}`)]],
  events_unrecorded: ["gap", () => "warn", (one) => `${Number(one.count) ? plural(Number(one.count), "event") : "events"} not in the history: ${shown(one.reason)}`],
  convergence_finished: ["converged", (one) => (one.complete ? "info" : "bad"), (one) => {
    const { timing_ms: timing, smps } = one;
    const stages = ["discover", "plan", "push"].filter((stage) => timing?.[stage] > 0).map((stage) => `${stage} ${duration(timing[stage])}`);
    const facts = [...stages, `${count(smps?.get)} Gets`, `${count(smps?.set)} Sets`, one.complete ? "" : "the hardware does not hold the plan"];
    return [`in ${duration(timing?.total)}: ${shown(one.cause)}`, h("div", { class: "sub" }, facts.filter(Boolean).join(" · "))];
  }],
};

/** The kind of an event: the name of its change. */
export const kindOf = (event) => Object.keys(CHANGES).find((one) => event[one]);

/** Tag and text of an event. */
export function what(event) {
  const kind = kindOf(event);
  if (!kind) return "event of another version of rsm";
  const [tag, colour, text] = CHANGES[kind];
  return [h("span", { class: `tag ${colour?.(event[kind]) ?? ""}` }, tag), " ", text(event[kind]),
    event.manager ? h("div", { class: "sub" }, `recorded by the manager ${shown(event.manager)}`) : null];
}

const KINDS = [["", "All events"], ["finding", "Findings"], ["node", "Nodes"], ["link", "Links"], ["port", "Ports"], ["convergence", "Convergences"],
  ["operator", "Operators"], ["routes", "Routes"], ["manager", "State and starts"], ["gap", "Gaps"]];

export class HistoryView extends ListView {
  follows = ["convergence", "link", "node", "finding", "state", "operator", "manager"];

  constructor(root, go) {
    super(root, "History", "Convergences, events, findings that came and went, and requests of operators, as far back as rsm keeps them; the newest first. Times are those of this browser's zone.");
    this.go = go;
    const input = (id, label, hint, title) => h("div", { class: "field" }, h("label", { for: id }, label),
      h("input", { id, name: id, placeholder: hint, title, spellcheck: "false", autocomplete: "off", maxlength: 200 }));
    this.form = h("form", { class: "filters", role: "search", "aria-label": "Filter the history", onsubmit: (event) => this.submit(event) },
      input("since", "Since", "22:00, yesterday, 2h …", FORMS), input("until", "Until", "now", FORMS),
      input("node", "Node", "name, GUID or name:port"), input("cause", "Cause", "text of a cause or message"),
      h("div", { class: "field" }, h("label", { for: "kind" }, "Kind"),
        h("select", { id: "kind", name: "kind", onchange: () => this.form.requestSubmit() }, KINDS.map(([value, text]) => h("option", { value }, text)))),
      h("button", { class: "btn main", type: "submit" }, "Show"));
    fill(this.bar, this.form);
    this.table = new Table([
      { title: "Time", cell: (one) => when(one.at_unix_ms) },
      { title: "Event", wide: true, cell: what },
      { title: "Generation", num: true, cell: (one) => one.generation },
    ], -1);
    this.table.most = MOST + PAGE;
    this.bars = h("div", {});
    // Made once, so that a click meets them while events come.
    this.newest = h("p", { hidden: true }, "There are newer events. ", h("button", { class: "btn newest", type: "button", onclick: () => this.read() }, "Show the newest"));
    this.told = h("span", {});
    this.more = h("button", { class: "btn older", type: "button", onclick: () => this.older() }, "Show older ones");
    this.on = h("a", {}, "Go on from the oldest of these");
    this.below = h("div", { class: "empty" }, this.newest, this.told, this.more, this.on);
  }

  open(rest, fields) {
    for (const field of ["since", "until", "node", "cause", "kind"]) this.form.elements[field].value = fields.get(field) ?? "";
    return super.open(rest, fields);
  }

  submit(event) {
    event.preventDefault();
    const query = new URLSearchParams();
    for (const field of ["since", "until", "node", "cause", "kind"]) {
      const value = this.form.elements[field].value.trim();
      if (value) query.set(field, value);
    }
    this.go(query.size ? `history?${query}` : "history", true);
  }

  /** The fields of a request; times like “2h” are those of this moment. */
  wanted() {
    const of = (field) => this.fields.get(field) ?? "";
    return { since_unix_ms: parseTime(of("since")), until_unix_ms: parseTime(of("until")), node: of("node").trim(), cause: of("cause").trim() };
  }

  async changed(changes) {
    // Rows that are read would move away: the operator asks for newer ones.
    if (!(this.events?.length > PAGE)) return super.changed(changes);
    this.newer ||= Boolean(changes.any);
    this.drawBelow();
  }

  async load(signal) {
    const wanted = this.wanted();
    const kind = this.fields.get("kind") ?? "";
    // The same for all pages: a token is of one request.
    this.query = { ...wanted, kind, newest_first: true, page_size: PAGE };
    const [{ convergences }, page] = await Promise.all([
      get("convergences", { ...wanted, newest: BARS, page_size: BARS }, signal),
      get("events", this.query, signal),
    ]);
    this.convergences = convergences;
    this.events = page.events;
    this.token = page.next_page_token;
    this.newer = false;
    this.draw();
  }

  /** Reads the events before those that are shown. */
  async older() {
    await this.refresher.now(async (signal) => {
      const page = await get("events", { ...this.query, page_token: this.token }, signal);
      this.events = this.events.concat(page.events);
      this.token = page.next_page_token;
      this.draw();
    });
  }

  draw() {
    this.table.show(this.events);
    this.drawBelow();
    fill(this.bars, this.chart());
    keep(this.body, this.bars, this.events.length ? this.table.root
      : h("div", { class: "card" }, empty("No event", "None that is kept matches.")), this.below);
  }

  drawBelow() {
    const { events, token } = this;
    const oldest = events[events.length - 1];
    const again = new URLSearchParams(this.fields);
    // The end is not itself in the range; events of one moment may be on both sides of a page.
    if (oldest) again.set("until", new Date(Number(oldest.at_unix_ms) + 1).toISOString());
    this.newest.hidden = !this.newer;
    this.told.textContent = events.length ? `${plural(events.length, "event")} shown${token ? ". " : ": all that is kept and matches."}` : "";
    this.more.hidden = !token || events.length >= MOST;
    this.on.hidden = !token || events.length < MOST;
    this.on.href = `#/history?${again}`;
  }

  /** The last convergences as bars, as high as the logarithm of their duration. */
  chart() {
    const list = this.convergences;
    if (!list.length) return null;
    const last = list[list.length - 1];
    const high = (ms) => Math.max(3, Math.min(86, 12 + 16 * Math.log10(Math.max(ms, 0.3))));
    const bars = list.map((one, at) => {
      const title = svg("title", {});
      title.textContent = `${clock(one.finished_unix_ms)}: ${shown(one.cause)}, ${duration(one.timing_ms?.total)}`;
      const tall = high(one.timing_ms?.total ?? 0);
      return svg("rect", { x: at * 10 + 1, y: 88 - tall, width: 8, height: tall, rx: 1.5, class: one.complete ? "" : "bad" }, title);
    });
    return h("div", { class: "card" },
      h("div", { class: "figures" },
        h("div", {}, h("b", {}, duration(last.timing_ms?.total)), h("span", {}, "the last convergence of these")),
        h("div", {}, h("b", {}, count(last.smps?.get)), h("span", {}, "Gets")),
        h("div", {}, h("b", {}, count(last.smps?.set)), h("span", {}, "Sets")),
        h("div", {}, h("b", {}, last.complete ? "yes" : "no"), h("span", {}, "hardware holds the plan"))),
      h("div", { class: "pad" }, h("div", { class: "muted" }, `Durations of the last ${plural(list.length, "convergence")}, on a logarithmic scale`), svg("svg", { class: "spark", viewBox: `0 0 ${Math.max(list.length, 30) * 10} 90`, preserveAspectRatio: "none", role: "img", "aria-label": `Durations of the last ${list.length} convergences, on a logarithmic scale` }, ...bars)));
  }
}
