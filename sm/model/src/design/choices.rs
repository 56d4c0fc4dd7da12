//! Designed cables with one end that may be any of several ports.
//!
//! A present cable to any candidate port is right. Otherwise the module chooses the candidate that
//! needs few moves: a port that closes a ring, else a free port, else a port with a cable that no
//! line designs. The number of moves need not be minimal for such cables.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::resolved::Resolved;
use super::{FarEnds, Spot, UnclearCable};

/// Maximum number of open ends whose present cable does not fit. The search for rings compares all
/// pairs of them, on the thread of the core.
const MAX_OPEN: usize = 2048;

/// A designed cable from one port to any of several candidate ports.
pub(super) struct Choice {
    /// Line of the design.
    pub(super) line: usize,
    /// The end with a certain port.
    pub(super) spot: Spot,
    /// Candidate ports of the other end.
    pub(super) candidates: Arc<BTreeSet<Spot>>,
}

/// Chooses a port for the open end of each choice in `resolved`.
pub(super) fn choose_ports(resolved: &mut Resolved, present: &FarEnds) {
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
            Some(other) if choice.candidates.contains(other) && !wanted.contains_key(other) => {
                join(wanted, choice.spot, *other);
            }
            _ => open.push(choice),
        }
    }
    for dropped in open.drain(MAX_OPEN.min(open.len())..) {
        resolved.unclear.push(UnclearCable {
            line: dropped.line,
            reason: format!(
                "more than {MAX_OPEN} cables with an open end are elsewhere; name the ports"
            ),
        });
    }
    close_rings(&mut resolved.wanted, &mut open, present);
    let mut free = FreePorts::default();
    for choice in open {
        let wanted = &resolved.wanted;
        // A choice before this one may have taken the port.
        let is_open = !wanted.contains_key(&choice.spot);
        let chosen = is_open.then(|| {
            far_end(choice.spot, wanted, present)
                .filter(|end| choice.candidates.contains(end))
                .or_else(|| free.next(&choice, wanted, present))
        });
        match chosen.flatten() {
            Some(other) => join(&mut resolved.wanted, choice.spot, other),
            None => resolved.unclear.push(UnclearCable {
                line: choice.line,
                reason: "no port is left for it".to_owned(),
            }),
        }
    }
}

/// The ports that open ends can take, for each set of candidates.
///
/// Many choices share a set, and a chosen port stays chosen: each set is walked only once.
#[derive(Default)]
struct FreePorts(BTreeMap<*const BTreeSet<Spot>, [VecDeque<Spot>; 2]>);

impl FreePorts {
    /// The first candidate of `choice` without a designed cable, ports without a present cable
    /// first; `None` if there is none.
    fn next(&mut self, choice: &Choice, wanted: &FarEnds, present: &FarEnds) -> Option<Spot> {
        let queues = self.0.entry(Arc::as_ptr(&choice.candidates));
        let queues = queues.or_insert_with(|| {
            let all = choice.candidates.iter().copied();
            let (used, empty) = all.partition(|spot| present.contains_key(spot));
            [empty, used]
        });
        queues.iter_mut().find_map(|queue| {
            while queue.front().is_some_and(|spot| wanted.contains_key(spot)) {
                queue.pop_front();
            }
            let free = |spot: &&Spot| !wanted.contains_key(spot) && **spot != choice.spot;
            queue.iter().find(free).copied()
        })
    }
}

/// Pairs choices in which each port has the plug that the other port needs: one swap corrects both.
fn close_rings(wanted: &mut FarEnds, open: &mut Vec<Choice>, present: &FarEnds) {
    let ends: BTreeMap<Spot, usize> = open
        .iter()
        .enumerate()
        .filter_map(|(at, choice)| Some((*present.get(&choice.spot)?, at)))
        .collect();
    let mut paired = BTreeSet::new();
    for (at, choice) in open.iter().enumerate() {
        let Some(&own) = present.get(&choice.spot).filter(|_| !paired.contains(&at)) else {
            continue;
        };
        let is_free = |spot: &Spot| !wanted.contains_key(spot);
        let partner = ends.iter().find(|&(end, &other)| {
            let fits = choice.candidates.contains(end) && open[other].candidates.contains(&own);
            fits && other != at && !paired.contains(&other) && is_free(end) && is_free(&own)
        });
        if let Some((&end, &other)) = partner {
            join(wanted, choice.spot, end);
            join(wanted, open[other].spot, own);
            paired.extend([at, other]);
        }
    }
    let mut at = 0..;
    open.retain(|_| at.next().is_some_and(|at| !paired.contains(&at)));
}

/// The last port of the chain that begins at `spot`; `None` unless a present cable leads there.
/// `spot` must have no designed cable, because a chain that leads back to `spot` has no end.
fn far_end(spot: Spot, wanted: &FarEnds, present: &FarEnds) -> Option<Spot> {
    let mut end = *present.get(&spot)?;
    while let Some(next) = wanted.get(&end) {
        end = *present.get(next)?;
    }
    Some(end)
}

/// Adds a cable between `a` and `b`.
fn join(wanted: &mut FarEnds, a: Spot, b: Spot) {
    wanted.insert(a, b);
    wanted.insert(b, a);
}
