//! Removes failed cables and switches from a generated fabric.

use super::fabric;
use super::rng::Rng;
use super::spec::Spec;
use super::{GenerateError, GenerateReason};
use crate::netlist::{Netlist, NodeKind};

/// The number of cables that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Links {
    /// A number of cables.
    Count(usize),
    /// A share of all cables between switches, in thousandths of a percent: 0 to 100,000.
    PercentThousandths(u64),
}

/// The parts that fail; the first number of a pair is the position of its option in the
/// specification.
pub(super) struct Faults {
    pub(super) links: (usize, Links),
    pub(super) switches: (usize, usize),
    pub(super) seed: u64,
}

impl Faults {
    /// Removes the failed parts from the fabric `intact`.
    ///
    /// Switches are removed first, with their cables; percentages apply to the remaining cables.
    /// Ports keep their numbers, and hosts remain even without a cable.
    pub(super) fn remove_from(
        self,
        intact: Netlist,
        spec: &Spec<'_>,
    ) -> Result<Netlist, GenerateError> {
        let mut rng = Rng::new(self.seed);
        let (mut nodes, mut cables) = intact.into_parts();

        let switches: Vec<usize> = (0..nodes.len())
            .filter(|&index| nodes[index].kind == NodeKind::Switch)
            .collect();
        let (at, wanted) = self.switches;
        check(spec, at, "switches", wanted, switches.len())?;
        let mut failed = vec![false; nodes.len()];
        for index in rng.sample(wanted, switches.len()) {
            failed[switches[index]] = true;
        }
        fabric::remove(&failed, &mut nodes, &mut cables);

        let between_switches: Vec<usize> = (0..cables.len())
            .filter(|&index| {
                let ends = [cables[index].a.0, cables[index].b.0];
                ends.iter().all(|&end| nodes[end].kind == NodeKind::Switch)
            })
            .collect();
        let (at, links) = self.links;
        let wanted = match links {
            Links::Count(count) => count,
            // Round up, so that at least one cable fails in a small fabric too.
            Links::PercentThousandths(part) => {
                (between_switches.len() as u64 * part).div_ceil(100_000) as usize
            }
        };
        check(
            spec,
            at,
            "cables between switches",
            wanted,
            between_switches.len(),
        )?;
        let mut failed = vec![false; cables.len()];
        for index in rng.sample(wanted, between_switches.len()) {
            failed[between_switches[index]] = true;
        }
        let mut is_failed = failed.iter();
        cables.retain(|_| !is_failed.next().copied().unwrap_or(false));
        fabric::finish(nodes, cables, spec)
    }
}

/// Checks that no more parts are to fail than there are; `at` is the position of the option.
fn check(
    spec: &Spec<'_>,
    at: usize,
    what: &'static str,
    wanted: usize,
    count: usize,
) -> Result<(), GenerateError> {
    if wanted <= count {
        return Ok(());
    }
    let reason = GenerateReason::TooManyFaults {
        what,
        wanted,
        count,
    };
    Err(spec.error(at, reason, format!("at most {count}")))
}
