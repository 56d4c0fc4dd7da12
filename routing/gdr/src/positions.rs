//! Positions of compute ports, as routes and the store know them.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;
use rsm_routing::engine::Numbers;

/// The most positions, and the most leaves with positions: as many as there are LIDs of one
/// destination each, 0x0001 to 0xBFFF. Beyond, absent ports lose theirs.
pub const MAX_POSITIONS: usize = 0xbfff;

/// The position of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostPosition {
    /// The leaf, by its GUID. A port that is cabled to another one has no position there yet.
    pub leaf: Guid,
    /// The place at the leaf, from 0 on.
    pub place: u32,
}

/// The positions of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostPositions {
    pub(crate) stride: u32,
    pub(crate) leaves: BTreeMap<Guid, u32>,
    pub(crate) ports: BTreeMap<Guid, HostPosition>,
}

/// Positions that do not fit together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PositionError {
    /// A port has a position at a leaf without a rank.
    #[error("port {port} sits at {leaf}, which has no rank")]
    UnknownLeaf {
        /// The port.
        port: Guid,
        /// The leaf.
        leaf: Guid,
    },
    /// Two ports have one place.
    #[error("port {port} sits at place {place} of {leaf}, where another one sits")]
    Taken {
        /// The port.
        port: Guid,
        /// The leaf.
        leaf: Guid,
        /// The place.
        place: u32,
    },
    /// A place is beyond the places of a leaf.
    #[error("port {port} sits at place {place}: expected less than {stride}")]
    Beyond {
        /// The port.
        port: Guid,
        /// The place.
        place: u32,
        /// How many places a leaf has.
        stride: u32,
    },
    /// Two leaves have one rank, or its places cannot be numbered.
    #[error("leaf {leaf} has rank {rank}, which another one has, or which is too high")]
    Rank {
        /// The leaf.
        leaf: Guid,
        /// The rank.
        rank: u32,
    },
    /// More than [`MAX_POSITIONS`].
    #[error("{0} positions: expected at most {MAX_POSITIONS}")]
    TooMany(usize),
}

impl HostPositions {
    /// Positions as they were stored.
    ///
    /// # Errors
    /// The parts do not fit together.
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

    /// How many places every leaf has.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// The rank of each leaf.
    pub fn leaves(&self) -> &BTreeMap<Guid, u32> {
        &self.leaves
    }

    /// The position of each port.
    pub fn ports(&self) -> &BTreeMap<Guid, HostPosition> {
        &self.ports
    }

    /// The place of a host with these ports: that which most of them have.
    pub fn place(&self, ports: impl Iterator<Item = Guid>) -> Option<u32> {
        most_common(ports.filter_map(|port| Some(self.ports.get(&port)?.place)))
    }

    /// Whether no port has a position.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// The numbers by which routes are spread: leaf after leaf, at each by place.
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

/// The most common of some places, the lowest of those that are as common.
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
