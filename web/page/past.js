// The past of the counters as charts: of a port, a node, or the fabric.

import { chart, highest, short, spark } from "./chart.js";
import { get, known, store } from "./data.js";
import { clock, count, fill, h, problem, shown, spinner } from "./dom.js";
import { Refresher } from "./refresh.js";

/** What to say where there are no counters. */
export const NOT_READ = "Counters are not read: a master does with enabled = true in section [counters].";

/** Milliseconds between two readings of the past while it is shown. */
const EVERY = 30_000;

const HOUR = 3_600_000;
/** Spans to choose from, in milliseconds. */
const SPANS = [[HOUR, "an hour"], [6 * HOUR, "6 hours"], [24 * HOUR, "a day"], [7 * 24 * HOUR, "a week"], [30 * 24 * HOUR, "30 days"]];

/** The span that was chosen last, for all charts. */
let span = 24 * HOUR;

/** The begin of each step of a span in milliseconds, and the place of a time among them. */
function stepsOf(since, until, step) {
  const first = since - (since % step);
  const length = Math.max(Math.ceil((until - first) / step), 1);
  const times = Array.from({ length }, (_, at) => first + at * step);
  return { times, place: (time) => Math.floor((time - first) / step) };
}

/** Values at their places among `length` steps; null where nothing was read. */
function placed(length, values, place) {
  const steps = new Array(length).fill(null);
  values.forEach((value, at) => {
    const to = place(value, at);
    if (to >= 0 && to < length) steps[to] = value;
  });
  return steps;
}

/** Counters that are no errors of the port, and why: they are listed, and not summed up. */
const OTHER = {
  PortRcvRemotePhysicalErrors: "whose cause is another link",
  PortRcvSwitchRelayErrors: "for which the switch has no way on",
  PortFECCorrectedSymbolCtr: "that error correction has mended",
};

/** The errors of a step. */
export const errorsIn = (step) => step.errors.reduce((sum, error) => sum + (OTHER[error.name] ? 0 : Number(error.count)), 0);

/** What errors a step has in words. */
const errorsOf = (step) => step?.errors.map((error) => `${error.name} ${count(error.count)}`).join(", ") ?? "";

/** Errors by counter, over all steps: name, number, first and last time. */
function totals(series) {
  const found = new Map();
  for (const step of series.steps) {
    for (const error of step.errors) {
      const one = found.get(error.name) ?? { name: error.name, count: 0, first: error.first_unix_ms, last: 0 };
      one.count += Number(error.count);
      one.last = Math.max(one.last, error.last_unix_ms);
      found.set(error.name, one);
    }
  }
  return [...found.values()].sort((one, two) => two.count - one.count);
}

/** Charts of a part, read again while they are shown. */
export class PastCharts {
  /** `part` is a node, `NODE:PORT`, or empty for the fabric. */
  constructor(part = "") {
    this.part = part;
    this.choice = h("select", { "aria-label": "Span of the charts", onchange: () => this.choose() },
      SPANS.map(([ms, text]) => h("option", { value: ms, selected: ms === span }, text)));
    this.body = h("div", { class: "charts" }, spinner("Reading the past"));
    this.root = h("div", { class: "past" }, h("div", { class: "past-head" }, h("h3", {}, "Traffic and errors"), this.choice), this.body);
    this.refresher = new Refresher((signal) => this.load(signal), (error) => fill(this.body, problem(error)));
    this.timer = setInterval(() => document.hidden || this.refresher.changed(), EVERY);
  }

  close() {
    clearInterval(this.timer);
    this.refresher.stop();
  }

  open() {
    return this.refresher.now();
  }

  choose() {
    span = Number(this.choice.value);
    return this.refresher.now();
  }

  async load(signal) {
    await known();
    if (signal.aborted) return;
    if (!store.counters) return fill(this.body, h("p", { class: "muted none" }, NOT_READ));
    const series = await get("counter-series", { part: this.part, since_unix_ms: Date.now() - span }, signal);
    this.show(series);
  }

  show(series) {
    const step = series.step_seconds * 1000;
    const { times, place } = stepsOf(series.since_unix_ms, series.until_unix_ms, step);
    const steps = placed(times.length, series.steps, (one) => place(one.start_unix_ms));
    const traffic = (of) => steps.map((one) => one?.traffic ? of(one.traffic) : null);
    const bytes = (value) => short(value, "B/s");
    const errors = steps.map((one) => (one ? errorsIn(one) : null));
    const rates = [
      { name: "sent", kind: "area", values: traffic((one) => one.xmit_bytes_per_s), show: bytes },
      { name: "received", kind: "line", values: traffic((one) => one.rcv_bytes_per_s), show: bytes },
    ];
    const waits = [{ name: "waits", kind: "area", values: traffic((one) => one.wait_ticks_per_s), show: (value) => `${short(value)} ticks/s` }];
    const faults = [{ name: "errors", kind: "bars", values: errors, show: (value) => count(value) }];
    const named = totals(series);
    fill(this.body,
      series.steps.length ? null : h("p", { class: "muted none" }, "Nothing was read in this span."),
      chart({ title: this.part ? "Throughput" : "Throughput of all ports of switches", series: rates, times, step }),
      chart({ title: "Errors", series: faults, times, step, note: (at) => (errorsOf(steps[at]) ? ` (${errorsOf(steps[at])})` : "") }),
      named.length ? h("ul", { class: "totals" }, named.map((one) => h("li", {}, h("b", {}, count(one.count)), " ", shown(one.name),
        h("span", { class: "muted" }, `${OTHER[one.name] ? `, ${OTHER[one.name]},` : ""} from ${clock(one.first)} to ${clock(one.last)}`)))) : null,
      chart({ title: "Waiting to send (PortXmitWait)", series: waits, times, step }),
      series.began_unix_ms > series.since_unix_ms ? h("p", { class: "muted none" }, `The past of the counters begins at ${clock(series.began_unix_ms)}.`) : null);
    document.documentElement.dataset.charted = this.part || "fabric";
  }
}

/** Steps of a small chart. */
const TREND_STEPS = 48;

/** Traffic and errors of the ports of a node over the last hours, as small charts by port number;
 * empty where nothing was read. */
export async function trends(node, signal) {
  await known();
  if (signal.aborted || !store.counters) return new Map();
  const [since, until] = [Date.now() - span, Date.now()];
  const answer = await get("port-trends", { node, since_unix_ms: since, step_seconds: Math.ceil(span / 1000 / TREND_STEPS) }, signal);
  const { times, place } = stepsOf(since, until, answer.step_seconds * 1000);
  const over = (values) => placed(times.length, values, (_, at) => place(answer.step_start_unix_ms[at]));
  // One scale for all ports: what differs is seen.
  const most = highest(answer.ports.flatMap((one) => one.bytes_per_s));
  return new Map(answer.ports.map((one) => {
    const known = over(one.bytes_per_s.map((value) => (value < 0 ? null : value)));
    const errors = one.errors.reduce((sum, errors) => sum + Number(errors), 0);
    const text = `traffic of port ${one.port.number}, at most ${short(highest(one.bytes_per_s), "B/s")}${errors ? `; ${count(errors)} errors` : ""}`;
    return [one.port.number, h("span", { class: "trend", title: text }, spark(known, text, "area", most), errors ? spark(over(one.errors.map(Number)), `${count(errors)} errors`, "bars") : null)];
  }));
}
