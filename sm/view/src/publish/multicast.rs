//! Multicast groups in the form of the API: members from the SA, trees from the plan in force.

use std::ops::Bound;

use rsm_api::limits::MAX_CANDIDATES;
use rsm_api::model::{GroupSelector, JoinState, Keyed, MulticastGroupFilter, Page};
use rsm_api::v1_fields::gbps;
use rsm_api::{Candidate, LookupError, v1};
use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_mad::wire::sa::JoinState as Bits;
use rsm_model::fabric::PortRef;
use rsm_plan::Plan;
use rsm_routing::mcast::Tree;
use rsm_routing::topology::SwitchIdx;
use rsm_sa::mcast::{GroupsView, MulticastGroup, MulticastMember};

use super::api_view::core_key;
use super::published::Published;
use super::subnet::page;

/// Page of groups after the key `after` that `filter` matches.
pub(super) fn groups(
    published: &Published,
    view: &GroupsView,
    after: Option<Gid>,
    limit: usize,
    filter: &MulticastGroupFilter,
) -> Page<Keyed<Gid, v1::MulticastGroup>> {
    // A port that has vanished since the lookup is in no group.
    let port = filter.port.map(|key| {
        let at = published.fabric().find_port(core_key(key));
        at.map(|at| published.fabric().port(at).guid)
    });
    let wanted = |group: &&MulticastGroup| {
        let partition = filter.p_key.is_none_or(|p_key| {
            let base = |key: u16| key & 0x7fff;
            base(group.parameters.p_key.0) == base(p_key)
        });
        let takes_part = |port: Option<Guid>| {
            let mut members = group.members.values();
            members.any(|member| Some(member.port) == port)
        };
        partition && port.is_none_or(takes_part)
    };
    let groups = view.groups_after(after).filter(wanted);
    let shown = groups.map(|one| Keyed {
        key: one.parameters.mgid,
        message: group(published, one),
    });
    page(published, shown, limit)
}

/// The group that `selector` refers to.
pub(super) fn find(
    view: &GroupsView,
    selector: GroupSelector,
) -> Result<&MulticastGroup, LookupError> {
    let missing = LookupError::NoSuchGroup { group: selector };
    let mlid = match selector {
        GroupSelector::Mgid(mgid) => return view.group(mgid).ok_or(missing),
        GroupSelector::Mlid(mlid) => mlid,
    };
    let sharing: Vec<&MulticastGroup> = view.groups().filter(|group| group.mlid == mlid).collect();
    match *sharing.as_slice() {
        [] => Err(missing),
        [group] => Ok(group),
        _ => Err(LookupError::Ambiguous {
            selector: selector.to_string(),
            candidates: sharing
                .iter()
                .take(MAX_CANDIDATES)
                .map(|group| Candidate {
                    name: group.parameters.mgid.to_string(),
                    facts: String::new(),
                })
                .collect(),
            total: sharing.len(),
        }),
    }
}

/// Converts a group to a message.
pub(super) fn group(published: &Published, group: &MulticastGroup) -> v1::MulticastGroup {
    let parameters = &group.parameters;
    let full = group
        .members
        .values()
        .filter(|member| member.keeps_alive())
        .count();
    let switches = tree(published, group.mlid).map_or(0, |(_, tree)| tree.masks.len());
    v1::MulticastGroup {
        mgid: parameters.mgid.to_string(),
        mlid: group.mlid.0.into(),
        p_key: parameters.p_key.0.into(),
        q_key: parameters.q_key,
        // The SA accepts only groups whose MTU and rate have defined codes.
        mtu_bytes: parameters.mtu.bytes().unwrap_or(0).into(),
        rate_gbps: gbps(parameters.rate.tenth_gbps().unwrap_or(0)),
        service_level: parameters.sl.into(),
        packet_life_time: parameters.packet_life_time.into(),
        traffic_class: parameters.t_class.into(),
        flow_label: parameters.flow_label,
        hop_limit: parameters.hop_limit.into(),
        scope: parameters.scope.into(),
        well_known: group.well_known,
        members: group.members.len() as u64,
        full_members: full as u64,
        switches: switches as u64,
    }
}

/// Page of a group's members after the key `after`.
pub(super) fn members(
    published: &Published,
    group: &MulticastGroup,
    after: Option<Guid>,
    limit: usize,
) -> Page<Keyed<Guid, v1::MulticastMember>> {
    let tree = tree(published, group.mlid);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let members = group.members.range((from, Bound::Unbounded));
    let shown = members.map(|(_, member)| {
        let at = published.index().port_of_guid(member.port);
        let (port, description) = published.port_and_description(member.port);
        let message = v1::MulticastMember {
            gid: member.gid.to_string(),
            port_guid: member.port.to_string(),
            port,
            description,
            join_states: join_states(member),
            proxy: member.proxy,
            served: at
                .zip(tree)
                .is_some_and(|(at, (plan, tree))| is_served(published, plan, tree, at)),
        };
        Keyed {
            key: member.gid.guid(),
            message,
        }
    });
    page(published, shown, limit)
}

/// Page of switches after the key `after` that forward packets for a multicast LID.
pub(super) fn switches(
    published: &Published,
    mlid: Lid,
    after: Option<Guid>,
    limit: usize,
) -> Page<Keyed<Guid, v1::MulticastSwitch>> {
    let mut switches = Vec::new();
    if let Some((plan, tree)) = tree(published, mlid) {
        let masks = tree.masks.iter();
        let by_guid = masks.map(|&(switch, mask)| (plan.topology.switch(switch).guid, mask));
        switches.extend(by_guid.filter(|&(guid, _)| after.is_none_or(|after| guid > after)));
        switches.sort_unstable_by_key(|&(guid, _)| guid);
    }
    let fabric = published.fabric();
    let shown = switches.into_iter().map(|(guid, mask)| Keyed {
        key: guid,
        message: v1::MulticastSwitch {
            guid: guid.to_string(),
            description: fabric
                .find(guid)
                .map(|ix| fabric.node(ix).description.clone())
                .unwrap_or_default(),
            ports: mask.ports().map(|port| port.0.into()).collect(),
        },
    });
    page(published, shown, limit)
}

/// The tree of a multicast LID, and the plan that its switch indices refer to; `None` if the plan
/// has no tree.
fn tree(published: &Published, mlid: Lid) -> Option<(&Plan, &Tree)> {
    let plan = published.plan()?;
    let trees = &plan.multicast.as_ref()?.trees;
    Some((plan, trees.by_mlid.get(&mlid)?))
}

/// Whether `tree` connects the port with other members.
fn is_served(published: &Published, plan: &Plan, tree: &Tree, at: PortRef) -> bool {
    let Some(place) = leaf_port(published, plan, at) else {
        return false;
    };
    tree.parts.iter().any(|part| {
        let found = part.binary_search_by_key(&place, |member| (member.switch, member.port));
        found.is_ok()
    })
}

/// Switch and port to which an end port is cabled; port 0 for a switch itself. `None` if the port
/// is not cabled to a switch.
fn leaf_port(published: &Published, plan: &Plan, at: PortRef) -> Option<(SwitchIdx, PortNum)> {
    let fabric = published.fabric();
    let is_switch = fabric.node(at.node).is_switch();
    let there = if is_switch { at } else { fabric.peer(at)? };
    let switch = plan.topology.switch_by_guid(fabric.node(there.node).guid)?;
    Some((switch, there.port))
}

fn join_states(member: &MulticastMember) -> Vec<i32> {
    let states = [
        (Bits::FULL_MEMBER, JoinState::FullMember),
        (Bits::NON_MEMBER, JoinState::NonMember),
        (Bits::SEND_ONLY_NON_MEMBER, JoinState::SendOnlyNonMember),
        (Bits::SEND_ONLY_FULL_MEMBER, JoinState::SendOnlyFullMember),
    ];
    let held = states
        .into_iter()
        .filter(|(bit, _)| member.state.0 & bit.0 != 0);
    held.map(|(_, state)| state.into()).collect()
}
