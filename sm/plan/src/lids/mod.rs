//! Assignment of LIDs to ports.
//!
//! Precedence (invariant: a LID in use never moves unless two ports hold it):
//!
//! 1. A port keeps the LID that it holds; if another host has overwritten that LID, the port gets
//!    its claimed LID back. If two ports hold one LID, the port with the persisted claim keeps it,
//!    else the port with the lower GUID; a port whose LID was assigned while the fabric was
//!    partitioned comes last ([`LidRights`]). With a floating LID, this manager's port comes first,
//!    and takes its claimed LID from a port without a claim to it.
//! 2. A port that holds no LID gets its claimed LID, if that is free.
//! 3. All other ports get the lowest free LIDs that no virtual port holds; LIDs that absent ports
//!    claim come last. While another manager may assign LIDs as well, these ports get LIDs of a block
//!    (`assign_with_rights`).
//!
//! No assigned LID lies beyond the smallest forwarding table. A table that is too small for the
//! LIDs in use does not count, and its switch gets no LID (`table_limit`).
//!
//! An operator can have all LIDs assigned anew (`assign_anew`).
//!
//! New LIDs go to switches first. On a fresh fabric, without held or claimed LIDs, the first hosts
//! of all leaf switches come next, then the second hosts of all leaves, and so on (`layout`). On
//! any other fabric, the ports at one switch come after the ports at another.

mod follow;
mod layout;
mod table_limit;
mod vports;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc};
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

pub(super) use self::follow::follow;
use self::layout::Layout;
use self::table_limit::TableLimit;
pub use self::vports::claims_of as vport_claims;
pub use crate::lid_plan::{Claim, Claims, LidPlan};
use crate::policy::Policy;

/// Constraints on LID assignment beyond claims and held LIDs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LidRights {
    /// First LID of the block from which new LIDs are assigned while it has room; `None` for the
    /// lowest free LIDs. While the fabric is partitioned, new LIDs come from a block, because
    /// another manager may assign LIDs as well.
    pub block: Option<Lid>,
    /// GUIDs of the ports that got their LIDs while the fabric was partitioned. The other manager
    /// does not know these LIDs: once the partitions meet, another holder of such a LID has the
    /// older right to it.
    pub given: Arc<BTreeSet<Guid>>,
    /// GUIDs of the ports whose LID another host has overwritten: each keeps the LID that it
    /// claims, not the one that it holds.
    pub overwritten: Arc<BTreeSet<Guid>>,
}

/// The LID space during assignment.
struct Space {
    /// Index of each LID's owner plus one; 0 if the LID is free.
    owner: Vec<u32>,
    /// Whether an absent port has a persisted claim to each LID.
    reserved: Vec<bool>,
    /// Whether a virtual port holds each LID. Only a port that claims or holds such a LID gets it.
    of_vports: Vec<bool>,
    /// The highest LID that may be assigned.
    last: u16,
}

impl Space {
    /// Whether `claim` is a valid range of LIDs that no port has.
    fn is_free(&self, claim: Claim) -> bool {
        self.is_free_except_for(claim, 0)
    }

    /// Whether no port other than `owner` has a LID of `claim`.
    fn is_free_for(&self, claim: Claim, owner: usize) -> bool {
        self.is_free_except_for(claim, owner as u32 + 1)
    }

    /// Whether `claim` is a valid range of LIDs of which each is free or has the mark `mark` in
    /// `owner`.
    fn is_free_except_for(&self, claim: Claim, mark: u32) -> bool {
        let (base, count) = (claim.base.0, claim.lmc.lids());
        claim.base.is_unicast()
            && claim.lmc.aligns(claim.base)
            && base
                .checked_add(count - 1)
                .is_some_and(|last| last <= self.last)
            && self.owner[base as usize..][..count as usize]
                .iter()
                .all(|&owner| owner == 0 || owner == mark)
    }

    /// Whether a virtual port holds a LID of `claim` other than its base.
    fn has_vport_above_base(&self, claim: Claim) -> bool {
        let first = claim.base.index();
        let above = first + 1..first + claim.lmc.lids() as usize;
        let mut above = self.of_vports.get(above).into_iter().flatten();
        above.any(|&is_held| is_held)
    }

    /// Gives the LIDs of `claim` to the port with index `owner`.
    fn occupy(&mut self, claim: Claim, owner: usize) {
        self.owner[claim.base.index()..][..claim.lmc.lids() as usize].fill(owner as u32 + 1);
    }

    /// The lowest free aligned range from `from` on, without reserved LIDs unless `allow_reserved`;
    /// `None` if there is none.
    fn lowest_free(&self, from: u16, lmc: Lmc, allow_reserved: bool) -> Option<Claim> {
        let count = lmc.lids();
        let mut base = u32::from(from.max(count)).next_multiple_of(u32::from(count));
        while base + u32::from(count) - 1 <= u32::from(self.last) {
            let claim = Claim {
                base: Lid(base as u16),
                lmc,
            };
            let range = base as usize..(base + u32::from(count)) as usize;
            if self.is_free(claim)
                && !self.of_vports[range.clone()].contains(&true)
                && (allow_reserved || !self.reserved[range].contains(&true))
            {
                return Some(claim);
            }
            base += u32::from(count);
        }
        None
    }
}

/// Assigns LIDs to every end port and virtual port of `fabric`.
pub fn assign(fabric: &Fabric, claims: &Claims, policy: &Policy) -> LidPlan {
    assign_with_rights(fabric, claims, policy, &LidRights::default())
}

/// Assigns LIDs as [`assign`] does, with `rights`, which a fresh fabric ignores.
pub(crate) fn assign_with_rights(
    fabric: &Fabric,
    claims: &Claims,
    policy: &Policy,
    rights: &LidRights,
) -> LidPlan {
    let mut plan = assign_ports(fabric, claims, policy, rights);
    vports::assign(fabric, Some(claims), rights.block, &mut plan);
    plan
}

/// Assigns LIDs to every end port, without virtual ports.
fn assign_ports(fabric: &Fabric, claims: &Claims, policy: &Policy, rights: &LidRights) -> LidPlan {
    if claims.is_empty() && !fabric.end_ports().any(|(_, port)| port.lid().is_unicast()) {
        return assign_ports_anew(fabric, policy);
    }
    let known = Some((claims, rights));
    assign_by(&layout::by_wiring(fabric), fabric, known, policy)
}

/// Assigns LIDs as on a fresh fabric, regardless of the LIDs that ports hold. Hosts whose LID moves
/// lose their connections.
pub(crate) fn assign_anew(fabric: &Fabric, policy: &Policy) -> LidPlan {
    let mut plan = assign_ports_anew(fabric, policy);
    vports::assign(fabric, None, None, &mut plan);
    plan
}

/// Assigns LIDs to every end port as on a fresh fabric: in the order of [`layout::across_leaves`],
/// or in the order of the cabling if some port gets no LID or the fabric has no valid switch graph.
fn assign_ports_anew(fabric: &Fabric, policy: &Policy) -> LidPlan {
    let plan = assign_by(&layout::by_wiring(fabric), fabric, None, policy);
    if !plan.left_out.is_empty() {
        return plan;
    }
    let last = TableLimit::of(fabric, None).last;
    match layout::across_leaves(fabric, &plan, policy, last) {
        Some(layout) => assign_by(&layout, fabric, None, policy),
        None => plan,
    }
}

/// Assigns LIDs in the order of `layout`. `None` as `known` ignores claims and held LIDs.
fn assign_by(
    layout: &Layout,
    fabric: &Fabric,
    known: Option<(&Claims, &LidRights)>,
    policy: &Policy,
) -> LidPlan {
    let mut plan = LidPlan::default();
    let limit = TableLimit::of(fabric, known.map(|(claims, _)| claims));
    plan.findings.extend(limit.findings(fabric));
    let layout = &without(layout, fabric, &limit.too_small);
    let ports = &layout.ports;
    let mut space = Space {
        owner: vec![0; usize::from(Lid::UNICAST_LAST.0) + 1],
        reserved: vec![false; usize::from(Lid::UNICAST_LAST.0) + 1],
        of_vports: vec![false; usize::from(Lid::UNICAST_LAST.0) + 1],
        last: limit.last,
    };
    if let Some((claims, rights)) = known {
        for lid in vports::held(fabric) {
            space.of_vports[lid.index()] = true;
        }
        keep_held(
            fabric,
            ports,
            (claims, rights),
            policy,
            &mut space,
            &mut plan,
        );
        restore_claimed(fabric, ports, claims, policy, &mut space, &mut plan);
        reserve_for_absent(fabric, claims, &mut space);
    }
    let block = known.and_then(|(_, rights)| rights.block);
    assign_new(fabric, layout, policy, block, &mut space, &mut plan);
    if !plan.left_out.is_empty() {
        let names: Vec<String> = plan
            .left_out
            .iter()
            .take(NAMES_SHOWN)
            .map(|&port| fabric.port_name(fabric.key(port)))
            .collect();
        let more = plan.left_out.len().saturating_sub(NAMES_SHOWN);
        let and_more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        plan.findings.push(Finding::new(
            FindingKind::LidSpaceExhausted,
            Subject::Subnet,
            Severity::Error,
            format!(
                "no LID is left below {} for {} ports: {}{and_more}; lower the LMC or split the subnet",
                u32::from(limit.last) + 1,
                plan.left_out.len(),
                names.join(", ")
            ),
        ));
    }
    plan
}

/// Maximum number of ports that a finding names; the finding counts the others.
const NAMES_SHOWN: usize = 10;

/// The layout without the ports of some switches.
fn without(layout: &Layout, fabric: &Fabric, switches: &BTreeSet<Guid>) -> Layout {
    let is_in = |at: &&PortRef| !switches.contains(&fabric.key(**at).node);
    Layout {
        ports: layout.ports.iter().filter(is_in).copied().collect(),
        first_host_lid: layout.first_host_lid,
    }
}

/// The LMC of the port according to the policy.
fn wanted_lmc(fabric: &Fabric, at: PortRef, policy: &Policy) -> Lmc {
    let node = fabric.node(at.node);
    match (&node.switch, node.kind()) {
        (Some(switch), _) if switch.enhanced_port0() && policy.lmc_enhanced_port0 => policy.lmc,
        (_, NodeType::Switch) => Lmc::ZERO,
        _ => policy.lmc,
    }
}

/// This manager's port, with its index in `ports` and its claim. `None` unless the manager has a
/// floating LID, its port holds another LID, and no other port has a right to the claimed LID.
fn floating(
    fabric: &Fabric,
    ports: &[PortRef],
    claims: &Claims,
    policy: &Policy,
) -> Option<(usize, PortRef, Claim)> {
    let local = fabric.local.filter(|_| policy.floating_lid)?;
    let index = ports.iter().position(|&at| at == local)?;
    let claim = *claims.get(&fabric.port(local).guid)?;
    let is_held_by_right = ports.iter().any(|&at| {
        let port = fabric.port(at);
        let claimed = claims.get(&port.guid).map(|claim| claim.base);
        at != local && port.lid() == claim.base && claimed == Some(claim.base)
    });
    let moves = fabric.port(local).lid() != claim.base && !is_held_by_right;
    moves.then_some((index, local, claim))
}

/// Strength of a port's right to the LID that it holds, in descending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    /// The port has a claim to the LID.
    Claimed,
    /// The port holds the LID without a claim to it.
    Held,
    /// The port has a claim to the LID, which it got while the fabric was partitioned.
    GivenWhilePartitioned,
}

impl Right {
    /// The right of a port with this claim to the LID `held`.
    fn of(claim: Option<&Claim>, held: Lid, is_given_while_partitioned: bool) -> Right {
        match claim.is_some_and(|claim| claim.base == held) {
            true if is_given_while_partitioned => Right::GivenWhilePartitioned,
            true => Right::Claimed,
            false => Right::Held,
        }
    }
}

/// Lets ports keep the LIDs that they hold. Of several holders of one LID, the one with the
/// strongest right keeps it; the others are reported.
fn keep_held(
    fabric: &Fabric,
    ports: &[PortRef],
    (claims, rights): (&Claims, &LidRights),
    policy: &Policy,
    space: &mut Space,
    plan: &mut LidPlan,
) {
    let mut holders = holders(fabric, ports, claims, rights);
    let mut kept = Vec::new();
    let floating = floating(fabric, ports, claims, policy);
    if let Some((index, at, claim)) = floating {
        let claim = Claim {
            lmc: Lmc::ZERO,
            ..claim
        };
        if space.is_free(claim) {
            space.occupy(claim, index);
            kept.push((index, at, claim));
            holders.retain(|holder| holder.index != index);
        }
    }
    // The base LIDs of all ports come before the other LIDs of their LMC ranges: the range of one
    // port must not take a LID that another port holds.
    for Holder {
        guid,
        index,
        at,
        lid,
        ..
    } in holders
    {
        let claim = Claim {
            base: lid,
            lmc: Lmc::ZERO,
        };
        if space.is_free(claim) {
            space.occupy(claim, index);
            kept.push((index, at, claim));
            continue;
        }
        let base = claim.base;
        if floating.is_some_and(|(_, _, floating)| floating.base == base) {
            // The former manager's port holds the LID; that port gets the LID that this manager's
            // port had.
            continue;
        }
        plan.findings.push(Finding::new(
            FindingKind::LidConflict,
            Subject::Port(fabric.key(at)),
            Severity::Warning,
            format!("{} ({guid}) held LID {base}, but another port has the stronger right to this LID, or no switch can forward to it; the port gets a new LID", fabric.port_name(fabric.key(at))),
        ));
    }
    for (index, at, claim) in kept {
        let full = Claim {
            lmc: wanted_lmc(fabric, at, policy),
            ..claim
        };
        // A range that the port holds already stays, whatever a virtual port says.
        let is_held = fabric.port(at).lmc() == full.lmc;
        let is_kept = is_held || !space.has_vport_above_base(full);
        let claim = if space.is_free_for(full, index) && is_kept {
            full
        } else {
            plan.findings.push(lmc_not_applied(fabric, at, full));
            claim
        };
        space.occupy(claim, index);
        plan.lids.insert(fabric.key(at), claim);
    }
}

/// A port with a LID that it keeps, unless another port has the stronger right to the LID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    right: Right,
    guid: Guid,
    /// Position among the ports.
    index: usize,
    at: PortRef,
    lid: Lid,
}

/// The ports that hold a LID, in descending order of their right to it. A port whose LID was
/// overwritten counts as the holder of the LID that it claims.
fn holders(fabric: &Fabric, ports: &[PortRef], claims: &Claims, rights: &LidRights) -> Vec<Holder> {
    let of_port = |(index, &at): (usize, &PortRef)| {
        let port = fabric.port(at);
        let guid = port.guid;
        let claim = claims.get(&guid);
        let overwritten = claim.filter(|_| rights.overwritten.contains(&guid));
        let lid = overwritten.map_or(port.lid(), |claim| claim.base);
        let right = Right::of(claim, lid, rights.given.contains(&guid));
        lid.is_unicast().then_some(Holder {
            right,
            guid,
            index,
            at,
            lid,
        })
    };
    let mut holders: Vec<Holder> = ports.iter().enumerate().filter_map(of_port).collect();
    holders.sort_unstable();
    holders
}

/// The finding about a port that keeps one LID, because other ports or virtual ports hold LIDs of
/// `full`.
fn lmc_not_applied(fabric: &Fabric, at: PortRef, full: Claim) -> Finding {
    let (key, Claim { base, lmc }) = (fabric.key(at), full);
    let text = format!(
        "{} keeps LID {base} with LMC 0: with LMC {lmc}, the port would have to move to other LIDs",
        fabric.port_name(key)
    );
    let kind = FindingKind::LmcNotApplied;
    Finding::new(kind, Subject::Port(key), Severity::Info, text)
}

/// Gives ports without a LID the LIDs that they claim, if these LIDs are free.
fn restore_claimed(
    fabric: &Fabric,
    ports: &[PortRef],
    claims: &Claims,
    policy: &Policy,
    space: &mut Space,
    plan: &mut LidPlan,
) {
    for (index, &at) in ports.iter().enumerate() {
        if plan.lids.contains_key(&fabric.key(at)) {
            continue;
        }
        let Some(claim) = claims.get(&fabric.port(at).guid) else {
            continue;
        };
        let full = Claim {
            base: claim.base,
            lmc: wanted_lmc(fabric, at, policy),
        };
        if space.is_free(full) {
            space.occupy(full, index);
            plan.lids.insert(fabric.key(at), full);
        }
    }
}

/// Reserves the LIDs that absent ports claim.
fn reserve_for_absent(fabric: &Fabric, claims: &Claims, space: &mut Space) {
    let present: std::collections::BTreeSet<Guid> =
        fabric.end_ports().map(|(_, port)| port.guid).collect();
    for claim in claims
        .iter()
        .filter(|(guid, _)| !present.contains(guid))
        .map(|(_, claim)| claim)
    {
        let first = claim.base.index();
        for lid in first..first + claim.lmc.lids() as usize {
            if let Some(reserved) = space.reserved.get_mut(lid) {
                *reserved = true;
            }
        }
    }
}

/// Assigns new LIDs to all ports without a LID. A port for which no LID is left is recorded in
/// `left_out`.
fn assign_new(
    fabric: &Fabric,
    layout: &Layout,
    policy: &Policy,
    block: Option<Lid>,
    space: &mut Space,
    plan: &mut LidPlan,
) {
    let block = block.map(|lid| (lid.0, false));
    // The search for each LMC continues from its last result.
    let mut cursors: BTreeMap<(Lmc, (u16, bool)), u16> = BTreeMap::new();
    for (index, &at) in layout.ports.iter().enumerate() {
        if plan.lids.contains_key(&fabric.key(at)) {
            continue;
        }
        let lmc = wanted_lmc(fabric, at, policy);
        let lowest = match fabric.node(at.node).kind() {
            NodeType::Switch => 1,
            _ => layout.first_host_lid,
        };
        let searches = block.into_iter().chain([(1, false), (1, true)]);
        let found = { searches }.find_map(|(from, allow_reserved)| {
            let cursor = cursors.entry((lmc, (from, allow_reserved))).or_insert(from);
            let claim = space.lowest_free(lowest.max(*cursor), lmc, allow_reserved)?;
            *cursor = claim.base.0;
            Some(claim)
        });
        match found {
            Some(claim) => {
                space.occupy(claim, index);
                plan.lids.insert(fabric.key(at), claim);
            }
            None => plan.left_out.push(at),
        }
    }
}

#[cfg(test)]
mod tests;
