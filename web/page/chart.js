// Charts over time: a few lines of SVG. A step without a value is a gap, not a zero.

import { clock, h } from "./dom.js";

/** The inner size of a chart; it is stretched to its place. */
const [WIDE, HIGH] = [1000, 100];

/** An element of SVG. */
export function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A number as people say it: `1.25 G`. */
export function short(value, unit = "") {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [by, prefix] = steps.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  const number = value / by;
  const digits = number && by > 1 && Math.abs(number) < 100 ? (Math.abs(number) < 10 ? 2 : 1) : Number.isInteger(number) || Math.abs(number) >= 10 ? 0 : 1;
  return `${number.toFixed(digits)}${prefix || unit ? " " : ""}${prefix}${unit}`;
}

/** Runs of values that are known: `[from, to]`, the last one included. */
function runs(values) {
  const found = [];
  values.forEach((value, at) => {
    if (value === null) return;
    const last = found[found.length - 1];
    if (last && last[1] === at - 1) last[1] = at;
    else found.push([at, at]);
  });
  return found;
}

/** The line over the values, from the middle of a step to the next, for each run. */
function line(values, most, closed) {
  const x = (at) => ((at + 0.5) * WIDE) / values.length;
  const y = (at) => HIGH - (most > 0 ? (values[at] / most) * HIGH : 0);
  return runs(values).map(([from, to]) => {
    // A single value is a dash as wide as its step.
    const half = from === to ? WIDE / values.length / 2 : 0;
    const steps = [];
    for (let at = from; at <= to; at++) steps.push(`${x(at).toFixed(1)},${y(at).toFixed(1)}`);
    const points = half ? [`${x(from) - half},${y(from)}`, `${x(from) + half},${y(from)}`] : steps;
    return closed ? `M${x(from) - half},${HIGH}L${points.join("L")}L${x(to) + half},${HIGH}Z` : `M${points.join("L")}`;
  }).join("");
}

/** A bar for each step that has something. */
function bars(values, most) {
  const wide = WIDE / values.length;
  return values.map((value, at) => {
    if (!value) return "";
    // What has happened is seen, however little it is of the most.
    const tall = Math.max((value / most) * HIGH, 3);
    return `M${(at * wide).toFixed(1)},${HIGH}v${-tall.toFixed(1)}h${Math.max(wide * 0.85, 1.5).toFixed(1)}V${HIGH}Z`;
  }).join("");
}

const DRAW = {
  area: (values, most) => [svg("path", { class: "area", d: line(values, most, true) }), svg("path", { class: "line", d: line(values, most, false) })],
  line: (values, most) => [svg("path", { class: "line second", d: line(values, most, false) })],
  bars: (values, most) => [svg("path", { class: "bars", d: bars(values, most) })],
};

/** The highest of values that are known. */
export const highest = (values) => values.reduce((most, value) => (value !== null && value > most ? value : most), 0);

/** A small chart without axes; `text` says what it shows, `most` is the value at its top. */
export function spark(values, text, kind = "area", most = highest(values)) {
  return svg("svg", { class: `sparkline ${kind}`, viewBox: `0 -4 ${WIDE} ${HIGH + 8}`, preserveAspectRatio: "none", role: "img", "aria-label": text }, ...DRAW[kind](values, most));
}

/** A chart: `title`; `series` of `{name, kind, values, show}`, where `kind` is `area`, `line` or
 * `bars`; `times` with the begin of each step in milliseconds; `told` says a step in words. */
export function chart({ title, series, times, step, note }) {
  const most = Math.max(...series.map((one) => highest(one.values)));
  const [first] = series;
  const at = first.values.indexOf(highest(first.values));
  const isEmpty = series.every((one) => one.values.every((value) => value === null));
  const summary = isEmpty ? "nothing was read" : most > 0 ? `at most ${first.show(most)}, at ${clock(times[Math.max(at, 0)])}` : "zero all the time";
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${summary}` },
    ...[0.25, 0.5, 0.75].map((part) => svg("path", { class: "rule", d: `M0,${HIGH * part}H${WIDE}` })),
    ...series.flatMap((one) => DRAW[one.kind](one.values, most)));
  const cross = h("div", { class: "cross", hidden: true });
  const read = h("div", { class: "read muted", "aria-live": "off" }, summary);
  const plot = h("div", { class: "plot" }, picture, cross, h("span", { class: "most" }, most > 0 ? first.show(most) : ""));
  const leave = () => {
    cross.hidden = true;
    read.textContent = summary;
  };
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const place = Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * times.length), 0), times.length - 1);
    cross.hidden = false;
    cross.style.left = `${((place + 0.5) / times.length) * 100}%`;
    const values = series.map((one) => (one.values[place] === null ? `${one.name} not read` : `${one.name} ${one.show(one.values[place])}`));
    read.textContent = `${clock(times[place])}: ${values.join(", ")}${note ? note(place) : ""}`;
  });
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("b", {}, title),
      series.length > 1 ? series.map((one) => h("span", { class: `mark ${one.kind}` }, one.name)) : null),
    read, plot,
    h("div", { class: "axis muted", "aria-hidden": "true" }, ticks(times, step).map((text) => h("span", {}, text))));
}

/** Four times from the begin to the end. */
function ticks(times, step) {
  const [from, until] = [times[0], times[times.length - 1] + step];
  const isLong = until - from > 2 * 86_400_000;
  const text = (ms) => (isLong ? new Date(ms).toLocaleDateString([], { month: "short", day: "2-digit" })
    : new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false }));
  return [0, 1 / 3, 2 / 3, 1].map((part) => text(from + (until - from) * part));
}
