//! Partitions of the plan in force, in the form of the API.

use std::collections::BTreeMap;

use rsm_api::model::{Keyed, Membership, Page, PortId};
use rsm_api::resolve::NameLookup as _;
use rsm_api::{LookupError, v1};
use rsm_config::overlay::PartitionSettings;
use rsm_config::{self, PartitionMembers, PartitionOrigin};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Mtu, NodeType, PKey};
use rsm_mad::wire::sa::Rate;
use rsm_plan::Plan;

use super::api_view::api_key;
use super::overlay;
use super::published::Published;
use super::subnet::page;

/// Page of partitions after the key `after`, each with the number of its ports.
pub(super) fn partitions(
    published: &Published,
    after: Option<u16>,
    limit: usize,
) -> Page<Keyed<u16, v1::Partition>> {
    let Some(plan) = published.plan() else {
        return page(published, std::iter::empty(), limit);
    };
    let counts = counts(plan);
    let protections = plan.policy.partitions.protections.by_partition();
    let all = &plan.policy.partitions.list;
    let begin = all.partition_point(|one| after.is_some_and(|after| one.p_key.base() <= after));
    let partitions = all[begin..].iter().map(|partition| {
        let rsm_config::Partition {
            p_key,
            name,
            sl,
            ipoib,
            groups,
            origin,
        } = partition;
        let (full, limited) = counts.get(&p_key.base()).copied().unwrap_or_default();
        let made = published.snapshot.overlay.find(p_key.base());
        let ours = made.filter(|_| *origin == PartitionOrigin::Api);
        let (mtu, rate) = parameters(partition, ours.map(|made| &made.settings));
        Keyed {
            key: p_key.base(),
            message: v1::Partition {
                p_key: p_key.base().into(),
                name: name.clone(),
                full_members: full,
                limited_members: limited,
                ipoib: *ipoib,
                service_level: (*sl).into(),
                groups: u32::try_from(groups.len()).unwrap_or(u32::MAX),
                origin: match origin {
                    PartitionOrigin::BuiltIn => v1::PartitionOrigin::BuiltIn,
                    PartitionOrigin::File => v1::PartitionOrigin::File,
                    PartitionOrigin::Api => v1::PartitionOrigin::Api,
                }
                .into(),
                api_members: made.map_or(0, |made| made.members.len() as u64),
                created_by: ours.map_or_else(String::new, |made| made.by.clone()),
                created_unix_ms: ours.map_or(0, |made| made.since_unix_ms),
                mtu_bytes: mtu.bytes().unwrap_or_default().into(),
                hosts_membership: of_hosts(&plan.policy.partitions, *p_key).into(),
                rate_gbps: f64::from(rate.tenth_gbps().unwrap_or_default()) / 10.0,
                protection: protections
                    .get(&p_key.base())
                    .map(overlay::shown_protection),
            },
        }
    });
    page(published, partitions, limit)
}

/// Membership of the channel adapters that no rule names; unspecified if such adapters are no
/// members.
fn of_hosts(partitions: &rsm_config::Partitions, p_key: PKey) -> Membership {
    let rules = partitions.rules.iter().rev();
    let of_kind = |members: PartitionMembers| {
        matches!(
            members,
            PartitionMembers::All | PartitionMembers::ChannelAdapters
        )
    };
    let mut rules = rules.filter(|rule| rule.p_key == p_key && of_kind(rule.members));
    let last = rules.next();
    last.map_or(Membership::Unspecified, |rule| shown(rule.membership))
}

fn shown(membership: rsm_config::Membership) -> Membership {
    match membership {
        rsm_config::Membership::Full => Membership::Full,
        rsm_config::Membership::Limited => Membership::Limited,
        rsm_config::Membership::Both => Membership::Both,
    }
}

/// MTU and rate of a partition's broadcast group, or the values that it would have if it existed.
fn parameters(partition: &rsm_config::Partition, made: Option<&PartitionSettings>) -> (Mtu, Rate) {
    let group = partition.groups.first();
    match (group, made) {
        (_, Some(made)) => (made.mtu, made.rate),
        (Some(group), None) => (group.mtu, Rate(group.rate)),
        (None, None) => {
            let plain = PartitionSettings::plain(partition.p_key.base());
            (plain.mtu, plain.rate)
        }
    }
}

/// Page of the port GUIDs, after the key `after`, that requests of the API made members of the
/// partition with this P_Key. The membership bit of `p_key` is ignored.
pub(super) fn guids(
    published: &Published,
    p_key: u16,
    after: Option<Guid>,
    limit: usize,
) -> Result<Page<Keyed<Guid, v1::PartitionGuid>>, LookupError> {
    let base = PKey(p_key).base();
    let overlay = &published.snapshot.overlay;
    let plan = published.plan();
    let is_there = plan.is_some_and(|plan| plan.policy.partitions.find(PKey(base)).is_some());
    let made = overlay.find(base);
    if !is_there && made.is_none() {
        return Err(LookupError::NoSuchPartition { p_key });
    }
    let members = made.into_iter().flat_map(|made| &made.members);
    let members = members.filter(|(guid, _)| after.is_none_or(|after| **guid > after));
    let guids = members.map(|(&guid, member)| {
        let port = published.names.port_of_guid(guid);
        let node = port.and_then(|port| published.fabric().node_of(port.node));
        Keyed {
            key: guid,
            message: v1::PartitionGuid {
                guid: guid.to_string(),
                membership: shown(member.membership).into(),
                index0: member.index0,
                port: port.map(Into::into),
                description: node.map_or_else(String::new, |node| node.description.clone()),
            },
        }
    });
    Ok(page(published, guids, limit))
}

/// Page of the ports, after the key `after`, that are members of the partition with this P_Key. The
/// membership bit of `p_key` is ignored.
pub(super) fn members(
    published: &Published,
    p_key: u16,
    after: Option<PortId>,
    limit: usize,
) -> Result<Page<Keyed<PortId, v1::PartitionMember>>, LookupError> {
    let p_key = PKey(p_key);
    let plan = published
        .plan()
        .filter(|plan| plan.policy.partitions.find(p_key).is_some())
        .ok_or(LookupError::NoSuchPartition { p_key: p_key.0 })?;
    let members = end_ports(plan).filter_map(|(port, table)| {
        let key = api_key(port);
        if after.is_some_and(|after| key <= after) {
            return None;
        }
        let (membership, index) = membership(table, p_key)?;
        let message = v1::PartitionMember {
            port: Some(key.into()),
            description: plan.fabric.node_of(port.node)?.description.clone(),
            membership: membership.into(),
            index: index.into(),
        };
        Some(Keyed { key, message })
    });
    Ok(page(published, members, limit))
}

/// Partitions of which a port is a member, in ascending order of P_Key.
pub(super) fn of_port(published: &Published, port: PortKey) -> Vec<v1::PortPartition> {
    let plan = published.plan().filter(|plan| is_end(plan, port));
    let Some((plan, table)) = plan.and_then(|plan| Some((plan, plan.partitions.table(port)?)))
    else {
        return Vec::new();
    };
    let partitions = plan.policy.partitions.list.iter();
    let of_port = partitions.filter_map(|partition| {
        let (membership, index) = membership(table, partition.p_key)?;
        Some(v1::PortPartition {
            p_key: partition.p_key.base().into(),
            name: partition.name.clone(),
            membership: membership.into(),
            index: index.into(),
        })
    });
    of_port.collect()
}

/// Whether a port can be a member of partitions, unlike a switch port that enforces them.
fn is_end(plan: &Plan, port: PortKey) -> bool {
    let node = plan.fabric.node_of(port.node);
    port.port == PortNum::ZERO || node.is_some_and(|node| node.kind() != NodeType::Switch)
}

/// P_KeyTables of end ports, in ascending order of port key. Switch ports that enforce partitions
/// are left out, because they are no members.
fn end_ports(plan: &Plan) -> impl Iterator<Item = (PortKey, &[PKey])> {
    let tables = plan.partitions.tables();
    tables
        .filter(move |&(port, _)| is_end(plan, port))
        .map(|(port, table)| (port, &table[..]))
}

/// Membership that `table` gives its port in a partition, and the index of the P_Key; `None` if the
/// port is no member.
fn membership(table: &[PKey], p_key: PKey) -> Option<(Membership, u16)> {
    let find = |full: bool| {
        let wanted = |key: &PKey| key.base() == p_key.base() && key.is_full() == full;
        table.iter().position(wanted).map(|index| index as u16)
    };
    match (find(true), find(false)) {
        (Some(index), None) => Some((Membership::Full, index)),
        (Some(index), Some(_)) => Some((Membership::Both, index)),
        (None, Some(index)) => Some((Membership::Limited, index)),
        (None, None) => None,
    }
}

/// Numbers of full and of limited members, by base P_Key. A port with both P_Keys of a partition
/// counts as a full member.
fn counts(plan: &Plan) -> BTreeMap<u16, (u64, u64)> {
    let mut counts: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (_, table) in end_ports(plan) {
        for key in table.iter().filter(|key| key.is_valid()) {
            let (full, limited) = counts.entry(key.base()).or_default();
            if key.is_full() {
                *full += 1;
            } else if !table.contains(&PKey(key.0 | 0x8000)) {
                *limited += 1;
            }
        }
    }
    counts
}
