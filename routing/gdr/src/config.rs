//! The operator's settings for hints and findings.

use std::collections::BTreeMap;

use rsm_ids::Guid;

use super::roles::TrafficRole;

/// The settings for hints and findings, beside hosts and fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnalysisConfig {
    /// The configured roles of ports, by port GUID, which override the rules.
    pub roles: BTreeMap<Guid, TrafficRole>,
    /// The service level of collectives, 0 to 15, for every queue pair of a library. `None` leaves
    /// the choice to the libraries and to the operator of a job.
    pub sl: Option<u8>,
    /// The service levels with adaptive routing, as a mask with SL 0 in bit 0; 0 if there are none.
    pub adaptive_sls: u16,
    /// The age in seconds after which an inventory is stale; `None` for no limit.
    pub max_age: Option<u64>,
    /// The current time in seconds, by the clock of
    /// [`HostRecord::seen`](crate::hosts::HostRecord::seen).
    pub now: u64,
}

impl AnalysisConfig {
    /// The service level for libraries whose packets may arrive out of order: the operator's level,
    /// else the lowest level with adaptive routing. `None` if that is 0, the libraries' default, or
    /// if there is no adaptive routing.
    pub fn level(&self) -> Option<u8> {
        let lowest = self.adaptive_sls.trailing_zeros() as u8;
        let lowest = Some(lowest).filter(|lowest| (1..16).contains(lowest));
        self.sl.or(lowest)
    }

    /// Whether [`AnalysisConfig::level`] has adaptive routing; `None` if no service level has.
    pub fn is_adaptive(&self) -> Option<bool> {
        let level = self.level().unwrap_or(0);
        (self.adaptive_sls != 0).then(|| self.adaptive_sls >> (level & 0xF) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_is_the_operators_or_the_lowest_level_with_adaptive_routing() {
        for (sl, adaptive_sls, level, is_adaptive) in [
            (None, 0, None, None),
            (Some(3), 0, Some(3), None),
            (None, 0xFFFF, None, Some(true)),
            (None, 0b1100, Some(2), Some(true)),
            (Some(0), 0b1100, Some(0), Some(false)),
            (Some(3), 0b1100, Some(3), Some(true)),
            (None, 0x8000, Some(15), Some(true)),
        ] {
            let config = AnalysisConfig {
                sl,
                adaptive_sls,
                ..AnalysisConfig::default()
            };
            let found = (config.level(), config.is_adaptive());
            assert_eq!(found, (level, is_adaptive), "{sl:?} {adaptive_sls:#x}");
        }
    }
}
