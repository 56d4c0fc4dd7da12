//! Sweeps of a standby that has read the whole subnet before. They read the parts that the master
//! has changed since, or the parts that a takeover needs first.

use std::collections::BTreeSet;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::SwitchInfo;
use rsm_model::Parts;
use rsm_model::lft_image::LFT_BLOCK;

use super::inventory::Inventory;
use super::{Query, Sweep, SweepPolicy, SweepScope};

impl Sweep {
    /// Starts a sweep that asks each switch for SwitchInfo and for these blocks of its forwarding
    /// table, up to LinearFDBTop. Also returns the blocks that the sweep reads, by switch. Leaves
    /// out switches with unanswered queries, so that the takeover does not wait for them again.
    pub fn start_succession(
        inventory: &mut Inventory,
        policy: SweepPolicy,
        blocks: &BTreeSet<u16>,
    ) -> (Sweep, BTreeSet<(Guid, u16)>) {
        let mut sweep = Sweep::empty(SweepScope::Light, inventory, policy);
        let silent: BTreeSet<Guid> = inventory.faults.owed().filter_map(Query::node).collect();
        let mut read = BTreeSet::new();
        for (guid, _, switch) in inventory.hardware.switches() {
            if silent.contains(&guid) {
                continue;
            }
            sweep.reading.ask(Query::Switch(guid));
            let top = switch.info.linear_fdb_top().index() / LFT_BLOCK;
            for &block in blocks.iter().filter(|&&block| usize::from(block) <= top) {
                sweep.reading.ask(Query::Table(guid, block));
                read.insert((guid, block));
            }
        }
        if let Some(local) = inventory.hardware.local {
            sweep.reading.ask(Query::Port(local));
        }
        (sweep, read)
    }

    /// Like [`Sweep::start_succession`], while the master may still be alive. This sweep does not
    /// read the ports of switches with PortStateChange; the takeover reads them
    /// ([`Sweep::take_reported`]).
    pub fn start_ahead(
        inventory: &mut Inventory,
        policy: SweepPolicy,
        blocks: &BTreeSet<u16>,
    ) -> (Sweep, BTreeSet<(Guid, u16)>) {
        let (mut sweep, read) = Sweep::start_succession(inventory, policy, blocks);
        sweep.reported_ahead = Some(BTreeSet::new());
        (sweep, read)
    }

    /// Takes the switches that showed PortStateChange in a sweep ahead of a takeover.
    pub fn take_reported(&mut self) -> BTreeSet<Guid> {
        self.reported_ahead.take().unwrap_or_default()
    }

    /// Starts a sweep that reads these parts of the subnet again. If `parts` include unknown nodes,
    /// the sweep finds them behind the ports of their neighbours, which have changed as well.
    pub fn start_following(inventory: &mut Inventory, policy: SweepPolicy, parts: &Parts) -> Sweep {
        let mut sweep = Sweep::empty(SweepScope::Targets, inventory, policy);
        for &key in &parts.ports {
            let Some(node) = inventory.hardware.node(key.node) else {
                continue;
            };
            let is_switch = node.is_switch();
            if key.port == PortNum::ZERO {
                sweep.reading.ask(Query::Description(key.node));
            }
            if key.port == PortNum::ZERO && is_switch {
                sweep.reading.ask(Query::Switch(key.node));
            }
            if key.port != PortNum::ZERO || is_switch {
                sweep.reading.ask(Query::Port(key));
            }
            inventory.forget_vports(key);
        }
        sweep.reading.audited.clone_from(&parts.ports);
        for &(switch, block) in &parts.blocks {
            sweep.reading.ask(Query::Table(switch, block));
        }
        for &(switch, at) in &parts.masks {
            sweep.reading.ask(Query::Multicast(switch, at));
        }
        sweep
    }

    /// Starts a sweep with these queries.
    pub fn start_reading(
        inventory: &mut Inventory,
        policy: SweepPolicy,
        queries: Vec<Query>,
    ) -> Sweep {
        let mut sweep = Sweep::empty(SweepScope::Targets, inventory, policy);
        for query in queries {
            sweep.reading.ask(query);
        }
        sweep
    }

    /// Whether this sweep only asks subnet managers for SMInfo.
    pub fn asks_managers_only(&self) -> bool {
        let mut asked = self.reading.queries.asked();
        asked.all(|query| matches!(query, Query::Sm(_)))
    }

    /// Whether an answer differed from the former answer although no report announced a change.
    pub fn found_stale(&self) -> bool {
        self.stale
    }

    /// Whether a query is unanswered that was not unanswered before this sweep.
    pub fn owes_more(&self, inventory: &Inventory) -> bool {
        let mut owed = inventory.faults.owed();
        owed.any(|query| !self.before.faults.is_owed(query))
    }
}

/// Whether SwitchInfo differs in more than PortStateChange and MulticastFDBTop. MulticastFDBTop
/// changes with each group, and the first push does not write it.
pub(super) fn differs(known: &SwitchInfo, now: &SwitchInfo) -> bool {
    let (mut known, mut now) = (*known, *now);
    known.set_port_state_change(false);
    now.set_port_state_change(false);
    now.set_multicast_fdb_top(known.multicast_fdb_top());
    known != now
}
