//! LIDs of ports that outlive their absence.

use rsm_ids::{Lid, Lmc};

/// The LIDs one port holds, kept so that it gets them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LidClaim {
    /// The base LID: unicast, aligned to `lmc`.
    pub lid: Lid,
    /// The port answers to 2^`lmc` LIDs from `lid` on.
    pub lmc: Lmc,
    /// The generation of the last plan that held this port. It ages claims of ports that are
    /// gone; it need not be written again for each plan in which the port is still there.
    pub last_seen: u64,
}

impl LidClaim {
    /// Whether every LID of the claim is unicast and the base is aligned to the LMC.
    pub fn is_valid(&self) -> bool {
        let last = u32::from(self.lid.0) + u32::from(self.lmc.lids()) - 1;
        self.lid.is_unicast() && last <= u32::from(Lid::UNICAST_LAST.0) && self.lmc.aligns(self.lid)
    }
}
