//! Paths to multicast groups.

use std::fmt::Debug;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, PathRecord, Rate, SaStatus, Selector};

use super::wishes::Wishes;
use crate::sa::answer::Body;
use crate::sa::directory::EndIx;
use crate::sa::query::Asked;

/// A multicast group, as far as a path to it says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The group.
    pub mgid: Gid,
    /// Its LID.
    pub mlid: Lid,
    /// Its partition.
    pub p_key: PKey,
    /// The largest payload of its packets.
    pub mtu: Mtu,
    /// The rate of its packets.
    pub rate: Rate,
    /// How long its packets may be on their way: 4.096 µs × 2^value.
    pub packet_life_time: u8,
    /// Their service level.
    pub sl: u8,
    /// Their FlowLabel.
    pub flow_label: u32,
    /// Their HopLimit.
    pub hop_limit: u8,
    /// Their TClass.
    pub t_class: u8,
}

/// The multicast groups of the subnet.
pub trait Groups: Debug + Send + Sync {
    /// The group with this MGID.
    fn group(&self, mgid: Gid) -> Option<Group>;

    /// Whether the port takes part in the group.
    fn is_member(&self, mgid: Gid, port: Guid) -> bool;
}

/// There is none.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoGroups;

impl Groups for NoGroups {
    fn group(&self, _: Gid) -> Option<Group> {
        None
    }

    fn is_member(&self, _: Gid, _: Guid) -> bool {
        false
    }
}

/// The path to a group.
pub(super) fn answer(
    asked: &Asked<'_>,
    record: &PathRecord,
    mask: ComponentMask,
    wishes: &Wishes,
) -> Result<Body, Status> {
    let group = asked.groups.group(record.dgid());
    let path = group.and_then(|group| path(asked, record, mask, wishes, &group));
    match (path, asked.header.mad().method()) {
        (Some(path), Method::GET) => Ok(Body::record(&path)),
        (None, Method::GET) => Err(SaStatus::NO_RECORDS),
        (path, _) => Ok(Body::table(path.into_iter().map(Some))),
    }
}

fn path(
    asked: &Asked<'_>,
    record: &PathRecord,
    mask: ComponentMask,
    wishes: &Wishes,
    group: &Group,
) -> Option<PathRecord> {
    let directory = asked.directory;
    let has = |component| mask.contains(component);
    // Who asks sees the groups of its own partitions.
    let in_partition = |ix: EndIx| {
        let keys = directory.p_keys(ix);
        keys.iter().any(|key| key.base() == group.p_key.base())
    };
    if !asked.trust.is_trusted() && !in_partition(asked.requester) {
        return None;
    }
    // A source is one of the members.
    let mut source = None;
    for (component, end) in [
        (PathRecord::SGID, directory.by_gid(record.sgid())),
        (PathRecord::SLID, directory.by_lid(record.slid())),
    ] {
        if has(component) {
            let end = end.filter(|&end| {
                asked.groups.is_member(group.mgid, directory.end(end).guid)
                    && source.is_none_or(|other| other == end)
            })?;
            source = Some(end);
        }
    }
    let source = source.unwrap_or(asked.requester);
    let wanted = (!has(PathRecord::DLID) || record.dlid() == group.mlid)
        && (!has(PathRecord::P_KEY) || record.p_key().base() == group.p_key.base())
        && (!has(PathRecord::SL) || record.sl() == group.sl)
        && (!has(PathRecord::FLOW_LABEL) || record.flow_label() == group.flow_label)
        && (!has(PathRecord::HOP_LIMIT) || record.hop_limit() == group.hop_limit)
        && (!has(PathRecord::T_CLASS) || record.t_class() == group.t_class)
        && wishes.numb_path != Some(0)
        && !wishes.raw_traffic
        // A group has one MTU and one rate, no more and no less.
        && wishes.mtu(group.mtu) == Some(group.mtu)
        && wishes.rate(group.rate) == Some(group.rate)
        && wishes.packet_life_time(group.packet_life_time) == Some(group.packet_life_time);
    if !wanted {
        return None;
    }
    let mut path = PathRecord::default();
    path.set_service_id(wishes.service_id)
        .set_sgid(if has(PathRecord::SGID) {
            record.sgid()
        } else {
            directory.gid(source)
        })
        .set_dgid(group.mgid)
        .set_slid(if has(PathRecord::SLID) {
            record.slid()
        } else {
            directory.end(source).lid
        })
        .set_dlid(group.mlid)
        .set_flow_label(group.flow_label)
        .set_hop_limit(group.hop_limit)
        .set_t_class(group.t_class)
        .set_p_key(group.p_key)
        .set_sl(group.sl)
        .set_mtu_selector(Selector::Exactly)
        .set_mtu(group.mtu)
        .set_rate_selector(Selector::Exactly)
        .set_rate(group.rate)
        .set_packet_life_time_selector(Selector::Exactly)
        .set_packet_life_time(group.packet_life_time);
    Some(path)
}
