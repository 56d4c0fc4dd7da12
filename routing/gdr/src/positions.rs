//! Positions of compute ports, by which routes are spread and which the store keeps.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;
use rsm_routing::engine::Numbers;

/// The maximum number of positions, and of leaves with positions: the number of unicast LIDs,
/// 0x0001 to 0xBFFF. Beyond it, absent ports lose their positions.
pub const MAX_POSITIONS: usize = 0xbfff;

/// The position of a compute port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostPosition {
    /// The GUID of the leaf. A port that was cabled to another leaf keeps this position until it
    /// takes a place there.
    pub leaf: Guid,
    /// The place at the leaf, from 0.
    pub place: u32,
}

/// The positions of all compute ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostPositions {
    pub(crate) stride: u32,
    pub(crate) leaves: BTreeMap<Guid, u32>,
    pub(crate) ports: BTreeMap<Guid, HostPosition>,
}

/// A contradiction in stored positions.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PositionError {
    /// A port has a position at a leaf without a rank.
    #[error("port {port} has a position at leaf {leaf}, which has no rank")]
    UnknownLeaf {
        /// The port GUID.
        port: Guid,
        /// The leaf's GUID.
        leaf: Guid,
    },
    /// Two ports have the same place at a leaf.
    #[error("port {port} has place {place} of leaf {leaf}, which another port has too")]
    Taken {
        /// The port GUID.
        port: Guid,
        /// The leaf's GUID.
        leaf: Guid,
        /// The place at the leaf.
        place: u32,
    },
    /// A place exceeds the number of places of a leaf.
    #[error("port {port} has place {place}: expected less than {stride}")]
    Beyond {
        /// The port GUID.
        port: Guid,
        /// The place at the leaf.
        place: u32,
        /// The number of places of a leaf.
        stride: u32,
    },
    /// Two leaves have the same rank, or the rank is too high to number the places.
    #[error("leaf {leaf} has rank {rank}, which another leaf has too, or which is too high")]
    Rank {
        /// The leaf's GUID.
        leaf: Guid,
        /// The rank of the leaf.
        rank: u32,
    },
    /// There are more than [`MAX_POSITIONS`] positions.
    #[error("{0} positions: expected at most {MAX_POSITIONS}")]
    TooMany(usize),
}

impl HostPositions {
    /// Restores positions from the store.
    ///
    /// # Errors
    /// The positions contradict each other; see [`PositionError`].
    pub fn from_parts(
        stride: u32,
        leaves: BTreeMap<Guid, u32>,
        ports: BTreeMap<Guid, HostPosition>,
    ) -> Result<HostPositions, PositionError> {
        let most = leaves.len().max(ports.len());
        if most > MAX_POSITIONS {
            return Err(PositionError::TooMany(most));
        }
        let mut ranks = BTreeSet::new();
        for (&leaf, &rank) in &leaves {
            let end = rank
                .checked_add(1)
                .and_then(|ranks| ranks.checked_mul(stride));
            if end.is_none() || !ranks.insert(rank) {
                return Err(PositionError::Rank { leaf, rank });
            }
        }
        let mut taken = BTreeSet::new();
        for (&port, &HostPosition { leaf, place }) in &ports {
            if !leaves.contains_key(&leaf) {
                return Err(PositionError::UnknownLeaf { port, leaf });
            }
            if place >= stride {
                return Err(PositionError::Beyond {
                    port,
                    place,
                    stride,
                });
            }
            if !taken.insert((leaf, place)) {
                return Err(PositionError::Taken { port, leaf, place });
            }
        }
        Ok(HostPositions {
            stride,
            leaves,
            ports,
        })
    }

    /// The number of places of every leaf.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// The rank of each leaf, by GUID.
    pub fn leaves(&self) -> &BTreeMap<Guid, u32> {
        &self.leaves
    }

    /// The position of each port, by GUID.
    pub fn ports(&self) -> &BTreeMap<Guid, HostPosition> {
        &self.ports
    }

    /// The place of a host with these ports: the most frequent place; `None` if no port has a
    /// place.
    pub fn place(&self, ports: impl Iterator<Item = Guid>) -> Option<u32> {
        most_common(ports.filter_map(|port| Some(self.ports.get(&port)?.place)))
    }

    /// Whether no port has a position.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// The numbers by which routes are spread: leaf by leaf in the order of ranks, and by place
    /// within a leaf.
    pub fn numbers(&self) -> Numbers {
        let number = |(&port, position): (&Guid, &HostPosition)| {
            let rank = self.leaves.get(&position.leaf)?;
            let number = rank
                .saturating_mul(self.stride)
                .saturating_add(position.place);
            Some((port, number))
        };
        self.ports.iter().filter_map(number).collect()
    }
}

/// The most frequent place, the lowest on a tie; `None` if there are no places.
pub(crate) fn most_common(places: impl Iterator<Item = u32>) -> Option<u32> {
    let mut count: BTreeMap<u32, usize> = BTreeMap::new();
    for place in places {
        *count.entry(place).or_default() += 1;
    }
    let most = count
        .into_iter()
        .max_by_key(|&(place, n)| (n, std::cmp::Reverse(place)));
    most.map(|(place, _)| place)
}
