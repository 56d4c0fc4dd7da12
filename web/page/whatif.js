// What would happen if parts went: computed, with nothing sent to the fabric.

import { get } from "./data.js";
import { count, fill, h, name, plural, problem, shown, spinner } from "./dom.js";

export class WhatIfView {
  constructor(root, go) {
    this.go = go;
    // Enter makes a line: with Ctrl it asks.
    const keys = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.form.requestSubmit();
    this.form = h("form", { class: "card pad", onsubmit: (event) => this.submit(event), onkeydown: keys },
      h("div", { class: "row" },
        h("div", { class: "field" }, h("label", { for: "remove" }, "Nodes that go, one a line"), h("textarea", { id: "remove", rows: 2, placeholder: "spine-03", spellcheck: "false" })),
        h("div", { class: "field" }, h("label", { for: "unlink" }, "Cables that go, by one of their ports, one a line"), h("textarea", { id: "unlink", rows: 2, placeholder: "leaf-03:33", spellcheck: "false" })),
        h("button", { class: "btn main", type: "submit" }, "Foresee")));
    this.result = h("div", { "aria-live": "polite" });
    fill(root, h("div", { class: "page" },
      h("h1", {}, "What if"),
      h("p", { class: "lead" }, "Which hosts would be cut off, what would be written, and whether the new routes are proved. Nothing is sent to the fabric."),
      this.form, this.result));
  }

  close() {
    this.reading?.abort();
  }

  changed() {}

  open(_rest, fields) {
    this.form.remove.value = fields.getAll("remove").join("\n");
    this.form.elements.unlink.value = fields.getAll("unlink").join("\n");
    if (fields.has("remove") || fields.has("unlink")) return this.foresee();
  }

  lines(field) {
    return this.form.elements[field].value.split("\n").map((line) => line.trim()).filter(Boolean);
  }

  submit(event) {
    event.preventDefault();
    const query = new URLSearchParams();
    for (const field of ["remove", "unlink"]) for (const line of this.lines(field)) query.append(field, line);
    this.go(`what-if?${query}`, true);
  }

  async foresee() {
    this.reading?.abort();
    this.reading = new AbortController();
    fill(this.result, spinner("Computing the plan"));
    try {
      const fields = { remove: this.lines("remove"), unlink: this.lines("unlink") };
      const { consequence } = await get("what-if", fields, this.reading.signal);
      fill(this.result, this.show(consequence));
    } catch (error) {
      if (error.name !== "AbortError") fill(this.result, problem(error));
    }
  }

  show(one) {
    const verdict = one.refused ? ["bad", `The plan would be refused: ${shown(one.refused)}`]
      : one.cut_off.length ? ["bad", `${plural(one.cut_off.length, "port")} would be cut off`]
        : Number(one.unreachable_pairs) ? ["bad", `${count(one.unreachable_pairs)} pairs would have no route`]
          : ["good", "Nothing else is cut off: all other ports keep their routes"];
    const figure = (value, text) => h("div", {}, h("b", {}, value), h("span", {}, text));
    return [
      h("div", { class: "card" },
        h("div", { class: "row pad" }, h("span", { class: `tag ${verdict[0]}` }, verdict[0] === "good" ? "safe" : "harm"), h("b", {}, verdict[1])),
        h("div", { class: "figures" },
          figure(count(one.cables.length), "cables go"),
          figure(count(one.broken_pairs), "pairs broken until rerouted"),
          figure(count(one.entries), "entries change"),
          figure(count(one.switches), "switches written"),
          figure(count(one.smps), "Sets"),
          figure(`${count(one.max_paths_now)} → ${count(one.max_paths_then)}`, "paths on the fullest link"),
          figure(one.credit_loop_free ? "yes" : "no", "free of credit loops"))),
      one.cut_off.length ? h("div", { class: "card scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Cut off"), h("th", { scope: "col", class: "num" }, "Port"))),
        h("tbody", {}, one.cut_off.slice(0, 1000).map((port) => h("tr", {}, h("td", {}, h("a", { href: `#/fabric/${port.port.node_guid}` }, name(port.description))), h("td", { class: "num" }, port.port.number)))))) : null,
      one.cables.length ? h("div", { class: "card scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Cable that goes"), h("th", { scope: "col" }, "To"))),
        h("tbody", {}, one.cables.slice(0, 1000).map((cable) => h("tr", {},
          h("td", {}, name(cable.description), ` port ${cable.port.number}`),
          h("td", {}, name(cable.peer_description), ` port ${cable.peer.number}`)))))) : null,
    ];
  }
}
