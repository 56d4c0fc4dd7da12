//! Ports that may not hold what was set, links with another MTU than planned, and devices that
//! refuse Sets.

use std::collections::BTreeSet;

use rsm_hardware::diff::{Changes, next_bounce};
use rsm_hardware::sweep::doubts::{Doubt, Reading};
use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Mtu, PortInfo, PortState, VlCap};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::habits::DeviceKind;
use rsm_model::port_info::{FieldMask, LinkMismatch};

use super::Core;

/// Mismatched links that have a finding of their own; a wrong setting makes thousands.
const MISMATCHES_SHOWN: usize = 16;

impl Core {
    /// Ports to read because answers to Sets left their fields open: one of each kind of device,
    /// and every port with essential fields open.
    pub(super) fn ports_in_doubt(&self) -> Vec<PortKey> {
        let mut kinds = BTreeSet::new();
        let unread = self
            .inventory
            .doubts
            .iter()
            .filter(|(_, doubt)| doubt.reading == Reading::None);
        let chosen = unread.filter(|(key, doubt)| {
            let essential = doubt.fields.and(FieldMask::ESSENTIAL);
            !essential.is_empty() || kinds.insert((self.kind_of(*key), doubt.fields.0))
        });
        chosen.map(|(key, _)| key).collect()
    }

    /// Ends the doubts that readings answer. Returns whether there were any; the difference must
    /// then be computed again.
    pub(super) fn settle_readings(&mut self) -> bool {
        let doubts = self.inventory.doubts.iter();
        let read: Vec<(PortKey, Doubt)> = doubts
            .filter(|(_, doubt)| doubt.reading == Reading::New)
            .collect();
        let mut learned = false;
        for &(key, doubt) in &read {
            let record = self.inventory.port(key);
            let (Some(info), Some(kind)) = (
                record.and_then(|record| record.info.as_ref()),
                self.kind_of(key),
            ) else {
                self.inventory.doubts.settle(key);
                continue;
            };
            let open = doubt.fields.differing(&doubt.asked, info);
            let is_reached = reached(&doubt.asked, info);
            let essential = open.and(FieldMask::ESSENTIAL);
            // A port that was reset since the Set holds none of its fields, and says nothing about
            // its kind of device.
            let was_reset = info.lid() != doubt.asked.lid() || falls_short(key, info);
            if !was_reset {
                learned |= self.not_kept.learn(kind, open);
            }
            if is_reached && (open.is_empty() || !was_reset && essential.is_empty()) {
                self.inventory.doubts.settle(key);
            } else {
                self.inventory.doubts.contradict(key);
            }
        }
        if learned {
            self.remember();
        }
        !read.is_empty()
    }

    /// Before a push: ends doubts of ports that no longer differ, and forgets bounced links that
    /// are Active as planned, so that they may be bounced again.
    pub(super) fn note_changes(&mut self, changes: &Changes) {
        self.mismatches.clone_from(&changes.mismatches);
        let doubts = &mut self.inventory.doubts;
        doubts.retain(|key| changes.ports.contains_key(&key));
        let mut bounced = std::mem::take(&mut self.inventory.bounced);
        bounced.retain(|near, far| {
            [near, far].into_iter().any(|key| {
                let port = self.inventory.port(*key);
                changes.mismatches.contains_key(key) || !port.is_some_and(|port| port.is_active())
            })
        });
        bounced.extend(changes.bounce);
        self.inventory.bounced = bounced;
    }

    /// Plans again to bounce the next mismatched link, if the operator allows it and there is one.
    pub(super) fn bounce_on(&mut self) {
        let allowed = self.config.policy.ports.links.bounce;
        if allowed && next_bounce(&self.inventory, &self.mismatches).is_some() {
            // `unfinished` makes a sweep that finds nothing new compute the difference all the
            // same.
            self.unfinished = true;
            self.work
                .plan_again("a link has another MTU or number of VLs than planned");
        }
    }

    fn kind_of(&self, key: PortKey) -> Option<DeviceKind> {
        let node = self.inventory.node(key.node)?;
        Some(DeviceKind::of(&node.info, key.port))
    }

    /// Links whose MTU or VLs are not as planned.
    pub(super) fn findings_of_mismatches(&self) -> Vec<Finding> {
        let finding = |subject, text| {
            Finding::new(FindingKind::LinkMismatch, subject, Severity::Warning, text)
        };
        let named = self.mismatches.iter().take(MISMATCHES_SHOWN);
        let mut findings: Vec<Finding> = named
            .map(|(&key, mismatch)| {
                let place = format!("{} port {}", self.name(key.node), key.port);
                let text = format!(
                    "{place} is Active with {}, which only changes while the link is down: {}",
                    describe(mismatch),
                    self.remedy(key)
                );
                finding(Subject::Port(key), text)
            })
            .collect();
        if let Some(more @ 1..) = self.mismatches.len().checked_sub(MISMATCHES_SHOWN) {
            let text = format!(
                "{more} more Active ports have an MTU or a number of VLs that is not as planned"
            );
            findings.push(finding(Subject::Subnet, text));
        }
        findings
    }

    fn remedy(&self, key: PortKey) -> &'static str {
        let peer = self.inventory.port(key).and_then(|port| port.peer);
        let is_end = |port: Option<PortKey>| port == Some(key) || port.is_some() && port == peer;
        let mut bounced = self.inventory.bounced.keys();
        if bounced.any(|&near| is_end(Some(near))) {
            "the link was bounced, which did not help; check the devices at both ends"
        } else if is_end(self.inventory.local) {
            "the link of this subnet manager is not bounced; reset it by hand"
        } else if self.config.policy.ports.links.bounce {
            "it is bounced when its turn comes"
        } else {
            "reset the link, or set links.bounce = true"
        }
    }
}

/// Whether a port is in the state that a Set asked for, or beyond.
fn reached(asked: &PortInfo, info: &PortInfo) -> bool {
    match asked.port_state() {
        PortState::Armed => matches!(info.port_state(), PortState::Armed | PortState::Active),
        PortState::Active => info.port_state() == PortState::Active,
        _ => true,
    }
}

/// Whether a port with a link is not even Armed.
fn falls_short(key: PortKey, info: &PortInfo) -> bool {
    let is_armed = matches!(info.port_state(), PortState::Armed | PortState::Active);
    key.port != rsm_ids::PortNum::ZERO && !is_armed
}

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
