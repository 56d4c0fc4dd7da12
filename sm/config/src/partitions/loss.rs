//! The partners that ports lose by a change of a partition, as text for operators.

use std::fmt;

use rsm_model::text::count;

/// The effect of a change of one partition on the ports of a fabric. Two ports can communicate in a
/// partition if both are members and at least one is a full member (IBA 10.9.3).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PartitionLoss {
    /// Number of ports and virtual ports whose membership differs, including those of switches.
    pub changed: usize,
    /// Number of ports and virtual ports of hosts and routers that lose communication in the
    /// partition with another such port.
    pub ports: usize,
    /// Number of `ports` that can afterwards communicate only with the subnet manager's own
    /// port, in any partition.
    pub isolated: usize,
    /// Number of pairs that lose communication in the partition.
    pub pairs: u64,
    /// Names of the first [`PartitionLoss::NAMES_MAX`] of the `ports`, such as `host-01 port 1`.
    pub names: Vec<String>,
}

impl PartitionLoss {
    /// Maximum number of [`PartitionLoss::names`].
    pub const NAMES_MAX: usize = 8;

    /// Whether no port loses a partner.
    pub fn is_none(&self) -> bool {
        self.ports == 0
    }
}

impl fmt::Display for PartitionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = count(self.ports, "port", "ports");
        let pairs = count(self.pairs, "pair", "pairs");
        write!(f, "{ports} cut off from others in it ({pairs})")?;
        if self.isolated > 0 {
            let isolated = match self.isolated == self.ports {
                true => "all".to_owned(),
                false => self.isolated.to_string(),
            };
            write!(
                f,
                ", {isolated} of them from every host but the subnet manager's"
            )?;
        }
        write!(f, ": {}", self.names.join(", "))?;
        match self.ports - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
