//! Assignment of LIDs to virtual ports.
//!
//! A virtual port that needs its own LID keeps the LID that it holds; otherwise it gets the LID
//! that its GUID claims, wherever the GUID is now, or else the lowest free LID. Ports come before
//! virtual ports. All other virtual ports use the LID of another index or of their port.
//!
//! If several virtual ports have one GUID, only one of them is served: an Active virtual port if
//! there is one, otherwise the first. A migrated virtual machine is therefore served at its new
//! host once it has left the old host.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::fabric::{Fabric, Node};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::vports::{INDICES_MAX, VPort, VPortKey};

use super::table_limit::TableLimit;
use super::{Claim, Claims, LidPlan};

/// Maximum number of virtual ports that a finding names; the finding counts the others.
const NAMES_SHOWN: usize = 10;

/// Whether a node with virtual ports may differ between two fabrics.
pub(super) fn may_differ(before: &Fabric, fabric: &Fabric) -> bool {
    let has_any = |node: &Node| node.ports.iter().any(|port| port.vports.is_some());
    before.differing_nodes(fabric).any(has_any)
}

/// A virtual port during assignment.
struct Candidate<'a> {
    key: VPortKey,
    vport: &'a VPort,
}

/// Assigns LIDs to all virtual ports, and replaces the LIDs of virtual ports in `plan`. New LIDs
/// begin at `block`, if given, while there is room above it. Without `claims`, no claimed LID is
/// restored or reserved.
pub(super) fn assign(
    fabric: &Fabric,
    claims: Option<&Claims>,
    block: Option<Lid>,
    plan: &mut LidPlan,
) {
    plan.vports.clear();
    let served = served(fabric, plan);
    if served.is_empty() {
        return;
    }
    let mut space = Space::of(fabric, plan, TableLimit::of(fabric, claims).last);
    let own: Vec<&Candidate<'_>> = served
        .iter()
        .filter(|one| one.vport.info.lid_required())
        .collect();
    let shared = served.iter().filter(|one| !one.vport.info.lid_required());
    let mut given: BTreeMap<VPortKey, Lid> = shared.map(|one| (one.key, Lid::NONE)).collect();
    let claim_of = |one: &Candidate<'_>| Some(claims?.get(&one.vport.guid())?.base);
    let mut holders: Vec<(bool, Guid, &Candidate<'_>)> = own
        .iter()
        .filter(|one| one.vport.info.lid().is_unicast())
        .map(|&one| {
            let is_claimed = claim_of(one) == Some(one.vport.info.lid());
            (!is_claimed, one.vport.guid(), one)
        })
        .collect();
    holders.sort_unstable_by_key(|&(rank, guid, one)| (rank, guid, one.key));
    for (_, _, one) in holders {
        if space.occupy(one.vport.info.lid()) {
            given.insert(one.key, one.vport.info.lid());
        }
    }
    for one in &own {
        if !given.contains_key(&one.key)
            && let Some(lid) = claim_of(one)
            && space.occupy(lid)
        {
            given.insert(one.key, lid);
        }
    }
    let present: BTreeSet<Guid> = served.iter().map(|one| one.vport.guid()).collect();
    if let Some(claims) = claims {
        space.reserve(claims, |guid| present.contains(&guid));
    }
    let mut left_out = Vec::new();
    for one in &own {
        if given.contains_key(&one.key) {
            continue;
        }
        match block
            .and_then(|block| space.lowest_free_from(block))
            .or_else(|| space.lowest_free())
        {
            Some(lid) => {
                given.insert(one.key, lid);
            }
            None => left_out.push(one.key),
        }
    }
    plan.findings.extend(exhausted(fabric, &left_out));
    plan.vports = given;
}

/// The unicast LIDs that virtual ports hold as their own.
pub(super) fn held(fabric: &Fabric) -> impl Iterator<Item = Lid> + '_ {
    let ports = fabric.end_ports();
    let vports = ports.filter_map(|(_, port)| port.vports.as_ref());
    let vports = vports.flat_map(|vports| vports.vports.values());
    let own = vports.filter(|vport| vport.is_usable() && vport.info.lid_required());
    own.map(|vport| vport.info.lid())
        .filter(|lid| lid.is_unicast())
}

/// The virtual ports that are served, in the order of ports and indices. Adds findings about other
/// virtual ports to `plan`.
fn served<'a>(fabric: &'a Fabric, plan: &mut LidPlan) -> Vec<Candidate<'a>> {
    let mut usable = Vec::new();
    for (at, port) in fabric.end_ports() {
        let key = fabric.key(at);
        let vports = port
            .vports
            .as_ref()
            .filter(|_| plan.lids.contains_key(&key));
        let all = vports.into_iter().flat_map(|vports| &vports.vports);
        usable.extend(
            all.filter(|(_, vport)| vport.is_usable())
                .map(|(&index, vport)| Candidate {
                    key: VPortKey::new(key, index),
                    vport,
                }),
        );
    }
    plan.findings.extend(beyond_the_last_index(fabric));
    let mut order: Vec<usize> = (0..usable.len()).collect();
    let rank = |&at: &usize| {
        let one: &Candidate<'_> = &usable[at];
        (one.vport.guid(), !one.vport.is_active(), one.key)
    };
    order.sort_unstable_by_key(rank);
    let mut duplicates = BTreeSet::new();
    for pair in order.windows(2) {
        let [first, second] = [&usable[pair[0]], &usable[pair[1]]];
        if first.vport.guid() == second.vport.guid() {
            duplicates.insert(second.key);
        }
    }
    plan.findings.extend(duplicates.iter().take(NAMES_SHOWN).map(|&key| {
        let text = format!(
            "{} has the GUID of another virtual port, which is served in its place; give it another \
             GUID, or take one of the two down",
            place(fabric, key)
        );
        Finding::new(
            FindingKind::DuplicateGuid,
            Subject::Port(key.port),
            Severity::Warning,
            text,
        )
    }));
    usable.retain(|one| !duplicates.contains(&one.key));
    usable
}

/// Findings about ports with more indices than rsm manages.
fn beyond_the_last_index(fabric: &Fabric) -> Vec<Finding> {
    let ports = fabric.end_ports().filter_map(|(at, port)| {
        let top = port.vports.as_ref()?.info.vport_index_top();
        (top >= INDICES_MAX).then(|| (fabric.key(at), top))
    });
    let ports = ports.take(NAMES_SHOWN);
    ports
        .map(|(key, top)| {
            let name = fabric.port_name(key);
            let text = format!(
                "{name} has virtual ports up to index {top}: rsm does not set up virtual ports from \
                 index {INDICES_MAX} on; let the host use lower indices"
            );
            let kind = FindingKind::Incomplete;
            Finding::new(kind, Subject::Port(key), Severity::Warning, text)
        })
        .collect()
}

/// The finding about virtual ports that got no LID.
fn exhausted(fabric: &Fabric, left_out: &[VPortKey]) -> Option<Finding> {
    if left_out.is_empty() {
        return None;
    }
    let names: Vec<String> = left_out
        .iter()
        .take(NAMES_SHOWN)
        .map(|&key| place(fabric, key))
        .collect();
    let more = match left_out.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(Finding::new(
        FindingKind::LidSpaceExhausted,
        Subject::Subnet,
        Severity::Error,
        format!(
            "no LID is left for {} virtual ports that need their own: {}{more}; these virtual ports \
             stay down; let the adapters share the LID of their port, or split the subnet",
            left_out.len(),
            names.join(", ")
        ),
    ))
}

fn place(fabric: &Fabric, key: VPortKey) -> String {
    format!("{} vport {}", fabric.port_name(key.port), key.index)
}

/// The LIDs that are taken or reserved.
struct Space {
    /// Whether each LID is taken.
    taken: Vec<bool>,
    /// Whether an absent GUID claims each LID.
    reserved: Vec<bool>,
    /// Positions at which the search for a free LID continues: without reserved LIDs, and with
    /// them.
    cursors: [usize; 2],
    /// GUIDs of all ports.
    ports: BTreeSet<Guid>,
}

impl Space {
    fn of(fabric: &Fabric, plan: &LidPlan, last: u16) -> Space {
        let lids = usize::from(last) + 1;
        let mut taken = vec![false; lids];
        for claim in plan.lids.values() {
            for lid in 0..claim.lmc.lids() {
                if let Some(slot) = taken.get_mut(usize::from(claim.base.0.saturating_add(lid))) {
                    *slot = true;
                }
            }
        }
        Space {
            taken,
            reserved: vec![false; lids],
            cursors: [1; 2],
            ports: fabric.end_ports().map(|(_, port)| port.guid).collect(),
        }
    }

    /// Takes a LID. Returns whether it was free.
    fn occupy(&mut self, lid: Lid) -> bool {
        let slot = self.taken.get_mut(lid.index()).filter(|_| lid.is_unicast());
        slot.is_some_and(|taken| !std::mem::replace(taken, true))
    }

    /// Reserves the claimed LIDs of absent GUIDs, so that they are assigned last.
    fn reserve(&mut self, claims: &Claims, is_present: impl Fn(Guid) -> bool) {
        for (guid, claim) in claims {
            if !is_present(*guid) && !self.ports.contains(guid) {
                let end = claim.base.index() + usize::from(claim.lmc.lids());
                let end = end.min(self.reserved.len());
                if let Some(range) = self.reserved.get_mut(claim.base.index()..end) {
                    range.fill(true);
                }
            }
        }
    }

    /// The lowest free LID from `block` on that is not reserved; `None` if there is none.
    fn lowest_free_from(&mut self, block: Lid) -> Option<Lid> {
        let is_free = |&lid: &usize| !self.taken[lid] && !self.reserved[lid];
        let lid = (block.index()..self.taken.len()).find(is_free)?;
        self.taken[lid] = true;
        Some(Lid(lid as u16))
    }

    /// The lowest free LID; reserved LIDs come last. `None` if all LIDs are taken.
    fn lowest_free(&mut self) -> Option<Lid> {
        for allow_reserved in [false, true] {
            let from = self.cursors[usize::from(allow_reserved)];
            let found = (from..self.taken.len())
                .find(|&lid| !self.taken[lid] && (allow_reserved || !self.reserved[lid]));
            self.cursors[usize::from(allow_reserved)] = found.unwrap_or(self.taken.len());
            if let Some(lid) = found {
                self.taken[lid] = true;
                return Some(Lid(lid as u16));
            }
        }
        None
    }
}

/// The claims of the virtual ports in `plan` that have their own LID, by GUID.
pub fn claims_of<'a>(
    plan: &'a LidPlan,
    fabric: &'a Fabric,
) -> impl Iterator<Item = (Guid, Claim)> + 'a {
    let own = plan.vports.iter().filter(|(_, lid)| lid.is_unicast());
    own.filter_map(|(key, &base)| {
        let at = fabric.find_port(key.port)?;
        let vport = fabric.port(at).vports.as_ref()?.get(key.index)?;
        let claim = Claim {
            base,
            lmc: Lmc::ZERO,
        };
        Some((vport.guid(), claim))
    })
}
