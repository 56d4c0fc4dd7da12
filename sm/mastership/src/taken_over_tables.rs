//! Decides whether the tables that the former manager left in switches count as held.
//!
//! Normally a switch forwards by the table that it shows. This table then counts as held, and a
//! restart or a takeover need not write it again. The exception is a switch on which another
//! manager turned adaptive routing on: packets leave by the ports of groups, and the switch may
//! show a LinearForwardingTable that it does not use.
//!
//! On such a switch, each block of the table counts as not held until the switch acknowledges a Set
//! of the block. The core turns adaptive routing off in ARInfo before it writes the first block.
//! ARInfo is read only from kinds of switches that have the attribute, and only if they hold
//! tables.

use rsm_config::Takeover;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::{InventoryPort, InventorySwitch, Mark};

/// The facts that decide which tables of former managers count as held.
#[derive(Clone, Copy, Debug)]
pub struct Trust {
    /// The setting `sm.takeover`.
    pub takeover: Takeover,
    /// Whether this manager routes adaptively.
    pub routes_adaptively: bool,
    /// Whether this manager has stored state of its own. Without such state, another manager may
    /// have written the tables from the same port.
    pub remembers: bool,
}

/// Prepares the inventory at a takeover. The former manager may have turned adaptive routing on
/// since this manager first read the switches, so earlier decisions about such switches end.
pub fn begin(inventory: &mut Inventory, routes_adaptively: bool) {
    // Searches for paths from the time as a standby must not count as cost of the takeover.
    drop(inventory.take_full_search_reason());
    inventory.hardware.forget_taken_over();
    let switches = inventory.hardware.switches();
    // Mark only these switches as written, so that the next comparison skips all others.
    let unverified: Vec<Guid> = switches
        .filter(|(_, _, switch)| routes_adaptively || is_unverified(switch))
        .map(|(guid, ..)| guid)
        .collect();
    for guid in unverified {
        if let Some(switch) = inventory.hardware.switch_mut(guid) {
            switch.lft.trust();
            switch.adaptive.forget();
            switch.keeps_adaptive_routing = false;
        }
    }
}

/// Decides for each switch written after `since` whether its tables count as held. Called after a
/// sweep of the master.
pub fn decide(inventory: &mut Inventory, since: Mark, trust: Trust) {
    let own = inventory.own_port().and_then(|port| port.info.as_ref());
    let own_lid = own.map_or(Lid::NONE, |info| info.lid());
    let written: Vec<Guid> = inventory.hardware.written_since(since).collect();
    for guid in written {
        let Some((switch, ports)) = inventory.hardware.switch_with_ports_mut(guid) else {
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

/// Makes all tables count as not held, because the operator wants every block to be written.
pub fn distrust_all(inventory: &mut Inventory) {
    for switch in inventory.hardware.switches_mut() {
        switch.lft.distrust();
        switch.adaptive.forget();
        switch.keeps_adaptive_routing = false;
    }
}

/// Findings about switches whose packets may take other paths than the routes in force.
pub fn findings(inventory: &Inventory) -> impl Iterator<Item = Finding> + '_ {
    inventory.hardware.adaptive().filter_map(move |guid| {
            let node = inventory.hardware.node(guid)?;
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
                "{} routes adaptively (ARInfo), as another subnet manager left it: packets may take paths that are not in force and that no proof covers; {why}",
                inventory.hardware.name(guid)
            );
            let (kind, subject) = (FindingKind::AdaptiveRouting, Subject::Node(guid));
            Some(Finding::new(kind, subject, severity, text))
        })
}

/// Whether a manager that has just become master must read parts of a switch again.
fn is_unverified(switch: &InventorySwitch) -> bool {
    switch.ar_info().is_some() || switch.keeps_adaptive_routing || !switch.lft.is_trusted()
}

/// Adopts the adaptive routing that the former manager left on, if all tables were read and packets
/// that are not routed adaptively follow the forwarding table that the switch shows. The comparison
/// with the plan then decides whether the groups must be written.
fn adopt(switch: &mut InventorySwitch) {
    let Some(info) = switch.ar_info().filter(|info| info.uses_groups()) else {
        return;
    };
    let top = switch.info.linear_fdb_top();
    let is_whole = switch.lft.is_complete(top);
    let lft = switch.lft.entries().clone();
    if switch.adaptive.agrees_with(&lft, info.group_top(), top) && is_whole {
        switch.adaptive.mark_own();
    }
}

/// Whether another manager was the last to manage a switch, according to the MasterSMLID of its
/// port 0.
fn is_foreign(ports: &[InventoryPort], own_lid: Lid, remembers: bool) -> bool {
    let info = ports.first().and_then(|port| port.info.as_ref());
    let last = info.map_or(Lid::NONE, |info| info.master_sm_lid());
    last != Lid::NONE && (last != own_lid || !remembers)
}

/// Whether the tables of a switch count as not held.
fn distrusts(takeover: Takeover, switch: &InventorySwitch, is_foreign: bool) -> bool {
    let uses_groups = switch.ar_info().is_some_and(|info| info.uses_groups());
    let uses_groups = uses_groups && !switch.adaptive.is_own();
    match takeover {
        Takeover::Auto => uses_groups,
        Takeover::Rewrite => uses_groups || is_foreign,
        Takeover::Trust => false,
    }
}
