use std::collections::BTreeMap;

use rsm_mad::wire::header::{AttrId, MadHeader};

use crate::rng::{Chance, Rng};

/// Faults that concern the fabric as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Any packet is lost.
    pub(crate) loss: Chance,
    /// Packets with these attributes are lost, besides.
    pub(crate) attribute_loss: BTreeMap<AttrId, Chance>,
    /// An answer is doubled.
    pub(crate) duplicate: Chance,
    /// An answer is late.
    pub(crate) late: Chance,
}

impl Faults {
    /// Whether a packet with this header is lost somewhere on its way.
    pub(crate) fn lose(&self, rng: &mut Rng, header: &MadHeader) -> bool {
        rng.happens(self.loss)
            || self
                .attribute_loss
                .get(&header.attribute())
                .is_some_and(|&chance| rng.happens(chance))
    }
}
