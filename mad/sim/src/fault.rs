//! Random loss, duplication and delay of packets in the whole fabric.

use std::collections::BTreeMap;

use rsm_mad::wire::header::{AttrId, MadHeader};

use crate::rng::{Probability, Rng};

/// The faults of the whole fabric.
#[derive(Debug, Clone, Default)]
pub(crate) struct FabricFaults {
    /// The probability of the loss of any packet.
    pub(crate) loss: Probability,
    /// The additional probability of the loss of a packet, by its attribute.
    pub(crate) attribute_loss: BTreeMap<AttrId, Probability>,
    /// The probability with which an answer is duplicated.
    pub(crate) duplicate: Probability,
    /// The probability with which an answer is late.
    pub(crate) late: Probability,
}

impl FabricFaults {
    /// Whether a fault loses a packet with this header between two nodes.
    pub(crate) fn loses(&self, rng: &mut Rng, header: &MadHeader) -> bool {
        rng.happens(self.loss)
            || self
                .attribute_loss
                .get(&header.attribute())
                .is_some_and(|&chance| rng.happens(chance))
    }
}
