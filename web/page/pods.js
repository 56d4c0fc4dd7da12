// A large fabric as a whole: a tile for each pod, with its state and its load, where its switches
// would be points.

import { count, plural, shown } from "./dom.js";
import { PAINTS, levelKind } from "./scene.js";

/** Fewest pods that are worth tiles. */
const FEWEST = 4;
/** Pixels of a leaf below which it is a point. */
const POINT = 5;
/** Room around the tiles, between them, and for a tier without pods, in pixels. */
const ROOM = { side: 14, right: 58, top: 12, gap: 6, tier: 30 };
/** The largest tile, and its shape. */
const TILE = { width: 230, height: 92, shape: 2.2 };

/** The first of the kinds of links that carry nothing. */
const LOST = 4;

/** Whether switches are points, drawn in cells of this size, and tiles say more. */
export function areWorthTiles(scene, cell) {
  const pods = new Set(scene.groups.map((group) => group.pod));
  pods.delete(-1);
  return pods.size >= FEWEST && scene.groups.every((group) => group.pod < 0 || cell(group)[0] < POINT);
}

/** A pod, or a tier that belongs to none. */
const partOf = ({ tier, pod }) => ({ key: pod < 0 ? tier : pod, isTier: pod < 0, switches: 0, hosts: 0, looks: 0, isLost: false, sums: null,
  groups: [], left: Infinity, right: -Infinity });

/** The parts of a scene, for each group its own: switches, hosts, and how many need a look. */
function partsOf(scene) {
  const parts = new Map();
  const of = scene.groups.map((group) => {
    const key = group.pod < 0 ? `tier ${group.tier}` : group.pod;
    if (!parts.has(key)) parts.set(key, partOf(group));
    const part = parts.get(key);
    part.left = Math.min(part.left, group.x);
    part.right = Math.max(part.right, group.x + group.width);
    part.groups.push(group);
    return part;
  });
  for (let at = 0; at < scene.count; at++) {
    const part = of[scene.group[at]];
    const isGone = scene.isGone(at);
    part.looks += isGone || scene.flags[at] ? 1 : 0;
    part.isLost ||= isGone || (scene.flags[at] & 1) !== 0;
    if (isGone) continue;
    part.switches++;
    part.hosts += scene.hosts[at];
    part.looks += scene.hosts_bad[at];
  }
  for (const link of scene.bad) {
    const [a, b, , bad, worst] = scene.link(link);
    const [one, other] = [of[scene.group[a]], of[scene.group[b]]];
    for (const part of one === other ? [one] : [one, other]) {
      part.looks += bad;
      part.isLost ||= worst >= LOST;
    }
  }
  const sorted = [...parts.values()].sort((one, two) => one.key - two.key);
  return { of, pods: sorted.filter((part) => !part.isTier), tiers: sorted.filter((part) => part.isTier) };
}

/** Names pods by the words in which the names of their leaves agree, and those of other pods differ. */
function nameAll(scene, pods, of) {
  const same = new Map();
  for (let at = 0; at < scene.count; at++) {
    if (scene.tier(at) !== scene.tiers - 1) continue;
    const [part, words] = [of[scene.group[at]], shown(scene.name[at]).split(/[-_.:/ ]+/)];
    const before = same.get(part);
    same.set(part, before ? before.map((word, place) => (word === words[place] ? word : undefined)) : words);
  }
  const all = pods.map((pod) => same.get(pod) ?? []);
  const own = (words) => words.filter((word, place) => word !== undefined && all.some((other) => other[place] !== undefined && other[place] !== word));
  const names = all.map((words) => own(words).join("-"));
  const fit = new Set(names).size === pods.length && !names.includes("");
  pods.forEach((pod, place) => { pod.name = `pod ${fit ? names[place] : pod.key + 1}`; });
}

export class Pods {
  constructor(scene) {
    this.scene = scene;
    Object.assign(this, partsOf(scene));
    nameAll(scene, this.pods, this.of);
    for (const tier of this.tiers) tier.name = scene.tierName(tier.key);
    this.tiles = [];
  }

  /** Sums up the load of each part by what links are coloured by; that of the state is use. */
  weigh(paint, load) {
    const { column, from } = PAINTS[paint === "state" ? "load" : paint];
    const values = load?.shape === this.scene.shape && load.ports ? load[column] : null;
    for (const part of [...this.pods, ...this.tiers]) part.sums = null;
    if (!values || values.length !== this.scene.linkCount) return;
    const { links, group } = this.scene;
    const add = (part, value, level) => {
      part.sums ??= { known: 0, total: 0, above: 0, level: 0 };
      part.sums.known++;
      part.sums.total += value;
      part.sums.above += level ? 1 : 0;
      part.sums.level = Math.max(part.sums.level, level);
    };
    for (let link = 0; link < this.scene.linkCount; link++) {
      if (values[link] < 0) continue;
      const level = from.filter((least) => values[link] >= least).length;
      const [one, other] = [this.of[group[links[link * 5]]], this.of[group[links[link * 5 + 1]]]];
      add(one, values[link], level);
      if (other !== one) add(other, values[link], level);
    }
    this.column = column;
  }

  /** How full the bar of a part is, 0 to 1; nothing where its load is not known. Errors have no
   * highest value: their bar is the share of links that have some. */
  share(part) {
    if (!part.sums) return undefined;
    const { known, total, above } = part.sums;
    return Math.min(1, this.column === "errors" ? above / known : total / known / 1000);
  }

  /** What the load of a part is, in words. */
  loadText(part) {
    const share = this.share(part);
    if (share === undefined) return "load not known";
    const { above } = part.sums;
    if (this.column === "errors") return above ? `${plural(above, "link")} with errors` : "no link has errors";
    const percent = `${share > 0 && share < 0.01 ? "below 1" : Math.round(share * 100)} %`;
    return this.column === "use" ? `${percent} of its links' rate` : `waits ${percent} of the time`;
  }

  /** What a part is made of, in words. */
  facts(part) {
    const facts = [plural(part.switches, "switch", "switches")];
    if (part.hosts) facts.push(plural(part.hosts, "host"));
    facts.push(part.looks ? `${count(part.looks)} need a look` : "in order", this.loadText(part));
    return facts;
  }

  /** Places the tiles in a room, as large as they can be. */
  place(width, height, under) {
    const [across, down] = [width - ROOM.side - (width < 640 ? ROOM.side : ROOM.right), height - ROOM.top - under];
    const begin = ROOM.top + this.tiers.length * (ROOM.tier + ROOM.gap);
    const left = Math.max(down - begin + ROOM.top, 40);
    let best = { score: 0 };
    for (let columns = 1; columns <= this.pods.length; columns++) {
      const rows = Math.ceil(this.pods.length / columns);
      const wide = Math.min(across / columns - ROOM.gap, TILE.width);
      const high = Math.min(left / rows - ROOM.gap, TILE.height);
      const score = Math.min(wide / TILE.shape, high);
      if (score > best.score) best = { score, columns, wide, high: Math.min(high, wide / 1.2) };
    }
    const tile = (part, x, y, wide, high) => ({ part, x, y, wide, high });
    const full = best.columns * (best.wide + ROOM.gap) - ROOM.gap;
    const start = ROOM.side + Math.max(0, (across - full) / 2);
    this.tiles = this.tiers.map((part, row) => tile(part, start, ROOM.top + row * (ROOM.tier + ROOM.gap), full, ROOM.tier));
    this.pods.forEach((part, number) => {
      const [column, row] = [number % best.columns, Math.floor(number / best.columns)];
      this.tiles.push(tile(part, start + column * (best.wide + ROOM.gap), begin + row * (best.high + ROOM.gap), best.wide, best.high));
    });
  }

  at(x, y) {
    return this.tiles.find((tile) => x >= tile.x && x <= tile.x + tile.wide && y >= tile.y && y <= tile.y + tile.high)?.part;
  }

  draw(picture) {
    for (const tile of this.tiles) this.drawTile(picture, tile);
  }

  drawTile(picture, { part, x, y, wide, high }) {
    const { context, colours } = picture;
    const state = part.isLost ? colours.bad : part.looks ? colours.warn : colours.good;
    context.fillStyle = colours.panel;
    context.strokeStyle = part === picture.hoverPod ? colours.accent : colours.line;
    context.lineWidth = part === picture.hoverPod ? 2 : 1;
    context.beginPath();
    context.roundRect(x, y, wide, high, Math.min(6, high / 5));
    context.fill();
    context.stroke();
    context.fillStyle = state;
    const stripe = Math.min(5, wide / 8);
    context.fillRect(x, y + 3, stripe, high - 6);
    const [left, room] = [x + stripe + 5, wide - stripe - 10];
    const flat = part.isTier;
    const write = (text, at, down, colour, most, bold) => {
      context.font = `${bold ? "600 " : ""}${high < 26 ? 10 : 12}px system-ui, sans-serif`;
      context.fillStyle = colour;
      const long = context.measureText(text).width;
      if (long > most) return 0;
      context.fillText(text, at, down);
      return long;
    };
    context.textAlign = "left";
    const line = flat ? y + high / 2 + 4 : y + Math.min(16, high / 2 + 4);
    const name = [part.name, part.name.split(/[- ]/).at(-1)];
    const long = name.reduce((done, text) => done || write(text, left, line, colours.text, room, true), 0);
    const { looks } = part;
    if (looks) {
      context.textAlign = "right";
      const texts = [`${count(looks)} to look at`, count(looks)];
      texts.reduce((done, text) => done || write(text, x + wide - 6, line, state, room - long - 6, true), 0);
      context.textAlign = "left";
    }
    const facts = part.hosts ? plural(part.hosts, "host") : plural(part.switches, "switch", "switches");
    if (flat) write(facts, left + long + 12, line, colours.muted, room - long - (looks ? 90 : 12));
    else if (high >= 40) write(facts, left, line + 15, colours.muted, room);
    const share = this.share(part);
    if (share === undefined || flat || high < 26) return;
    const bar = [left, y + high - 9, room, 4];
    context.fillStyle = colours.line;
    context.fillRect(...bar);
    context.fillStyle = part.sums.level ? picture.kindColour(levelKind(part.sums.level)) : colours.accent;
    context.fillRect(bar[0], bar[1], Math.max(share > 0 ? 2 : 0, room * share), bar[3]);
    if (high >= 64) write(this.loadText(part), left, line + 30, colours.muted, room);
  }
}
