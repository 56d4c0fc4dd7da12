//! Requests to change records that breach the rules of trust: in the name of another port, or for
//! an MGID or alias GUID that another partition owns.

use rsm_config::TrustMode;
use rsm_ids::Guid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::{GuidInfoRecord, McMemberRecord, Record as _, SaHeader};

use crate::directory::Directory;
use crate::ends::EndIx;
use crate::mcast::{self, GroupRegistry};
use crate::trust::{self, Offence, TrustRules};

/// The offence of a request from `requester`, and its treatment; of two offences, the one with the
/// stricter treatment. `None` if there is no offence, or if the treatment is `off`.
pub(crate) fn breach(
    rules: &TrustRules,
    directory: &Directory,
    groups: &GroupRegistry,
    requester: EndIx,
    request: (&SaHeader, &[u8]),
) -> Option<(Offence, TrustMode)> {
    let of_port = trust::offence(directory, requester, request)
        .map(|(offence, subject)| (offence, rules.of_port(directory, subject)));
    let protections = &directory.plan.policy.partitions.protections;
    let offence_against_owner = offence_against_owner(directory, groups, request)
        .map(|(offence, owner)| (offence, protections.trust(owner).unwrap_or(rules.mode)));
    let treated = [offence_against_owner, of_port].into_iter().flatten();
    let strictest = treated.max_by_key(|&(_, mode)| mode);
    strictest.filter(|&(_, mode)| mode != TrustMode::Off)
}

/// The offence of a request for an MGID or alias GUID of another partition, and the P_Key of the
/// partition that owns it; `None` for other requests.
fn offence_against_owner(
    directory: &Directory,
    groups: &GroupRegistry,
    (header, data): (&SaHeader, &[u8]),
) -> Option<(Offence, PKey)> {
    if header.mad().method() != Method::SET {
        return None;
    }
    match header.mad().attribute() {
        McMemberRecord::ID => {
            let record = McMemberRecord::from_prefix(data)?;
            let owner = owner_of_group(directory, groups, header, record)?;
            Some((Offence::ForeignGroup, owner))
        }
        GuidInfoRecord::ID => {
            let record = GuidInfoRecord::from_prefix(data)?;
            let owner = owner_of_aliases(directory, header, record)?;
            Some((Offence::ForeignAlias, owner))
        }
        _ => None,
    }
}

/// The partition that owns the MGID of a join, if the group is or would be in another partition, or
/// if the port is not a member of the owning partition; `None` otherwise.
///
/// An MGID of IP over InfiniBand contains the P_Key of its partition (RFC 4391, 4), which owns it.
/// A join with that P_Key is no offence, even if the port is not a member: the host has merely
/// configured one interface too many.
fn owner_of_group(
    directory: &Directory,
    groups: &GroupRegistry,
    header: &SaHeader,
    record: &McMemberRecord,
) -> Option<PKey> {
    let mgid = record.mgid();
    let of_ip = mcast::ip_partition(mgid).filter(|p_key| p_key.is_valid());
    let protections = &directory.plan.policy.partitions.protections;
    let owner = of_ip.or_else(|| protections.owner_of_group(mgid))?;
    // The P_Key of the request counts, even if the group exists in another partition: a member of
    // the owning partition commits no offence if another host has created the group before.
    let has_key = header.component_mask().contains(McMemberRecord::P_KEY);
    let requested_key = has_key.then(|| record.p_key());
    let key_of_group = || groups.group(mgid).map(|group| group.parameters.p_key);
    let p_key = requested_key.or_else(key_of_group)?;
    let is_foreign = p_key.base() != owner.base()
        || of_ip.is_none() && !is_member(directory, directory.by_gid(record.port_gid())?, owner);
    is_foreign.then_some(owner)
}

/// The partition that owns one of the alias GUIDs of a request, if the port is not a member of that
/// partition; `None` otherwise.
fn owner_of_aliases(
    directory: &Directory,
    header: &SaHeader,
    record: &GuidInfoRecord,
) -> Option<PKey> {
    let port = directory.by_lid(record.lid())?;
    let mask = header.component_mask();
    let is_requested = |index: usize| {
        let component = GuidInfoRecord::guid_component(index);
        component.is_some_and(|component| mask.contains(component))
    };
    let protections = &directory.plan.policy.partitions.protections;
    let guids = record.guid_info().guids().into_iter().enumerate();
    let requested =
        guids.filter(|&(index, guid): &(usize, Guid)| is_requested(index) && !guid.is_zero());
    let mut owners = requested.filter_map(|(_, guid)| protections.owner_of_guid(guid));
    owners.find(|&owner| !is_member(directory, port, owner))
}

/// Whether a port is a full or limited member of the partition of `p_key`.
fn is_member(directory: &Directory, port: EndIx, p_key: PKey) -> bool {
    let keys = directory.p_keys(port);
    keys.iter().any(|key| key.base() == p_key.base())
}
