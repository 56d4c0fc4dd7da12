//! Computes stages from one set of tables to another without a loop or a credit loop in between.
//!
//! If both sets follow one order of the switches, pairs of entries determine the stages
//! ([`stages_along`](super::stages_along)). Without such an order, [`stages`] examines the
//! dependencies of the mixture as a whole.

use rsm_ids::PortNum;

use super::dependencies::Dependencies;
use crate::tables::{Lft, NO_PATH, Tables};
use crate::topology::{PortUse, SwitchIdx, Topology};

/// Returns the tables to bring into force one after the other; the last of them is the target.
/// Within a stage, switches may change in any order, block by block or entry by entry. A stage
/// begins after all switches have finished the stage before.
///
/// Between two tables that are each free of credit loops, such a sequence always exists:
/// - one stage, if every mixture of the two has acyclic dependencies;
/// - else two stages: the second changes the entries that discard packets in any case, because
///   their link has gone; the first changes all others;
/// - else two stages, the first of which makes every changing entry discard packets. Both stages
///   only mix one table with discarding entries, which adds no dependency to the table. Packets to
///   changing entries are lost.
///
/// Both sets of tables use the switch numbers of `topology`, the current fabric.
pub fn stages(topology: &Topology, old: &Tables, new: &Tables) -> Vec<Tables> {
    let target = Dependencies::of(topology, new);
    let is_safe = |from: &Tables, to: &Tables, needs: &Dependencies<'_>| {
        let mut dependencies = needs.clone();
        dependencies.add_mixture(from, to);
        dependencies.is_acyclic()
    };
    if is_safe(old, new, &target) {
        return vec![new.clone()];
    }
    let broken_last = derived(topology, old, new, |topology, switch, before, after| {
        if before != after && !leads_on(topology, switch, before) {
            // The entry discards packets in any case; leaving it unchanged may spare a block
            // without other changes.
            before
        } else {
            after
        }
    });
    let first = Dependencies::of(topology, &broken_last);
    if is_safe(old, &broken_last, &first) && is_safe(&broken_last, new, &target) {
        return vec![broken_last, new.clone()];
    }
    let discarding = derived(topology, old, new, |_, _, before, after| {
        if before == after { after } else { NO_PATH }
    });
    vec![discarding, new.clone()]
}

/// Whether an entry forwards packets to a link or an end port.
fn leads_on(topology: &Topology, switch: SwitchIdx, byte: u8) -> bool {
    topology.port_use(switch, PortNum(byte)) != PortUse::Unused
}

/// The new tables, except that `choose` derives each entry that differs: its arguments are the
/// switch, the old entry and the new one.
fn derived(
    topology: &Topology,
    old: &Tables,
    new: &Tables,
    choose: impl Fn(&Topology, SwitchIdx, u8, u8) -> u8,
) -> Tables {
    let none = Lft::default();
    let lfts = topology
        .indices()
        .map(|switch| {
            let [before, after] =
                [old, new].map(|tables| tables.lfts.get(switch.index()).unwrap_or(&none));
            let mut lft = after.clone();
            for lid in before.differing(after) {
                let (before, after) = (before.entry(lid), after.entry(lid));
                lft.set_entry(lid, choose(topology, switch, before, after));
            }
            lft
        })
        .collect();
    Tables { lfts }
}
