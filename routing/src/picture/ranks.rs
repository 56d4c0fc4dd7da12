//! The fabric by ranks.

use super::svg::{Anchor, Svg};
use super::{CELLS, Direction, Drawn, MARGIN, Scene, WIDTH, heat};
use crate::topology::SwitchIdx;

/// Where rows begin and how wide they are: their names stand before them.
const LEFT: f64 = 150.0;
const ROW: f64 = WIDTH - MARGIN - LEFT;
/// Height of a row: its upper half is for links that lead up or stay, its lower for those that lead
/// down.
const HEIGHT: f64 = 28.0;
const GAP: f64 = 46.0;
/// The colour of links between two ranks, so light that text can stand on it.
const TRUNK: &str = "#f0f0f0";

/// A rank: its level and its switches by GUID.
struct Rank {
    level: u8,
    switches: Vec<SwitchIdx>,
}

/// The load of the fullest link of each switch.
#[derive(Clone, Copy, Default)]
struct Fullest {
    up: f64,
    down: f64,
}

/// Draws all ranks from `y` on, the highest first, and gives where they end.
pub(super) fn draw(svg: &mut Svg, scene: &Scene<'_>, links: &[Drawn], mut y: f64) -> f64 {
    let mut fullest = vec![Fullest::default(); scene.topology.switch_count()];
    for (link, drawn) in scene.links.iter().zip(links) {
        if let Some(switch) = scene.topology.switch_by_guid(link.switch) {
            let fullest = &mut fullest[switch.index()];
            let side = match drawn.direction {
                Direction::Down => &mut fullest.down,
                Direction::Up | Direction::Level => &mut fullest.up,
            };
            *side = side.max(drawn.load);
        }
    }
    let ranks = ranks(scene);
    for (index, rank) in ranks.iter().enumerate() {
        row(svg, scene, rank, &fullest, y);
        y += HEIGHT;
        let below = ranks.get(index + 1);
        trunk(svg, scene, (rank, below), links, y);
        y += GAP;
    }
    hosts(svg, scene, y);
    y + HEIGHT
}

fn ranks(scene: &Scene<'_>) -> Vec<Rank> {
    let mut by_level = std::collections::BTreeMap::<u8, Vec<SwitchIdx>>::new();
    for switch in scene.topology.indices() {
        let level = scene.levels.get(switch.index()).copied().unwrap_or(0);
        by_level.entry(level).or_default().push(switch);
    }
    let rank = |(level, switches)| Rank { level, switches };
    by_level.into_iter().map(rank).collect()
}

fn row(svg: &mut Svg, scene: &Scene<'_>, rank: &Rank, fullest: &[Fullest], y: f64) {
    let count = rank.switches.len();
    let hosts: usize = rank
        .switches
        .iter()
        .map(|&switch| scene.topology.hosts(switch))
        .sum();
    svg.text(
        (MARGIN, y + 12.0),
        12.0,
        Anchor::Start,
        &format!("rank {}", rank.level),
    );
    let mut detail = format!("{count} switch{}", if count == 1 { "" } else { "es" });
    if hosts > 0 {
        detail += &format!(", {hosts} hosts");
    }
    svg.text((MARGIN, y + 25.0), 10.0, Anchor::Start, &detail);
    let cells = count.min(CELLS);
    let width = ROW / cells as f64;
    // Between cells, as long as there is something to see of them.
    let seam = if width > 4.0 { 1.0 } else { 0.0 };
    for cell in 0..cells {
        let switches = &rank.switches[cell * count / cells..(cell + 1) * count / cells];
        let most = switches.iter().fold(Fullest::default(), |most, switch| {
            let own = fullest[switch.index()];
            Fullest {
                up: most.up.max(own.up),
                down: most.down.max(own.down),
            }
        });
        let tip = tip(scene, switches, most);
        let x = LEFT + cell as f64 * width;
        let half = HEIGHT / 2.0;
        svg.rect([x, y, width - seam, half], heat(most.up), &tip);
        svg.rect([x, y + half, width - seam, half], heat(most.down), &tip);
    }
}

fn tip(scene: &Scene<'_>, switches: &[SwitchIdx], most: Fullest) -> String {
    let name = |switch: &SwitchIdx| (scene.name)(scene.topology.switch(*switch).guid);
    let who = match switches {
        [] => String::new(),
        [one] => name(one),
        [first, .., last] => format!("{} to {} ({})", name(first), name(last), switches.len()),
    };
    format!(
        "{who}: up {:.2}, down {:.2} of the mean load",
        most.up, most.down
    )
}

/// The links from a rank to those below it: a band to the next one, and figures for each of them.
fn trunk(
    svg: &mut Svg,
    scene: &Scene<'_>,
    (rank, below): (&Rank, Option<&Rank>),
    links: &[Drawn],
    y: f64,
) {
    if below.is_none() && total_hosts(scene) == 0 {
        return;
    }
    let inset = 30.0;
    svg.polygon(
        &[
            (LEFT, y),
            (LEFT + ROW, y),
            (LEFT + ROW - inset, y + GAP / 2.0),
            (LEFT + ROW, y + GAP),
            (LEFT, y + GAP),
            (LEFT + inset, y + GAP / 2.0),
        ],
        TRUNK,
    );
    let mut texts = Vec::new();
    let mut levels: Vec<u8> = links
        .iter()
        .filter(|link| link.from == rank.level && link.to >= rank.level)
        .map(|link| link.to)
        .collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        texts.push(between(links, rank.level, level));
    }
    // More kinds of neighbours than fit are rare enough to be counted only.
    const LINES: usize = 3;
    if texts.len() > LINES {
        let more = texts.len() - (LINES - 1);
        texts.truncate(LINES - 1);
        texts.push(format!("and links to {more} more ranks"));
    }
    for (line, text) in texts.iter().enumerate() {
        let y = y + 15.0 + 12.0 * line as f64;
        svg.text((LEFT + ROW / 2.0, y), 11.0, Anchor::Middle, text);
    }
}

fn between(links: &[Drawn], upper: u8, lower: u8) -> String {
    let side = |from: u8, to: u8| {
        let side = links
            .iter()
            .filter(move |link| (link.from, link.to) == (from, to));
        let (count, sum, max) = side.fold((0u64, 0u64, 0u64), |(count, sum, max), link| {
            (count + 1, sum + link.paths, max.max(link.paths))
        });
        (count, sum as f64 / count.max(1) as f64, max)
    };
    let (count, down_mean, down_max) = side(upper, lower);
    if upper == lower {
        // Both directions of a cable are here.
        let cables = count / 2;
        return format!(
            "{cables} cables within rank {upper}: {down_max} paths at most, {down_mean:.0} on average"
        );
    }
    let (_, up_mean, up_max) = side(lower, upper);
    format!(
        "{count} cables to rank {lower}: up {up_max} paths at most, {up_mean:.0} on average; down {down_max}, {down_mean:.0}"
    )
}

fn total_hosts(scene: &Scene<'_>) -> usize {
    let switches = scene.topology.indices();
    switches.map(|switch| scene.topology.hosts(switch)).sum()
}

fn hosts(svg: &mut Svg, scene: &Scene<'_>, y: f64) {
    let total = total_hosts(scene);
    if total == 0 {
        return;
    }
    let by_leaf: Vec<usize> = scene
        .topology
        .indices()
        .map(|switch| scene.topology.hosts(switch))
        .filter(|&hosts| hosts > 0)
        .collect();
    let least = by_leaf.iter().min().copied().unwrap_or(0);
    let most = by_leaf.iter().max().copied().unwrap_or(0);
    svg.rect([LEFT, y, ROW, HEIGHT], "#e5f5e0", "");
    svg.text((MARGIN, y + 18.0), 12.0, Anchor::Start, "hosts");
    let text = format!(
        "{total} ports of hosts at {} switches, {least} to {most} each",
        by_leaf.len()
    );
    svg.text((LEFT + ROW / 2.0, y + 18.0), 12.0, Anchor::Middle, &text);
}
