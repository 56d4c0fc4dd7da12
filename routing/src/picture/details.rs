//! Draws the lists below the drawing: the fullest links, and the groups. Each item is a link to its
//! view.

use super::fabric::{Drawing, counted, short};
use super::svg::{Anchor, Svg};
use super::{Colours, MARGIN, Scene, WIDTH};
use crate::quality::Share;

/// The maximum number of listed links.
const LINKS: usize = 10;
/// The maximum number of listed groups; the drawing shows all of them.
const GROUPS: usize = 240;
/// The number of columns in the list of groups.
const COLUMNS: usize = 4;
/// The height of a line, in pixels.
const LINE: f64 = 16.0;

/// Draws both lists from the height `y` on, and returns the height at which they end, in pixels.
pub(super) fn draw(
    svg: &mut Svg,
    scene: &Scene<'_>,
    drawing: &Drawing<'_>,
    shares: &[Share],
    y: f64,
) -> f64 {
    let y = links(svg, scene, drawing, shares, y);
    groups(svg, drawing, y + 34.0)
}

/// Draws the list of the links with the highest load as a multiple of their share; links beyond
/// their share come first.
fn links(
    svg: &mut Svg,
    scene: &Scene<'_>,
    drawing: &Drawing<'_>,
    shares: &[Share],
    mut y: f64,
) -> f64 {
    svg.text(
        (MARGIN, y),
        14.0,
        Anchor::Start,
        "links farthest beyond their share",
    );
    let mut worst: Vec<&Share> = shares.iter().filter(|share| share.link.paths > 0).collect();
    worst.sort_by(|a, b| {
        let key = |share: &Share| (share.is_beyond(), share.times());
        let (a_key, b_key) = (key(a), key(b));
        (b_key.0.cmp(&a_key.0))
            .then(b_key.1.total_cmp(&a_key.1))
            .then((a.link.switch, a.link.port).cmp(&(b.link.switch, b.link.port)))
    });
    if worst.is_empty() {
        y += LINE + 4.0;
        svg.text_in(
            (MARGIN, y),
            11.0,
            Anchor::Start,
            Colours::MUTED,
            "no path leads from switch to switch",
        );
    }
    for share in worst.iter().take(LINKS) {
        y += LINE + 2.0;
        let link = &share.link;
        let end = |guid, port| format!("{}:{port}", short(&(scene.name)(guid)));
        let colour = match share.is_beyond() {
            true if share.times() >= super::FULL => Colours::BAD,
            true => Colours::WARN,
            false => Colours::LINK,
        };
        let switch = scene.topology.switch_by_guid(link.switch);
        let view = switch.map(|switch| drawing.view_of(switch.index()));
        svg.begin_link(view.as_deref().unwrap_or("all"), "show it");
        svg.rect([MARGIN, y - 9.0, 10.0, 10.0], colour, "");
        let text = format!(
            "{} to {}: {:.2} times its share, {} of {:.1}, from {} to {}",
            end(link.switch, link.port),
            end(link.peer, link.peer_port),
            share.times(),
            counted(link.paths as usize, "path", "paths"),
            share.paths,
            counted(link.sources as usize, "host", "hosts"),
            link.destinations
        );
        svg.text((MARGIN + 18.0, y), 11.0, Anchor::Start, &text);
        svg.end_link();
    }
    y
}

/// Draws the list of pods' groups in columns; nothing if there are no pods.
fn groups(svg: &mut Svg, drawing: &Drawing<'_>, y: f64) -> f64 {
    let groups = &drawing.layout().groups;
    let pods: Vec<usize> = (0..groups.len())
        .filter(|&group| groups[group].pod.is_some())
        .collect();
    if pods.is_empty() {
        return y - 34.0;
    }
    let title = "pods: a click shows one alone, a click beside it all again";
    svg.text((MARGIN, y), 14.0, Anchor::Start, title);
    let shown = &pods[..pods.len().min(GROUPS)];
    let lines = shown.len().div_ceil(COLUMNS);
    let column = (WIDTH - 2.0 * MARGIN) / COLUMNS as f64;
    for (index, &group) in shown.iter().enumerate() {
        let x = MARGIN + (index / lines) as f64 * column;
        let at = (x, y + 4.0 + LINE * ((index % lines) + 1) as f64);
        svg.begin_link(&format!("g{group}"), "show it alone");
        svg.text_in(
            at,
            11.0,
            Anchor::Start,
            Colours::ACCENT,
            &drawing.group_name(group),
        );
        svg.end_link();
    }
    let mut end = y + 4.0 + LINE * lines as f64;
    if pods.len() > shown.len() {
        end += LINE;
        let more = format!("and {} more, in the drawing", pods.len() - shown.len());
        svg.text_in((MARGIN, end), 11.0, Anchor::Start, Colours::MUTED, &more);
    }
    end
}
