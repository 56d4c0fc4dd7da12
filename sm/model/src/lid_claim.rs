//! Claims of ports to LIDs, which persist while the ports are absent.

use rsm_ids::{Lid, Lmc};

/// The claimed LIDs of one port, kept so that the port gets them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LidClaim {
    /// The base LID: unicast, aligned to `lmc`.
    pub lid: Lid,
    /// LID mask control: the port answers to 2^`lmc` LIDs from `lid` on.
    pub lmc: Lmc,
    /// Number of the last plan that contained this port. Claims of absent ports age by this number.
    /// The number in the store may be lower, because not every plan writes it.
    pub last_seen: u64,
}

impl LidClaim {
    /// Whether every LID of the claim is unicast and the base is aligned to the LMC.
    pub fn is_valid(&self) -> bool {
        let last = u32::from(self.lid.0) + u32::from(self.lmc.lids()) - 1;
        self.lid.is_unicast() && last <= u32::from(Lid::UNICAST_LAST.0) && self.lmc.aligns(self.lid)
    }
}
