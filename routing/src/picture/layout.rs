//! Computes the positions of switches in a drawing by tiers: roots at the top, leaves at the
//! bottom, pods side by side.
//!
//! A tier is a row, which has several lines if there are many switches. A pod is a set of switches
//! that are connected without the top tier; each pod is a column. Positions depend only on names,
//! ranks and cables, so that a fabric looks the same after each change.

use std::cmp::Ordering;

/// The number of switches from which a tier gets a second line, so that each switch has some pixels
/// on a page.
const LINE: f64 = 96.0;
/// The space between two pods, in cells.
const POD_GAP: f64 = 1.5;
/// The height of the drawing as a fraction of its width, chosen for a screen with lists next to the
/// drawing.
const ASPECT: f64 = 0.42;
/// The minimum space between two tiers, in cells.
const TIER_GAP: f64 = 3.0;
/// The distance of two lines of a tier with hosts, in cells: there is space for hosts below their
/// leaf.
const LINE_OVER_HOSTS: f64 = 2.0;
/// The maximum distance of two neighbours in a line, in cells.
const MAX_PITCH: f64 = 6.0;

/// A switch to be positioned.
#[derive(Debug, Clone)]
pub struct LayoutSwitch<'a> {
    /// The name of the switch; neighbours in a line have neighbouring names.
    pub name: &'a str,
    /// The rank of the switch, 0 for roots; `None` if routing does not rank switches.
    pub rank: Option<u32>,
    /// Whether the switch has hosts.
    pub has_hosts: bool,
}

/// The position of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Place {
    /// The tier, 0 at the top.
    pub tier: u32,
    /// The index of its group in [`Layout::groups`].
    pub group: u32,
    /// The horizontal centre of the switch's cell, in cells from the left.
    pub x: f64,
    /// The vertical centre of the switch's cell, in cells from the top.
    pub y: f64,
}

/// The switches of one tier and one pod, which form a rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// The tier, 0 at the top.
    pub tier: u32,
    /// The pod, counted from the left; `None` in the top tier, and if there is only one pod.
    pub pod: Option<u32>,
    /// The number of switches in the group.
    pub count: u32,
    /// The left edge, in cells.
    pub x: f64,
    /// The upper edge, in cells.
    pub y: f64,
    /// The width, in cells.
    pub width: f64,
    /// The height, in cells.
    pub height: f64,
    /// The distance of two neighbours in a line, in cells.
    pub pitch: f64,
    /// The distance of two lines, in cells.
    pub line: f64,
}

/// The layout of a fabric by tiers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layout {
    /// The positions, in the order of the switches.
    pub places: Vec<Place>,
    /// The groups, sorted by tier and from left to right.
    pub groups: Vec<Group>,
    /// The number of tiers.
    pub tiers: u32,
    /// The width of the whole layout, in cells.
    pub width: f64,
    /// The height of the whole layout, in cells.
    pub height: f64,
}

/// Positions `switches`. `cables` holds pairs of indices of connected switches, in any order and
/// perhaps repeated. Pairs with an index beyond the switches are ignored.
pub fn layout(switches: &[LayoutSwitch<'_>], cables: &[(u32, u32)]) -> Layout {
    if switches.is_empty() {
        return Layout::default();
    }
    let neighbours = Neighbours::new(switches.len(), cables);
    let tiers = tiers(switches, &neighbours);
    let count = tiers.iter().max().map_or(1, |&last| last + 1);
    let pods = Pods::find(switches, &tiers, &neighbours);
    let mut order: Vec<usize> = (0..switches.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |switch: usize| (tiers[switch], pods.of(switch));
        let by_name = || natural(switches[a].name, switches[b].name);
        key(a).cmp(&key(b)).then_with(by_name).then(a.cmp(&b))
    });
    let mut has_hosts = vec![false; count as usize];
    for (switch, &tier) in switches.iter().zip(&tiers) {
        has_hosts[tier as usize] |= switch.has_hosts;
    }
    place(&order, &tiers, &has_hosts, &pods)
}

/// The neighbours of each switch: the neighbours of `s` are `ends[starts[s]..starts[s + 1]]`.
struct Neighbours {
    starts: Vec<usize>,
    ends: Vec<u32>,
}

impl Neighbours {
    fn new(count: usize, cables: &[(u32, u32)]) -> Neighbours {
        let known = |&&(a, b): &&(u32, u32)| a as usize != b as usize && a.max(b) < count as u32;
        let mut starts = vec![0; count + 1];
        for &(a, b) in cables.iter().filter(known) {
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        for index in 0..count {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut ends = vec![0; starts[count]];
        for &(a, b) in cables.iter().filter(known) {
            for (from, to) in [(a, b), (b, a)] {
                let slot = &mut next[from as usize];
                ends[*slot] = to;
                *slot += 1;
            }
        }
        Neighbours { starts, ends }
    }

    fn of(&self, switch: usize) -> &[u32] {
        &self.ends[self.starts[switch]..self.starts[switch + 1]]
    }
}

/// The tier of each switch, without gaps: by rank if all switches have one, else by the distance to
/// the nearest hosts.
fn tiers(switches: &[LayoutSwitch<'_>], neighbours: &Neighbours) -> Vec<u32> {
    let ranks: Option<Vec<u32>> = switches.iter().map(|switch| switch.rank).collect();
    let raw = ranks.unwrap_or_else(|| by_distance(switches, neighbours));
    let mut used = raw.clone();
    used.sort_unstable();
    used.dedup();
    let tier = |rank: &u32| used.partition_point(|other| other < rank) as u32;
    raw.iter().map(tier).collect()
}

/// For each switch, the greatest distance to hosts minus the switch's own, so that leaves are in
/// the last tier. Switches that are not connected with hosts are in the last tier as well.
fn by_distance(switches: &[LayoutSwitch<'_>], neighbours: &Neighbours) -> Vec<u32> {
    let mut distance = vec![u32::MAX; switches.len()];
    let leaf = |index: &usize| switches[*index].has_hosts;
    let mut queue: Vec<usize> = (0..switches.len()).filter(leaf).collect();
    for &leaf in &queue {
        distance[leaf] = 0;
    }
    let mut next = 0;
    while let Some(&switch) = queue.get(next) {
        next += 1;
        for &peer in neighbours.of(switch) {
            let peer = peer as usize;
            if distance[peer] == u32::MAX {
                distance[peer] = distance[switch] + 1;
                queue.push(peer);
            }
        }
    }
    let known = distance.iter().filter(|&&distance| distance != u32::MAX);
    let most = known.max().copied().unwrap_or(0);
    let tier = |distance: &u32| most - (*distance).min(most);
    let without = |distance: &u32| {
        if *distance == u32::MAX {
            most
        } else {
            tier(distance)
        }
    };
    distance.iter().map(without).collect()
}

/// The pods, in the order of their first names.
struct Pods {
    /// The pod of each switch; 0 in the top tier, and if there is only one pod.
    of: Vec<u32>,
    /// The number of pods.
    count: u32,
}

impl Pods {
    /// Finds the sets of switches that are connected without the top tier. Single switches are no
    /// pods of their own: all of them together form one pod, the last.
    fn find(switches: &[LayoutSwitch<'_>], tiers: &[u32], neighbours: &Neighbours) -> Pods {
        let mut component = vec![u32::MAX; switches.len()];
        // For each component, its size and the switch whose name comes first.
        let mut components: Vec<(usize, usize)> = Vec::new();
        for start in 0..switches.len() {
            if tiers[start] == 0 || component[start] != u32::MAX {
                continue;
            }
            let number = components.len() as u32;
            let (mut stack, mut size, mut first) = (vec![start], 0, start);
            component[start] = number;
            while let Some(switch) = stack.pop() {
                size += 1;
                if natural(switches[switch].name, switches[first].name).is_lt() {
                    first = switch;
                }
                for &peer in neighbours.of(switch) {
                    let peer = peer as usize;
                    if tiers[peer] > 0 && component[peer] == u32::MAX {
                        component[peer] = number;
                        stack.push(peer);
                    }
                }
            }
            components.push((size, first));
        }
        let mut order: Vec<usize> = (0..components.len())
            .filter(|&component| components[component].0 > 1)
            .collect();
        order.sort_by(|&a, &b| {
            let name = |component: usize| switches[components[component].1].name;
            natural(name(a), name(b)).then(a.cmp(&b))
        });
        // Single switches share a last pod.
        let singles = order.len() as u32;
        let mut numbers = vec![singles; components.len()];
        for (number, &component) in order.iter().enumerate() {
            numbers[component] = number as u32;
        }
        let any_single = components.iter().any(|&(size, _)| size == 1);
        let number_of = |component: &u32| numbers.get(*component as usize).copied().unwrap_or(0);
        Pods {
            of: component.iter().map(number_of).collect(),
            count: singles + u32::from(any_single),
        }
    }

    fn of(&self, switch: usize) -> u32 {
        self.of[switch]
    }
}

/// The lines of a tier.
#[derive(Clone, Copy)]
struct Lines {
    count: usize,
    /// The distance of two lines, in cells.
    distance: f64,
}

impl Lines {
    /// The lines of a tier with this many switches. `is_alone` means that there is no other tier.
    fn of(switches: usize, has_hosts: bool, is_alone: bool) -> Lines {
        let switches = switches as f64;
        let over_hosts = if has_hosts { LINE_OVER_HOSTS } else { 1.0 };
        // A single tier, such as a torus, fills the height of a drawing.
        let count = match is_alone {
            true => (switches * ASPECT / over_hosts).sqrt(),
            false => (switches / LINE).sqrt(),
        };
        let count = (count.ceil() as usize).max(1);
        let distance = if count > 1 { over_hosts } else { 1.0 };
        Lines { count, distance }
    }

    /// The height of the tier, in cells.
    fn height(self) -> f64 {
        self.count as f64 * self.distance
    }
}

/// The columns of the pods, from the left.
struct PodColumns {
    /// The left edge of each column, in cells.
    lefts: Vec<f64>,
    /// The width of each column, in cells.
    widths: Vec<f64>,
    /// The total width including gaps, in cells.
    total: f64,
}

impl PodColumns {
    /// Creates columns of at least these widths, together at least as wide as the top tier.
    fn new(mut widths: Vec<f64>, top_width: f64) -> PodColumns {
        let gaps = POD_GAP * (widths.len() - 1) as f64;
        let below: f64 = widths.iter().sum::<f64>() + gaps;
        let total = below.max(top_width);
        // Stretch the pods if the top tier is wider.
        let stretch = (total - gaps) / (below - gaps);
        let mut lefts = Vec::with_capacity(widths.len());
        let mut left = 0.0;
        for width in &mut widths {
            lefts.push(left);
            *width *= stretch;
            left += *width + POD_GAP;
        }
        PodColumns {
            lefts,
            widths,
            total,
        }
    }

    /// The left edge and the width of a pod's column.
    fn of(&self, pod: u32) -> (f64, f64) {
        (self.lefts[pod as usize], self.widths[pod as usize])
    }
}

/// Positions the switches, given in `order`: by tier, then pod. `has_hosts` is indexed by tier.
fn place(order: &[usize], tiers: &[u32], has_hosts: &[bool], pods: &Pods) -> Layout {
    let groups: Vec<&[usize]> = order
        .chunk_by(|&a, &b| (tiers[a], pods.of(a)) == (tiers[b], pods.of(b)))
        .collect();
    let in_tier = |tier: u32| {
        order
            .iter()
            .filter(|&&switch| tiers[switch] == tier)
            .count()
    };
    let tier_count = has_hosts.len() as u32;
    let lines: Vec<Lines> = (0u32..)
        .zip(has_hosts)
        .map(|(tier, &has_hosts)| Lines::of(in_tier(tier), has_hosts, tier_count == 1))
        .collect();
    let columns = |group: &[usize]| group.len().div_ceil(lines[tiers[group[0]] as usize].count);
    let mut widths = vec![1.0f64; pods.count.max(1) as usize];
    let mut top_width = 0.0f64;
    for group in &groups {
        match tiers[group[0]] {
            0 => top_width = columns(group) as f64,
            _ => {
                let width = &mut widths[pods.of(group[0]) as usize];
                *width = width.max(columns(group) as f64);
            }
        }
    }
    let pod_columns = PodColumns::new(widths, top_width);
    let width = pod_columns.total;
    let tops = tops(&lines, width);
    let mut layout = Layout {
        places: vec![Place::default(); order.len()],
        groups: Vec::with_capacity(groups.len()),
        tiers: tier_count,
        width,
        height: tops
            .last()
            .map_or(0.0, |top| top + lines[lines.len() - 1].height()),
    };
    for members in groups {
        let (tier, pod) = (tiers[members[0]], pods.of(members[0]));
        let (left, width) = match tier {
            0 => (0.0, width),
            _ => pod_columns.of(pod),
        };
        let lines = lines[tier as usize];
        let columns = members.len().div_ceil(lines.count);
        let pitch = (width / columns as f64).min(MAX_PITCH);
        let group = Group {
            tier,
            pod: (tier > 0 && pods.count > 1).then_some(pod),
            count: members.len() as u32,
            x: left + (width - pitch * columns as f64) / 2.0,
            y: tops[tier as usize],
            width: pitch * columns as f64,
            height: lines.height(),
            pitch,
            line: lines.distance,
        };
        for (index, &switch) in members.iter().enumerate() {
            layout.places[switch] = Place {
                tier,
                group: layout.groups.len() as u32,
                x: group.x + pitch * ((index % columns) as f64 + 0.5),
                y: group.y + lines.distance * (index / columns) as f64 + 0.5,
            };
        }
        layout.groups.push(group);
    }
    layout
}

/// The upper edges of tiers with these lines, for a layout `width` cells wide.
fn tops(lines: &[Lines], width: f64) -> Vec<f64> {
    let cells: f64 = lines.iter().map(|lines| lines.height()).sum();
    let gaps = (lines.len() - 1).max(1) as f64;
    let gap = ((width * ASPECT - cells) / gaps).max(TIER_GAP);
    let mut top = 0.0;
    lines
        .iter()
        .map(|lines| {
            let here = top;
            top += lines.height() + gap;
            here
        })
        .collect()
}

/// Compares names in natural order: runs of digits compare by their number.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let (Some(&first), Some(&second)) = (a.first(), b.first()) else {
            return a.len().cmp(&b.len());
        };
        if first.is_ascii_digit() && second.is_ascii_digit() {
            let (left, right) = (digits(&mut a), digits(&mut b));
            let by_number = left.len().cmp(&right.len()).then_with(|| left.cmp(right));
            if by_number.is_ne() {
                return by_number;
            }
        } else {
            if first != second {
                return first.cmp(&second);
            }
            (a, b) = (&a[1..], &b[1..]);
        }
    }
}

/// Removes a run of digits from the front, and returns it without leading zeros.
fn digits<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let (run, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    let zeros = run.iter().take_while(|&&byte| byte == b'0').count();
    &run[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and cables of a tree of `pods` pods, each with two leaves and two other switches,
    /// below two spines.
    fn tree(pods: usize) -> (Vec<String>, Vec<(u32, u32)>) {
        let mut names = vec!["spine-1".to_owned(), "spine-2".to_owned()];
        let mut cables = Vec::new();
        // The pods' names descend, so that their order differs from that of the switches.
        for pod in (1..=pods).rev() {
            let first = names.len() as u32;
            for kind in ["agg-1", "agg-2", "leaf-1", "leaf-2"] {
                names.push(format!("pod-{pod} {kind}"));
            }
            for agg in [first, first + 1] {
                cables.extend([(agg, 0), (agg, 1), (agg, first + 2), (first + 3, agg)]);
            }
        }
        (names, cables)
    }

    fn switches(names: &[String]) -> Vec<LayoutSwitch<'_>> {
        fn switch(name: &String) -> LayoutSwitch<'_> {
            LayoutSwitch {
                name,
                rank: None,
                has_hosts: name.contains("leaf"),
            }
        }
        names.iter().map(switch).collect()
    }

    #[test]
    fn natural_order_compares_digits_by_their_number() {
        let mut names = [
            "b", "leaf-10", "leaf-2", "leaf-02", "leaf-1a", "leaf-1", "leaf",
        ];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            [
                "b", "leaf", "leaf-1", "leaf-1a", "leaf-2", "leaf-02", "leaf-10"
            ]
        );
    }

    #[test]
    fn tiers_follow_the_distance_to_hosts_and_pods_the_order_of_names() {
        let (names, cables) = tree(12);
        let drawn = layout(&switches(&names), &cables);
        assert_eq!(drawn.tiers, 3);
        assert_eq!(drawn.groups.len(), 1 + 12 + 12);
        let x = |name: &str| {
            let index = names.iter().position(|known| known == name).unwrap();
            drawn.places[index].x
        };
        assert!(x("pod-2 leaf-1") < x("pod-2 leaf-2"));
        assert!(x("pod-2 leaf-2") < x("pod-10 leaf-1"));
        let pods = drawn.groups.iter().filter_map(|group| group.pod).max();
        assert_eq!(pods, Some(11));
        assert_eq!(drawn.places[0].tier, 0);
        assert_eq!(drawn.places[2].tier, 1);
    }

    #[test]
    fn leaves_without_a_tier_between_them_and_the_top_are_one_group() {
        let names: Vec<String> = ["spine-1", "leaf-1", "leaf-2", "leaf-3"]
            .map(str::to_owned)
            .to_vec();
        let drawn = layout(&switches(&names), &[(0, 1), (0, 2), (3, 0)]);
        assert_eq!(drawn.groups.len(), 2);
        assert_eq!(drawn.groups[1].pod, None);
        assert_eq!(drawn.groups[1].count, 3);
    }

    #[test]
    fn switches_have_distinct_places_within_the_drawing() {
        for pods in [1, 2, 44] {
            let (names, cables) = tree(pods);
            let drawn = layout(&switches(&names), &cables);
            let mut places: Vec<(u64, u64)> = drawn
                .places
                .iter()
                .map(|place| (place.x.to_bits(), place.y.to_bits()))
                .collect();
            for place in &drawn.places {
                assert!((0.0..=drawn.width).contains(&place.x));
                assert!((0.0..=drawn.height).contains(&place.y));
            }
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), names.len());
        }
    }

    #[test]
    fn lines_of_leaves_have_room_for_their_hosts_and_lines_of_spines_none() {
        let leaf = |index: u32| (format!("leaf-{index}"), true);
        let spine = |index: u32| (format!("spine-{index}"), false);
        let named: Vec<(String, bool)> = (0..100).map(spine).chain((0..400).map(leaf)).collect();
        let switches: Vec<LayoutSwitch<'_>> = named
            .iter()
            .map(|(name, has_hosts)| LayoutSwitch {
                name,
                rank: None,
                has_hosts: *has_hosts,
            })
            .collect();
        let cables: Vec<(u32, u32)> = (100..500).map(|leaf| (leaf, leaf % 100)).collect();
        let drawn = layout(&switches, &cables);
        let lines = |tier: u32| {
            let places = drawn.places.iter().filter(|place| place.tier == tier);
            let mut lines: Vec<f64> = places.map(|place| place.y).collect();
            lines.sort_by(f64::total_cmp);
            lines.dedup();
            lines
        };
        let distances = |tier: u32| -> Vec<f64> {
            let lines = lines(tier);
            lines.windows(2).map(|two| two[1] - two[0]).collect()
        };
        assert_eq!(distances(0), [1.0]);
        assert_eq!(distances(1), [2.0, 2.0]);
        let bottom = lines(1)[2] + LINE_OVER_HOSTS - 0.5;
        assert_eq!(drawn.height, bottom);
    }

    #[test]
    fn ranks_determine_tiers_and_cables_of_unknown_switches_are_ignored() {
        let name = |name, rank| LayoutSwitch {
            name,
            rank: Some(rank),
            has_hosts: true,
        };
        let drawn = layout(&[name("a", 7), name("b", 3)], &[(0, 0), (0, 9), (9, 9)]);
        assert_eq!((drawn.places[0].tier, drawn.places[1].tier), (1, 0));
        assert_eq!(layout(&[], &[(0, 1)]), Layout::default());
        let alone = layout(&[name("a", 0)], &[]);
        assert_eq!((alone.tiers, alone.groups.len()), (1, 1));
    }

    #[test]
    fn a_fabric_without_tiers_is_as_wide_as_a_page() {
        let names: Vec<String> = (0..256).map(|index| format!("leaf-{index}")).collect();
        let cables: Vec<(u32, u32)> = (0..255).map(|index| (index, index + 1)).collect();
        let drawn = layout(&switches(&names), &cables);
        assert_eq!(drawn.tiers, 1);
        assert!(drawn.height / drawn.width > 0.3, "{drawn:?}");
    }
}
