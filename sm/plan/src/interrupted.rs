//! Ports whose packets are dropped while the tables of a plan are being written.
//!
//! A plan of an engine on trial is refused if its interim tables drop packets, unless the operator
//! accepts that.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use rsm_ids::{Lid, PortKey};
use rsm_model::text::count;
use rsm_routing::tables::{NO_PATH, Tables};

use crate::lids::Claim;
use crate::plan::Plan;

/// Maximum number of names that the text lists.
const NAMES_SHOWN: usize = 8;

/// Ports whose packets some switch drops until it holds the planned tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// The engine of the planned tables.
    pub engine: &'static str,
    /// The ports, ascending.
    pub ports: Vec<PortKey>,
    /// Names of the ports' nodes without duplicates, in the same order.
    pub names: Vec<String>,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = count(self.ports.len(), "port", "ports");
        let nodes = count(self.names.len(), "node", "nodes");
        let shown = &self.names[..self.names.len().min(NAMES_SHOWN)];
        write!(
            f,
            "{ports} of {nodes} would be cut off while the tables of {} are written: no mixture of them and the present \
             tables is free of credit loops, so switches drop packets to these ports until all hold the new tables: {}",
            self.engine,
            shown.join(", ")
        )?;
        match self.names.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl std::error::Error for Interrupted {}

impl Interrupted {
    /// Checks that no interim table of `plan` drops packets that both the `held` tables and the
    /// planned ones forward.
    ///
    /// # Errors
    /// The ports whose packets would be dropped.
    pub(super) fn check(plan: &Plan, held: &Tables) -> Result<(), Interrupted> {
        let lids = dropped(plan, held);
        if lids.is_empty() {
            return Ok(());
        }
        let fabric = &plan.fabric;
        let claims = plan.lids.lids.iter();
        let dropped = claims.filter(|(_, claim)| lids.range(lids_of(claim)).next().is_some());
        let ports: Vec<PortKey> = dropped.map(|(&port, _)| port).collect();
        let names = ports
            .chunk_by(|a, b| a.node == b.node)
            .map(|ports| fabric.name(ports[0].node));
        Err(Interrupted {
            engine: plan.routing.engine,
            names: names.collect(),
            ports,
        })
    }
}

fn lids_of(claim: &Claim) -> RangeInclusive<Lid> {
    // Every LID of a claim is unicast.
    let last = claim.lmc.lids() - 1;
    claim.base..=Lid(claim.base.0 + last)
}

/// The LIDs whose packets an interim table of some switch drops, although the held table and the
/// planned one forward them.
fn dropped(plan: &Plan, held: &Tables) -> BTreeSet<Lid> {
    let mut lids = BTreeSet::new();
    for interim in plan.transition.interim.iter() {
        let planned = plan.routing.tables.lfts.iter().zip(&held.lfts);
        for (interim, (planned, held)) in interim.lfts.iter().zip(planned) {
            let is_dropped =
                |&lid: &Lid| interim.entry(lid) == NO_PATH && held.entry(lid) != NO_PATH;
            lids.extend(planned.differing(interim).filter(is_dropped));
        }
    }
    lids
}
