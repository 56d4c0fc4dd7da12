//! Draws a histogram of links by load.

use super::svg::{Anchor, Svg};
use super::{Direction, MARGIN, PlottedLink, WIDTH};

/// The number of bins between load 0 and the highest load.
const BINS: usize = 40;

/// The number of links in a bin, by direction.
type Bin = [usize; Direction::ALL.len()];

/// The left edge of the bins, in pixels.
const LEFT: f64 = 80.0;
/// The width of all bins, in pixels.
const PLOT: f64 = WIDTH - MARGIN - LEFT;
/// The height of the fullest bin, in pixels.
const HEIGHT: f64 = 200.0;

/// Draws the histogram below the height `y`: the number of links by load, in multiples of the mean.
pub(super) fn draw(svg: &mut Svg, links: &[PlottedLink], y: f64) {
    svg.text((MARGIN, y), 14.0, Anchor::Start, "links by load");
    let top = y + 30.0;
    let bottom = top + HEIGHT;
    if links.is_empty() {
        svg.text(
            (LEFT, top),
            12.0,
            Anchor::Start,
            "no links between switches",
        );
        return;
    }
    let highest = links.iter().map(|link| link.load).fold(0.0, f64::max);
    // The axis always includes the mean.
    let end = if highest > 1.0 { highest } else { 1.0 };
    let bin = |load: f64| ((load / end * BINS as f64) as usize).min(BINS - 1);
    let mut counts = [Bin::default(); BINS];
    for link in links {
        counts[bin(link.load)][link.direction as usize] += 1;
    }
    let fullest: usize = counts
        .iter()
        .map(|bin| bin.iter().sum())
        .max()
        .unwrap_or(0)
        .max(1);
    let width = PLOT / BINS as f64;
    for (bin, counts) in counts.iter().enumerate() {
        let mut base = bottom;
        for direction in Direction::ALL {
            let count = counts[direction as usize];
            if count == 0 {
                continue;
            }
            // Even a single link must be visible.
            let height = (count as f64 / fullest as f64 * HEIGHT).max(1.0);
            base -= height;
            let [from, to] = [bin, bin + 1].map(|edge| edge as f64 / BINS as f64 * end);
            let tip = format!(
                "{count} links {} with {from:.2} to {to:.2} of the mean",
                direction.name()
            );
            let x = LEFT + bin as f64 * width;
            svg.rect([x, base, width - 1.0, height], direction.colour(), &tip);
        }
    }
    svg.line((LEFT, bottom), (LEFT + PLOT, bottom), "#444");
    svg.text(
        (LEFT - 6.0, top + 8.0),
        11.0,
        Anchor::End,
        &fullest.to_string(),
    );
    svg.text((LEFT - 6.0, bottom), 11.0, Anchor::End, "0");
    let mean = LEFT + PLOT / end;
    svg.line((mean, top - 6.0), (mean, bottom), "#111");
    svg.text((mean, top - 9.0), 11.0, Anchor::Middle, "mean");
    for tick in 0..=4 {
        let part = f64::from(tick) / 4.0;
        let label = format!("{:.2}", part * end);
        svg.text(
            (LEFT + part * PLOT, bottom + 14.0),
            11.0,
            Anchor::Middle,
            &label,
        );
    }
    legend(svg, &counts, bottom + 34.0);
}

/// Draws the legend: a colour and the number of links for each direction.
fn legend(svg: &mut Svg, counts: &[Bin; BINS], y: f64) {
    let mut x = LEFT;
    for direction in Direction::ALL {
        let count: usize = counts.iter().map(|bin| bin[direction as usize]).sum();
        svg.rect([x, y, 12.0, 12.0], direction.colour(), "");
        let text = format!("{count} links {}", direction.name());
        svg.text((x + 16.0, y + 10.0), 11.0, Anchor::Start, &text);
        x += 180.0;
    }
    let text = "paths of a link by its rate, in parts of the mean";
    svg.text((LEFT + PLOT, y + 10.0), 11.0, Anchor::End, text);
}
