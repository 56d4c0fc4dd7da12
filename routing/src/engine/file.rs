//! `file`: tables that another program computed.

use super::{Engine, EngineError, Options, Routing, UpDn, prepare};
use crate::lanes::Lanes;
use crate::lfts::Fit;
use crate::tables::{NO_PATH, Tables};
use crate::topology::{Destination, PortUse, SwitchIdx, Topology};

/// The tables of a file ([`Options::tables`]); a LID belongs to the port that the file states for
/// it.
///
/// - *Guarantee*: that of the file. If the file's entries for a LID do not lead to its port from
///   every switch, because the file lacks the LID or a fault breaks a path, the LID has the entries
///   of [`updn`](super::UpDn) on all switches. The proof shows whether both kinds of entries
///   together are sound.
/// - *Needs*: one VL, unless the file's tables need more.
/// - *Complexity*: that of updn, and O(n · LIDs).
#[derive(Clone, Copy, Debug, Default)]
pub struct File;

impl Engine for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn guarantee(&self) -> &'static str {
        "the tables of a file, with those of updn for what it does not reach; free of credit loops if \
         they are"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        let dump = options.tables.as_ref().ok_or(EngineError::NoTables)?;
        let fit = dump.fit(topology);
        let mut routing = UpDn.route(topology, options, previous)?;
        let mut kept = 0;
        let mut lid_count = 0;
        for destination in topology.destinations() {
            for lid in destination.own_lids() {
                lid_count += 1;
                let entry = |switch: SwitchIdx| fit.tables.lft(switch).entry(lid);
                if !reaches(topology, destination, entry) {
                    continue;
                }
                kept += 1;
                for switch in topology.indices() {
                    routing.tables.lfts[switch.index()].set_entry(lid, entry(switch));
                }
            }
        }
        // The paths of the file follow no ranking.
        let reason = reason(&fit, kept, lid_count);
        let lanes = Lanes::default();
        Ok(Routing::unranked(
            self.name(),
            reason,
            routing.tables,
            lanes,
        ))
    }
}

/// Whether the entries of a LID lead to `destination` from every switch of its component.
fn reaches(
    topology: &Topology,
    destination: &Destination,
    entry: impl Fn(SwitchIdx) -> u8,
) -> bool {
    let root = destination.switch;
    if entry(root) != destination.port.0 {
        return false;
    }
    let component = &topology.components()[topology.component_of(root)];
    // For each switch, whether its path is known to end at the root.
    let mut arrives = vec![false; topology.switch_count()];
    arrives[root.index()] = true;
    for &start in &component.switches {
        let mut path = Vec::new();
        let mut at = start;
        while !arrives[at.index()] {
            let byte = entry(at);
            let leads_to = match byte {
                NO_PATH => PortUse::Unused,
                byte => topology.port_use(at, rsm_ids::PortNum(byte)),
            };
            let PortUse::Link { peer, .. } = leads_to else {
                return false;
            };
            path.push(at);
            // A path with more switches than the component is a loop.
            if path.len() > component.switches.len() {
                return false;
            }
            at = peer;
        }
        for switch in path {
            arrives[switch.index()] = true;
        }
    }
    true
}

/// The explanation of the routes, for the operator: `kept` of `all` LIDs have the file's entries.
fn reason(fit: &Fit, kept: usize, all: usize) -> String {
    let mut reason = format!("file: the file's paths for {kept} of {all} LIDs");
    if kept < all {
        reason += ", updn's for the rest";
    }
    let counts = [
        (fit.without_table.len(), "switches are not in it"),
        (fit.unknown_switches.len(), "of its switches are not here"),
        (fit.moved_lids, "of its LIDs have moved"),
        (fit.unknown_lids, "of its LIDs belong to no port"),
        (
            fit.missing_ports,
            "of its entries name ports that are not there",
        ),
    ];
    for (count, what) in counts.into_iter().filter(|&(count, _)| count > 0) {
        reason += &format!("; {count} {what}");
    }
    reason
}
