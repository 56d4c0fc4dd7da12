// Draws a scene: a canvas with pan and zoom. Far away, links between two groups are one band; near,
// each is a line. Links and switches that need a look are drawn at any distance.

import { shown, count, plural } from "./dom.js";
import { Pods, areWorthTiles } from "./pods.js";
import { GONE } from "./scene.js";

/** Lines drawn one by one; beyond, bands. */
const MOST_LINES = 7000;
/** The widest cell, in cells. */
const WIDEST = 2.3;
/** Pixels of a cell at the nearest. */
const NEAREST = 140;
/** Room around the fabric, in pixels: names of tiers, buttons, legend; on a narrow screen all of it
 * is below. */
const MARGIN = { left: 112, right: 64, top: 34, bottom: 126, under: 140 };

/** The colours of the style sheet. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["canvas", "text", "muted", "faint", "accent", "good", "warn", "bad", "slow", "drained",
    "switch", "switch-edge", "leaf", "link", "group", "host", "path", "line", "panel"].map((name) => [name, of(name)]));
}

export class Picture {
  constructor(canvas, handlers) {
    this.canvas = canvas;
    this.handlers = handlers;
    this.context = canvas.getContext("2d", { alpha: false });
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.hover = -1;
    this.selected = -1;
    this.path = [];
    /** The two switches of the port that is shown. */
    this.cable = undefined;
    /** What links are coloured by, and the last load that was read. */
    this.weighed = ["state", null];
    this.pointers = new Map();
    this.fitted = false;
    this.colours = colours();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
    this.listen();
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  restyle() {
    this.colours = colours();
    this.redraw();
  }

  show(scene) {
    const first = !this.scene;
    const guid = this.scene && this.selected >= 0 ? this.scene.guid[this.selected] : undefined;
    const same = this.scene && this.scene.width === scene.width && this.scene.height === scene.height;
    this.scene = scene;
    this.pods = undefined;
    this.hoverPod = undefined;
    this.selected = guid === undefined ? -1 : scene.index.get(guid) ?? -1;
    this.hover = -1;
    if (first || !same || !this.fitted) this.fit();
    else this.redraw();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const keep = this.moved && this.fitted;
    [this.width, this.height, this.ratio] = [width, height, ratio];
    if (keep) this.redraw();
    else this.fit();
  }

  /** Shows all. */
  fit() {
    if (!this.scene || !this.width) return;
    const narrow = this.width < 640;
    const [left, right] = narrow ? [14, 14] : [MARGIN.left, MARGIN.right];
    const room = [this.width - left - right, this.height - MARGIN.top - (narrow ? MARGIN.under : MARGIN.bottom)];
    const { width, height } = this.scene;
    this.scale = Math.min(room[0] / width, NEAREST * 0.62);
    this.stretch = Math.min(Math.max((room[1] / this.scale) / Math.max(height, 1), 0.35), 3.2);
    this.fitScale = this.scale;
    this.left = left + (room[0] - width * this.scale) / 2;
    this.top = MARGIN.top + Math.max(0, (room[1] - height * this.scale * this.stretch) / 2);
    this.moved = false;
    this.fitted = true;
    this.redraw();
  }

  /** Brings a switch to the middle, near enough to be read. */
  go(at) {
    const { scene } = this;
    const pitch = scene.groups[scene.group[at]].pitch;
    this.scale = Math.max(this.scale, Math.min(26 / Math.min(pitch, 1.4), NEAREST));
    this.left = this.width / 2 - scene.x[at] * this.scale;
    // On a narrow screen the panel covers the lower part.
    this.top = this.height * (this.width < 640 ? 0.2 : 0.45) - this.rowY(at) * this.scale;
    this.moved = true;
    this.redraw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, this.fitScale * 0.6), Math.max(NEAREST, this.fitScale));
    const real = scale / this.scale;
    this.left = x - (x - this.left) * real;
    this.top = y - (y - this.top) * real;
    this.scale = scale;
    this.moved = true;
    this.redraw();
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.scene && this.width) this.draw();
    });
  }

  // Places: cells to pixels. Tiers are stretched apart to fill the height; lines of a tier are not.

  groupY(group) {
    return group.y * this.stretch;
  }

  rowY(at) {
    const group = this.scene.groups[this.scene.group[at]];
    return this.groupY(group) + (this.scene.y[at] - group.y);
  }

  x(at) {
    return this.left + this.scene.x[at] * this.scale;
  }

  y(at) {
    return this.top + this.rowY(at) * this.scale;
  }

  cell(group) {
    const width = Math.min(group.pitch, WIDEST) * 0.8 * this.scale;
    return [Math.max(width, 1), Math.max(Math.min(0.7 * this.scale, 34), 1.5)];
  }

  draw() {
    const { context, colours, scene } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.canvas;
    context.fillRect(0, 0, this.width, this.height);
    if (this.tiled) {
      this.pods.place(this.width, this.height, Math.max(this.width < 640 ? MARGIN.under : MARGIN.bottom, 20 + (this.handlers.under?.() ?? 0)));
      this.pods.draw(this);
      const { count: switches, tierCounts } = scene;
      this.handlers.drawn?.({ switches, hosts: tierCounts.reduce((sum, tier) => sum + tier.hosts, 0), pods: this.pods.pods.length });
      return;
    }
    const near = this.near();
    this.drawGroups(near);
    if (near.links <= MOST_LINES) this.drawLines(near);
    else this.drawBands();
    this.drawBad();
    this.drawFocus();
    this.drawHosts(near);
    this.drawSwitches(near);
    this.drawPath();
    this.drawOpen();
    this.drawTiers();
    this.handlers.drawn?.(near);
  }

  /** Whether pods are drawn as tiles: as a whole, with nothing that has to be shown in its place. */
  get tiled() {
    const isWhole = this.scene && this.fitted && !this.moved && this.selected < 0 && !this.path.length && !this.cable;
    if (!isWhole || !areWorthTiles(this.scene, (group) => this.cell(group))) return false;
    if (!this.pods) {
      this.pods = new Pods(this.scene);
      this.pods.weigh(...this.weighed);
    }
    return true;
  }

  /** Sums up the load of each pod from now on, also when the scene is read again. */
  weigh(paint, load) {
    this.weighed = [paint, load];
    this.pods?.weigh(paint, load);
    // A pointer that rests on a pod reads the new load.
    if (this.hoverPod) this.handlers.hover?.(-1, undefined, this.hoverAt, this.hoverPod);
  }

  /** Brings a pod or tier to the middle, as large as it fits. */
  goPart(part) {
    const narrow = this.width < 640;
    const [across, down] = [this.width - (narrow ? 28 : MARGIN.left + MARGIN.right), this.height - (narrow ? MARGIN.under : MARGIN.bottom) - 2 * MARGIN.top];
    const wide = Math.max(part.right - part.left, 1);
    // Its tiers come closer, so that its switches are as large as they fit, and none covers another.
    const ordered = [...part.groups].sort((one, two) => one.y - two.y);
    const [first, last] = [ordered[0], ordered.at(-1)];
    const least = Math.max(0, ...ordered.slice(1).map((group, place) => (ordered[place].height + 2) / (group.y - ordered[place].y)));
    const high = (stretch) => (last.y - first.y) * stretch + last.height;
    this.scale = Math.min(across / wide, down / high(least), NEAREST * 0.62);
    this.stretch = last === first ? this.stretch : Math.max(least, Math.min(this.stretch, (down / this.scale - last.height) / (last.y - first.y)));
    this.left = this.width / 2 - (part.left + wide / 2) * this.scale;
    this.top = MARGIN.top + down / 2 - (this.groupY(first) + high(this.stretch) / 2) * this.scale;
    this.moved = true;
    this.over(-1, undefined, [0, 0]);
    this.redraw();
  }

  /** What is in sight. */
  near() {
    const { scene } = this;
    const inSight = new Uint8Array(scene.count);
    let links = 0;
    let switches = 0;
    for (let at = 0; at < scene.count; at++) {
      const [x, y] = [this.x(at), this.y(at)];
      if (x > -80 && x < this.width + 80 && y > -60 && y < this.height + 60) {
        inSight[at] = 1;
        switches++;
        links += scene.rows[at + 1] - scene.rows[at];
      }
    }
    return { inSight, links: Math.min(links, scene.linkCount), switches };
  }

  drawGroups() {
    const { context, colours, scene } = this;
    if (!scene.groups.some((group) => group.pod >= 0)) return;
    context.fillStyle = colours.group;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    for (const group of scene.groups) {
      if (group.pod < 0) continue;
      const pad = Math.min(5, this.scale * 0.3);
      const [width, height] = this.cell(group);
      const x = this.left + (group.x + group.pitch / 2) * this.scale - width / 2 - pad;
      const y = this.top + (this.groupY(group) + 0.5) * this.scale - height / 2 - pad;
      const wide = group.width * this.scale - (group.pitch * this.scale - width) + 2 * pad;
      const high = (group.height - 1) * this.scale + height + 2 * pad;
      context.beginPath();
      context.roundRect(x, y, wide, high, Math.min(6, pad + 1));
      context.fill();
    }
  }

  drawLines(near) {
    const { context, scene } = this;
    const alpha = near.links > 3000 ? 0.2 : near.links > 900 ? 0.35 : 0.6;
    context.strokeStyle = this.colours.link;
    context.globalAlpha = alpha;
    context.lineWidth = 1;
    context.beginPath();
    for (let link = 0; link < scene.linkCount; link++) {
      const a = scene.links[link * 5];
      const b = scene.links[link * 5 + 1];
      if (!near.inSight[a] && !near.inSight[b]) continue;
      this.trace(a, b);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  /** A line between two switches; an arc within a line of a tier. */
  trace(a, b) {
    const { context } = this;
    const [x1, y1, x2, y2] = [this.x(a), this.y(a), this.x(b), this.y(b)];
    context.moveTo(x1, y1);
    if (Math.abs(y1 - y2) < this.scale * 0.2 && Math.abs(x1 - x2) > this.scale * 1.6) {
      const rise = Math.min(Math.abs(x1 - x2) * 0.12, 60);
      context.quadraticCurveTo((x1 + x2) / 2, y1 - rise, x2, y2);
    } else context.lineTo(x2, y2);
  }

  drawBands() {
    const { context, scene } = this;
    // Of each group, the groups of each tier below it as one: bands upon bands would hide all.
    const bands = new Map();
    for (const { from, to } of scene.bundles) {
      let [upper, lower] = [scene.groups[from], scene.groups[to]];
      if (upper.tier > lower.tier) [upper, lower] = [lower, upper];
      if (upper.tier === lower.tier) continue;
      const key = `${scene.groups.indexOf(upper)} ${lower.tier}`;
      const band = bands.get(key) ?? { upper, lower, left: Infinity, right: -Infinity };
      band.left = Math.min(band.left, lower.x);
      band.right = Math.max(band.right, lower.x + lower.width);
      bands.set(key, band);
    }
    context.fillStyle = this.colours.link;
    context.globalAlpha = 0.26;
    const across = (cells) => this.left + cells * this.scale;
    for (const { upper, lower, left, right } of bands.values()) {
      const y1 = this.top + (this.groupY(upper) + upper.height) * this.scale;
      const y2 = this.top + this.groupY(lower) * this.scale;
      context.beginPath();
      context.moveTo(across(upper.x), y1);
      context.lineTo(across(upper.x + upper.width), y1);
      context.lineTo(across(right), y2);
      context.lineTo(across(left), y2);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  kindColour(kind) {
    return [this.colours.link, this.colours.drained, this.colours.slow, this.colours.warn, this.colours.bad, this.colours.bad][kind];
  }

  /** Links that need a look at any distance: by their state, or the hottest by load or errors. */
  drawBad() {
    const { context, scene } = this;
    const links = (scene.paintedKinds ? scene.hot : scene.bad).slice(0, MOST_LINES);
    for (const kind of [1, 2, 3, 4, GONE]) {
      context.beginPath();
      for (const link of links) {
        const [a, b, , , worst] = scene.link(link);
        if ((scene.paintedKinds ? scene.paintedKinds[link] : worst) === kind) this.trace(a, b);
      }
      context.strokeStyle = this.kindColour(kind);
      context.lineWidth = 1.8;
      context.setLineDash(kind === 1 ? [5, 4] : kind === GONE ? [2, 3] : []);
      context.stroke();
    }
    context.setLineDash([]);
  }

  /** The links of the switch under the pointer and of the one selected. */
  drawFocus() {
    const { context, scene } = this;
    for (const at of [this.hover, this.selected]) {
      if (at < 0) continue;
      context.beginPath();
      for (const link of scene.linksOf(at)) {
        if (scene.links[link * 5 + 4] === 0) this.trace(at, scene.peer(link, at));
      }
      context.strokeStyle = this.colours.accent;
      context.globalAlpha = at === this.selected ? 0.75 : 0.45;
      context.lineWidth = 1.3;
      context.stroke();
      context.globalAlpha = 1;
    }
    if (!this.cable) return;
    context.beginPath();
    this.trace(...this.cable);
    context.strokeStyle = this.colours.accent;
    context.lineWidth = 4;
    context.stroke();
  }

  /** The gap between a leaf of a group and the bar of its hosts, and the longest bar. */
  folded(group) {
    if (group.line > 1) return [Math.min(2, this.scale * 0.2), Math.max(1, Math.min(22, this.scale * 0.9))];
    return [2, Math.min(22, Math.max(this.scale * 0.6, 6))];
  }

  /** How long the bar of the hosts of a switch is. */
  barOf(at) {
    const { scene } = this;
    if (!scene.hosts[at]) return 0;
    const [, room] = this.folded(scene.groups[scene.group[at]]);
    return Math.max(Math.min(2, room), room * scene.hosts[at] / scene.mostHosts);
  }

  /** Below each leaf a bar, as long as it has hosts. */
  drawHosts(near) {
    const { context, scene } = this;
    let folded = 0;
    for (let at = 0; at < scene.count; at++) {
      if (!scene.hosts[at] || !near.inSight[at]) continue;
      const group = scene.groups[scene.group[at]];
      const [width, height] = this.cell(group);
      const [gap] = this.folded(group);
      const [x, y] = [this.x(at) - width / 2, this.y(at) + height / 2 + gap];
      const long = this.barOf(at);
      context.fillStyle = this.colours.host;
      context.fillRect(x, y, width, long);
      if (scene.hosts_bad[at]) {
        context.fillStyle = this.colours.warn;
        context.fillRect(x, y, width, Math.max(Math.min(2, long), long * scene.hosts_bad[at] / scene.hosts[at]));
      }
      const fits = group.line === 1 || height + gap + long + 16 < group.line * this.scale;
      if (width > 34 && fits) this.label(plural(scene.hosts[at], "host"), this.x(at), y + long + 11, "muted", width + 16);
      folded += scene.hosts[at];
    }
    near.hosts = folded;
  }

  drawSwitches(near) {
    const { context, scene, colours } = this;
    const hasHosts = scene.tiers > 1;
    for (const layer of ["plain", "bad"]) {
      for (let at = 0; at < scene.count; at++) {
        if (!near.inSight[at]) continue;
        const bad = scene.isBad(at);
        if (bad !== (layer === "bad")) continue;
        const group = scene.groups[scene.group[at]];
        let [width, height] = this.cell(group);
        if (bad) [width, height] = [Math.max(width, 4), Math.max(height, 5)];
        const [x, y] = [this.x(at) - width / 2, this.y(at) - height / 2];
        if (scene.isGone(at)) {
          this.outline(at, x, y, width, height);
          continue;
        }
        context.fillStyle = scene.flags[at] & 1 ? colours.bad : bad ? colours.warn
          : scene.hosts[at] && hasHosts ? colours.leaf : colours.switch;
        if (width < 7) context.fillRect(x, y, width, height);
        else {
          context.beginPath();
          context.roundRect(x, y, width, height, Math.min(4, width / 5));
          context.fill();
        }
        if (scene.flags[at] & 6) this.hatch(x, y, width, height);
        if (at === this.selected || at === this.hover) {
          context.strokeStyle = at === this.selected ? colours.accent : colours["switch-edge"];
          context.lineWidth = 2;
          context.beginPath();
          context.roundRect(x - 2.5, y - 2.5, width + 5, height + 5, 5);
          context.stroke();
        }
        this.nameOf(at, width, height, "canvas");
      }
    }
  }

  /** A switch that is gone: only its edge, with a cross through it. */
  outline(at, x, y, width, height) {
    const { context, colours } = this;
    context.fillStyle = colours.canvas;
    context.fillRect(x, y, width, height);
    context.strokeStyle = at === this.selected ? colours.accent : colours.bad;
    context.lineWidth = at === this.selected || at === this.hover ? 2.5 : 1.5;
    context.setLineDash([3, 3]);
    context.strokeRect(x, y, width, height);
    context.setLineDash([]);
    context.globalAlpha = 0.4;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + width, y + height);
    context.moveTo(x, y + height);
    context.lineTo(x + width, y);
    context.stroke();
    context.globalAlpha = 1;
    this.nameOf(at, width, height, "bad");
  }

  /** A drained switch: routes pass it by. */
  hatch(x, y, width, height) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = this.colours.canvas;
    // The name of the switch stands on it.
    context.globalAlpha = 0.4;
    context.lineWidth = 2;
    context.beginPath();
    for (let at = -height; at < width; at += 6) {
      context.moveTo(x + at, y + height);
      context.lineTo(x + at + height, y);
    }
    context.stroke();
    context.restore();
  }

  /** The name of a switch in its cell, if it fits; else what sets it apart in its tier, there or
   * upright below a leaf. */
  nameOf(at, width, height, colour) {
    if (width < 9 || height < 10) return;
    const { scene, context } = this;
    for (const text of [shown(scene.name[at]), scene.shortName(at)]) {
      for (const size of [11, 9.5, 8.5]) if (this.label(text, this.x(at), this.y(at) + size * 0.36, colour, width - 2, size)) return;
    }
    const group = scene.groups[scene.group[at]];
    if (group.line > 1 || group.tier !== scene.tiers - 1) return;
    context.save();
    context.translate(this.x(at), this.y(at) + height / 2 + this.folded(group).reduce((sum, part) => sum + part) + 4);
    context.rotate(Math.PI / 2);
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "left";
    context.fillStyle = this.colours[colour === "bad" ? "bad" : "muted"];
    context.fillText(scene.shortName(at), 0, 3.5);
    context.restore();
  }

  /** A text in the middle of a room, where it fits. Returns whether it does. */
  label(text, x, y, colour, room, size = 11) {
    const { context } = this;
    context.font = `${size}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.fillStyle = this.colours[colour];
    const fits = context.measureText(text).width <= room;
    if (fits) context.fillText(text, x, y);
    return fits;
  }

  /** A path as the path tool has found it: indices of switches. */
  drawPath() {
    const { context } = this;
    if (this.path.length < 1) return;
    context.strokeStyle = this.colours.path;
    context.fillStyle = this.colours.path;
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.beginPath();
    this.path.forEach((at, hop) => (hop ? context.lineTo(this.x(at), this.y(at)) : context.moveTo(this.x(at), this.y(at))));
    context.stroke();
    for (const at of this.path) {
      context.beginPath();
      context.arc(this.x(at), this.y(at), 5, 0, 2 * Math.PI);
      context.fill();
    }
  }

  /** The hosts of the open leaf as a fan below it. */
  drawOpen() {
    const { context, scene, colours } = this;
    const at = this.selected;
    this.fan = [];
    if (at < 0 || !this.openHosts?.length || this.openGuid !== scene.guid[at]) return;
    const hosts = this.openHosts;
    const columns = Math.min(hosts.length, Math.max(8, Math.ceil(Math.sqrt(hosts.length * 3))));
    const lines = Math.ceil(hosts.length / columns);
    const size = 11;
    const gap = 4;
    const wide = columns * (size + gap) - gap;
    const [, height] = this.cell(scene.groups[scene.group[at]]);
    const left = Math.min(Math.max(this.x(at) - wide / 2, 10), this.width - wide - 10);
    const high = lines * (size + gap);
    const below = this.y(at) + height / 2 + 30 + high < this.height - 80;
    const top = below ? this.y(at) + height / 2 + 30 : this.y(at) - height / 2 - 26 - high;
    context.fillStyle = colours.panel;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.2;
    context.beginPath();
    context.moveTo(this.x(at), this.y(at) + (below ? height : -height) / 2);
    context.lineTo(this.x(at), below ? top - 8 : top + high);
    context.stroke();
    context.beginPath();
    context.roundRect(left - 9, top - 9, wide + 18, lines * (size + gap) - gap + 18, 8);
    context.fill();
    context.stroke();
    hosts.forEach((host, number) => {
      const x = left + (number % columns) * (size + gap);
      const y = top + Math.floor(number / columns) * (size + gap);
      context.fillStyle = host.bad ? colours.warn : colours.good;
      context.globalAlpha = host === this.hoverHost ? 1 : 0.8;
      context.beginPath();
      context.roundRect(x, y, size, size, 3);
      context.fill();
      context.globalAlpha = 1;
      this.fan.push({ x, y, size, host });
    });
  }

  drawTiers() {
    const { context, scene, colours } = this;
    if (this.width < 640) return;
    context.textAlign = "left";
    const seen = new Set();
    for (const group of scene.groups) {
      if (seen.has(group.tier)) continue;
      seen.add(group.tier);
      const middle = this.top + (this.groupY(group) + group.height / 2) * this.scale;
      if (middle < 10 || middle > this.height - 10) continue;
      const { switches, hosts } = scene.tierCounts[group.tier];
      const lines = [scene.tierName(group.tier), count(switches)];
      if (hosts) lines.push(plural(hosts, "host"));
      context.fillStyle = colours.canvas;
      context.globalAlpha = 0.85;
      context.fillRect(8, middle - 18, 86, 18 + 14 * (lines.length - 1));
      context.globalAlpha = 1;
      lines.forEach((line, number) => {
        context.font = number ? "11.5px system-ui, sans-serif" : "600 12px system-ui, sans-serif";
        context.fillStyle = number ? colours.muted : colours.text;
        context.fillText(line, 14, middle - 5 + number * 14);
      });
    }
  }

  /** The switch at a place of the canvas. */
  at(x, y) {
    const { scene } = this;
    let [best, distance] = [-1, 14];
    for (let at = 0; at < scene.count; at++) {
      const [width, height] = this.cell(scene.groups[scene.group[at]]);
      const dx = Math.max(0, Math.abs(this.x(at) - x) - width / 2);
      const below = y - this.y(at);
      // Its hosts are a part of it.
      const dy = Math.max(0, below > 0 ? below - height / 2 - this.barOf(at) : -below - height / 2);
      const away = Math.max(dx, dy) + Math.hypot(this.x(at) - x, this.y(at) - y) * 0.01;
      if (away < distance) [best, distance] = [at, away];
    }
    return distance < (this.scale < 8 ? 6 : 3) ? best : -1;
  }

  hostAt(x, y) {
    const over = (this.fan ?? []).find((dot) => x >= dot.x - 2 && x <= dot.x + dot.size + 2 && y >= dot.y - 2 && y <= dot.y + dot.size + 2);
    return over?.host;
  }

  listen() {
    const { canvas } = this;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const step = event.deltaMode ? event.deltaY * 16 : event.deltaY;
      this.zoom(Math.exp(-Math.max(-120, Math.min(120, step)) * 0.0025), ...place(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
      this.dragged = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.move(event, place(event)));
    const up = (event) => {
      const here = place(event);
      const was = this.pointers.delete(event.pointerId);
      canvas.classList.remove("moving");
      if (was && event.type === "pointerup" && this.dragged < 5 && this.scene) {
        const host = this.hostAt(...here);
        const pod = this.tiled ? this.pods.at(...here) : undefined;
        if (pod) this.goPart(pod);
        else if (this.tiled) return;
        else if (host) this.handlers.host?.(host);
        else this.handlers.pick?.(this.at(...here));
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.over(-1, undefined, [0, 0]));
    canvas.addEventListener("dblclick", (event) => this.zoom(1.8, ...place(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  move(event, here) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (this.scene && this.fitted) {
        if (this.tiled) {
          this.over(-1, undefined, here, this.pods.at(...here));
          return;
        }
        const host = this.hostAt(...here);
        this.over(host ? -1 : this.at(...here), host, here);
      }
      return;
    }
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const wide = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
      this.zoom(wide(here, other) / wide(before, other), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
    } else {
      this.left += here[0] - before[0];
      this.top += here[1] - before[1];
      this.moved = true;
      this.redraw();
    }
    this.dragged += Math.abs(here[0] - before[0]) + Math.abs(here[1] - before[1]);
    if (this.dragged > 4) this.canvas.classList.add("moving");
    this.pointers.set(event.pointerId, here);
  }

  over(at, host, here, pod) {
    if (at === this.hover && host === this.hoverHost && pod === this.hoverPod) return;
    this.hover = at;
    this.hoverHost = host;
    this.hoverPod = pod;
    this.hoverAt = here;
    this.canvas.classList.toggle("over", at >= 0 || Boolean(host) || Boolean(pod));
    this.handlers.hover?.(at, host, here, pod);
    this.redraw();
  }

  key(event) {
    const moves = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
    if (!this.scene?.count || event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) {
      const next = this.selected < 0 ? 0 : this.scene.step(this.selected, moves[event.key]);
      this.handlers.pick?.(next, true);
    } else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter") this.handlers.enter?.();
    else if (event.key === "Escape") this.handlers.pick?.(-1);
    else return;
    event.preventDefault();
  }
}
