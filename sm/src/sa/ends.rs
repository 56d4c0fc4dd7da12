//! Ports that packets can be addressed to.

use rsm_ids::{Guid, Lid, Lmc};

use crate::fabric::PortRef;

/// The number of an end port in its [`Directory`](super::Directory): its place in the order of
/// nodes and ports; virtual ports come after all ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndIx(pub u32);

impl EndIx {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port, or virtual port, that packets can be addressed to.
#[derive(Clone, Copy, Debug)]
pub struct EndPort {
    /// Where it is in the fabric.
    pub at: PortRef,
    /// Its GUID.
    pub guid: Guid,
    /// The lowest of its LIDs.
    pub lid: Lid,
    /// It has 2^LMC of them.
    pub lmc: Lmc,
    /// The index, for a virtual port of the port at `at`.
    pub vport: Option<u16>,
}

impl EndPort {
    /// Its LIDs, from the lowest on.
    pub fn lids(&self) -> impl ExactSizeIterator<Item = Lid> + Clone + use<> {
        let base = self.lid.0;
        // A base LID is only entered where its whole range is unicast.
        (0..self.lmc.lids()).map(move |offset| Lid(base + offset))
    }
}
