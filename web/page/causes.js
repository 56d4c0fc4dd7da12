// Findings by cause: those of one kind and severity are one line with its count and its parts.

import { clock, count, h, shown, when } from "./dom.js";

/** The colour of a severity. */
export const SEVERITY = { error: "bad", warning: "warn", info: "info" };

const RANK = { error: 0, warning: 1, info: 2 };

/** Parts of a cause that are named before it is unfolded. */
const PARTS = 6;

/** Where a finding leads: to its port, or to its node. */
export const place = (one) => (one.node_guid ? `#/fabric/${one.node_guid}${one.port ? `:${one.port}` : ""}` : undefined);

/** The part of a finding as a link that leads to it. */
export function part(one) {
  const text = shown(one.name) || (one.node_guid ? one.node_guid + (one.port === null ? "" : `:${one.port}`) : "");
  return text ? h("a", { href: place(one), class: "part" }, h("bdi", {}, text)) : null;
}

/** Findings by cause, the most severe first, of one severity the newest first. */
export function causes(findings) {
  const sorted = [...findings].sort((one, two) => (RANK[one.severity] ?? 3) - (RANK[two.severity] ?? 3)
    || two.raised_unix_ms - one.raised_unix_ms || two.id - one.id);
  const found = new Map();
  for (const one of sorted) {
    const key = `${one.severity} ${one.kind}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(one);
  }
  return [...found.values()];
}

/** The least length of a text that stands for several messages. */
const TELLING = 60;

/** What a cause means and what to do: the clauses that all its messages end with; the first message
 * where these say too little. */
export function meaning(findings) {
  const messages = findings.map((one) => one.message);
  const [first] = messages;
  if (messages.length === 1) return first;
  for (const mark of first.matchAll(/[:;] /g)) {
    const end = first.slice(mark.index + 2);
    if (messages.every((one) => one.endsWith(end))) return end.length < TELLING ? first : end;
  }
  return first;
}

/** The parts of a cause, the first ones at once. */
export function parts(findings) {
  const links = findings.map(part).filter(Boolean);
  const rest = links.splice(PARTS);
  return links.length ? h("div", { class: "parts" }, links,
    rest.length ? h("details", {}, h("summary", {}, `${count(rest.length)} more`), h("div", { class: "parts" }, rest)) : null) : null;
}

/** The time since when a cause holds, or from its first finding to its last. */
export function since(findings) {
  const [last, first] = [findings[0].raised_unix_ms, findings[findings.length - 1].raised_unix_ms];
  return clock(last) === clock(first) ? when(first) : [when(first), " to ", when(last)];
}

/** The name of a kind in words: `cable missing`. */
const words = (kind) => shown(kind).replaceAll("-", " ");

/** A cause as an item of a list. */
export function cause(findings) {
  const [one] = findings;
  return h("li", { class: `cause ${SEVERITY[one.severity] ?? ""}` },
    h("div", { class: "cause-head" },
      h("span", { class: `tag ${SEVERITY[one.severity] ?? ""}` }, one.severity),
      h("b", {}, words(one.kind)), findings.length > 1 ? h("b", { class: "times" }, `×${count(findings.length)}`) : null,
      h("span", { class: "muted since" }, since(findings))),
    h("p", {}, shown(meaning(findings))),
    parts(findings));
}
