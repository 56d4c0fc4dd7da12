use std::collections::BTreeMap;

use rsm_mad::wire::header::{AttrId, MadHeader};

use crate::rng::{Probability, Rng};

/// Faults of the whole fabric.
#[derive(Debug, Clone, Default)]
pub(crate) struct FabricFaults {
    /// Loss of any packet.
    pub(crate) loss: Probability,
    /// Additional loss of packets with these attributes.
    pub(crate) attribute_loss: BTreeMap<AttrId, Probability>,
    /// Duplication of an answer.
    pub(crate) duplicate: Probability,
    /// Delay of an answer.
    pub(crate) late: Probability,
}

impl FabricFaults {
    /// Whether a fault loses a packet with this header on its way.
    pub(crate) fn lose(&self, rng: &mut Rng, header: &MadHeader) -> bool {
        rng.happens(self.loss)
            || self
                .attribute_loss
                .get(&header.attribute())
                .is_some_and(|&chance| rng.happens(chance))
    }
}
