//! Draws the fabric by tiers and pods, at the positions of [`layout`](super::layout), which the web
//! page uses as well.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Group, Layout, LayoutSwitch, layout};
use super::svg::{Anchor, Line, Stroke, Svg};
use super::{Colours, DRAWING, LEFT, MARGIN, Scene};
use crate::quality::Share;
use crate::topology::SwitchIdx;

/// The maximum number of pairs of switches whose links are drawn as lines. If there are more, links
/// between groups are drawn as bands.
pub const MOST_LINES: usize = 7000;

/// The maximum number of pairs of switches with too many paths that are drawn, the fullest first;
/// and the maximum number of missing cables that are drawn.
pub const MOST_MARKED: usize = 2000;

/// The maximum width of a switch's cell, in cells of the layout.
const WIDEST: f64 = 2.3;
/// The maximum size of a cell, in pixels.
const NEAREST: f64 = 87.0;
/// The minimum and maximum height of the drawing, in pixels.
const HEIGHT: [f64; 2] = [200.0, 620.0];
/// The minimum font size, in pixels. Smaller text is left out: zooming would hardly make it
/// readable.
const SMALLEST: f64 = 0.15;
/// The maximum number of columns of a group in one view.
const SLICE: usize = 14;
/// The width of a letter, as a fraction of the font size.
const LETTER: f64 = 0.6;

/// All links between the same two switches.
struct Bundle {
    cables: usize,
    /// The load of the worst of these links, in either direction, as a multiple of its share.
    times: f64,
    /// Whether one of these links exceeds its share; see [`Share::is_beyond`].
    is_beyond: bool,
    paths: u64,
}

/// The layout, scaled to the page of the picture.
pub(super) struct Drawing<'a> {
    scene: &'a Scene<'a>,
    layout: Layout,
    /// The number of hosts of each switch.
    hosts: Vec<usize>,
    /// The links by the numbers of their switches, the lower first.
    bundles: BTreeMap<(u32, u32), Bundle>,
    /// The size of a cell of the layout, in pixels.
    scale: f64,
    /// The factor by which the distance between tiers exceeds the layout's.
    stretch: f64,
    /// The left edge of the layout, in pixels.
    left: f64,
    top: f64,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, shares: &[Share], top: f64) -> Drawing<'a> {
        let topology = scene.topology;
        let hosts: Vec<usize> = topology.indices().map(|at| topology.hosts(at)).collect();
        let names: Vec<String> = topology
            .switches()
            .iter()
            .map(|switch| (scene.name)(switch.guid))
            .collect();
        let switches: Vec<LayoutSwitch<'_>> = names
            .iter()
            .zip(&hosts)
            .enumerate()
            .map(|(at, (name, &hosts))| LayoutSwitch {
                name,
                rank: scene.levels.get(at).map(|&level| level.into()),
                has_hosts: hosts > 0,
            })
            .collect();
        let mut bundles: BTreeMap<(u32, u32), Bundle> = BTreeMap::new();
        for share in shares {
            let end = |guid| topology.switch_by_guid(guid).map(|switch| switch.0);
            let (Some(a), Some(b)) = (end(share.link.switch), end(share.link.peer)) else {
                continue;
            };
            let bundle = bundles.entry((a.min(b), a.max(b))).or_insert(Bundle {
                cables: 0,
                times: 0.0,
                is_beyond: false,
                paths: 0,
            });
            bundle.cables += usize::from(a < b);
            bundle.paths += share.link.paths;
            let worst = (share.is_beyond(), share.times());
            if worst > (bundle.is_beyond, bundle.times) {
                (bundle.is_beyond, bundle.times) = worst;
            }
        }
        let cables: Vec<(u32, u32)> = bundles.keys().copied().collect();
        let layout = layout(&switches, &cables);
        let scale = (DRAWING / layout.width.max(1.0)).min(NEAREST);
        let high = (layout.height * scale).clamp(HEIGHT[0], HEIGHT[1]);
        // A single tier leaves nothing to stretch.
        let stretch = match layout.tiers {
            0 | 1 => 1.0,
            _ => high / (layout.height * scale),
        };
        Drawing {
            scene,
            hosts,
            bundles,
            scale,
            stretch,
            left: LEFT + (DRAWING - layout.width * scale) / 2.0,
            top,
            layout,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    fn group(&self, switch: usize) -> &Group {
        &self.layout.groups[self.layout.places[switch].group as usize]
    }

    /// The centre of a switch.
    fn at(&self, switch: usize) -> (f64, f64) {
        let (place, group) = (&self.layout.places[switch], self.group(switch));
        let row = group.y * self.stretch + (place.y - group.y);
        (
            self.left + place.x * self.scale,
            self.top + row * self.scale,
        )
    }

    /// The width and height of a switch of a group, in pixels.
    fn cell(&self, group: &Group) -> (f64, f64) {
        let width = group.pitch.min(WIDEST) * 0.8 * self.scale;
        (width.max(0.8), (0.7 * self.scale).clamp(1.5, 30.0))
    }

    /// The gap between a switch and the bar of its hosts, and the height of that bar, in pixels.
    fn folded(&self, group: &Group) -> (f64, f64) {
        match group.line > 1.0 {
            true => (
                (0.2 * self.scale).min(2.0),
                (0.9 * self.scale).clamp(1.0, 18.0),
            ),
            false => (2.0, (0.6 * self.scale).clamp(6.0, 18.0)),
        }
    }

    /// The rectangle of a group, with a margin.
    fn rectangle(&self, group: &Group) -> [f64; 4] {
        let pad = (self.scale * 0.3).clamp(0.5, 5.0);
        let (width, height) = self.cell(group);
        let x = self.left + (group.x + group.pitch / 2.0) * self.scale - width / 2.0 - pad;
        let y = self.top + (group.y * self.stretch + 0.5) * self.scale - height / 2.0 - pad;
        let wide = group.width * self.scale - (group.pitch * self.scale - width) + 2.0 * pad;
        let high = (group.height - 1.0) * self.scale + height + 2.0 * pad;
        [x, y, wide, high]
    }

    /// The lower end of the drawing, in pixels.
    pub(super) fn bottom(&self) -> f64 {
        let groups = self.layout.groups.iter();
        let ends = groups.map(|group| {
            let [_, y, _, high] = self.rectangle(group);
            y + high
        });
        ends.fold(self.top, f64::max) + 34.0
    }

    pub(super) fn draw(&self, svg: &mut Svg) {
        self.groups(svg);
        self.links(svg);
        self.marked(svg);
        self.switches(svg);
        self.tiers(svg);
        self.views(svg);
    }

    /// Defines a view for each group, and for each slice of [`SLICE`] columns of a wide group, so
    /// that names are readable.
    fn views(&self, svg: &mut Svg) {
        for (number, group) in self.layout.groups.iter().enumerate() {
            let [x, y, wide, high] = self.rectangle(group);
            let pad = 0.03 * wide.max(high) + 0.5 * self.scale;
            let around = [x - pad, y - pad, wide + 2.0 * pad, high + 2.0 * pad];
            svg.view(&format!("g{number}"), around);
            let slices = columns(group).div_ceil(SLICE);
            let slice = SLICE as f64 * group.pitch * self.scale;
            for at in (0..slices).filter(|_| slices > 1) {
                let left = self.left + group.x * self.scale + at as f64 * slice;
                let pad = self.scale;
                let around = [left - pad, y - pad, slice + 2.0 * pad, high + 2.0 * pad];
                svg.view(&format!("g{number}s{at}"), around);
            }
        }
    }

    /// The name of the view that shows a switch: its group, or its slice of a wide group.
    pub(super) fn view_of(&self, switch: usize) -> String {
        let (place, group) = (&self.layout.places[switch], self.group(switch));
        if columns(group) <= SLICE {
            return format!("g{}", place.group);
        }
        let column = ((place.x - group.x) / group.pitch) as usize;
        format!("g{}s{}", place.group, column / SLICE)
    }

    /// Draws the rectangles of groups, as links to their views.
    fn groups(&self, svg: &mut Svg) {
        for (number, group) in self.layout.groups.iter().enumerate() {
            if group.pod.is_none() {
                continue;
            }
            let radius = (self.scale * 0.3).clamp(0.5, 6.0);
            svg.begin_link(&format!("g{number}"), &self.group_name(number));
            svg.round(self.rectangle(group), radius, Colours::GROUP);
            svg.end_link();
        }
    }

    /// The text for a group, such as `pod 3, leaves: 16 switches, 512 hosts`.
    pub(super) fn group_name(&self, number: usize) -> String {
        let group = &self.layout.groups[number];
        let hosts: usize = self.members(number).map(|switch| self.hosts[switch]).sum();
        let pod = group.pod.map(|pod| format!("pod {}, ", pod + 1));
        let mut name = format!(
            "{}{}: {}",
            pod.unwrap_or_default(),
            self.tier_name(group.tier),
            counted(group.count as usize, "switch", "switches"),
        );
        if hosts > 0 {
            name += &format!(", {}", counted(hosts, "host", "hosts"));
        }
        name
    }

    /// The switches of a group.
    pub(super) fn members(&self, number: usize) -> impl Iterator<Item = usize> + '_ {
        let places = self.layout.places.iter().enumerate();
        places
            .filter(move |(_, place)| place.group as usize == number)
            .map(|(switch, _)| switch)
    }

    /// The name of a tier, as on the web page.
    fn tier_name(&self, tier: u32) -> String {
        let tiers = self.layout.tiers;
        match tier {
            _ if tiers == 1 => "switches".to_owned(),
            tier if tier + 1 == tiers => "leaves".to_owned(),
            0 if tiers == 2 => "spines".to_owned(),
            0 => "cores".to_owned(),
            _ if tiers == 3 => "spines".to_owned(),
            tier => format!("tier {}", tier + 1),
        }
    }

    /// The line between two switches; a curve if both are in one row of a tier.
    fn line(&self, a: u32, b: u32) -> Line {
        let (from, to) = (self.at(a as usize), self.at(b as usize));
        let (wide, high) = ((from.0 - to.0).abs(), (from.1 - to.1).abs());
        let is_level = high < self.scale * 0.2 && wide > self.scale * 1.6;
        Line {
            from,
            to,
            bend: is_level.then(|| {
                let rise = (wide * 0.24).min(120.0);
                ((from.0 + to.0) / 2.0, from.1 - rise)
            }),
        }
    }

    /// Draws the links without too many paths, as lines or bands.
    fn links(&self, svg: &mut Svg) {
        if self.bundles.len() > MOST_LINES {
            return self.bands(svg);
        }
        let mut lines: BTreeMap<bool, Vec<Line>> = BTreeMap::new();
        for (&(a, b), bundle) in &self.bundles {
            if !bundle.is_beyond {
                let is_idle = bundle.paths == 0;
                lines.entry(is_idle).or_default().push(self.line(a, b));
            }
        }
        let opacity = match self.bundles.len() {
            0..900 => 0.6,
            900..3000 => 0.35,
            _ => 0.2,
        };
        for (is_idle, lines) in lines {
            let stroke = Stroke {
                colour: Colours::LINK,
                width: 1.0,
                opacity,
                dash: if is_idle { "2 3" } else { "" },
            };
            svg.lines(&lines, &stroke);
        }
    }

    /// Draws a band from each group to the groups of each lower tier together: one band for each
    /// pair of groups would hide everything.
    fn bands(&self, svg: &mut Svg) {
        let mut bands: BTreeMap<(u32, u32), (u32, f64, f64)> = BTreeMap::new();
        for &(a, b) in self.bundles.keys() {
            let [a, b] = [a, b].map(|switch| self.layout.places[switch as usize].group);
            let tier = |group: u32| self.layout.groups[group as usize].tier;
            let (upper, lower) = if tier(a) <= tier(b) { (a, b) } else { (b, a) };
            if tier(upper) == tier(lower) {
                continue;
            }
            let below = &self.layout.groups[lower as usize];
            let band = bands.entry((upper, tier(lower))).or_insert((
                lower,
                f64::INFINITY,
                f64::NEG_INFINITY,
            ));
            band.1 = band.1.min(below.x);
            band.2 = band.2.max(below.x + below.width);
        }
        for ((upper, _), (lower, left, right)) in bands {
            let [upper, lower] = [upper, lower].map(|group| &self.layout.groups[group as usize]);
            let across = |cells: f64| self.left + cells * self.scale;
            let y1 = self.top + (upper.y * self.stretch + upper.height) * self.scale;
            let y2 = self.top + lower.y * self.stretch * self.scale;
            let points = [
                (across(upper.x), y1),
                (across(upper.x + upper.width), y1),
                (across(right), y2),
                (across(left), y2),
            ];
            svg.polygon(&points, Colours::LINK, 0.26);
        }
    }

    /// The pairs of switches whose links have too many paths, the fullest first.
    fn beyond(&self) -> Vec<((u32, u32), f64)> {
        let mut beyond: Vec<_> = self
            .bundles
            .iter()
            .filter(|(_, bundle)| bundle.is_beyond)
            .map(|(&ends, bundle)| (ends, bundle.times))
            .collect();
        beyond.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        beyond
    }

    /// The ends of missing cables whose switches are present, each pair once.
    fn missing(&self) -> BTreeSet<(u32, u32)> {
        let end = |guid| self.scene.topology.switch_by_guid(guid);
        let missing = self.scene.missing.iter();
        let ends = missing.filter_map(|&(a, b)| Some((end(a)?.0, end(b)?.0)));
        ends.map(|(a, b)| (a.min(b), a.max(b))).collect()
    }

    /// Draws the links with too many paths, and the missing cables.
    fn marked(&self, svg: &mut Svg) {
        let beyond = self.beyond();
        let drawn = &beyond[..beyond.len().min(MOST_MARKED)];
        let split = drawn.partition_point(|&(_, times)| times >= super::FULL);
        // Red lies above amber.
        for (colour, part) in [
            (Colours::WARN, &drawn[split..]),
            (Colours::BAD, &drawn[..split]),
        ] {
            let lines: Vec<Line> = part.iter().map(|&((a, b), _)| self.line(a, b)).collect();
            let stroke = Stroke {
                colour,
                width: 1.6,
                opacity: 0.9,
                dash: "",
            };
            svg.lines(&lines, &stroke);
        }
        let missing = self.missing().into_iter().take(MOST_MARKED);
        let lines: Vec<Line> = missing.map(|(a, b)| self.line(a, b)).collect();
        let stroke = Stroke {
            colour: Colours::BAD,
            width: 1.6,
            opacity: 0.9,
            dash: "6 4",
        };
        svg.lines(&lines, &stroke);
    }

    /// Draws the switches, each with a bar for its hosts.
    fn switches(&self, svg: &mut Svg) {
        let most = self.hosts.iter().copied().max().unwrap_or(0);
        let worst = self.worst();
        for (switch, &worst) in worst.iter().enumerate() {
            let group = self.group(switch);
            let (width, height) = self.cell(group);
            let (x, y) = self.at(switch);
            let hosts = self.hosts[switch];
            let [left, top] = [x - width / 2.0, y - height / 2.0];
            svg.begin_link(&self.view_of(switch), &self.tip(switch, worst));
            let colour = match worst {
                Some((true, times)) if times >= super::FULL => Colours::BAD,
                Some((true, _)) => Colours::WARN,
                _ if hosts > 0 && self.layout.tiers > 1 => Colours::LEAF,
                _ => Colours::SWITCH,
            };
            svg.round([left, top, width, height], (width / 5.0).min(4.0), colour);
            let name = short(&self.name(switch)).to_owned();
            label(svg, &name, (x, y), width * 0.92, height, "#ffffff");
            if hosts > 0 {
                let (gap, room) = self.folded(group);
                let long = (room * hosts as f64 / most as f64).max(0.4 * room);
                svg.rect([left, top + height + gap, width, long], Colours::HOST, "");
                let text = counted(hosts, "host", "hosts");
                let below = gap + long + 6.0;
                if group.line == 1.0 || below + 6.0 + height < group.line * self.scale {
                    let at = (x, top + height + below);
                    label(svg, &text, at, width + 8.0, 11.0, Colours::MUTED);
                }
            }
            svg.end_link();
        }
    }

    /// For each switch, whether one of its links has too many paths, and the highest load as a
    /// multiple of the link's share; `None` if it has no links to consider.
    fn worst(&self) -> Vec<Option<(bool, f64)>> {
        let mut worst: Vec<Option<(bool, f64)>> = vec![None; self.hosts.len()];
        for (&(a, b), bundle) in &self.bundles {
            let own = Some((bundle.is_beyond, bundle.times));
            // The load counts for the lower end, because the links from one switch to the tier
            // above share paths.
            let tier = |switch: u32| self.layout.places[switch as usize].tier;
            let ends: &[u32] = match tier(a).cmp(&tier(b)) {
                std::cmp::Ordering::Less => &[b],
                std::cmp::Ordering::Greater => &[a],
                std::cmp::Ordering::Equal => &[a, b],
            };
            for &end in ends {
                let known = &mut worst[end as usize];
                if own > *known {
                    *known = own;
                }
            }
        }
        worst
    }

    fn name(&self, switch: usize) -> String {
        // Switches are numbered as in the topology.
        let switch = self.scene.topology.switch(SwitchIdx(switch as u32));
        (self.scene.name)(switch.guid)
    }

    /// The tool tip of a switch.
    fn tip(&self, switch: usize, worst: Option<(bool, f64)>) -> String {
        let guid = self.scene.topology.switch(SwitchIdx(switch as u32)).guid;
        let mut tip = format!("{} ({guid})", self.name(switch));
        if self.hosts[switch] > 0 {
            tip += &format!(", {}", counted(self.hosts[switch], "host", "hosts"));
        }
        if let Some((_, times)) = worst {
            tip += &format!(", fullest link {times:.2} times its share");
        }
        tip
    }

    /// Draws the names of the tiers, with their numbers of switches and hosts.
    fn tiers(&self, svg: &mut Svg) {
        for tier in 0..self.layout.tiers {
            let groups: Vec<usize> = self
                .layout
                .groups
                .iter()
                .enumerate()
                .filter(|(_, group)| group.tier == tier)
                .map(|(number, _)| number)
                .collect();
            let Some(&first) = groups.first() else {
                continue;
            };
            let switches: usize = groups
                .iter()
                .map(|&group| self.layout.groups[group].count as usize)
                .sum();
            let in_tier = self.layout.places.iter().zip(&self.hosts);
            let hosts: usize = in_tier
                .filter(|(place, _)| place.tier == tier)
                .map(|(_, &hosts)| hosts)
                .sum();
            let [_, y, _, high] = self.rectangle(&self.layout.groups[first]);
            let middle = y + high / 2.0;
            let name = self.tier_name(tier);
            svg.text((MARGIN, middle - 2.0), 13.0, Anchor::Start, &name);
            let mut detail = counted(switches, "switch", "switches");
            if hosts > 0 {
                detail += &format!(", {}", counted(hosts, "host", "hosts"));
            }
            let at = (MARGIN, middle + 12.0);
            svg.text_in(at, 10.0, Anchor::Start, Colours::MUTED, &detail);
            self.pods(svg, &groups);
        }
    }

    /// Draws the numbers of pods above the groups of their tier.
    fn pods(&self, svg: &mut Svg, groups: &[usize]) {
        for &number in groups {
            let group = &self.layout.groups[number];
            let Some(pod) = group.pod else { continue };
            let [x, y, wide, _] = self.rectangle(group);
            let text = format!("pod {}", pod + 1);
            label(
                svg,
                &text,
                (x + wide / 2.0, y - 7.0),
                wide,
                12.0,
                Colours::MUTED,
            );
        }
    }

    /// The entries of the legend, each with a sample and a text.
    pub(super) fn legend(&self) -> Vec<(Sample, String)> {
        let beyond = self.beyond();
        let full = beyond
            .iter()
            .filter(|(_, times)| *times >= super::FULL)
            .count();
        let idle = self.bundles.values().filter(|bundle| bundle.paths == 0);
        let cables: usize = self.bundles.values().map(|bundle| bundle.cables).sum();
        let pairs = self.bundles.len();
        let mut legend = vec![(
            Sample::Line(Colours::LINK, ""),
            match pairs > MOST_LINES {
                true => format!("{cables} cables between switches, as bands between groups"),
                false => format!("{cables} cables between switches"),
            },
        )];
        let mut add = |count: usize, sample: Sample, one: &str, many: &str| {
            if count > 0 {
                legend.push((sample, counted(count, one, many)));
            }
        };
        add(
            full,
            Sample::Line(Colours::BAD, ""),
            "pair of switches: a link has twice its share of paths or more",
            "pairs of switches: a link has twice its share of paths or more",
        );
        add(
            beyond.len() - full,
            Sample::Line(Colours::WARN, ""),
            "pair of switches: a link has more than its share of paths",
            "pairs of switches: a link has more than its share of paths",
        );
        add(
            beyond.len().saturating_sub(MOST_MARKED),
            Sample::None,
            "of them, the least full one, is not drawn",
            "of them, the least full ones, are not drawn",
        );
        add(
            self.scene.missing.len(),
            Sample::Line(Colours::BAD, "6 4"),
            "missing cable",
            "missing cables",
        );
        add(
            idle.count(),
            Sample::Line(Colours::LINK, "2 3"),
            "pair of switches without paths",
            "pairs of switches without paths",
        );
        add(
            self.hosts.iter().sum(),
            Sample::Box(Colours::HOST),
            "host, folded below its leaf",
            "hosts, folded below their leaf",
        );
        legend
    }
}

/// A sample in the legend.
pub(super) enum Sample {
    Line(&'static str, &'static str),
    Box(&'static str),
    None,
}

/// The number of switches in a row of a group.
fn columns(group: &Group) -> usize {
    (group.width / group.pitch).round() as usize
}

/// A number with its noun: `1 switch`, `2 switches`.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The switch name within a description that also states its chassis and model, as in
/// `MF0;leaf-03:MQM8700/U1`.
pub(super) fn short(name: &str) -> &str {
    let inside = name
        .split_once(';')
        .and_then(|(_, rest)| rest.split_once(':'));
    inside.map_or(name, |(inside, _)| inside)
}

/// Draws a text around a point, as large as the width and height permit.
fn label(svg: &mut Svg, text: &str, (x, y): (f64, f64), width: f64, height: f64, colour: &str) {
    let letters = text.chars().count().max(1) as f64;
    let size = (width / (letters * LETTER)).min(height * 0.8).min(11.0);
    if size >= SMALLEST {
        svg.text_in((x, y + size * 0.36), size, Anchor::Middle, colour, text);
    }
}
