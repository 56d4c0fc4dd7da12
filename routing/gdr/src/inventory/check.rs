use std::collections::BTreeSet;

use super::{
    HostInventory, MAX_GPUS, MAX_HCA_PORTS, MAX_NAME, MAX_PCIE_SETTINGS, MAX_UNKNOWN_MEMBERS,
};

/// The rule that an inventory breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// The inventory has neither GPUs nor ports.
    #[error("neither a GPU nor a port of a channel adapter")]
    Empty,
    /// The inventory has more than [`MAX_GPUS`](super::MAX_GPUS) GPUs.
    #[error("{0} GPUs; at most {MAX_GPUS} are accepted")]
    TooManyGpus(usize),
    /// The inventory has more than [`MAX_HCA_PORTS`](super::MAX_HCA_PORTS) ports.
    #[error("{0} ports of channel adapters; at most {MAX_HCA_PORTS} are accepted")]
    TooManyHcaPorts(usize),
    /// The list of one PCIe setting has more functions than a host can have.
    #[error("{0} PCIe functions with one setting; at most {MAX_PCIE_SETTINGS} are accepted")]
    TooManyPcieSettings(usize),
    /// Two GPUs have the same index.
    #[error("GPU{0} is there twice")]
    DuplicateGpu(u16),
    /// Two ports have the same name.
    #[error("port `{0}` is there twice")]
    DuplicateHcaPort(String),
    /// The port number is 0 or 255, which no end port has.
    #[error("port number {0} of an adapter: expected 1 to 254")]
    PortNumber(u8),
    /// The name is empty, too long, or has characters other than letters, digits and `._:-`.
    #[error("name `{0}`: expected at most {MAX_NAME} letters, digits and `._:-`")]
    Name(String),
    /// The number of tiers differs from the number of pairs of a GPU and a port.
    #[error("a matrix of {found} tiers for {gpus} GPUs and {ports} ports")]
    TierCount {
        /// The number of tiers.
        found: usize,
        /// The number of GPUs.
        gpus: usize,
        /// The number of ports.
        ports: usize,
    },
    /// The inventory has more than [`MAX_UNKNOWN_MEMBERS`](super::MAX_UNKNOWN_MEMBERS) members that
    /// are not known.
    #[error(
        "more than {MAX_UNKNOWN_MEMBERS} unknown members: no inventory, or one of a much newer rsm"
    )]
    UnknownMembers,
    /// The ends of a link are not two GPUs in ascending order, or the link has no width or is out
    /// of order.
    #[error("links between the GPUs at places {0} and {1}")]
    Link(u16, u16),
}

/// Whether a name from outside is safe in files that other programs read.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(plain)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

impl HostInventory {
    /// Checks every rule: limits, unique GPUs and ports, names of plain characters, and lists of
    /// matching lengths.
    ///
    /// # Errors
    /// The inventory breaks a rule; the error is the first broken rule.
    pub fn check(&self) -> Result<(), InventoryError> {
        let (gpus, ports) = (self.gpus.len(), self.hca_ports.len());
        if gpus == 0 && ports == 0 {
            return Err(InventoryError::Empty);
        }
        if gpus > MAX_GPUS {
            return Err(InventoryError::TooManyGpus(gpus));
        }
        if ports > MAX_HCA_PORTS {
            return Err(InventoryError::TooManyHcaPorts(ports));
        }
        let longest = self.pcie_settings.longest();
        if longest > MAX_PCIE_SETTINGS {
            return Err(InventoryError::TooManyPcieSettings(longest));
        }
        if let Some(pair) = self
            .gpus
            .windows(2)
            .find(|pair| pair[0].index >= pair[1].index)
        {
            return Err(InventoryError::DuplicateGpu(pair[1].index));
        }
        let mut seen = BTreeSet::new();
        for port in &self.hca_ports {
            if port.port == 0 || port.port == u8::MAX {
                return Err(InventoryError::PortNumber(port.port));
            }
            if let Some(device) = &port.device {
                if !is_name(device) {
                    return Err(InventoryError::Name(
                        device.chars().take(MAX_NAME).collect(),
                    ));
                }
                if !seen.insert((device, port.port)) {
                    return Err(InventoryError::DuplicateHcaPort(port.label()));
                }
            }
        }
        let uuids = self.gpus.iter().filter_map(|gpu| gpu.uuid.as_deref());
        let firmware = self
            .hca_ports
            .iter()
            .filter_map(|port| port.firmware.as_deref());
        let domain = self
            .domain
            .as_ref()
            .map(|domain| domain.cluster_uuid.as_str());
        if self.unknown_members.len() > MAX_UNKNOWN_MEMBERS {
            return Err(InventoryError::UnknownMembers);
        }
        let members = self.unknown_members.iter().map(String::as_str);
        if let Some(name) = uuids
            .chain(firmware)
            .chain(domain)
            .chain(members)
            .find(|name| !is_name(name))
        {
            return Err(InventoryError::Name(name.chars().take(MAX_NAME).collect()));
        }
        if self.tiers.len() != gpus * ports {
            return Err(InventoryError::TierCount {
                found: self.tiers.len(),
                gpus,
                ports,
            });
        }
        let mut last = None;
        for link in &self.nvlinks {
            let ends = (link.a, link.b);
            let inside = link.a < link.b && usize::from(link.b) < gpus && link.links > 0;
            if !inside || last.is_some_and(|last| last >= ends) {
                return Err(InventoryError::Link(link.a, link.b));
            }
            last = Some(ends);
        }
        Ok(())
    }
}
