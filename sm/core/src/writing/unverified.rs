//! Sets of ports whose effect is not verified yet, and links whose MTU or VLs differ from the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_hardware::diff::{Changes, next_bounce};
use rsm_hardware::link_step::BouncedLink;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::unverified::{Reading, UnverifiedSet};
use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Mtu, PortInfo, PortState, VlCap};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::habits::DeviceKind;
use rsm_model::port_info::{FieldMask, LinkMismatch};

use super::Writing;

/// Maximum number of mismatched links with a finding each: a wrong setting causes thousands.
const MISMATCHES_SHOWN: usize = 16;

/// Time that a bounced link has to come up before the next one is bounced: several times that of a
/// link that trains.
pub(in super::super) const BOUNCE_LIMIT: Duration = Duration::from_secs(30);

/// The result of [`Writing::verify_readings`].
#[derive(Clone, Copy, Default, Debug)]
pub(in super::super) struct VerifiedReadings {
    /// Whether ports with unverified Sets were read, so that the difference must be computed again.
    pub(in super::super) were_read: bool,
    /// Whether devices turned out not to keep a field; that must be stored.
    pub(in super::super) learned: bool,
}

impl Writing {
    /// Compares the unverified Sets of ports with the PortInfo that the last sweep read. Fields
    /// that a device did not keep are recorded for its kind.
    pub(in super::super) fn verify_readings(
        &mut self,
        inventory: &mut Inventory,
    ) -> VerifiedReadings {
        let unverified = inventory.unverified.iter();
        let read: Vec<(PortKey, UnverifiedSet)> = unverified
            .filter(|(_, set)| set.reading == Reading::New)
            .collect();
        let mut learned = false;
        for &(key, set) in &read {
            let record = inventory.hardware.port(key);
            let (Some(info), Some(kind)) = (
                record.and_then(|record| record.info.as_ref()),
                kind_of(inventory, key),
            ) else {
                inventory.unverified.settle(key);
                continue;
            };
            let open = set.fields.differing(&set.asked, info);
            let is_reached = has_reached(&set.asked, info);
            let essential = open.and(FieldMask::ESSENTIAL);
            // A port that was reset after the Set holds none of the fields, which shows nothing
            // about its kind of device.
            let was_reset = info.lid() != set.asked.lid() || is_below_armed(key, info);
            if !was_reset {
                learned |= self.not_kept.learn(kind, open);
            }
            if is_reached && (open.is_empty() || !was_reset && essential.is_empty()) {
                inventory.unverified.settle(key);
            } else {
                inventory.unverified.contradict(key);
            }
        }
        VerifiedReadings {
            were_read: !read.is_empty(),
            learned,
        }
    }

    /// Whether a link must be bounced to change its MTU or VLs.
    pub(in super::super) fn has_to_bounce(&self, inventory: &Inventory) -> bool {
        next_bounce(inventory, &self.mismatches).is_some()
    }
}

/// Ports to read because of unverified Sets: one port of each kind of device, and every port with
/// unverified essential fields.
pub(in super::super) fn unverified_ports(inventory: &Inventory) -> Vec<PortKey> {
    let mut kinds = BTreeSet::new();
    let unverified = inventory.unverified.iter();
    let unread = unverified.filter(|(_, set)| set.reading == Reading::None);
    let chosen = unread.filter(|(key, set)| {
        let essential = set.fields.and(FieldMask::ESSENTIAL);
        !essential.is_empty() || kinds.insert((kind_of(inventory, *key), set.fields.0))
    });
    chosen.map(|(key, _)| key).collect()
}

/// Prepares unverified Sets and bounced links for a push: drops the unverified Sets of ports that
/// do not change, and forgets bounced links that are Active as planned, so that they may be bounced
/// again, and overdue links of which an end is cabled to another port.
pub(in super::super) fn drop_verified(inventory: &mut Inventory, changes: &Changes) {
    let unverified = &mut inventory.unverified;
    unverified.retain(|key| changes.ports.contains_key(&key));
    let mut bounced = std::mem::take(&mut inventory.bounced);
    bounced.retain(|&near, link| {
        if link.is_overdue && !is_link(inventory, near, link.far) {
            return false;
        }
        let mut ends = [near, link.far].into_iter();
        ends.any(|end| changes.mismatches.contains_key(&end)) || !inventory.has_returned(near, link)
    });
    inventory.bounced = bounced;
}

/// Whether there may still be a link between two ports: neither is cabled to a third one. A node
/// that is not known at present may only be cut off, by the bounce of another link.
fn is_link(inventory: &Inventory, near: PortKey, far: PortKey) -> bool {
    [(near, far), (far, near)].into_iter().all(|(end, other)| {
        let peer = inventory.hardware.port(end).and_then(|port| port.peer);
        peer.is_none_or(|peer| peer == other)
    })
}

/// Marks bounced links that have not come up as overdue. Returns whether there are any that were
/// not.
pub(in super::super) fn mark_overdue(inventory: &mut Inventory) -> bool {
    let mut bounced = std::mem::take(&mut inventory.bounced);
    let mut is_news = false;
    for (&near, link) in &mut bounced {
        if !link.is_overdue && !inventory.has_returned(near, link) {
            (link.is_overdue, is_news) = (true, true);
        }
    }
    inventory.bounced = bounced;
    is_news
}

/// Findings about bounced links that have not come up in time.
pub(in super::super) fn overdue_findings(inventory: &Inventory) -> Vec<Finding> {
    let bounced = inventory.bounced.iter();
    let overdue = bounced.filter(|&(&near, link)| {
        let is_known = inventory.hardware.port(near).is_some();
        link.is_overdue && is_known && !inventory.has_returned(near, link)
    });
    let finding = |(&near, link): (&PortKey, &BouncedLink)| {
        let text = format!(
            "{} was set to Down for a moment to change its MTU or its number of VLs, and its link has not come up within {} \
             seconds: the link carries no traffic; look at the cable and at {}, then reset the port (`rsmctl port reset`)",
            inventory.hardware.port_name(near),
            BOUNCE_LIMIT.as_secs(),
            inventory.hardware.port_name(link.far),
        );
        let kind = FindingKind::LinkMismatch;
        Finding::new(kind, Subject::Port(near), Severity::Warning, text)
    };
    overdue.map(finding).collect()
}

/// Findings about links whose MTU or VLs are not as planned. `bounces` says whether the
/// configuration allows rsm to bounce links (`links.bounce`).
pub(in super::super) fn mismatch_findings(
    mismatches: &BTreeMap<PortKey, LinkMismatch>,
    inventory: &Inventory,
    bounces: bool,
) -> Vec<Finding> {
    let finding =
        |subject, text| Finding::new(FindingKind::LinkMismatch, subject, Severity::Warning, text);
    let named = mismatches.iter().take(MISMATCHES_SHOWN);
    let mut findings: Vec<Finding> = named
        .map(|(&key, mismatch)| {
            let text = format!(
                "{} is Active with {}, which only changes while the link is down: {}",
                inventory.hardware.port_name(key),
                describe(mismatch),
                remedy(inventory, key, bounces)
            );
            finding(Subject::Port(key), text)
        })
        .collect();
    if let Some(more @ 1..) = mismatches.len().checked_sub(MISMATCHES_SHOWN) {
        let text = format!(
            "{more} more Active ports have an MTU or a number of VLs that is not as planned"
        );
        findings.push(finding(Subject::Subnet, text));
    }
    findings
}

/// The remedy in the finding about a mismatched link.
fn remedy(inventory: &Inventory, key: PortKey, bounces: bool) -> &'static str {
    let peer = inventory.hardware.port(key).and_then(|port| port.peer);
    let is_end = |port: Option<PortKey>| port == Some(key) || port.is_some() && port == peer;
    let mut bounced = inventory.bounced.keys();
    if bounced.any(|&near| is_end(Some(near))) {
        "the link was bounced, which did not help; check the devices at both ends"
    } else if is_end(inventory.hardware.local) {
        "the link of this subnet manager is not bounced; reset it by hand"
    } else if bounces {
        "it is bounced when its turn comes"
    } else {
        "reset the link, or set links.bounce = true"
    }
}

/// The kind of device of a port; `None` if the node is not known.
fn kind_of(inventory: &Inventory, key: PortKey) -> Option<DeviceKind> {
    let node = inventory.hardware.node(key.node)?;
    Some(DeviceKind::of(&node.info, key.port))
}

/// Whether a port is in the state that a Set asked for, or in a higher state.
fn has_reached(asked: &PortInfo, info: &PortInfo) -> bool {
    match asked.port_state() {
        PortState::Armed => matches!(info.port_state(), PortState::Armed | PortState::Active),
        PortState::Active => info.port_state() == PortState::Active,
        _ => true,
    }
}

/// Whether an external port is neither Armed nor Active.
fn is_below_armed(key: PortKey, info: &PortInfo) -> bool {
    let is_armed = matches!(info.port_state(), PortState::Armed | PortState::Active);
    key.port != rsm_ids::PortNum::ZERO && !is_armed
}

/// The held and the planned values of a mismatched link, for a finding.
fn describe(mismatch: &LinkMismatch) -> String {
    let bytes = |mtu: Mtu| {
        mtu.bytes()
            .map_or("unknown".to_owned(), |bytes| bytes.to_string())
    };
    let lanes = |vls: VlCap| {
        vls.data_vls()
            .map_or("unknown".to_owned(), |vls| vls.to_string())
    };
    let mtu = mismatch
        .mtu
        .map(|(held, planned)| format!("NeighborMTU {}, planned {}", bytes(held), bytes(planned)));
    let vls = mismatch
        .vls
        .map(|(held, planned)| format!("{} data VLs, planned {}", lanes(held), lanes(planned)));
    let parts: Vec<String> = mtu.into_iter().chain(vls).collect();
    parts.join(" and ")
}
