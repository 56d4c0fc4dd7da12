//! Incremental LID assignment for a fabric in which only a few ports appeared or vanished.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Lid, PortKey};
use rsm_model::fabric::{Fabric, Node, PortRef};

use super::super::policy::Policy;
use super::table_limit::last_entry;
use super::{Claim, Claims, LidPlan, vports, wanted_lmc};

/// Assigns LIDs to `fabric` with the same result as [`assign`](super::assign), but reads only the
/// ports at which the fabrics differ. `previous` has the LIDs of the fabric `before`.
///
/// `None` if a full assignment is needed: a port that differs has no claim, holds or had other LIDs
/// than it claims, or claims LIDs of another port; the table of a switch may be too small; or the
/// previous assignment had findings.
pub(crate) fn follow(
    previous: &Arc<LidPlan>,
    before: &Fabric,
    fabric: &Fabric,
    (claims, block): (&Claims, Option<Lid>),
    policy: &Policy,
) -> Option<Arc<LidPlan>> {
    let ports = follow_ports(previous, before, fabric, claims, policy)?;
    // Without virtual ports, the LIDs of the ports are the whole plan.
    let has_same_ports = Arc::ptr_eq(&ports, previous) || previous.vports.is_empty();
    if has_same_ports && !vports::may_differ(before, fabric) {
        return Some(ports);
    }
    let mut plan = LidPlan::clone(&ports);
    vports::assign(fabric, Some(claims), block, &mut plan);
    Some(if plan == *ports {
        ports
    } else {
        Arc::new(plan)
    })
}

/// Assigns LIDs as [`follow`] does, except that virtual ports keep their LIDs.
fn follow_ports(
    previous: &Arc<LidPlan>,
    before: &Fabric,
    fabric: &Fabric,
    claims: &Claims,
    policy: &Policy,
) -> Option<Arc<LidPlan>> {
    if !previous.findings.is_empty() || !previous.left_out.is_empty() {
        return None;
    }
    let mut vanished = BTreeSet::new();
    let mut appeared = BTreeMap::new();
    for (old, new) in before.differing(fabric) {
        if table_may_be_too_small(old, new, previous) {
            return None;
        }
        let mut lost: BTreeSet<PortKey> = old.into_iter().flat_map(ends).collect();
        for key in new.into_iter().flat_map(ends) {
            let at = fabric.find_port(key)?;
            let earlier = previous.lids.get(&key).copied();
            let claim = claim_of(fabric, at, claims, policy)?;
            let same_port = before
                .find_port(key)
                .is_some_and(|before_at| before.port(before_at).guid == fabric.port(at).guid);
            match earlier {
                Some(earlier) if same_port && earlier == claim => {
                    lost.remove(&key);
                }
                Some(_) => return None,
                None => {
                    appeared.insert(key, claim);
                }
            }
        }
        vanished.extend(lost);
    }
    if vanished.is_empty() && appeared.is_empty() {
        return Some(previous.clone());
    }
    let mut plan = LidPlan::clone(previous);
    plan.lids.retain(|key, _| !vanished.contains(key));
    if !appeared.is_empty() {
        // A switch that appeared while a port was absent may have no table entry for the port's
        // claimed LIDs.
        let tables = fabric.switches().filter_map(|(_, node)| last_entry(node));
        let smallest = tables.min().unwrap_or(u16::MAX);
        if appeared.values().any(|claim| last_lid(claim) > smallest) {
            return None;
        }
        let mut taken = vec![false; usize::from(Lid::UNICAST_LAST.0) + 1];
        for &claim in plan.lids.values().chain(appeared.values()) {
            let lids = taken.get_mut(claim.base.index()..)?;
            for lid in lids.get_mut(..usize::from(claim.lmc.lids()))? {
                if std::mem::replace(lid, true) {
                    return None;
                }
            }
        }
    }
    plan.lids.extend(appeared);
    Some(Arc::new(plan))
}

/// The ports of a node that hold LIDs.
fn ends(node: &Node) -> impl Iterator<Item = PortKey> {
    node.end_ports()
        .map(|(port, _)| PortKey::new(node.guid, port))
}

/// The last LID of a claim.
fn last_lid(claim: &Claim) -> u16 {
    claim.base.0.saturating_add(claim.lmc.lids() - 1)
}

/// Whether the forwarding table of a new or changed switch may be too small for LIDs in use.
fn table_may_be_too_small(old: Option<&Node>, new: Option<&Node>, plan: &LidPlan) -> bool {
    let cap = |node: Option<&Node>| Some(node?.switch.as_ref()?.linear_fdb_cap());
    match cap(new) {
        None => false,
        now if now == cap(old) => false,
        // A size missing in SwitchInfo is no limit, as in the full assignment.
        Some(0 | 1) => false,
        Some(now) => {
            plan.lids.values().any(|claim| last_lid(claim) >= now)
                || plan.vports.values().any(|lid| lid.0 >= now)
        }
    }
}

/// The port's claimed LIDs; `None` if it has no claim or holds different LIDs.
fn claim_of(fabric: &Fabric, at: PortRef, claims: &Claims, policy: &Policy) -> Option<Claim> {
    let port = fabric.port(at);
    let claim = Claim {
        base: claims.get(&port.guid)?.base,
        lmc: wanted_lmc(fabric, at, policy),
    };
    let holds_another = port.lid().is_unicast() && port.lid() != claim.base;
    let fits = claim.base.is_unicast() && claim.lmc.aligns(claim.base);
    (fits && !holds_another).then_some(claim)
}
