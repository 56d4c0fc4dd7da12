// The fabric as it is drawn: columns of the server's graph, with what the page looks up in them.

import { shown } from "./dom.js";

/** The kinds of links, as the server numbers them. */
export const KINDS = ["active", "drained", "slow: below its siblings or its ends' best rate", "flapping or unhealthy, routes avoid it", "not active", "gone"];

/** The kind of links that are gone, and the flag of switches that are. */
export const GONE = 5;
export const GONE_FLAG = 8;

/** What links may be coloured by, and from where on each colour. */
export const PAINTS = {
  state: { title: "state" },
  load: { title: "load", column: "use", from: [100, 500, 800], texts: ["below 10 %, or not known", "10 to 50 %", "50 to 80 %", "80 % and more"] },
  wait: { title: "congestion", column: "wait", from: [10, 100, 300], texts: ["no waiting, or not known", "waits from 1 % of the time", "from 10 %", "from 30 %"] },
  errors: { title: "errors", column: "errors", from: [1, 10, 120], texts: ["no errors in an hour", "1 to 10", "10 to 120", "120 and more"] },
};

/** The kind in whose colour a level of use or errors is drawn: that of drained links stands for no level. */
export const levelKind = (level) => (level ? level + 1 : 0);

/** The words of a name. */
const wordsOf = (name) => shown(name).split(/[-_.:/ ]+/).filter(Boolean);

/** A graph of the server with its indices. */
export class Scene {
  constructor(graph) {
    Object.assign(this, graph.switches);
    this.count = this.guid.length;
    this.generation = graph.generation;
    this.shape = graph.shape;
    this.tiers = graph.tiers;
    this.width = graph.width;
    this.height = graph.height;
    this.groups = graph.groups.map(([tier, pod, count, x, y, width, height, pitch, line]) =>
      ({ tier, pod, count, x, y, width, height, pitch, line, first: -1, hosts: 0, bad: 0 }));
    // An array of one type, read without an object for each link: a large fabric has 90,000, and all
    // of them are gone through before the first picture.
    this.links = Uint32Array.from(graph.links);
    this.linkCount = graph.links.length / 5;
    this.missing = new Map();
    for (const [at, port] of graph.missing) {
      if (!this.missing.has(at)) this.missing.set(at, []);
      this.missing.get(at).push(port);
    }
    this.index = new Map(this.guid.map((guid, at) => [guid, at]));
    this.countGroups();
    this.joinSwitches();
    this.bundleGroups();
  }

  countGroups() {
    this.mostHosts = 0;
    this.tierCounts = Array.from({ length: this.tiers }, () => ({ switches: 0, hosts: 0 }));
    this.goneCount = 0;
    for (let at = 0; at < this.count; at++) {
      const group = this.groups[this.group[at]];
      if (group.first < 0) group.first = at;
      if (this.isGone(at)) {
        this.goneCount++;
        group.bad++;
        continue;
      }
      group.hosts += this.hosts[at];
      group.bad += this.isBad(at) ? 1 : 0;
      this.mostHosts = Math.max(this.mostHosts, this.hosts[at]);
      this.tierCounts[group.tier].switches++;
      this.tierCounts[group.tier].hosts += this.hosts[at];
    }
  }

  /** Compressed rows: the links of each switch. */
  joinSwitches() {
    const { links, linkCount } = this;
    this.rows = new Uint32Array(this.count + 1);
    for (let link = 0; link < linkCount; link++) {
      this.rows[links[link * 5] + 1]++;
      this.rows[links[link * 5 + 1] + 1]++;
    }
    for (let at = 0; at < this.count; at++) this.rows[at + 1] += this.rows[at];
    const next = this.rows.slice();
    this.cells = new Uint32Array(linkCount * 2);
    for (let link = 0; link < linkCount; link++) {
      this.cells[next[links[link * 5]]++] = link;
      this.cells[next[links[link * 5 + 1]]++] = link;
    }
  }

  /** Links between two groups as one, the links that need a look, and links by their kind. */
  bundleGroups() {
    const { links, linkCount, group } = this;
    const count = this.groups.length;
    const bundles = new Map();
    this.bad = [];
    this.kindCounts = KINDS.map(() => 0);
    for (let link = 0, at = 0; link < linkCount; link++, at += 5) {
      const [one, two] = [group[links[at]], group[links[at + 1]]];
      const key = one < two ? one * count + two : two * count + one;
      bundles.set(key, (bundles.get(key) ?? 0) + links[at + 2]);
      const worst = links[at + 4];
      if (worst > 0) this.bad.push(link);
      this.kindCounts[worst] += links[at + 3];
      this.kindCounts[0] += links[at + 2] - links[at + 3];
    }
    this.bundles = [...bundles].map(([key, links]) => ({ from: Math.floor(key / count), to: key % count, links }));
  }

  /** Colours links by use or errors, a value for each; without values by their state again. */
  paint(paint, values) {
    this.paintedKinds = null;
    this.levelCounts = [0, 0, 0, 0];
    this.hot = [];
    if (!values || values.length !== this.linkCount) return;
    const { from } = PAINTS[paint];
    this.paintedKinds = new Uint8Array(this.linkCount);
    for (let link = 0; link < this.linkCount; link++) {
      const level = from.filter((least) => values[link] >= least).length;
      this.paintedKinds[link] = levelKind(level);
      this.levelCounts[level]++;
      if (level) this.hot.push(link);
    }
    this.hot.sort((one, two) => values[two] - values[one]);
  }

  /** Ends, number of links, how many of them are bad, and the worst kind. */
  link(link) {
    return [this.links[link * 5], this.links[link * 5 + 1], this.links[link * 5 + 2], this.links[link * 5 + 3], this.links[link * 5 + 4]];
  }

  /** The links of a switch. */
  linksOf(at) {
    return this.cells.subarray(this.rows[at], this.rows[at + 1]);
  }

  /** The other end of a link. */
  peer(link, at) {
    const a = this.links[link * 5];
    return a === at ? this.links[link * 5 + 1] : a;
  }

  tier(at) {
    return this.groups[this.group[at]].tier;
  }

  /** Whether a switch was there and is not. */
  isGone(at) {
    return (this.flags[at] & GONE_FLAG) !== 0;
  }

  /** Whether a switch itself needs a look. */
  isBad(at) {
    return this.flags[at] !== 0 || this.hosts_bad[at] > 0 || this.missing.has(at);
  }

  /** What sets the name of a switch apart from those of its tier: `01-07` of `su-01-leaf-07`, where
   * all have the other words. */
  shortName(at) {
    this.differing ??= this.tierCounts.map((_, tier) => this.differingWords(tier));
    const words = wordsOf(this.name[at]);
    const own = this.differing[this.tier(at)];
    return own && words.length === own.length ? words.filter((_, place) => own[place]).join("-") : words[words.length - 1];
  }

  /** For each word of the names in a tier whether names differ in it; nothing where they have not as
   * many words each. */
  differingWords(tier) {
    let first;
    let differs;
    for (let at = 0; at < this.count; at++) {
      if (this.tier(at) !== tier) continue;
      const words = wordsOf(this.name[at]);
      first ??= words;
      differs ??= words.map(() => false);
      if (words.length !== first.length) return undefined;
      words.forEach((word, place) => { differs[place] ||= word !== first[place]; });
    }
    return differs?.includes(true) ? differs : undefined;
  }

  /** What to call a tier. */
  tierName(tier) {
    if (this.tiers === 1) return "switches";
    if (tier === this.tiers - 1) return "leaves";
    if (tier === 0) return this.tiers === 2 ? "spines" : "cores";
    return this.tiers === 3 ? "spines" : `tier ${tier + 1}`;
  }

  /** Switches whose name, GUID or LID has the text, best first. */
  find(text, most) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const lid = /^\d+$/.test(wanted) ? Number(wanted) : /^0x[0-9a-f]{1,4}$/.test(wanted) ? parseInt(wanted, 16) : -1;
    const found = [];
    for (let at = 0; at < this.count; at++) {
      const name = this.name[at].toLowerCase();
      const rank = this.lid[at] === lid ? 0 : name === wanted ? 1 : name.startsWith(wanted) ? 2
        : name.includes(wanted) ? 3 : this.guid[at].includes(wanted.replace(/^0x/, "")) && wanted.length > 3 ? 4 : -1;
      if (rank >= 0) found.push({ at, rank });
    }
    return found.sort((one, two) => one.rank - two.rank || one.at - two.at).slice(0, most).map((one) => one.at);
  }

  /** The next switch in a direction, for the keyboard. */
  step(at, direction) {
    if (direction === "left" || direction === "right") {
      const next = at + (direction === "left" ? -1 : 1);
      return next >= 0 && next < this.count && this.tier(next) === this.tier(at) ? next : at;
    }
    let best = at;
    let distance = Infinity;
    for (const link of this.linksOf(at)) {
      const peer = this.peer(link, at);
      const up = this.tier(peer) - this.tier(at);
      if ((direction === "up" ? up >= 0 : up <= 0)) continue;
      const away = Math.abs(this.x[peer] - this.x[at]);
      if (away < distance) [best, distance] = [peer, away];
    }
    return best;
  }
}
