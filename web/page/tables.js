// Lists: findings, links, partitions.

import { causes, meaning, parts, SEVERITY, since } from "./causes.js";
import { all, get, manages, MOST, some, store } from "./data.js";
import { count, empty, fill, h, hex, keep, name, plural, problem, refill, shown, spinner, when } from "./dom.js";
import { Refresher } from "./refresh.js";
import { linkClass, linkState, linkText } from "./detail.js";

/** Rows drawn at first; a button shows more. */
const ROWS = 300;

/** A table that sorts by its columns: `{title, cell, key}`, with `num` for numbers, `wide` for texts,
 * `places` for several parts, and `whole` for names that are not broken into lines. */
export class Table {
  constructor(columns, sort, descending = false) {
    Object.assign(this, { columns, sort, descending, rows: [], most: ROWS });
    this.titles = columns.map((one, number) => this.title(one, number));
    this.body = h("tbody", {});
    this.rest = h("p", { class: "empty" });
    this.root = h("div", { class: "card scroll" }, h("table", { class: "stacks" }, h("thead", {}, h("tr", {}, this.titles)), this.body), this.rest);
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
    this.titles.forEach((title, number) => {
      if (number === this.sort && column?.key) title.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else title.removeAttribute("aria-sort");
    });
    refill(this.body, rows.slice(0, this.most).map((row) => h("tr", {}, this.columns.map((one) => h("td", { class: one.num ? "num" : one.wide ? "text" : one.whole ? "whole" : one.places ? "places" : undefined, "data-title": one.title }, one.cell(row))))));
    fill(this.rest, rows.length > this.most ? h("button", { class: "btn", type: "button", onclick: () => { this.most += 1000; this.draw(); } }, `Show more of ${count(rows.length)}`) : null);
    this.rest.hidden = rows.length <= this.most;
  }

  title(column, number) {
    const sort = () => {
      this.descending = this.sort === number ? !this.descending : Boolean(column.num);
      this.sort = number;
      this.draw();
    };
    return h("th", { scope: "col", class: column.num ? "num" : undefined }, column.key ? h("button", { type: "button", onclick: sort }, column.title) : column.title);
  }
}

/** A page with a list that is read anew when certain things change. */
export class ListView {
  constructor(root, title, lead) {
    this.bar = h("div", { class: "bar" });
    this.body = h("div", {}, spinner("Reading"));
    this.refresher = new Refresher((signal) => this.load(signal), (error) => fill(this.body, problem(error)));
    fill(root, h("div", { class: "page" }, h("h1", {}, title), h("p", { class: "lead" }, lead), this.bar, this.body));
  }

  close() {
    this.refresher.stop();
  }

  async open(rest, fields) {
    this.fields = fields;
    await this.read();
  }

  async changed(changes) {
    if (this.follows.some((kind) => changes[kind]) || changes.any && !Object.keys(changes).some((kind) => changes[kind] > 0)) await this.refresher.changed();
  }

  /** Reads at once: the operator has asked for something else. */
  async read() {
    await this.refresher.now();
  }
}

/** Findings of a cause that are shown one by one. */
const MOST_EACH = 300;

export class FindingsView extends ListView {
  // The words of a finding change with what a pass has found, while it is the same finding.
  follows = ["finding", "state", "convergence"];

  constructor(root) {
    super(root, "Findings", "What is wrong now: where, what it means for traffic, and what to do. Findings of one kind are one line. A finding goes by itself when its cause does.");
    this.only = h("select", { "aria-label": "Least severity", onchange: () => this.read() },
      h("option", { value: "" }, "All"), h("option", { value: "warning" }, "Warnings and errors"), h("option", { value: "error" }, "Errors"));
    fill(this.bar, this.only);
    const rank = { error: 0, warning: 1, info: 2 };
    /** Causes whose findings are shown one by one. */
    this.unfolded = new Set();
    this.table = new Table([
      { title: "Severity", cell: ([one]) => h("span", { class: `tag ${SEVERITY[one.severity] ?? ""}` }, one.severity), key: ([one]) => rank[one.severity] ?? 3 },
      { title: "Finding", wide: true, cell: (all) => this.cell(all), key: ([one]) => one.kind },
      { title: "At", places: true, cell: (all) => parts(all) ?? "–", key: ([one]) => one.name || one.node_guid },
      { title: "Number", num: true, cell: (all) => count(all.length), key: (all) => all.length },
      { title: "Since", cell: (all) => since(all), key: (all) => all[all.length - 1].raised_unix_ms },
    ], 0);
  }

  cell(all) {
    const [one] = all;
    const text = h("div", {}, shown(meaning(all)));
    const kind = h("span", { class: "sub mono" }, one.kind);
    if (all.length === 1) return [text, kind];
    const key = `${one.severity} ${one.kind}`;
    const more = all.length - MOST_EACH;
    const each = () => [h("ul", { class: "each" }, all.slice(0, MOST_EACH).map((finding) => h("li", {}, shown(finding.message), " ", h("span", { class: "muted" }, when(finding.raised_unix_ms))))),
      more > 0 ? h("p", { class: "muted" }, `${count(more)} more: rsmctl findings --kind ${one.kind} --all`) : null];
    const list = h("div", {});
    const details = h("details", { open: this.unfolded.has(key), ontoggle: () => {
      if (details.open) this.unfolded.add(key);
      else this.unfolded.delete(key);
      fill(list, details.open ? each() : null);
    } }, h("summary", {}, `each of the ${count(all.length)}`), list);
    if (details.open) fill(list, each());
    return [text, kind, details];
  }

  async load(signal) {
    const { list, more } = await all("findings", "findings", { min_severity: this.only.value }, signal);
    if (!list.length) return fill(this.body, h("div", { class: "card" }, store.status && !manages(store.status)
      ? empty("Nothing is known", "This rsm does not manage the subnet now: it looks for no faults.")
      : empty("Nothing is wrong", this.only.value ? "No finding of this severity holds now." : "No finding holds now.")));
    this.table.show(causes(list));
    keep(this.body, this.table.root, more ? h("p", { class: "muted" }, `Only the first ${count(MOST)} are shown.`) : null);
  }
}

export class LinksView extends ListView {
  follows = ["link", "port"];

  constructor(root) {
    super(root, "Links", "Cables with both ends, by state and rate. Those that need a look come first.");
    this.scope = h("select", { "aria-label": "Which links", onchange: () => this.read() },
      h("option", { value: "switches" }, "Between switches"), h("option", { value: "all" }, "All links"), h("option", { value: "slow" }, "Slow"),
      h("option", { value: "use" }, "Busiest now"), h("option", { value: "wait" }, "Most congested now"), h("option", { value: "errors" }, "With errors"));
    this.text = h("input", { class: "grow", type: "search", placeholder: "Filter by name or GUID", "aria-label": "Filter by name or GUID", oninput: () => this.typed() });
    this.told = h("span", { class: "muted" });
    fill(this.bar, this.scope, this.text, this.told);
    const end = (one) => h("a", { href: `#/fabric/${one.port.node_guid}` }, name(one.description));
    const number = (one) => h("a", { href: `#/fabric/${one.port.node_guid}:${one.port.number}` }, one.port.number);
    const rank = (one) => (one.state !== "active" ? 0 : one.damped || one.slow ? 1 : 2);
    this.table = new Table([
      { title: "State", cell: (one) => h("span", { class: `tag ${linkClass(one) || "good"}` }, linkState(one)), key: rank },
      { title: "From", wide: true, cell: (one) => end(one.a), key: (one) => one.a.description },
      { title: "Port", num: true, cell: (one) => number(one.a), key: (one) => one.a.port.number },
      { title: "To", wide: true, cell: (one) => end(one.b), key: (one) => one.b.description },
      { title: "Port", num: true, cell: (one) => number(one.b), key: (one) => one.b.port.number },
      { title: "Rate", cell: linkText, key: linkText },
    ], 0);
    const known = (value) => (value === undefined || value === null ? -1 : value);
    const rate = (value) => (known(value) < 0 ? "–" : count(Math.round(value)));
    const share = (value) => (known(value) < 0 ? "–" : `${(value * 100).toFixed(1)} %`);
    // A row for each port: the two ends of a cable count for themselves.
    this.ranked = new Table([
      { title: "Port", wide: true, cell: (one) => [end(one.a), " port ", number(one.a)], key: (one) => one.a.description },
      { title: "Cabled to", wide: true, cell: (one) => (one.b ? [end(one.b), " port ", number(one.b)] : "–"), key: (one) => one.b?.description ?? "" },
      { title: "Sent B/s", num: true, cell: (one) => rate(one.xmit_bytes_per_s), key: (one) => known(one.xmit_bytes_per_s) },
      { title: "Received B/s", num: true, cell: (one) => rate(one.rcv_bytes_per_s), key: (one) => known(one.rcv_bytes_per_s) },
      { title: "Use", num: true, cell: (one) => share(one.use_share), key: (one) => known(one.use_share) },
      { title: "Waits", num: true, cell: (one) => share(one.wait_share), key: (one) => known(one.wait_share) },
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
    this.isRanked = !["switches", "all", "slow"].includes(order);
    if (this.isRanked) return this.loadRanked(order, signal);
    const wanted = { between_switches: order === "switches", slow: order === "slow", end_contains: this.text.value.trim() };
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
    await this.refresher.now(async (signal) => {
      const { list, token } = await some("links", "links", this.wanted, signal, this.token);
      this.list = this.list.concat(list);
      this.most = this.list.length;
      this.token = token;
      this.draw();
    });
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
    keep(this.body, table.root);
  }
}

/** The names that belong to a partition, and the treatment of requests about it. */
function owned(protection) {
  const { mgids = [], guids = [], trust } = protection ?? {};
  const mode = trust ? [`trust=${trust}`] : [];
  return h("span", { class: "mono" }, [...mgids, ...guids, ...mode].join(" "));
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
      { title: "Own names", wide: true, cell: (one) => owned(one.protection) },
    ], 0);
    this.members = new Table([
      { title: "Port", wide: true, cell: (one) => h("a", { href: `#/fabric/${one.port.node_guid}${one.port.number ? `:${one.port.number}` : ""}` }, name(one.description), ` port ${one.port.number}`), key: (one) => one.description },
      { title: "Membership", cell: (one) => one.membership, key: (one) => one.membership },
      { title: "Index", num: true, cell: (one) => one.index, key: (one) => one.index },
    ], 0);
  }

  async load(signal) {
    const { list } = await all("partitions", "partitions", {}, signal);
    this.table.show(list);
    const chosen = Number(this.fields.get("p_key"));
    if (!list.length) return fill(this.body, h("div", { class: "card" }, empty("No partition", "There is no plan yet, or another subnet manager is master.")));
    if (!chosen) return keep(this.body, this.table.root);
    const members = await all("partition-members", "members", { p_key: chosen }, signal);
    this.members.show(members.list);
    keep(this.body, this.table.root, h("h1", {}, `Members of ${hex(chosen)}`), members.more ? h("p", { class: "muted" }, `The first ${count(MOST)}.`) : null, this.members.root);
  }
}
