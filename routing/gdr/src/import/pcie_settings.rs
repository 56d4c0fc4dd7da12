//! Finds PCIe settings that affect the traffic between GPUs and adapters.

use std::collections::BTreeSet;

use crate::inventory::{PciAddress, PcieSettings};

/// A GPU or an adapter as described in `/sys`.
pub(super) struct Function<'a> {
    pub(super) address: PciAddress,
    /// The path of the function, `/sys/devices/pci0000:15/0000:15:01.0/…`, which contains each
    /// bridge.
    pub(super) place: &'a str,
    pub(super) is_gpu: bool,
    /// The type of the IOMMU group: `DMA` and `DMA-FQ` translate, `identity` does not.
    pub(super) iommu: Option<&'a str>,
    /// Whether the function may reorder writes; `None` if unknown.
    pub(super) relaxed_ordering: Option<bool>,
}

impl Function<'_> {
    /// The host bridge and the bridges below it, down to the function.
    fn bridges_above(&self) -> Vec<&str> {
        let parts = self.place.split('/');
        let mut above: Vec<&str> = parts.skip_while(|part| !part.starts_with("pci")).collect();
        above.pop();
        above
    }
}

/// The settings of a host. `redirects` returns whether ACS of a bridge redirects the traffic
/// between functions below it to the processor.
pub(super) fn settings(
    functions: &[Function<'_>],
    redirects: impl Fn(PciAddress) -> bool,
) -> PcieSettings {
    let addresses_of = |is: &dyn Fn(&Function<'_>) -> bool| -> Vec<PciAddress> {
        let found = functions.iter().filter(|function| is(function));
        let addresses: BTreeSet<PciAddress> = found.map(|function| function.address).collect();
        addresses.into_iter().collect()
    };
    let (gpus, adapters): (Vec<_>, Vec<_>) = functions.iter().partition(|one| one.is_gpu);
    let mut bridges = BTreeSet::new();
    for gpu in &gpus {
        for adapter in &adapters {
            let (one, other) = (gpu.bridges_above(), adapter.bridges_above());
            let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            // Functions that share only the host bridge meet at the processor in any case.
            if same > 1 {
                let below = one[same..]
                    .iter()
                    .chain(&other[same..])
                    .filter_map(|bridge| bridge.parse().ok());
                bridges.extend(below.filter(|&bridge| redirects(bridge)));
            }
        }
    }
    PcieSettings {
        acs_redirect: bridges.into_iter().collect(),
        iommu_translated: addresses_of(&|one| matches!(one.iommu, Some("DMA" | "DMA-FQ"))),
        strict_ordering: addresses_of(&|one| !one.is_gpu && one.relaxed_ordering == Some(false)),
    }
}
