//! Paths to multicast groups.

use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{ComponentMask, PathRecord, SaStatus, Selector};

use super::constraints::PathConstraints;
use crate::answer::Body;
use crate::ends::EndIx;
use crate::mcast::MulticastGroup;
use crate::query_context::SaQueryContext;

/// Answers a query for the path to a multicast group: at most one path.
///
/// # Errors
/// ERR_NO_RECORDS for a Get without a path.
pub(super) fn answer(
    context: &SaQueryContext<'_>,
    record: &PathRecord,
    mask: ComponentMask,
    constraints: &PathConstraints,
) -> Result<Body, Status> {
    let group = context.view.group(record.dgid());
    let path = group.and_then(|group| path(context, record, mask, constraints, group));
    match (path, context.header.mad().method()) {
        (Some(path), Method::GET) => Ok(Body::record(&path)),
        (None, Method::GET) => Err(SaStatus::NO_RECORDS),
        (path, _) => Ok(Body::table(path.into_iter().map(Some))),
    }
}

/// The path to `group`. `None` if the group does not match the query, if the source in the query is
/// not a member, or if the requester may not see the group.
fn path(
    context: &SaQueryContext<'_>,
    record: &PathRecord,
    mask: ComponentMask,
    constraints: &PathConstraints,
    group: &MulticastGroup,
) -> Option<PathRecord> {
    let directory = context.directory;
    let parameters = &group.parameters;
    let has = |component| mask.contains(component);
    // An untrusted requester sees only groups of its own partitions.
    let in_partition = |ix: EndIx| {
        let keys = directory.p_keys(ix);
        keys.iter().any(|key| key.base() == parameters.p_key.base())
    };
    if !context.trust.is_trusted() && !in_partition(context.requester) {
        return None;
    }
    // A source in the query must be a member.
    let mut source = None;
    for (component, end) in [
        (PathRecord::SGID, directory.by_gid(record.sgid())),
        (PathRecord::SLID, directory.by_lid(record.slid())),
    ] {
        if has(component) {
            let end = end.filter(|&end| {
                context
                    .view
                    .is_member(parameters.mgid, directory.end(end).guid)
                    && source.is_none_or(|other| other == end)
            })?;
            source = Some(end);
        }
    }
    let source = source.unwrap_or(context.requester);
    let is_match = (!has(PathRecord::DLID) || record.dlid() == group.mlid)
        && (!has(PathRecord::P_KEY) || record.p_key().base() == parameters.p_key.base())
        && (!has(PathRecord::SL) || record.sl() == parameters.sl)
        && (!has(PathRecord::FLOW_LABEL) || record.flow_label() == parameters.flow_label)
        && (!has(PathRecord::HOP_LIMIT) || record.hop_limit() == parameters.hop_limit)
        && (!has(PathRecord::T_CLASS) || record.t_class() == parameters.t_class)
        && constraints.numb_path != Some(0)
        && !constraints.raw_traffic
        // A group has exactly one MTU and one rate.
        && constraints.mtu(parameters.mtu) == Some(parameters.mtu)
        && constraints.rate(parameters.rate) == Some(parameters.rate)
        && constraints.packet_life_time(parameters.packet_life_time) == Some(parameters.packet_life_time);
    if !is_match {
        return None;
    }
    let mut path = PathRecord::default();
    path.set_service_id(constraints.service_id.unwrap_or(0))
        .set_sgid(if has(PathRecord::SGID) {
            record.sgid()
        } else {
            directory.gid(source)
        })
        .set_dgid(parameters.mgid)
        .set_slid(if has(PathRecord::SLID) {
            record.slid()
        } else {
            directory.end(source).lid
        })
        .set_dlid(group.mlid)
        .set_flow_label(parameters.flow_label)
        .set_hop_limit(parameters.hop_limit)
        .set_t_class(parameters.t_class)
        .set_p_key(parameters.p_key)
        .set_sl(parameters.sl)
        .set_mtu_selector(Selector::Exactly)
        .set_mtu(parameters.mtu)
        .set_rate_selector(Selector::Exactly)
        .set_rate(parameters.rate)
        .set_packet_life_time_selector(Selector::Exactly)
        .set_packet_life_time(parameters.packet_life_time);
    Some(path)
}
