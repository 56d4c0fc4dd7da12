// Lists: findings, history, links, partitions.

import { all, get, MOST, some } from "./data.js";
import { clock, count, duration, empty, fill, h, hex, name, plural, problem, shown, spinner, when } from "./dom.js";
import { linkClass, linkState, linkText } from "./detail.js";

/** Rows drawn at first; a button shows more. */
const ROWS = 300;

/** A table that sorts by its columns: `{title, cell, key, num}`. */
class Table {
  constructor(columns, sort, descending = false) {
    Object.assign(this, { columns, sort, descending, rows: [], most: ROWS });
    this.root = h("div", { class: "card scroll" });
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    const column = this.columns[this.sort];
    const sign = this.descending ? -1 : 1;
    const rows = column?.key ? [...this.rows].sort((one, two) => {
      const [a, b] = [column.key(one), column.key(two)];
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    }) : this.rows;
    fill(this.root, h("table", {},
      h("thead", {}, h("tr", {}, this.columns.map((one, number) => this.title(one, number)))),
      h("tbody", {}, rows.slice(0, this.most).map((row) => h("tr", {}, this.columns.map((one) => h("td", { class: one.num ? "num" : one.wide ? "text" : undefined }, one.cell(row))))))),
      rows.length > this.most ? h("p", { class: "empty" }, h("button", { class: "btn", type: "button", onclick: () => { this.most += 1000; this.draw(); } }, `Show more of ${count(rows.length)}`)) : null);
  }

  title(column, number) {
    const sorted = number === this.sort && column.key ? (this.descending ? "descending" : "ascending") : undefined;
    const sort = () => {
      this.descending = this.sort === number ? !this.descending : Boolean(column.num);
      this.sort = number;
      this.draw();
    };
    return h("th", { scope: "col", class: column.num ? "num" : undefined, "aria-sort": sorted }, column.key ? h("button", { type: "button", onclick: sort }, column.title) : column.title);
  }
}

/** A page with a list that is read anew when certain things change. */
class ListView {
  constructor(root, title, lead) {
    this.bar = h("div", { class: "bar" });
    this.body = h("div", {}, spinner("Reading"));
    fill(root, h("div", { class: "page" }, h("h1", {}, title), h("p", { class: "lead" }, lead), this.bar, this.body));
  }

  close() {
    this.reading?.abort();
  }

  async open(rest, fields) {
    this.fields = fields;
    await this.read();
  }

  async changed(changes) {
    if (this.follows.some((kind) => changes[kind]) || changes.any && !Object.keys(changes).some((kind) => changes[kind] > 0)) await this.read();
  }

  async read() {
    this.reading?.abort();
    this.reading = new AbortController();
    try {
      await this.load(this.reading.signal);
    } catch (error) {
      if (error.name !== "AbortError") fill(this.body, problem(error));
    }
  }
}

const SEVERITY = { error: "bad", warning: "warn", info: "info" };

export class FindingsView extends ListView {
  follows = ["finding", "state"];

  constructor(root) {
    super(root, "Findings", "What is wrong now: where, what it means for traffic, and what to do. A finding goes by itself when its cause does.");
    this.only = h("select", { "aria-label": "Least severity", onchange: () => this.read() },
      h("option", { value: "" }, "All"), h("option", { value: "warning" }, "Warnings and errors"), h("option", { value: "error" }, "Errors"));
    fill(this.bar, this.only);
    const rank = { error: 0, warning: 1, info: 2 };
    this.table = new Table([
      { title: "Severity", cell: (one) => h("span", { class: `tag ${SEVERITY[one.severity] ?? ""}` }, one.severity), key: (one) => rank[one.severity] ?? 3 },
      { title: "Finding", wide: true, cell: (one) => [h("div", {}, shown(one.message)), h("span", { class: "sub mono" }, one.kind)], key: (one) => one.kind },
      { title: "At", cell: (one) => (one.node_guid ? h("a", { class: "mono", href: `#/fabric/${one.node_guid}` }, one.node_guid + (one.port === null ? "" : `:${one.port}`)) : "–"), key: (one) => one.node_guid },
      { title: "Since", cell: (one) => when(one.raised_unix_ms), key: (one) => one.raised_unix_ms },
    ], 0);
  }

  async load(signal) {
    const { list, more } = await all("findings", "findings", { min_severity: this.only.value }, signal);
    if (!list.length) return fill(this.body, h("div", { class: "card" }, empty("Nothing is wrong", "No finding of this severity holds now.")));
    this.table.show(list);
    fill(this.body, this.table.root, more ? h("p", { class: "muted" }, `Only the first ${count(MOST)} are shown.`) : null);
  }
}

/** What an event says. */
function eventText(event) {
  const link = (one) => [name(one.a.description), ` port ${one.a.port.number} – `, name(one.b.description), ` port ${one.b.port.number}`];
  const port = (one) => [name(one.node_description), ` port ${one.key.number}`];
  const texts = {
    state_changed: (one) => [`state ${one.state}`, one.reason ? `: ${one.reason}` : ""],
    node_appeared: (one) => ["node found: ", name(one.description)],
    node_vanished: (one) => ["node lost: ", name(one.description)],
    node_changed: (one) => ["node changed: ", name(one.description)],
    port_appeared: (one) => ["port found: ", port(one)],
    port_vanished: (one) => ["port lost: ", port(one)],
    port_changed: (one) => ["port ", one.state ?? "changed", ": ", port(one)],
    link_appeared: (one) => ["link found: ", link(one)],
    link_vanished: (one) => ["link lost: ", link(one)],
    link_changed: (one) => [`link ${one.state}: `, link(one)],
    routes_changed: (one) => [`routes changed: ${plural(one.entries, "entry", "entries")} in ${plural(one.switches, "switch", "switches")}`],
    finding_raised: (one) => ["finding: ", shown(one.message)],
    finding_cleared: (one) => ["finding gone: ", shown(one.message)],
    manager_started: (one) => [`started: version ${shown(one.version)}, `, shown(one.fabric)],
    operator_acted: (one) => [`${one.refusal ? "refused" : "done"}: ${one.action} `, shown(one.detail), ` by ${shown(one.operator)}`, one.refusal ? `: ${shown(one.refusal)}` : ""],
    events_unrecorded: (one) => [`${one.count ? plural(one.count, "event", "events") : "events"} not in the history: ${one.reason}`],
    convergence_finished: (one) => [`converged in ${duration(one.timing_ms?.total)}: `, shown(one.cause)],
  };
  const kind = Object.keys(texts).find((one) => event[one]);
  return kind ? texts[kind](event[kind]) : ["event of another version"];
}

const eventClass = (event) => (event.node_vanished || event.link_vanished ? "bad" : event.finding_raised ? "warn" : event.convergence_finished ? "info" : "");
const EVENT_KINDS = [["", "All events"], ["link", "Links"], ["node", "Nodes"], ["port", "Ports"], ["finding", "Findings"], ["convergence", "Convergences"], ["operator", "Operators"], ["routes", "Routes"], ["state", "State"]];

export class HistoryView extends ListView {
  follows = ["convergence", "link", "node", "finding", "state"];

  constructor(root) {
    super(root, "History", "Convergences, and events since this subnet manager started, as far as it keeps them; the newest first.");
    this.kind = h("select", { "aria-label": "Kind of event", onchange: () => this.draw() }, EVENT_KINDS.map(([value, text]) => h("option", { value }, text)));
    this.text = h("input", { class: "grow", type: "search", placeholder: "Filter by text", "aria-label": "Filter by text", oninput: () => this.draw() });
    fill(this.bar, this.kind, this.text);
    this.table = new Table([
      { title: "Time", cell: (one) => when(one.at_unix_ms) },
      { title: "Event", wide: true, cell: (one) => h("span", {}, h("span", { class: `tag ${eventClass(one)}` }, Object.keys(one).find((key) => /_/.test(key) && typeof one[key] === "object" && one[key])?.split("_")[0] ?? ""), " ", eventText(one)) },
      { title: "Generation", num: true, cell: (one) => one.generation },
    ], -1);
  }

  async load(signal) {
    const [{ convergences }, { list }] = await Promise.all([
      get("convergences", { newest: 60, page_size: 60 }, signal),
      all("events", "events", {}, signal, 10000),
    ]);
    this.events = list.reverse();
    this.convergences = convergences;
    this.draw();
  }

  draw() {
    if (!this.events) return;
    const text = this.text.value.trim().toLowerCase();
    const kind = this.kind.value;
    const wanted = this.events.filter((event) => (!kind || Object.keys(event).some((key) => key.startsWith(kind + "_") && event[key]))
      && (!text || JSON.stringify(event).toLowerCase().includes(text)));
    this.table.show(wanted);
    fill(this.body, this.chart(), wanted.length ? this.table.root : h("div", { class: "card" }, empty("No event", "None that is kept is of this kind.")));
  }

  /** The last convergences as bars, as high as the logarithm of their duration. */
  chart() {
    const list = this.convergences;
    if (!list.length) return null;
    const last = list[list.length - 1];
    const svg = (tag, props, ...children) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, value] of Object.entries(props)) element.setAttribute(key, value);
      element.append(...children);
      return element;
    };
    const high = (ms) => Math.max(3, Math.min(86, 12 + 16 * Math.log10(Math.max(ms, 0.3))));
    const bars = list.map((one, at) => {
      const title = svg("title", {});
      title.textContent = `${clock(one.finished_unix_ms)}: ${shown(one.cause)}, ${duration(one.timing_ms?.total)}`;
      const tall = high(one.timing_ms?.total ?? 0);
      return svg("rect", { x: at * 10 + 1, y: 88 - tall, width: 8, height: tall, rx: 1.5, class: one.complete ? "" : "bad" }, title);
    });
    return h("div", { class: "card" },
      h("div", { class: "figures" },
        h("div", {}, h("b", {}, duration(last.timing_ms?.total)), h("span", {}, "last convergence")),
        h("div", {}, h("b", {}, count(last.smps?.get)), h("span", {}, "Gets")),
        h("div", {}, h("b", {}, count(last.smps?.set)), h("span", {}, "Sets")),
        h("div", {}, h("b", {}, last.complete ? "yes" : "no"), h("span", {}, "hardware holds the plan"))),
      h("div", { class: "pad" }, svg("svg", { class: "spark", viewBox: `0 0 ${Math.max(list.length, 30) * 10} 90`, preserveAspectRatio: "none", role: "img", "aria-label": `Durations of the last ${list.length} convergences, on a logarithmic scale` }, ...bars)));
  }
}

export class LinksView extends ListView {
  follows = ["link", "port"];

  constructor(root) {
    super(root, "Links", "Cables with both ends, by state and rate. Those that need a look come first.");
    this.scope = h("select", { "aria-label": "Which links", onchange: () => this.read() },
      h("option", { value: "switches" }, "Between switches"), h("option", { value: "all" }, "All links"),
      h("option", { value: "use" }, "Busiest now"), h("option", { value: "wait" }, "Most congested now"), h("option", { value: "errors" }, "With errors"));
    this.text = h("input", { class: "grow", type: "search", placeholder: "Filter by name or GUID", "aria-label": "Filter by name or GUID", oninput: () => this.typed() });
    this.told = h("span", { class: "muted" });
    fill(this.bar, this.scope, this.text, this.told);
    const end = (one) => h("a", { href: `#/fabric/${one.port.node_guid}` }, name(one.description));
    const rank = (one) => (one.state !== "active" ? 0 : one.damped ? 1 : 2);
    this.table = new Table([
      { title: "State", cell: (one) => h("span", { class: `tag ${linkClass(one) || "good"}` }, linkState(one)), key: rank },
      { title: "From", wide: true, cell: (one) => end(one.a), key: (one) => one.a.description },
      { title: "Port", num: true, cell: (one) => one.a.port.number, key: (one) => one.a.port.number },
      { title: "To", wide: true, cell: (one) => end(one.b), key: (one) => one.b.description },
      { title: "Port", num: true, cell: (one) => one.b.port.number, key: (one) => one.b.port.number },
      { title: "Rate", cell: linkText, key: linkText },
    ], 0);
    const number = (value) => (value === undefined || value === null ? -1 : value);
    const rate = (value) => (number(value) < 0 ? "–" : count(Math.round(value)));
    const share = (value) => (number(value) < 0 ? "–" : `${(value * 100).toFixed(1)} %`);
    // A row for each port: the two ends of a cable count for themselves.
    this.ranked = new Table([
      { title: "Port", wide: true, cell: (one) => [end(one.a), ` port ${one.a.port.number}`], key: (one) => one.a.description },
      { title: "Cabled to", wide: true, cell: (one) => (one.b ? [end(one.b), ` port ${one.b.port.number}`] : "–"), key: (one) => one.b?.description ?? "" },
      { title: "Sent B/s", num: true, cell: (one) => rate(one.xmit_bytes_per_s), key: (one) => number(one.xmit_bytes_per_s) },
      { title: "Received B/s", num: true, cell: (one) => rate(one.rcv_bytes_per_s), key: (one) => number(one.rcv_bytes_per_s) },
      { title: "Use", num: true, cell: (one) => share(one.use_share), key: (one) => number(one.use_share) },
      { title: "Waits", num: true, cell: (one) => share(one.wait_share), key: (one) => number(one.wait_share) },
      { title: "Errors/h", num: true, cell: (one) => count(Math.round(one.errors_per_hour)), key: (one) => one.errors_per_hour },
      { title: "Counters", wide: true, cell: (one) => one.errors.map((error) => `${error.name} ${count(error.total)}`).join(", ") || "–", key: (one) => one.errors.length },
    ], -1);
  }

  /** The ports that come first by their counters. */
  async loadRanked(order, signal) {
    const top = await get("top-ports", { order, limit: 1000 }, signal);
    this.list = top.ports.map((port) => ({
      ...port,
      a: { description: port.description, port: port.port },
      b: port.peer ? { description: port.peer_description, port: port.peer } : null,
    }));
    this.token = "";
    this.note = `${plural(top.total, "port")} in all` + (top.stale ? `, ${count(top.stale)} without a fresh reading left out` : "");
    this.draw();
  }

  async load(signal) {
    const order = this.scope.value;
    this.isRanked = !["switches", "all"].includes(order);
    if (this.isRanked) return this.loadRanked(order, signal);
    const wanted = { between_switches: this.scope.value === "switches", end_contains: this.text.value.trim() };
    // After a change the same rows are read again, however many there were.
    if (JSON.stringify(wanted) !== JSON.stringify(this.wanted)) this.most = MOST;
    this.wanted = wanted;
    const { list, token } = await some("links", "links", wanted, signal, "", this.most);
    this.list = list;
    this.token = token;
    this.draw();
  }

  /** Reads the links after those that are shown. */
  async next() {
    this.reading?.abort();
    this.reading = new AbortController();
    try {
      const { list, token } = await some("links", "links", this.wanted, this.reading.signal, this.token);
      this.list = this.list.concat(list);
      this.most = this.list.length;
      this.token = token;
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") fill(this.body, problem(error));
    }
  }

  /** The server searches all links; the ports that come first by their counters are here. */
  typed() {
    if (this.isRanked) return this.draw();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.read(), 250);
  }

  close() {
    clearTimeout(this.waiting);
    super.close();
  }

  draw() {
    if (!this.list) return;
    const text = this.text.value.trim().toLowerCase();
    const has = (end) => end && (end.description.toLowerCase().includes(text) || end.port.node_guid.includes(text));
    const wanted = text && this.isRanked ? this.list.filter((one) => has(one.a) || has(one.b)) : this.list;
    const table = this.isRanked ? this.ranked : this.table;
    fill(this.told, this.isRanked ? this.note : this.token ? `the first ${count(wanted.length)} links` : plural(wanted.length, "link"),
      this.token ? [" ", h("button", { class: "btn next", type: "button", onclick: () => this.next() }, "Read the next")] : null);
    if (!wanted.length) return fill(this.body, h("div", { class: "card" }, empty(this.isRanked ? "No port" : "No link", "None matches.")));
    table.show(wanted);
    fill(this.body, table.root);
  }
}

export class PartitionsView extends ListView {
  follows = ["port", "convergence"];

  constructor(root) {
    super(root, "Partitions", "P_Keys with their members. Full members reach all others; limited members reach full ones only.");
    this.table = new Table([
      { title: "P_Key", cell: (one) => h("a", { class: "mono", href: `#/partitions?p_key=${one.p_key}` }, hex(one.p_key)), key: (one) => one.p_key },
      { title: "Name", wide: true, cell: (one) => name(one.name), key: (one) => one.name },
      { title: "Full", num: true, cell: (one) => count(one.full_members), key: (one) => one.full_members },
      { title: "Limited", num: true, cell: (one) => count(one.limited_members), key: (one) => one.limited_members },
      { title: "IPoIB", cell: (one) => (one.ipoib ? h("span", { class: "tag good" }, "yes") : "no") },
      { title: "SL", num: true, cell: (one) => one.service_level, key: (one) => one.service_level },
    ], 0);
    this.members = new Table([
      { title: "Port", wide: true, cell: (one) => h("a", { href: `#/fabric/${one.port.node_guid}` }, name(one.description), ` port ${one.port.number}`), key: (one) => one.description },
      { title: "Membership", cell: (one) => one.membership, key: (one) => one.membership },
      { title: "Index", num: true, cell: (one) => one.index, key: (one) => one.index },
    ], 0);
  }

  async load(signal) {
    const { list } = await all("partitions", "partitions", {}, signal);
    this.table.show(list);
    const chosen = Number(this.fields.get("p_key"));
    if (!list.length) return fill(this.body, h("div", { class: "card" }, empty("No partition", "There is no plan yet, or another subnet manager is master.")));
    if (!chosen) return fill(this.body, this.table.root);
    const members = await all("partition-members", "members", { p_key: chosen }, signal);
    this.members.show(members.list);
    fill(this.body, this.table.root, h("h1", {}, `Members of ${hex(chosen)}`), members.more ? h("p", { class: "muted" }, `The first ${count(MOST)}.`) : null, this.members.root);
  }
}
