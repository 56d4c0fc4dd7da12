//! Designed cables with one end that may be any of several ports.
//!
//! A present cable that fits is right, whichever port it is in. Otherwise the end is the port that
//! needs few moves: a port that closes a ring, else a free port, else a port with a cable that no
//! line designs. The number of moves need not be minimal for such cables.

use std::collections::{BTreeMap, BTreeSet};

use super::resolved::Resolved;
use super::{Joined, Spot, UnclearCable};

/// A designed cable from one port to any of several.
pub(super) struct Choice {
    /// Line of the design.
    pub(super) line: usize,
    /// The end with a certain port.
    pub(super) spot: Spot,
    /// Candidate ports of the other end.
    pub(super) others: BTreeSet<Spot>,
}

/// Chooses a port for the open end of each choice in `resolved`.
pub(super) fn settle(resolved: &mut Resolved, present: &Joined) {
    let mut open = Vec::new();
    for choice in std::mem::take(&mut resolved.choices) {
        let wanted = &mut resolved.wanted;
        if wanted.contains_key(&choice.spot) {
            let reason = "its port has another cable in another line".to_owned();
            let line = choice.line;
            resolved.unclear.push(UnclearCable { line, reason });
            continue;
        }
        match present.get(&choice.spot) {
            Some(other) if choice.others.contains(other) && !wanted.contains_key(other) => {
                join(wanted, choice.spot, *other);
            }
            _ => open.push(choice),
        }
    }
    close_rings(&mut resolved.wanted, &mut open, present);
    for choice in open {
        let wanted = &resolved.wanted;
        let free = |spot: &&Spot| !wanted.contains_key(spot) && **spot != choice.spot;
        let candidates = || choice.others.iter().filter(free);
        let empty = candidates().find(|spot| !present.contains_key(spot));
        let chosen = far_end(choice.spot, wanted, present)
            .filter(|end| choice.others.contains(end))
            .or_else(|| empty.or_else(|| candidates().next()).copied());
        match chosen {
            Some(other) if !wanted.contains_key(&choice.spot) => {
                join(&mut resolved.wanted, choice.spot, other)
            }
            _ => resolved.unclear.push(UnclearCable {
                line: choice.line,
                reason: "no port is left for it".to_owned(),
            }),
        }
    }
}

/// Settles pairs of choices in which each port has the plug that the other port needs: one swap
/// corrects both.
fn close_rings(wanted: &mut Joined, open: &mut Vec<Choice>, present: &Joined) {
    let ends: BTreeMap<Spot, usize> = open
        .iter()
        .enumerate()
        .filter_map(|(at, choice)| Some((*present.get(&choice.spot)?, at)))
        .collect();
    let mut settled = BTreeSet::new();
    for (at, choice) in open.iter().enumerate() {
        let Some(&own) = present.get(&choice.spot).filter(|_| !settled.contains(&at)) else {
            continue;
        };
        let is_free = |spot: &Spot| !wanted.contains_key(spot);
        let partner = ends.iter().find(|&(end, &other)| {
            let fits = choice.others.contains(end) && open[other].others.contains(&own);
            fits && other != at && !settled.contains(&other) && is_free(end) && is_free(&own)
        });
        if let Some((&end, &other)) = partner {
            join(wanted, choice.spot, end);
            join(wanted, open[other].spot, own);
            settled.extend([at, other]);
        }
    }
    let mut at = 0..;
    open.retain(|_| at.next().is_some_and(|at| !settled.contains(&at)));
}

/// The last port of the chain that begins at `spot`, if a present cable leads there.
fn far_end(spot: Spot, wanted: &Joined, present: &Joined) -> Option<Spot> {
    let mut end = *present.get(&spot)?;
    while let Some(next) = wanted.get(&end) {
        end = *present.get(next)?;
    }
    Some(end)
}

fn join(wanted: &mut Joined, a: Spot, b: Spot) {
    wanted.insert(a, b);
    wanted.insert(b, a);
}
