// The overview: state, what is wrong, traffic and errors, last changes, managers.

import { cause, causes } from "./causes.js";
import { all, get, manages, store } from "./data.js";
import { clock, count, duration, empty, fill, h, name, noun, plural, problem, refill, shown, spinner, when } from "./dom.js";
import { kindOf, what } from "./history.js";
import { PastCharts } from "./past.js";
import { Refresher } from "./refresh.js";

/** Causes that are shown; the others are among the findings. */
const CAUSES = 8;
/** Events that are read for the last changes, and changes that are shown. */
const [EVENTS, CHANGES] = [300, 12];

/** Events that say nothing that others do not, such as ports of a link that is gone. */
const MINOR = ["port_appeared", "port_vanished", "port_changed", "routes_changed"];
/** States of every pass. */
const PASSING = ["converging", "up", "degraded"];

const figure = (value, text, href) => h("div", {}, h("b", {}, href ? h("a", { href }, value) : value), h("span", {}, text));
const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);

export class OverviewView {
  constructor(root) {
    this.state = h("div", {});
    this.wrong = h("div", {}, spinner("Reading findings"));
    this.changes = h("div", {}, spinner("Reading the last changes"));
    this.managers = h("div", {});
    this.past = new PastCharts();
    this.findings = new Refresher((signal) => this.readFindings(signal), (error) => fill(this.wrong, problem(error)));
    this.events = new Refresher((signal) => this.readEvents(signal), (error) => fill(this.changes, problem(error)));
    fill(root, h("div", { class: "page overview" },
      h("div", { class: "bar" }, h("h1", {}, "Overview"), h("a", { class: "btn", href: "#/report" }, "Report")),
      this.state,
      h("div", { class: "columns" },
        h("div", {}, card("What is wrong", this.wrong), card("Last changes", this.changes)),
        h("div", {}, h("section", { class: "card pad" }, this.past.root), card("Managers", this.managers)))));
    this.draw();
  }

  close() {
    this.past.close();
    this.findings.stop();
    this.events.stop();
  }

  /** What is wrong comes first, the past last. */
  async open() {
    await this.findings.now();
    await this.events.now();
    await this.past.open();
  }

  async changed(changes) {
    this.draw();
    await Promise.all([
      changes.finding || changes.state || changes.any ? this.findings.changed() : null,
      changes.any ? this.events.changed() : null,
    ]);
  }

  /** What the stream of changes has brought. */
  draw() {
    const { status } = store;
    if (!status) return fill(this.state, spinner("Waiting for rsm"));
    refill(this.state, this.summary(status));
    refill(this.managers, managers(status), receivers(status));
  }

  summary(status) {
    const ports = Number(status.ports_active) + Number(status.ports_not_active);
    const missing = status.missing?.summary;
    const { verify: proof, last_convergence: last } = status;
    const broken = Number(proof?.unreachable_pairs ?? 0);
    const proved = !proof ? "not yet" : broken ? `${count(broken)} pairs unreachable` : !proof.loop_free ? "loops" : !proof.credit_loop_free ? "credit loops" : "yes";
    const reason = [status.state_reason, missing].filter(Boolean).map(shown).join("; ");
    return h("section", { class: `card state ${status.state ?? ""}` },
      h("p", { class: "row pad" }, h("b", {}, store.connected ? shown(status.state) : "not connected"), reason ? h("span", {}, reason) : null,
        h("span", { class: "muted" }, `${shown(status.fabric)}, rsm ${shown(status.version)}, running for ${duration(Number(status.uptime_ms))}`)),
      h("div", { class: "figures" },
        figure(count(status.switches), noun(status.switches, "switch", "switches")),
        figure(count(status.cas), noun(status.cas, "host adapter")),
        figure(count(status.links), noun(status.links, "cable"), "#/links"),
        figure(`${count(status.ports_active)} of ${count(ports)}`, "cabled ports active"),
        figure(proved, "routes proved"),
        figure(shown(status.engine?.name) || "–", "routing engine"),
        last ? figure(duration(last.timing_ms?.total), `last convergence, at ${clock(last.finished_unix_ms)}`, "#/history") : null));
  }

  async readFindings(signal) {
    const { list, more } = await all("findings", "findings", {}, signal);
    if (!list.length) {
      return fill(this.wrong, store.status && !manages(store.status)
        ? empty("Nothing is known", "This rsm does not manage the subnet now: it looks for no faults.")
        : empty("Nothing is wrong", "No finding holds now."));
    }
    const found = causes(list);
    refill(this.wrong,
      h("ul", { class: "causes" }, found.slice(0, CAUSES).map(cause)),
      h("p", { class: "foot" }, h("a", { href: "#/findings" }, `${plural(list.length, "finding")}${more ? " and more" : ""} of ${plural(found.length, "cause")}`)));
  }

  async readEvents(signal) {
    const { events } = await get("events", { newest_first: true, page_size: EVENTS }, signal);
    const told = events.filter((event) => !MINOR.includes(kindOf(event)) && !PASSING.includes(event.state_changed?.state));
    if (!told.length) return fill(this.changes, empty("No change", "None that is kept."));
    refill(this.changes,
      h("ul", { class: "changes" }, alike(told).slice(0, CHANGES).map((events) => h("li", {},
        when(events[0].at_unix_ms), h("div", {}, what(events[0]),
          events.length > 1 ? h("div", { class: "sub" }, `and ${count(events.length - 1)} more like it`) : null)))),
      h("p", { class: "foot" }, h("a", { href: "#/history" }, "All that is kept")));
  }
}

/** Successive events of one kind together: a switch that goes takes its links along. */
function alike(events) {
  const found = [];
  for (const event of events) {
    const last = found[found.length - 1];
    const kind = kindOf(event);
    if (last && kind !== "convergence_finished" && kindOf(last[0]) === kind) last.push(event);
    else found.push([event]);
  }
  return found;
}

/** The role of this manager, and who stands by. */
function managers(status) {
  const others = status.other_managers ?? [];
  const stands = status.state === "standby" || others.some((one) => one.state === "standby");
  const role = manages(status) ? "master" : shown(status.state);
  return h("div", {},
    h("ul", { class: "managers" },
      h("li", {}, h("span", { class: `tag ${manages(status) ? "good" : "info"}` }, role), h("b", {}, "this rsm"),
        h("span", { class: "muted" }, `LID ${status.lid || "none"}, priority ${status.priority}`), h("span", { class: "mono" }, status.port_guid)),
      others.map((one) => h("li", {}, h("span", { class: `tag ${one.state === "master" ? "good" : "info"}` }, one.state ?? "unknown"), name(one.description),
        h("span", { class: "muted" }, `LID ${one.lid || "none"}, priority ${one.priority}`), h("span", { class: "mono" }, one.guid)))),
    stands ? null : h("p", { class: "warn pad" }, "No other manager stands by: nothing changes routes while this one is down."),
    status.shared_store ? sharedStore(status.shared_store) : null);
}

/** The store that managers share. */
function sharedStore(shared) {
  const since = shared.failing_since_unix_ms;
  return h("p", { class: since ? "warn pad" : "muted pad" }, since ? `The shared store fails since ${clock(since)}: ${shown(shared.failure)}`
    : `Shared store ${shown(shared.endpoints)}, epoch ${count(shared.epoch)}${shared.held ? ", held by this one" : ""}`);
}

/** Systems outside the fabric that get events. */
function receivers(status) {
  const list = status.event_receivers ?? [];
  if (!list.length) return null;
  return h("ul", { class: "managers" }, list.map((one) => h("li", {}, h("span", { class: `tag ${one.failing_since_unix_ms ? "warn" : "good"}` }, one.kind), h("span", {}, shown(one.address)),
    h("span", { class: "muted" }, one.failing_since_unix_ms ? `takes nothing since ${clock(one.failing_since_unix_ms)}: ${shown(one.failure)}`
      : `${count(one.sent)} sent${Number(one.lost) ? `, ${count(one.lost)} lost` : ""}`))));
}
