// The report: named checks of the subnet and its manager, for the screen and for paper.

import { get, store } from "./data.js";
import { clock, count, fill, h, plural, problem, shown, spinner } from "./dom.js";
import { Refresher } from "./refresh.js";

/** The words of a verdict, and its colour. */
const VERDICTS = { pass: ["pass", "good"], warn: ["WARN", "warn"], fail: ["FAIL", "bad"], "not-known": ["not known", ""] };

export class ReportView {
  constructor(root) {
    this.body = h("div", {}, spinner("Making the report"));
    this.older = h("p", { class: "muted", hidden: true }, "The fabric has changed since this report was made.");
    this.refresher = new Refresher((signal) => this.read(signal), (error) => fill(this.body, problem(error)));
    fill(root, h("div", { class: "page report" },
      h("h1", {}, "Report"),
      h("p", { class: "lead" }, "The subnet and its manager in named checks, each with its three worst parts and the command that shows more. A check that cannot be made says why, and never passes."),
      h("div", { class: "bar" },
        h("button", { class: "btn main", type: "button", onclick: () => print() }, "Print"),
        h("button", { class: "btn", type: "button", onclick: () => this.open() }, "Make it again"), this.older),
      this.body));
  }

  close() {
    this.refresher.stop();
  }

  /** A report is of its moment: it changes at the operator's wish alone. */
  changed() {
    this.older.hidden = !this.report || Number(store.status?.generation) === Number(this.report.generation);
  }

  async open() {
    fill(this.body, spinner("Making the report"));
    await this.refresher.now();
  }

  async read(signal) {
    const { report } = await get("report", {}, signal);
    this.report = report;
    this.changed();
    const of = (verdict) => report.checks.filter((check) => check.verdict === verdict).length;
    const [word, colour] = VERDICTS[report.verdict] ?? [report.verdict, ""];
    fill(this.body,
      h("section", { class: "card" },
        h("p", { class: "row pad verdict" }, h("span", { class: `tag ${colour}` }, word),
          h("b", {}, `${plural(of("fail"), "check fails", "checks fail")}, ${count(of("warn"))} warn, ${count(of("pass"))} pass, ${count(of("not-known"))} not known`),
          h("span", { class: "muted" }, `${shown(report.fabric)}, rsm ${shown(report.version)}, ${new Date(Number(report.at_unix_ms)).toLocaleString()}`)),
        h("ul", { class: "checks" }, report.checks.map(check))));
    document.title = `Report of ${shown(report.fabric)} at ${clock(report.at_unix_ms)} – rsm`;
  }
}

function check(one) {
  const [word, colour] = VERDICTS[one.verdict] ?? [one.verdict ?? "unknown", ""];
  const more = Number(one.more);
  return h("li", { class: "check" },
    h("span", { class: `tag ${colour}` }, word),
    h("div", {},
      h("b", {}, shown(one.name)), ": ", shown(one.summary),
      one.worst.length ? h("ul", {}, one.worst.map((part) => h("li", {}, shown(part)))) : null,
      one.command && (one.verdict === "warn" || one.verdict === "fail")
        ? h("div", { class: "sub" }, more ? `${count(more)} more; ` : null, "see: ", h("code", {}, shown(one.command))) : null));
}
