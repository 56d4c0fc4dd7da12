// The fabric by tiers, with the panel of what is selected.

import { Picture } from "./canvas.js";
import { all, get, store } from "./data.js";
import { neighbours, showGone, showHost, showSwitch } from "./detail.js";
import { takeAsked } from "./early.js";
import { arrows, count, fill, h, name, plural, problem, say, shown, spinner } from "./dom.js";
import { PastCharts, trends } from "./past.js";
import { findingsSection, parsePort, showPort } from "./port.js";
import { Refresher } from "./refresh.js";
import { KINDS, PAINTS, Scene, levelKind } from "./scene.js";

/** Milliseconds between two readings of load or errors while links show them, and while pods do. */
const LOAD_EVERY = 5000;
const POD_LOAD_EVERY = 30000;

/** The last scene: views and the search share it. */
export const shared = { scene: null, path: [], paint: "state" };

let loading;
let tag;

/** Reads the graph, unless it is the one that is known. Calls at the same time are one. */
export async function loadScene() {
  // The stream of changes tells the generation that is in force.
  if (shared.scene && store.connected && shared.scene.generation === Number(store.status?.generation)) return shared.scene;
  loading ??= (async () => {
    try {
      const answer = await (takeAsked() ?? fetch("/api/v1/graph", { headers: tag && shared.scene ? { "if-none-match": tag } : {} }));
      if (answer.status !== 304) {
        const graph = await answer.json();
        if (!answer.ok) throw new Error(graph.error);
        tag = answer.headers.get("etag");
        shared.scene = new Scene(graph);
      }
      return shared.scene;
    } finally {
      loading = undefined;
    }
  })();
  return loading;
}

export class FabricView {
  constructor(root, go) {
    this.go = go;
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "The fabric by tiers. Arrow keys move from switch to switch, Enter goes to the details, plus and minus zoom, 0 shows all, Escape closes." });
    this.legend = h("div", { class: "float legend" });
    this.tip = h("div", { class: "float tip", hidden: true });
    this.panel = h("aside", { class: "side", hidden: true, "aria-label": "Details", onkeydown: (event) => {
      if (event.key === "Escape") this.closePanel();
    } });
    arrows(this.panel, ".list button", "ArrowUp", "ArrowDown");
    this.wait = spinner("Reading the fabric");
    const tool = (label, sign, act) => h("button", { class: "icon", type: "button", "aria-label": label, title: label, onclick: act }, sign);
    this.stage = h("div", { class: "stage" }, this.canvas, this.wait, this.legend, this.tip,
      h("div", { class: "float tools", role: "group", "aria-label": "Zoom" },
        tool("Zoom in", "+", () => this.picture.zoom(1.5)),
        tool("Zoom out", "−", () => this.picture.zoom(1 / 1.5)),
        tool("Show all", "⤢", () => this.picture.fit())));
    fill(root, h("div", { class: "fabric" }, this.stage, this.panel));
    this.picture = new Picture(this.canvas, {
      pick: (at) => this.pick(at),
      host: (host) => this.go(`fabric/${host.there.port.node_guid}`),
      hover: (at, host, here, pod) => this.hover(at, host, here, pod),
      drawn: (near) => this.drawn(near),
      under: () => this.legend.offsetHeight,
      enter: () => (this.panel.querySelector(".list button") ?? this.panel.querySelector("button"))?.focus(),
    });
    this.picture.path = shared.path;
    /** Fulfilled when the fabric is on the screen. */
    this.firstPicture = new Promise((done) => { this.wasDrawn = done; });
    this.choice = h("select", { "aria-label": "Colour links by", onchange: () => this.choose(this.choice.value) },
      Object.entries(PAINTS).map(([value, { title }]) => h("option", { value, selected: value === shared.paint }, `by ${title}`)));
    this.refresher = new Refresher((signal) => this.follow(signal), () => {});
    this.timer = setInterval(() => document.hidden || this.loading || this.isLoadFresh() || this.readLoad(), LOAD_EVERY);
  }

  close() {
    clearInterval(this.timer);
    this.refresher.stop();
    this.loading?.abort();
    this.reading?.abort();
    this.picture.close();
    this.past?.close();
  }

  async open(guid) {
    try {
      const scene = await loadScene();
      this.wait.hidden = true;
      if (this.picture.scene !== scene) this.picture.show(scene);
      this.drawLegend();
      if (shared.paint !== "state") this.readLoad();
      if (!scene.count) fill(this.legend, "There are no switches: the subnet manager's port sees none.");
    } catch (error) {
      fill(this.wait, problem(error));
      this.wait.hidden = false;
      return;
    }
    await this.select(guid);
  }

  /** The subnet has changed. */
  async changed(changes) {
    if (changes.any) await this.refresher.changed();
  }

  /** Reads the fabric again, and what the panel shows. */
  async follow(signal) {
    const before = this.picture.scene;
    const scene = await loadScene();
    if (signal.aborted) return;
    // The server draws a fabric that changes at most so often: it may not have the last change yet.
    if (scene.generation !== Number(store.status?.generation)) this.refresher.isStale = true;
    if (scene === before) return;
    this.wait.hidden = true;
    this.picture.show(scene);
    this.drawLegend();
    if (shared.paint !== "state" || this.picture.tiled) this.readLoad();
    if (this.shown) await this.select(this.shown, true);
  }

  /** Takes the focus: the arrow keys go on from the node that is shown. */
  focus() {
    this.canvas.focus({ preventScroll: true });
  }

  restyle() {
    this.picture.restyle();
  }

  /** Colours links by something else from now on. */
  choose(paint) {
    shared.paint = paint;
    this.loadNote = "";
    this.picture.scene?.paint(paint, null);
    this.picture.weigh(paint, null);
    this.drawLegend();
    this.picture.redraw();
    if (paint !== "state" || this.picture.tiled) this.readLoad();
  }

  /** Whether the load needs no reading now: links show their state, and pods are not shown or have
   * been read lately. */
  isLoadFresh() {
    return shared.paint === "state" && (!this.picture.tiled || performance.now() - this.loadAt < POD_LOAD_EVERY);
  }

  /** Reads load and errors of the links, and colours them; a reading under way is given up. */
  async readLoad() {
    this.loading?.abort();
    const mine = this.loading = new AbortController();
    const { signal } = mine;
    try {
      const load = await get("graph-load", {}, signal);
      const { paint } = shared;
      let { scene } = this.picture;
      if (signal.aborted || !scene) return;
      if (load.shape !== scene.shape) {
        const newer = await loadScene();
        if (signal.aborted) return;
        if (newer !== scene) this.picture.show(newer);
        scene = newer;
      }
      const fits = load.shape === scene.shape;
      this.loadAt = fits && (load.ports || !load.collecting) ? performance.now() : -Infinity;
      this.picture.weigh(paint, load);
      this.loadNote = load.ports ? "" : load.collecting ? "no counters read yet" : "counters are off: [counters] enabled";
      if (fits) scene.paint(paint, paint === "state" ? null : load[PAINTS[paint].column]);
      document.documentElement.dataset.painted = fits ? paint : "";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.loadNote = error.message;
    } finally {
      if (this.loading === mine) this.loading = undefined;
    }
    this.drawLegend();
    this.picture.redraw();
  }

  pick(at) {
    const { scene } = this.picture;
    this.go(at < 0 ? "fabric" : `fabric/${scene.guid[at]}`);
  }

  /** Shows the node or port in the panel; `again` after a change: what is shown stays until it is read. */
  async select(target, again = false) {
    this.reading?.abort();
    this.reading = new AbortController();
    const { signal } = this.reading;
    const { picture, panel } = this;
    const same = again && this.panelOf === target;
    this.shown = target;
    panel.hidden = !target;
    if (!same) {
      picture.openHosts = this.panelOf = this.trends = undefined;
      this.past?.close();
      this.past = target ? new PastCharts(target) : undefined;
    }
    picture.selected = -1;
    picture.cable = undefined;
    picture.redraw();
    if (!target) return;
    const acts = {
      open: (node) => this.go(`fabric/${node}`),
      close: () => this.closePanel(),
      path: (from) => this.go(`path?from=${encodeURIComponent(from)}`),
    };
    const port = parsePort(target);
    const at = picture.scene?.index.get(port?.guid ?? target);
    const isThere = port ? await this.selectPort(target, at, signal, acts, same)
      : at === undefined ? await this.selectHost(target, signal, acts, same) : await this.selectSwitch(at, signal, acts, again, same);
    if (signal.aborted || !isThere) return;
    this.panelOf = target;
    // The past is read when everything else is drawn.
    await this.firstPicture;
    if (!same && !signal.aborted) this.past.open();
  }

  /** Marks a switch, and brings it into sight. */
  mark(at, stays) {
    const { picture } = this;
    picture.selected = at;
    if (!stays && (picture.moved || picture.scale < 5 || picture.width < 640)) picture.go(at);
    picture.redraw();
  }

  async selectSwitch(at, signal, acts, again, same) {
    const { picture, panel } = this;
    const { scene } = picture;
    const guid = scene.guid[at];
    this.mark(at, again);
    if (!same) say(`${shown(scene.name[at])}, ${scene.tierName(scene.tier(at))}, ${plural(scene.hosts[at], "host")}`);
    if (scene.isGone(at)) {
      await showGone(panel, scene, at, signal, acts);
      return false;
    }
    try {
      const { node } = await get("node", { node: guid }, signal);
      const parts = { node, missing: scene.missing.get(at) ?? [], flags: scene.flags[at], past: this.past, trends: this.trends };
      if (!same) showSwitch(panel, parts, undefined, acts);
      const [links, findings] = await Promise.all([neighbours(guid, signal), this.findings(guid, signal)]);
      const show = () => showSwitch(panel, { ...parts, findings, trends: this.trends }, links, acts);
      show();
      picture.openHosts = links.hosts;
      picture.openGuid = guid;
      picture.redraw();
      if (!same) this.readTrends(guid, signal).then((isRead) => isRead && show());
      return true;
    } catch (error) {
      if (error.name !== "AbortError") fill(panel, h("section", {}, problem(error)));
      return false;
    }
  }

  /** Reads the small charts of a switch's ports; without them the list is as good. */
  async readTrends(guid, signal) {
    await this.firstPicture;
    const read = await trends(guid, signal).catch(() => null);
    if (signal.aborted || !read?.size) return false;
    this.trends = read;
    return true;
  }

  /** The findings about a node, as a section. */
  async findings(guid, signal) {
    const { list } = await all("findings", "findings", { node: guid }, signal);
    return findingsSection(list);
  }

  async selectHost(guid, signal, acts, same) {
    const links = await showHost(this.panel, guid, signal, acts, { past: this.past, findings: this.findings }, same);
    if (signal.aborted || !links) return false;
    const at = this.picture.scene?.index.get(links[0]?.there.port.node_guid);
    if (at !== undefined) this.mark(at, same);
    return true;
  }

  /** Shows a port, and marks its cable. */
  async selectPort(target, at, signal, acts, same) {
    const { picture } = this;
    if (at !== undefined) this.mark(at, same);
    const port = await showPort(this.panel, target, signal, acts, this.past, same);
    if (signal.aborted || !port) return false;
    const peer = picture.scene?.index.get((port.peer ?? port.gone_cable)?.port.node_guid);
    if (at === undefined && peer !== undefined) this.mark(peer, same);
    if (at !== undefined && peer !== undefined) picture.cable = [at, peer];
    picture.redraw();
    if (!same) say(`${shown(port.node_description)} port ${port.key.number}, ${port.state ?? "unknown"}`);
    return true;
  }

  /** The focus goes back to the fabric: keys go on where they were. */
  closePanel() {
    this.go("fabric");
    this.focus();
  }

  hover(at, host, [x, y], pod) {
    const { scene, pods } = this.picture;
    this.tip.hidden = at < 0 && !host && !pod;
    if (this.tip.hidden) return;
    if (pod) fill(this.tip, h("b", {}, name(pod.name)), pods.facts(pod).join(" · "));
    else if (host) fill(this.tip, h("b", {}, name(host.there.description)), `port ${host.port} of the leaf · ${host.bad ? "needs a look" : "active"}`);
    else {
      const links = scene.linksOf(at);
      let [cables, bad] = [0, 0];
      for (const link of links) {
        cables += scene.link(link)[2];
        bad += scene.link(link)[3];
      }
      const facts = scene.isGone(at) ? ["gone", plural(cables, "switch link") + " before"]
        : [`LID ${scene.lid[at] || "none"}`, plural(cables, "switch link")];
      if (scene.hosts[at]) facts.push(plural(scene.hosts[at], "host"));
      if (bad + scene.hosts_bad[at] && !scene.isGone(at)) facts.push(`${count(bad + scene.hosts_bad[at])} need a look`);
      if (scene.flags[at] & 1) facts.push("does not answer");
      if (scene.flags[at] & 2) facts.push("drained");
      if (scene.flags[at] & 4) facts.push("unhealthy, isolated");
      if (scene.missing.has(at)) facts.push(`cables missing at ports ${scene.missing.get(at).join(", ")}`);
      fill(this.tip, h("b", {}, name(scene.name[at])), facts.join(" · "));
    }
    const room = this.stage.getBoundingClientRect();
    this.tip.style.left = `${Math.min(x + 14, room.width - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${Math.max(4, y > room.height - 90 ? y - this.tip.offsetHeight - 12 : y + 16)}px`;
  }

  drawLegend() {
    const { scene } = this.picture;
    const kinds = scene.kindCounts;
    const hosts = scene.tierCounts.reduce((sum, tier) => sum + tier.hosts, 0);
    const painted = scene.paintedKinds ? PAINTS[shared.paint] : null;
    const links = painted
      ? painted.texts.map((text, level) => h("span", {}, h("i", { class: `k${levelKind(level)}` }), `${count(scene.levelCounts[level])} ${text}`))
      : kinds.map((number, kind) => (number || !kind ? h("span", {}, h("i", { class: `k${kind}` }), `${count(number)} ${kind ? KINDS[kind] : "links between switches"}`) : null));
    fill(this.legend,
      this.choice,
      h("span", {}, h("b", {}, count(scene.count - scene.goneCount)), " switches"),
      scene.goneCount ? h("span", { class: "gone" }, h("i", { class: "box gone" }), `${plural(scene.goneCount, "switch", "switches")} gone`) : null,
      h("span", {}, h("b", {}, count(hosts)), " host ports"),
      links,
      this.loadNote ? h("span", {}, this.loadNote) : null,
      this.picture.tiled ? h("span", {}, "a tile for each pod, with the load of its links: a click goes there") : null,
      shared.path.length ? h("span", {}, "path shown ", h("button", { class: "key", type: "button", onclick: () => this.clearPath() }, "clear")) : null);
  }

  clearPath() {
    shared.path = this.picture.path = [];
    this.drawLegend();
    this.picture.redraw();
  }

  /** The first picture is on the screen after the next frame. */
  drawn(near) {
    const root = document.documentElement;
    root.dataset.generation = this.picture.scene.generation;
    root.dataset.drawn = `${near.switches} switches`;
    root.dataset.folded = near.hosts;
    root.dataset.pods = near.pods ?? "";
    if (this.wasTiled !== Boolean(near.pods)) {
      this.wasTiled = Boolean(near.pods);
      this.drawLegend();
    }
    root.dataset.firstPicture ??= Math.round(performance.now());
    this.wasDrawn();
    if (near.pods && this.loadAt === undefined) {
      this.loadAt = performance.now();
      setTimeout(() => this.readLoad());
    }
  }
}
