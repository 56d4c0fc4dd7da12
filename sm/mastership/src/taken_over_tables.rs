//! Decides whether the tables count that the former manager left in switches.
//!
//! A switch forwards by the tables that it reads back, so that a restart or a takeover finds
//! nothing to write. The exception is a switch on which another manager turned adaptive routing on:
//! packets leave by the ports of groups, and the LinearForwardingTable may be one that the switch
//! holds and does not use.
//!
//! The table of such a switch counts as not held, block by block, until the switch acknowledges a
//! Set, and the core turns adaptive routing off in ARInfo before the first new table. ARInfo is
//! read only from kinds of switches that have it, and only if they hold tables.

use rsm_config::Takeover;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::{InventoryPort, InventorySwitch, Mark};

/// Which tables of former managers count.
#[derive(Clone, Copy, Debug)]
pub struct Trust {
    /// The operator's decision (`sm.takeover`).
    pub takeover: Takeover,
    /// Whether this manager routes adaptively.
    pub routes_adaptively: bool,
    /// Whether this manager has stored state, so that the tables of a manager at this port are its
    /// own.
    pub remembers: bool,
}

/// Begins to manage the subnet. The former manager may have turned adaptive routing on since this
/// one first read the switches.
pub fn begin(inventory: &mut Inventory, routes_adaptively: bool) {
    // A standby's searches for paths do not belong to the takeover.
    drop(inventory.take_searched());
    inventory.forget_taken_over();
    let switches = inventory.switches();
    // Other switches are not touched: what is known of them stays as last computed.
    let unverified: Vec<Guid> = switches
        .filter(|(_, _, switch)| routes_adaptively || is_unverified(switch))
        .map(|(guid, ..)| guid)
        .collect();
    for guid in unverified {
        if let Some(switch) = inventory.switch_mut(guid) {
            switch.lft.trust();
            switch.adaptive.forget();
            switch.keeps_adaptive_routing = false;
        }
    }
}

/// Decides after a sweep as the master whether the tables count, for each switch that was written
/// after `since`.
pub fn decide(inventory: &mut Inventory, since: Mark, trust: Trust) {
    let own = inventory.own_port().and_then(|port| port.info.as_ref());
    let own_lid = own.map_or(Lid::NONE, |info| info.lid());
    let written: Vec<Guid> = inventory.written_since(since).collect();
    for guid in written {
        let Some((switch, ports)) = inventory.switch_with_ports_mut(guid) else {
            continue;
        };
        let is_new = !std::mem::replace(&mut switch.taken_over, true);
        if trust.routes_adaptively && trust.takeover != Takeover::Rewrite {
            adopt(switch);
        }
        let is_foreign = is_new && is_foreign(ports, own_lid, trust.remembers);
        if !switch.lft.is_distrusted() && distrusts(trust.takeover, switch, is_foreign) {
            switch.lft.distrust();
        }
    }
}

/// Distrusts all tables, because the operator wants every block written.
pub fn distrust_all(inventory: &mut Inventory) {
    for switch in inventory.switches_mut() {
        switch.lft.distrust();
        switch.adaptive.forget();
        switch.keeps_adaptive_routing = false;
    }
}

/// Findings about switches whose packets may take other paths than the routes in force.
pub fn findings(inventory: &Inventory) -> impl Iterator<Item = Finding> + '_ {
    inventory.adaptive().filter_map(move |guid| {
            let node = inventory.node(guid)?;
            let switch = node.switch.as_ref()?;
            if switch.adaptive.is_own() && !switch.keeps_adaptive_routing {
                return None;
            }
            if !switch.taken_over && !switch.keeps_adaptive_routing {
                return None;
            }
            let (severity, why) = if switch.keeps_adaptive_routing {
                let why = "it refuses to turn that off; do so on the switch, or restart it";
                (Severity::Error, why)
            } else if !switch.lft.is_distrusted() {
                let why = "sm.takeover = \"trust\" leaves that as it is; `rsmctl sweep --rewrite` ends it";
                (Severity::Warning, why)
            } else {
                return None;
            };
            let text = format!(
                "{} routes adaptively (ARInfo), as another subnet manager left it: packets may take ways that are not those in force and that no proof covers; {why}",
                inventory.name(guid)
            );
            let (kind, subject) = (FindingKind::AdaptiveRouting, Subject::Node(guid));
            Some(Finding::new(kind, subject, severity, text))
        })
}

/// Whether less is known about a switch than was read, for a manager that has just become master.
fn is_unverified(switch: &InventorySwitch) -> bool {
    switch.ar_info().is_some() || switch.keeps_adaptive_routing || !switch.lft.is_trusted()
}

/// Takes over adaptive routing that the former manager left on, if the tables were read back as a
/// whole, and packets without a choice follow the forwarding table that the switch shows. The
/// difference finds out whether the groups are those of the plan.
fn adopt(switch: &mut InventorySwitch) {
    let Some(info) = switch.ar_info().filter(|info| info.uses_groups()) else {
        return;
    };
    let top = switch.info.linear_fdb_top();
    let is_whole = switch.lft.is_complete(top);
    let lft = switch.lft.entries().clone();
    if switch.adaptive.agrees_with(&lft, info.group_top(), top) && is_whole {
        switch.adaptive.own();
    }
}

/// Whether another manager was the last to manage a switch, according to the MasterSMLID of its
/// port 0.
fn is_foreign(ports: &[InventoryPort], own_lid: Lid, remembers: bool) -> bool {
    let info = ports.first().and_then(|port| port.info.as_ref());
    let last = info.map_or(Lid::NONE, |info| info.master_sm_lid());
    last != Lid::NONE && (last != own_lid || !remembers)
}

fn distrusts(takeover: Takeover, switch: &InventorySwitch, is_foreign: bool) -> bool {
    let uses_groups = switch.ar_info().is_some_and(|info| info.uses_groups());
    let uses_groups = uses_groups && !switch.adaptive.is_own();
    match takeover {
        Takeover::Auto => uses_groups,
        Takeover::Rewrite => uses_groups || is_foreign,
        Takeover::Trust => false,
    }
}
