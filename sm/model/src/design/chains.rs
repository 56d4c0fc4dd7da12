//! Chains of designed and present cables, and the moves that correct each chain.

use std::collections::BTreeSet;

use rsm_ids::Guid;

use super::{Cable, FarEnds, Move, MoveKind, Place, Spot};

/// Ports joined alternately by designed and present cables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    /// The ports, each joined to the next one.
    pub(super) spots: Vec<Spot>,
    /// Whether a present cable joins the first two ports; designed and present cables alternate.
    begins_present: bool,
    /// Whether the last port is joined to the first one.
    pub(super) is_ring: bool,
}

/// All chains of the two netlists, paths before rings.
pub(super) fn of(present: &FarEnds, wanted: &FarEnds) -> Vec<Chain> {
    let all: BTreeSet<Spot> = present.keys().chain(wanted.keys()).copied().collect();
    let mut seen = BTreeSet::new();
    let mut chains = Vec::new();
    let is_end = |spot: &Spot| present.contains_key(spot) != wanted.contains_key(spot);
    for first in all.iter().copied().filter(is_end) {
        if !seen.contains(&first) {
            chains.push(walk(first, present, wanted, &mut seen));
        }
    }
    for first in all {
        if !seen.contains(&first) {
            chains.push(walk(first, present, wanted, &mut seen));
        }
    }
    chains
}

/// The chain that contains `first`, which is an end of a path or any port of a ring. Adds the
/// chain's ports to `seen`.
fn walk(first: Spot, present: &FarEnds, wanted: &FarEnds, seen: &mut BTreeSet<Spot>) -> Chain {
    let begins_present = present.contains_key(&first);
    let mut spots = vec![first];
    seen.insert(first);
    let (mut at, mut by_present) = (first, begins_present);
    loop {
        let joined = if by_present { present } else { wanted };
        let next = joined.get(&at).copied();
        match next {
            Some(next) if seen.insert(next) => {
                spots.push(next);
                at = next;
                by_present = !by_present;
            }
            _ => {
                return Chain {
                    is_ring: next == Some(first),
                    begins_present,
                    spots,
                };
            }
        }
    }
}

impl Chain {
    /// Whether the chain is a single designed cable that is present.
    pub(super) fn is_right(&self) -> bool {
        self.is_ring && self.spots.len() == 2
    }

    /// Whether a node probably has another name than in the design: the present cable at a port
    /// leads to a node that the design does not name, and the designed cable leads to a name that
    /// no node has. `named` contains the nodes that the design names.
    pub(super) fn has_other_name(&self, named: &BTreeSet<Guid>) -> bool {
        let is_unnamed = |place| matches!(place, Place::Node(guid) if !named.contains(&guid));
        let is_absent = |place| matches!(place, Place::Absent(_));
        match self.spots[..] {
            [a, _, b] => {
                is_absent(a.place) && is_unnamed(b.place)
                    || is_absent(b.place) && is_unnamed(a.place)
            }
            _ => false,
        }
    }

    /// All cables, alternately present and designed, each with its lower end first.
    fn cables(&self) -> impl Iterator<Item = Cable> {
        let closing = self
            .is_ring
            .then(|| (self.spots.last(), self.spots.first()));
        let closing = closing.and_then(|(last, first)| Some([*last?, *first?]));
        let pairs = self.spots.windows(2).map(|pair| [pair[0], pair[1]]);
        pairs.chain(closing).map(|[a, b]| [a.min(b), a.max(b)])
    }

    /// The present cables.
    pub(super) fn present(&self) -> Vec<Cable> {
        let skipped = usize::from(!self.begins_present);
        self.cables().skip(skipped).step_by(2).collect()
    }

    /// The designed cables.
    pub(super) fn wanted(&self) -> Vec<Cable> {
        let skipped = usize::from(self.begins_present);
        self.cables().skip(skipped).step_by(2).collect()
    }

    /// The shortest sequence of moves that corrects the chain.
    pub(super) fn moves(&self) -> Vec<Move> {
        match self.is_ring {
            true => ring_moves(&self.spots),
            false => self.path_moves(),
        }
    }

    /// The moves of a path.
    fn path_moves(&self) -> Vec<Move> {
        let ends_present = self.begins_present == self.spots.len().is_multiple_of(2);
        let mut spots = self.spots.clone();
        let mut moves = Vec::new();
        if self.begins_present && ends_present {
            // There is one cable too many: once it is removed, its second port is free.
            moves.push(Move {
                kind: MoveKind::Remove,
                first: spots[0],
                second: spots[1],
                makes: None,
                also_makes: None,
            });
            spots.remove(0);
        } else if self.begins_present {
            spots.reverse();
        }
        // The first port is free now, and each plug that moves to a free port frees the next one.
        let mut remaining = &spots[..];
        while let &[free, other, from, ..] = remaining {
            moves.push(Move {
                kind: MoveKind::Shift,
                first: from,
                second: free,
                makes: Some([free.min(other), free.max(other)]),
                also_makes: None,
            });
            remaining = &remaining[2..];
        }
        if let &[free, other] = remaining {
            let (first, second) = (free.min(other), free.max(other));
            moves.push(Move {
                kind: MoveKind::Connect,
                first,
                second,
                makes: Some([first, second]),
                also_makes: None,
            });
        }
        moves
    }
}

/// The moves of a ring whose first two ports are joined by a present cable. Each move swaps the
/// plug of the first port, the pivot, with the plug of every second port in turn. Of the two
/// directions around the ring, the function chooses the one whose swapped ports are on fewer nodes.
fn ring_moves(spots: &[Spot]) -> Vec<Move> {
    // The ring has an even number of ports, so that a present cable joins the first two ports in
    // the reverse order as well.
    let back: Vec<Spot> = spots.iter().rev().copied().collect();
    let places = |spots: &[Spot]| {
        let pivots = spots.iter().step_by(2).map(|spot| spot.place);
        pivots.collect::<BTreeSet<Place>>().len()
    };
    let spots = match places(&back) < places(spots) {
        true => &back[..],
        false => spots,
    };
    let Some((&pivot, remaining)) = spots.split_first() else {
        return Vec::new();
    };
    // `remaining`: the far end of the pivot's cable, then pairs of a port and the far end of its
    // cable.
    let cable = |a: Spot, b: Spot| Some([a.min(b), a.max(b)]);
    let swaps = remaining.windows(2).step_by(2).map(|pair| Move {
        kind: MoveKind::Swap,
        first: pivot,
        second: pair[1],
        makes: cable(pair[0], pair[1]),
        also_makes: None,
    });
    let mut swaps: Vec<Move> = swaps.collect();
    // The last swap joins the pivot with the last port.
    if let (Some(swap), Some(&last)) = (swaps.last_mut(), remaining.last()) {
        swap.also_makes = cable(pivot, last);
    }
    swaps
}
