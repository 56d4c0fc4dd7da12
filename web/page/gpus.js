// GPU hosts with their rails.

import { all, get } from "./data.js";
import { count, empty, fill, h, keep, name, plural, problem, shown, spinner } from "./dom.js";
import { Refresher } from "./refresh.js";
import { Table } from "./tables.js";

/** The worst severity of a host's findings, and the classes of all, the worst first. */
const worst = (one) => (one.findings.some((finding) => finding.severity === "error") ? "bad"
  : one.findings.some((finding) => finding.severity === "warning") ? "warn" : one.findings.length ? "info" : "good");
const RANKS = ["bad", "warn", "info", "good"];
const MOST_FINDINGS = 3;

/** The findings of a host, in the words of all other findings. */
function found(one) {
  const more = one.findings.length - MOST_FINDINGS;
  return [h("span", { class: `tag ${worst(one)}` }, one.findings.length ? plural(one.findings.length, "finding") : "none"),
    one.findings.slice(0, MOST_FINDINGS).map((finding) => h("div", {}, [finding.evidence, finding.effect, finding.advice].filter(Boolean).map(shown).join("; "),
      h("div", { class: "sub mono" }, shown(finding.kind)))),
    more > 0 ? h("div", { class: "sub" }, `and ${count(more)} more: rsmctl gpu check`) : null];
}

/** A host, and where it was if none of its ports is in the fabric. */
function host(one) {
  return [h("a", { href: `#/gpu-hosts?host=${encodeURIComponent(one.name)}` }, name(one.name)),
    one.was_at ? h("div", { class: "sub" }, `was at ${shown(one.was_at)}`) : null];
}

export class GpusView {
  constructor(root) {
    this.body = h("div", {}, spinner("Reading"));
    this.covered = h("p", { class: "lead" });
    this.chosen = h("div", { "aria-live": "polite" });
    this.table = new Table([
      { title: "Host", whole: true, cell: host, key: (one) => one.name },
      { title: "Machine", cell: (one) => shown(one.machine) || "–", key: (one) => one.machine },
      { title: "GPUs", num: true, cell: (one) => count(one.gpus), key: (one) => one.gpus },
      { title: "Compute ports", num: true, cell: (one) => count(one.compute_ports), key: (one) => one.compute_ports },
      { title: "Unit", num: true, cell: (one) => one.unit ?? "–", key: (one) => one.unit ?? -1 },
      { title: "Findings", wide: true, cell: found, key: (one) => RANKS.indexOf(worst(one)) },
    ], 5);
    this.refresher = new Refresher((signal) => this.read(signal), (error) => fill(this.body, problem(error)));
    fill(root, h("div", { class: "page" },
      h("h1", {}, "GPU hosts"),
      h("p", { class: "lead" }, "Hosts with an inventory, the adapter of each GPU and its rail, and what is wrong with either."),
      this.body));
  }

  close() {
    this.refresher.stop();
  }

  async changed(changes) {
    if (changes.convergence || changes.finding) await this.refresher.changed();
  }

  async open(_rest, fields) {
    this.fields = fields;
    await this.refresher.now();
  }

  async read(signal) {
    const { list, more } = await all("gpu-hosts", "hosts", {}, signal);
    const status = await get("gpu-status", {}, signal);
    const host = this.fields.get("host");
    const hints = host ? (await get("gpu-hints", { host }, signal)).hints : [];
    if (!list.length) return fill(this.body, h("div", { class: "card" }, empty("No GPU host has an inventory", "Import one with rsmctl gpu import, or name machine types.")));
    this.table.show(list);
    fill(this.covered, this.coverage(status), more ? ` · only the first ${count(list.length)} are listed` : null);
    fill(this.chosen, host ? this.hints(host, hints) : null);
    keep(this.body, this.covered, this.chosen, this.table.root);
  }

  coverage(status) {
    const seconds = (value) => value < 120 ? `${value} s` : value < 7200 ? `${Math.floor(value / 60)} min` : `${Math.floor(value / 3600)} h`;
    const parts = [`${plural(status.own, "host")} with an inventory of their own`, `${count(status.machine_type)} by machine type`, `${count(status.without)} without`];
    if (status.own) parts.push(`oldest report ${seconds(Number(status.oldest_age_s))} ago (${shown(status.oldest_host)})`);
    if (status.stale) parts.push(`${plural(status.stale, "host")} stale`);
    for (const twice of status.names_taken_twice) parts.push(`a second machine reports as ${shown(twice)}`);
    return parts.join(" · ");
  }

  hints(host, hints) {
    return h("div", { class: "card scroll" }, h("table", {},
      h("caption", {}, "Adapters and rails of ", name(host)),
      h("thead", {}, h("tr", {}, ["GPU", "Rail", "Adapters", "Distance", "GPUDirect", "Fallbacks"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, hints.map((one) => h("tr", {},
        h("td", {}, one.gpu),
        h("td", {}, one.rail ?? "–"),
        h("td", { class: "mono" }, one.ports.map(shown).join(", ") || "–"),
        h("td", {}, shown(one.tier)),
        h("td", {}, h("span", { class: `tag ${one.gdr_expected ? "good" : ""}` }, shown(one.gdr))),
        h("td", { class: "mono" }, one.fallbacks.map(shown).join(", ") || "–"))))));
  }
}
