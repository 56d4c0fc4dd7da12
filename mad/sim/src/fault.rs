use std::collections::BTreeMap;

use rsm_mad::wire::header::{AttrId, MadHeader};

use crate::rng::{Chance, Rng};

/// Faults of the whole fabric.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Loss of any packet.
    pub(crate) loss: Chance,
    /// Additional loss of packets with these attributes.
    pub(crate) attribute_loss: BTreeMap<AttrId, Chance>,
    /// Duplication of an answer.
    pub(crate) duplicate: Chance,
    /// Delay of an answer.
    pub(crate) late: Chance,
}

impl Faults {
    /// Whether a fault loses a packet with this header on its way.
    pub(crate) fn lose(&self, rng: &mut Rng, header: &MadHeader) -> bool {
        rng.happens(self.loss)
            || self
                .attribute_loss
                .get(&header.attribute())
                .is_some_and(|&chance| rng.happens(chance))
    }
}
