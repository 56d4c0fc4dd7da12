// GPU hosts with their rails.

import { all, get } from "./data.js";
import { count, empty, fill, h, name, plural, problem, shown, spinner } from "./dom.js";

export class GpusView {
  constructor(root) {
    this.body = h("div", {}, spinner("Reading"));
    fill(root, h("div", { class: "page" },
      h("h1", {}, "GPU hosts"),
      h("p", { class: "lead" }, "Hosts with an inventory, the adapter of each GPU and its rail, and what is wrong with either."),
      this.body));
  }

  close() {
    this.reading?.abort();
  }

  async changed(changes) {
    if (changes.convergence) await this.read();
  }

  async open(_rest, fields) {
    this.fields = fields;
    await this.read();
  }

  async read() {
    this.reading?.abort();
    this.reading = new AbortController();
    const { signal } = this.reading;
    try {
      const { list } = await all("gpu-hosts", "hosts", {}, signal);
      const status = await get("gpu-status", {}, signal);
      const host = this.fields.get("host");
      const hints = host ? (await get("gpu-hints", { host }, signal)).hints : [];
      fill(this.body, list.length ? [this.coverage(status), this.hosts(list), host ? this.hints(host, hints) : null]
        : h("div", { class: "card" }, empty("No GPU host has an inventory", "Import one with rsmctl gpu import, or name machine types.")));
    } catch (error) {
      if (error.name !== "AbortError") fill(this.body, problem(error));
    }
  }

  coverage(status) {
    const seconds = (value) => value < 120 ? `${value} s` : value < 7200 ? `${Math.floor(value / 60)} min` : `${Math.floor(value / 3600)} h`;
    const parts = [`${plural(status.own, "host")} with an inventory of their own`, `${count(status.machine_type)} by machine type`, `${count(status.without)} without`];
    if (status.own) parts.push(`oldest report ${seconds(Number(status.oldest_age_s))} ago (${shown(status.oldest_host)})`);
    if (status.stale) parts.push(`${plural(status.stale, "host")} stale`);
    for (const twice of status.names_taken_twice) parts.push(`a second machine reports as ${shown(twice)}`);
    return h("p", { class: "lead" }, parts.join(" · "));
  }

  hosts(list) {
    const worst = (one) => one.findings.some((finding) => finding.severity === "error") ? "bad" : one.findings.length ? "warn" : "good";
    return h("div", { class: "card scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Host", "Machine", "GPUs", "Compute ports", "Unit", "Findings"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, list.map((one) => h("tr", {},
        h("td", {}, h("a", { href: `#/gpu-hosts?host=${encodeURIComponent(one.name)}` }, name(one.name))),
        h("td", {}, shown(one.machine)),
        h("td", {}, count(one.gpus)),
        h("td", {}, count(one.compute_ports)),
        h("td", {}, one.unit ?? "–"),
        h("td", { class: "text" }, h("span", { class: `tag ${worst(one)}` }, one.findings.length ? plural(one.findings.length, "finding") : "none"),
          one.findings.slice(0, 3).map((finding) => h("div", { class: "sub" }, shown(finding.evidence)))))))));
  }

  hints(host, hints) {
    return h("div", { class: "card scroll" }, h("table", {},
      h("caption", { class: "hidden" }, `Adapters of ${shown(host)}`),
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
