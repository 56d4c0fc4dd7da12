// The path tool: from one port to another, hop by hop.

import { get } from "./data.js";
import { loadScene, shared } from "./fabric.js";
import { fill, h, hex, name, plural, problem, refill, spinner } from "./dom.js";
import { Refresher } from "./refresh.js";

export class PathView {
  constructor(root, go) {
    this.go = go;
    const input = (id, label, hint) => h("div", { class: "field" }, h("label", { for: id }, label), h("input", { id, name: id, placeholder: hint, spellcheck: "false", autocomplete: "off", maxlength: 250, required: true }));
    this.form = h("form", { class: "card pad", onsubmit: (event) => this.submit(event) },
      h("div", { class: "row" },
        input("from", "From", "host-01, host-01:2, GUID or LID"),
        h("button", { class: "btn", type: "button", "aria-label": "Swap the two ends", onclick: () => this.swap() }, "⇄"),
        input("to", "To", "host-02, GUID or LID"),
        h("button", { class: "btn main", type: "submit" }, "Show path")));
    this.result = h("div", { "aria-live": "polite" });
    this.refresher = new Refresher((signal) => this.read(signal), (error) => fill(this.result, problem(error)));
    fill(root, h("div", { class: "page" },
      h("h1", {}, "Path"),
      h("p", { class: "lead" }, "The way of a packet along the tables that the switches have confirmed, and what the subnet manager answers a host that asks for this path."),
      this.form, this.result));
  }

  close() {
    this.refresher.stop();
  }

  open(_rest, fields) {
    this.form.from.value = fields.get("from") ?? "";
    this.form.to.value = fields.get("to") ?? "";
    if (this.form.from.value && this.form.to.value) return this.find();
    (this.form.from.value ? this.form.to : this.form.from).focus();
  }

  swap() {
    [this.form.from.value, this.form.to.value] = [this.form.to.value, this.form.from.value];
  }

  submit(event) {
    event.preventDefault();
    const query = new URLSearchParams({ from: this.form.from.value.trim(), to: this.form.to.value.trim() });
    this.go(`path?${query}`, true);
  }

  async changed(changes) {
    if ((changes.routes || changes.link) && this.found) await this.refresher.changed();
  }

  async find() {
    // The fields may hold half of another question when the routes change.
    this.asked = [this.form.from.value.trim(), this.form.to.value.trim()];
    this.found = false;
    fill(this.result, spinner("Following the tables"));
    await this.refresher.now();
  }

  async read(signal) {
    const [source, destination] = this.asked;
    const [{ route }, answer] = await Promise.all([
      get("route", { source, destination }, signal),
      get("paths", { source, destination, max_paths: 4 }, signal).catch((error) => ({ error })),
    ]);
    this.found = true;
    refill(this.result, this.route(route), this.answer(answer));
    const scene = await loadScene();
    shared.path = route.hops.map((hop) => scene.index.get(hop.node_guid)).filter((at) => at !== undefined);
  }

  route(route) {
    const good = route.outcome === "delivered" && !route.no_partition;
    const links = route.hops.length - 1;
    return h("div", { class: "card" },
      h("div", { class: "card-head row pad" },
        h("span", { class: `tag ${good ? "good" : "bad"}` }, route.no_partition ? "dropped by the destination" : route.outcome ?? "unknown"),
        h("span", {}, `${plural(links, "link")}, to LID ${route.lid}`),
        good ? null : h("span", {}, route.no_partition || route.reason),
        h("a", { class: "btn", href: "#/fabric" }, "Show in the fabric")),
      h("ol", { class: "hops" }, route.hops.map((hop) => h("li", {},
        h("span", { class: "p", title: "port it comes in by" }, hop.in_port ?? ""),
        h("span", { class: `node ${hop.kind === "switch" ? "" : "host"}` }),
        h("a", { href: `#/fabric/${hop.node_guid}` }, name(hop.description)),
        h("span", { class: "p", title: "port it leaves by" }, hop.out_port ?? "")))));
  }

  answer(answer) {
    if (answer.error) return problem(answer.error);
    const paths = answer.paths?.paths ?? [];
    if (!paths.length) return h("p", { class: "error" }, `A host that asks for this path gets none: ${answer.paths?.reason ?? "no reason is given"}`);
    const fact = (path, value) => h("td", { class: "num" }, value);
    return h("div", { class: "card scroll" }, h("table", {},
      h("caption", { class: "hidden" }, "What the SA answers"),
      h("thead", {}, h("tr", {}, ["From LID", "To LID", "P_Key", "SL", "MTU", "Gb/s"].map((title) => h("th", { class: "num", scope: "col" }, title)))),
      h("tbody", {}, paths.map((path) => h("tr", {},
        [path.source_lid, path.destination_lid, hex(path.p_key), path.service_level, path.mtu_bytes, path.rate_gbps].map((value) => fact(path, value)))))));
  }
}
