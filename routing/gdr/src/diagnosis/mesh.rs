//! Finds the GPUs of a mesh that account for all missing links.
//!
//! A link has two ends: if a GPU loses its links, each of its neighbours has a link less as well.
//! The smallest set of GPUs whose missing links explain all other missing links is to blame.

use crate::inventory::{HostInventory, LinkFamily};

/// A GPU with fewer links than it should have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ShortOfLinks {
    /// The position in the inventory.
    pub(super) gpu: usize,
    /// The number of links to all other GPUs.
    pub(super) found: u32,
    /// The number of links that the GPU should have.
    pub(super) expected: u32,
}

/// The GPUs to blame within one host whose GPUs are cabled to each other. All GPUs of an NVLink
/// mesh should have equally many links; GPUs of an AMD mesh should only if all linked pairs have
/// equally many.
pub(super) fn within(inventory: &HostInventory) -> Vec<ShortOfLinks> {
    let gpus = inventory.gpus.len();
    let found: Vec<u32> = (0..gpus).map(|gpu| inventory.links_of(gpu)).collect();
    let width = equal_width(inventory);
    let expected = match (inventory.link_family, width) {
        (LinkFamily::Xgmi, Some(width)) if is_nearly_full(inventory) => {
            vec![width * other_gpus(gpus); gpus]
        }
        (LinkFamily::Xgmi, _) => return Vec::new(),
        (_, Some(width)) if exactly_one_is_unlinked(inventory, &found) => {
            vec![width * other_gpus(gpus); gpus]
        }
        _ => expected_of_equals(&found),
    };
    let blamed = blamed(&found, &expected);
    // Most GPUs of a host are never to blame; comparison with other hosts then decides.
    match 2 * blamed.len() <= gpus {
        true => blamed,
        false => Vec::new(),
    }
}

/// The GPUs to blame, given the number of links that each should have.
pub(super) fn blamed(found: &[u32], expected: &[u32]) -> Vec<ShortOfLinks> {
    let all = found.iter().zip(expected).enumerate();
    let short: Vec<ShortOfLinks> = all
        .filter(|(_, (found, expected))| found < expected)
        .map(|(gpu, (&found, &expected))| ShortOfLinks {
            gpu,
            found,
            expected,
        })
        .collect();
    let lost = |some: &[ShortOfLinks]| -> u32 { some.iter().map(ShortOfLinks::lost).sum() };
    let (without, rest): (Vec<ShortOfLinks>, Vec<ShortOfLinks>) =
        short.iter().partition(|short| short.found == 0);
    if !without.is_empty() && lost(&rest) <= lost(&without) {
        return without;
    }
    let explains_all = |one: &&ShortOfLinks| 2 * one.lost() == lost(&short);
    match short.iter().find(explains_all) {
        Some(&one) if short.len() > 2 => vec![one],
        _ => short,
    }
}

impl ShortOfLinks {
    /// The number of missing links.
    fn lost(&self) -> u32 {
        self.expected - self.found
    }
}

/// The number of other GPUs in a host.
fn other_gpus(gpus: usize) -> u32 {
    u32::try_from(gpus.saturating_sub(1)).unwrap_or(u32::MAX)
}

/// The number of links of each linked pair; `None` unless it is equal for all pairs.
fn equal_width(inventory: &HostInventory) -> Option<u32> {
    let first = inventory.nvlinks.first()?.links;
    let equal = inventory.nvlinks.iter().all(|link| link.links == first);
    equal.then_some(u32::from(first))
}

/// Whether at most a quarter of all pairs are without links.
fn is_nearly_full(inventory: &HostInventory) -> bool {
    let gpus = inventory.gpus.len();
    let pairs = gpus * gpus.saturating_sub(1) / 2;
    4 * inventory.nvlinks.len() >= 3 * pairs
}

/// Whether one GPU has no link, and at least three other GPUs are all linked to each other. A
/// bridge for two GPUs leaves out two GPUs or more, never one.
fn exactly_one_is_unlinked(inventory: &HostInventory, found: &[u32]) -> bool {
    let rest = found.len().saturating_sub(1);
    let apart = found.iter().filter(|&&sum| sum == 0).count();
    apart == 1 && rest > 2 && inventory.nvlinks.len() == rest * (rest - 1) / 2
}

/// The highest number of links of any GPU, expected of each. A GPU without links does not belong to
/// the mesh, unless at least half of the links that it would have are missing at other GPUs.
fn expected_of_equals(found: &[u32]) -> Vec<u32> {
    let most = found.iter().copied().max().unwrap_or(0);
    let (mut without, mut missing) = (0, 0);
    for &sum in found {
        match sum {
            0 => without += most,
            _ => missing += most - sum,
        }
    }
    let of_mesh = 2 * missing >= without && missing <= without;
    let expected = |&sum: &u32| if sum == 0 && !of_mesh { 0 } else { most };
    found.iter().map(expected).collect()
}
