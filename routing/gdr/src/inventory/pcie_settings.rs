use super::PciAddress;

/// The maximum number of functions of one host with one of these settings: bridges, GPUs and
/// adapters.
pub const MAX_PCIE_SETTINGS: usize = 256;

/// PCIe settings of a host that slow GPUDirect RDMA, each with the functions that have it,
/// ascending. A list is empty if the source does not show the setting.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PcieSettings {
    /// The bridges above a GPU and an adapter that send the traffic between the two up to the
    /// processor (ACS redirect).
    pub acs_redirect: Vec<PciAddress>,
    /// The GPUs and adapters whose addresses the IOMMU translates.
    pub iommu_translated: Vec<PciAddress>,
    /// The adapters that may not reorder writes (relaxed ordering is off).
    pub strict_ordering: Vec<PciAddress>,
}

impl PcieSettings {
    /// Adds the functions that another source states.
    pub(super) fn merge(&mut self, other: &PcieSettings) {
        for (mine, theirs) in [
            (&mut self.acs_redirect, &other.acs_redirect),
            (&mut self.iommu_translated, &other.iommu_translated),
            (&mut self.strict_ordering, &other.strict_ordering),
        ] {
            mine.extend(theirs);
            mine.sort_unstable();
            mine.dedup();
        }
    }

    /// The number of functions in the longest list.
    pub(super) fn longest(&self) -> usize {
        let lists = [
            &self.acs_redirect,
            &self.iommu_translated,
            &self.strict_ordering,
        ];
        lists.map(Vec::len).into_iter().max().unwrap_or(0)
    }
}
