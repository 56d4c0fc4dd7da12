// The panel of a port: what it is, what is wrong with it, counters, partitions, history.

import { SEVERITY } from "./causes.js";
import { short } from "./chart.js";
import { all, get, known, store } from "./data.js";
import { avoidanceText, head, linkText, term } from "./detail.js";
import { clock, count, fill, h, hex, name, problem, refill, shown, spinner, visible, when } from "./dom.js";
import { what } from "./history.js";
import { NOT_READ } from "./past.js";

/** Events of the port that are shown. */
const EVENTS = 10;

/** The node GUID and the port number of `GUID:PORT`; undefined for a node. */
export function parsePort(target) {
  const found = /^(0x[0-9a-f]{1,16}):(\d{1,3})$/i.exec(target ?? "");
  return found ? { guid: found[1], number: Number(found[2]) } : undefined;
}

/** Findings as a section of a panel; nothing without any. */
export function findingsSection(list) {
  if (!list?.length) return null;
  return h("section", {}, h("h3", {}, "Findings"),
    h("ul", { class: "found-list" }, list.map((one) => h("li", {}, h("span", { class: `tag ${SEVERITY[one.severity] ?? ""}` }, one.severity), " ",
      shown(one.message), h("div", { class: "sub muted" }, h("span", { class: "mono" }, one.kind), " since ", when(one.raised_unix_ms))))));
}

/** The findings about a port: those at either end of its cable. */
async function findingsOf(port, peer, signal) {
  const ends = [port, peer].filter(Boolean);
  const lists = await Promise.all(ends.map((end) => all("findings", "findings", { node: end.node_guid }, signal)));
  return lists.flatMap(({ list }, at) => list.filter((one) => one.node_guid === ends[at].node_guid && one.port === ends[at].number));
}

/** The last reading of a port; undefined where there is none. */
async function countersOf(target, signal) {
  await known();
  if (signal.aborted || !store.counters) return undefined;
  const { ports } = await get("port-counters", { part: target, page_size: 1 }, signal);
  return ports[0];
}

/** An answer, or its error: one part of a panel does not take the others along. */
const tried = (answer) => answer.catch((error) => ({ error }));

/** Shows a port; `past` are its charts. Returns it, with its peer. */
export async function showPort(panel, target, signal, acts, past, again = false) {
  if (!again) fill(panel, spinner("Reading the port"));
  let answer;
  try {
    answer = await get("port", { port: target }, signal);
  } catch (error) {
    if (error.name !== "AbortError") {
      const { guid } = parsePort(target);
      fill(panel, head(shown(target), "Port", acts.close), h("section", {}, problem(error), h("div", { class: "row" }, h("a", { class: "btn", href: `#/fabric/${guid}` }, "Its node"))));
    }
    return undefined;
  }
  const { port } = answer;
  if (!again) draw(panel, answer, {}, acts, past);
  const [findings, counters, history] = await Promise.all([
    tried(findingsOf(port.key, port.peer?.port ?? port.gone_cable?.port, signal)),
    tried(countersOf(target, signal)),
    tried(get("events", { node: target, newest_first: true, page_size: EVENTS }, signal)),
  ]);
  if (signal.aborted) return undefined;
  draw(panel, answer, { findings, counters, events: history.error ? history : history.events }, acts, past);
  return port;
}

function draw(panel, { port, partitions }, { findings, counters, events }, { close, path }, past) {
  const { key, peer, gone_cable: gone } = port;
  const isSwitch = port.node_kind === "switch";
  const target = `${key.node_guid}:${key.number}`;
  const end = (one) => h("a", { href: `#/fabric/${one.port.node_guid}:${one.port.number}` }, name(one.description), ` port ${one.port.number}`);
  refill(panel,
    h("header", {},
      h("h2", {}, h("span", { class: "kind" }, isSwitch ? "Port of a switch" : "Port of a host adapter"), name(port.node_description), ` port ${key.number}`),
      h("button", { class: "icon", type: "button", "aria-label": "Close", onclick: close }, "✕")),
    h("section", {},
      h("dl", {},
        term("State", h("span", { class: `tag ${port.state === "active" ? "good" : "bad"}` }, port.state ?? "unknown"), port.physical_state === "link-up" ? null : ` ${shown(port.physical_state)}`,
          avoidanceText(port) ? h("span", { class: "tag warn" }, avoidanceText(port)) : null),
        term("Cabled to", peer ? end(peer) : gone ? [end(gone), h("span", { class: "bad" }, gone.lost_unix_ms ? ` gone since ${clock(gone.lost_unix_ms)}` : " gone")] : "nothing"),
        port.state === "active" ? term("Rate", linkText(port)) : null,
        port.mtu_bytes ? term("MTU, VLs", `${count(port.mtu_bytes)} bytes, ${port.operational_vls || "–"}`) : null,
        port.error_correction ? term("FEC", shown(port.error_correction)) : null,
        port.lid ? term("LID", port.lmc ? `${port.lid}, LMC ${port.lmc}` : port.lid) : null,
        /[1-9a-f]/.test(port.guid.slice(2)) ? term("GUID", h("span", { class: "mono" }, port.guid)) : null),
      h("div", { class: "row" },
        h("a", { class: "btn", href: `#/fabric/${key.node_guid}` }, isSwitch ? "The switch" : "The host"),
        peer ? h("a", { class: "btn", href: `#/what-if?unlink=${encodeURIComponent(target)}` }, "What if it fails") : null,
        isSwitch ? null : h("button", { class: "btn", type: "button", onclick: () => path(target) }, "Path from here"))),
    findings?.error ? h("section", {}, problem(findings.error)) : findingsSection(findings),
    events === undefined ? spinner("Reading counters") : countersSection(counters),
    h("section", {}, past.root),
    partitions.length ? h("section", {}, h("h3", {}, "Partitions"),
      h("ul", { class: "list keys" }, partitions.map((one) => h("li", {}, h("a", { href: `#/partitions?p_key=${one.p_key}` },
        h("span", { class: "mono" }, hex(one.p_key)), name(one.name, { class: "name" }), h("span", { class: "end" }, `${one.membership}, index ${one.index}`)))))) : null,
    events === undefined ? null : h("section", {}, h("h3", {}, "History"),
      events.error ? problem(events.error) : events.length ? h("ul", { class: "changes" }, events.map((event) => h("li", {}, when(event.at_unix_ms), h("div", {}, what(event))))) : h("p", { class: "muted none" }, "No event that is kept."),
      h("p", { class: "none" }, h("a", { href: `#/history?node=${encodeURIComponent(target)}` }, "All that is kept"))));
}

/** What forward error correction mends, of how much it can, and what it loses. */
function correctionText({ corrected_per_s: mended, mendable_per_s: most, lost_blocks_per_hour: lost, full }) {
  const share = most ? ` (${mended > 0 ? Number((mended / most * 100).toPrecision(1)) : 0} % of what can be)` : "";
  return [`${count(Math.round(mended))}${full ? "+" : ""} symbols/s${share}, ${count(Math.round(lost))} blocks/h`];
}

function countersSection(counters) {
  if (counters?.error) return h("section", {}, h("h3", {}, "Counters"), problem(counters.error));
  if (!counters) return h("section", {}, h("h3", {}, "Counters"), h("p", { class: "muted none" }, store.counters ? "Not read yet." : NOT_READ));
  const isKnown = (value) => value !== null && value !== undefined;
  const traffic = (rate, total) => [isKnown(rate) ? short(rate, "B/s") : "–", isKnown(total) ? h("span", { class: "muted" }, ` ${short(Number(total), "B")} in all`) : null];
  const share = (value) => (isKnown(value) ? `${(value * 100).toFixed(1)} %` : "–");
  return h("section", {}, h("h3", {}, "Counters"),
    h("dl", {},
      term("Sent", ...traffic(counters.xmit_bytes_per_s, counters.xmit_bytes)),
      term("Received", ...traffic(counters.rcv_bytes_per_s, counters.rcv_bytes)),
      term("Use, waits", `${share(counters.use_share)}, ${share(counters.wait_share)}`),
      isKnown(counters.error_correction?.corrected_per_s) ? term("Mended, lost", ...correctionText(counters.error_correction)) : null,
      term("Read", when(counters.read_unix_ms), counters.stale ? h("span", { class: "tag warn" }, "old") : null)),
    counters.errors.length ? h("table", { class: "errors" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Errors"), h("th", { scope: "col", class: "num" }, "In all"), h("th", { scope: "col", class: "num" }, "An hour"))),
      h("tbody", {}, counters.errors.map((error) => h("tr", {}, h("td", {}, visible(error.name)), h("td", { class: "num" }, count(error.total), error.full ? "+" : null), h("td", { class: "num" }, count(Math.round(error.per_hour)))))))
      : h("p", { class: "muted none" }, "No errors."));
}
