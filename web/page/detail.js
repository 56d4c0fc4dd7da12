// The panel beside the fabric: a switch with its links and hosts, or a host.

import { all, get } from "./data.js";
import { count, fill, h, name, plural, problem, refill, shown, spinner, visible } from "./dom.js";

/** What a link looks like in words: `4x NDR`. */
export function linkText(link) {
  const rate = [link.width, link.speed?.toUpperCase()].filter(Boolean).join(" ");
  return link.state === "active" ? rate || "active" : link.state ?? "unknown";
}

/** Why routes go around a part, in words; empty where they use it. */
export const avoidanceText = (part) => ({
  "draining": "being drained", "drained": "drained", "isolated": "unhealthy, isolated",
  "drained-in-use": "drained, in use all the same", "isolated-in-use": "unhealthy, in use all the same",
})[part.avoidance] ?? part.avoidance ?? "";

/** How bad a link is: "", "warn" or "bad". A drained one may be inactive. */
export const linkClass = (link) => (link.state !== "active" && !link.avoidance?.startsWith("drain") ? "bad"
  : link.damped || link.slow || link.avoidance ? "warn" : "");

/** The state of a link in words. */
export const linkState = (link) => [link.damped ? "flapping" : link.state, link.slow ? "slow" : "", avoidanceText(link)].filter(Boolean).join(", ");

/** The two ends of a link, the one at `guid` first. */
function ends(link, guid) {
  return link.a.port.node_guid === guid ? [link.a, link.b] : [link.b, link.a];
}

/** Reduction engines inside switches (SHARP) are no hosts: each switch can have one. */
const isEngine = (description) => description.startsWith("Mellanox Technologies Aggregation Node");

/** The hosts of a switch, by the port they are at, its reduction engine, and its links to other
 * switches. */
export async function neighbours(guid, signal) {
  const { list } = await all("links", "links", { node: guid }, signal);
  const sides = list.map((link) => {
    const [here, there] = ends(link, guid);
    return { link, port: here.port.number, there, bad: linkClass(link) !== "" };
  });
  sides.sort((one, two) => one.port - two.port);
  return {
    hosts: sides.filter((side) => side.there.kind !== "switch" && !isEngine(side.there.description)),
    engines: sides.filter((side) => side.there.kind !== "switch" && isEngine(side.there.description)),
    switches: sides.filter((side) => side.there.kind === "switch"),
  };
}

/** A line of a list of facts. */
export const term = (key, ...value) => [h("dt", {}, key), h("dd", {}, ...value)];

/** The whole description of a node, where its name is a part of it. */
const described = (node) => (visible(node.description) === shown(node.description) ? null : term("Description", h("span", { class: "mono" }, visible(node.description))));

/** The head of a panel. */
export function head(title, kind, close) {
  return h("header", {},
    h("h2", {}, h("span", { class: "kind" }, kind), name(title)),
    h("button", { class: "icon", type: "button", "aria-label": "Close", onclick: close }, "✕"));
}

/** A link of the node `guid`: its port leads to the port, its other end to that node. */
function side(guid, entry, open, trend) {
  const { link, port, there } = entry;
  return h("li", {}, h("a", { class: "port", href: `#/fabric/${guid}:${port}`, title: `port ${port}: counters, findings, history` }, port),
    h("button", { type: "button", onclick: () => open(there.port.node_guid, there.kind) },
      name(there.description, { class: "name" }), trend ?? null,
      h("span", { class: `end ${linkClass(link)}` }, [linkText(link), avoidanceText(link)].filter(Boolean).join(", "), " · ", there.port.number)));
}

/** A list of links of the node `guid`. */
const sides = (guid, title, entries, open, trends, more = "") => (entries.length ? h("section", {},
  h("h3", {}, title),
  h("ul", { class: `list ${more}` }, entries.map((entry) => side(guid, entry, open, trends?.get(entry.port))))) : null);

/** Shows a switch. `open` leads to another node; `links` are those of [`neighbours`], `trends` small
 * charts by port, `findings` and `past` further sections. */
export function showSwitch(panel, { node, missing, flags, findings, past, trends }, links, { open, close, path }) {
  const active = links && [...links.hosts, ...links.switches].filter((one) => !one.bad).length;
  refill(panel,
    head(node.description, "Switch", close),
    h("section", {},
      flags & 1 ? h("p", { class: "error" }, "It does not answer. Routes pass it by after four sweeps without an answer.") : null,
      node.avoidance ? h("p", {}, h("span", { class: "tag warn" }, avoidanceText(node)), node.avoidance.endsWith("in-use") ? " Ports would be cut off otherwise." : " Routes pass it by.") : null,
      h("dl", {},
        described(node),
        term("GUID", h("span", { class: "mono" }, node.guid)),
        term("LID", node.lids.join(", ") || "none"),
        term("Ports", `${count(node.ports_active)} of ${count(node.num_ports)} active`),
        term("Rank", node.rank ?? "none"),
        term("Device", h("span", { class: "mono" }, `vendor 0x${node.vendor_id.toString(16)}, device ${node.device_id}, rev ${node.revision}`)),
        missing.length ? term("Missing", `cables at ports ${missing.join(", ")}`) : null),
      h("div", { class: "row" },
        h("a", { class: "btn", href: `#/what-if?remove=${encodeURIComponent(node.guid)}` }, "What if it fails"),
        h("button", { class: "btn", type: "button", onclick: () => path(node.guid) }, "Path from here"))),
    links ? [
      findings,
      h("section", {}, past.root),
      sides(node.guid, plural(links.hosts.length, "host port"), links.hosts, open, trends, "hosts"),
      sides(node.guid, `${plural(links.switches.length, "link")} to switches`, links.switches, open, trends),
      sides(node.guid, "Reduction engine", links.engines, open, trends),
      active === 0 ? h("p", { class: "empty" }, "No link is active.") : null,
    ] : spinner("Reading links"));
}

/** Shows a switch that is gone: where and until when it was there, and where its cables led. */
export async function showGone(panel, scene, at, signal, { open, close }) {
  const guid = scene.guid[at];
  // The server's answer to a look-up says where it was, and until when.
  const told = await get("node", { node: guid }, signal).then(() => null, (error) => error);
  if (signal.aborted) return;
  const links = [...scene.linksOf(at)].map((link) => ({ peer: scene.peer(link, at), cables: scene.link(link)[2] }));
  refill(panel,
    head(scene.name[at], "Switch, gone", close),
    h("section", {},
      told ? problem(told) : h("p", { class: "empty" }, "It is back: the picture follows."),
      h("dl", {},
        term("GUID", h("span", { class: "mono" }, guid)),
        term("LID", `${scene.lid[at] || "none"} before`))),
    h("section", {},
      h("h3", {}, `${plural(links.reduce((sum, one) => sum + one.cables, 0), "cable")} to switches before`),
      h("ul", { class: "list" }, links.map(({ peer, cables }) => h("li", {}, h("button", { type: "button", onclick: () => open(scene.guid[peer]) },
        h("span", { class: "port" }, cables), name(scene.name[peer], { class: "name" }), h("span", { class: "end" }, scene.isGone(peer) ? "gone as well" : "")))))));
}

/** Shows a host or router; `past` are its charts. Returns its links; nothing where it is not there. */
export async function showHost(panel, guid, signal, { open, close, path }, { past, findings }, again = false) {
  if (!again) fill(panel, spinner("Reading the host"));
  try {
    const [{ node }, { list }] = await Promise.all([get("node", { node: guid }, signal), all("links", "links", { node: guid }, signal)]);
    const wrong = await findings(guid, signal);
    const links = list.map((link) => {
      const [here, there] = ends(link, guid);
      return { link, port: here.port.number, there };
    });
    refill(panel,
      head(node.description, node.kind === "router" ? "Router" : "Host adapter", close),
      h("section", {},
        h("dl", {},
          described(node),
          term("GUID", h("span", { class: "mono" }, node.guid)),
          term("LID", node.lids.join(", ") || "none"),
          term("Ports", `${count(node.ports_active)} of ${count(node.num_ports)} active`),
          term("Distance", plural(node.distance, "link") + " from the subnet manager"),
          node.avoidance ? term("Routes", avoidanceText(node)) : null),
        h("div", { class: "row" },
          h("button", { class: "btn", type: "button", onclick: () => path(guid) }, "Path from here"))),
      wrong,
      sides(guid, plural(links.length, "link"), links, open),
      h("section", {}, past.root));
    return links;
  } catch (error) {
    if (error.name !== "AbortError") fill(panel, head(shown(guid), "Node", close), h("section", {}, problem(error)));
    return undefined;
  }
}
