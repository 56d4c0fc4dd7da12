//! Stores multicast groups, their creators and their members in three tables, so that a join writes
//! one short record. Earlier versions know no creators, and keep their rows.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::{JoinState, Rate};
use rsm_sa::mcast::{
    GroupsView, MulticastGroup, MulticastMember, Parameters, SavedGroup, SavedMember,
};
use rsm_store::journal::RowChange;
use rsm_store::{ChangeSet, Persisted};

use super::table;

/// Table of groups, keyed by MGID.
const GROUPS: &str = "multicast-groups";

/// Table of members, keyed by MGID and PortGID.
const MEMBERS: &str = "multicast-members";

/// Table of the ports whose requests created groups, keyed by MGID.
const CREATORS: &str = "multicast-creators";

/// Length of a GID in bytes.
const GID_LEN: usize = 16;

/// Length of the value of a group in bytes.
const GROUP_LEN: usize = 19;

/// Length of the value of a member in bytes.
const MEMBER_LEN: usize = 10;

/// Groups in the store. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted) -> Vec<SavedGroup> {
    let groups = table::read(persisted, GROUPS, decode_group);
    let mut groups: BTreeMap<Gid, SavedGroup> = groups
        .into_iter()
        .map(|group| (group.parameters.mgid, group))
        .collect();
    table::read(persisted, MEMBERS, |key, value| {
        let (mgid, member) = decode_member(key, value)?;
        groups.get_mut(&mgid)?.members.push(member);
        Some(())
    });
    table::read(persisted, CREATORS, |key, value| {
        let mgid = Gid(u128::from_be_bytes(key.try_into().ok()?));
        let creator = Guid(u64::from_be_bytes(value.try_into().ok()?));
        // An earlier version may have deleted the group and left the row.
        if let Some(group) = groups.get_mut(&mgid) {
            group.creator = Some(creator);
        }
        Some(())
    });
    groups.into_values().collect()
}

/// Adds the changes after which `persisted` holds the groups of `view`.
pub(super) fn changes(persisted: &Persisted, view: &GroupsView, changes: &mut ChangeSet) {
    let groups = view.groups().map(encode_group);
    table::replace(persisted, GROUPS, groups, changes);
    let creators = view.groups().filter_map(encode_creator);
    table::replace(persisted, CREATORS, creators, changes);
    // A group may contain every port of the subnet, so rows are made one at a time and not
    // collected.
    let members = view.groups().flat_map(|group| {
        let mut members: Vec<&MulticastMember> = group.members.values().collect();
        members.sort_unstable_by_key(|member| member.gid);
        let mgid = group.parameters.mgid;
        let row = move |member: &MulticastMember| (member_key(mgid, member.gid), encode(member));
        members.into_iter().map(row)
    });
    table::replace(persisted, MEMBERS, members, changes);
}

/// Present rows of a group, and of a member that joined or left.
pub(super) fn rows(view: &GroupsView, mgid: Gid, member: Gid) -> Vec<RowChange> {
    let Some(group) = view.group(mgid) else {
        let mgid = mgid.0.to_be_bytes().to_vec();
        let gone = [
            table::clear(GROUPS, mgid.clone()),
            table::clear(CREATORS, mgid.clone()),
            table::clear(MEMBERS, mgid),
        ];
        return gone.into_iter().flatten().collect();
    };
    let (key, value) = encode_group(group);
    let member_key = member_key(mgid, member).to_vec();
    let row = match group.members.get(&member.guid()) {
        Some(member) => table::set(MEMBERS, member_key, encode(member).to_vec()),
        None => table::clear(MEMBERS, member_key),
    };
    let creator = encode_creator(group);
    let creator = creator.and_then(|(key, value)| table::set(CREATORS, key, value));
    let rows = [table::set(GROUPS, key, value), creator, row];
    rows.into_iter().flatten().collect()
}

/// Key of a member: MGID, then PortGID.
fn member_key(group: Gid, member: Gid) -> [u8; 2 * GID_LEN] {
    let mut key = [0; 2 * GID_LEN];
    key[..GID_LEN].copy_from_slice(&group.0.to_be_bytes());
    key[GID_LEN..].copy_from_slice(&member.0.to_be_bytes());
    key
}

/// Encodes a member: port GUID (8 bytes, big-endian), JoinState (1) and ProxyJoin (1).
fn encode(member: &MulticastMember) -> [u8; MEMBER_LEN] {
    let mut value = [0; MEMBER_LEN];
    value[..8].copy_from_slice(&member.port.0.to_be_bytes());
    value[8..].copy_from_slice(&[member.state.0, u8::from(member.proxy)]);
    value
}

/// Encodes a group, numbers big-endian, in the order in which [`decode_group`] reads.
fn encode_group(group: &MulticastGroup) -> (Vec<u8>, Vec<u8>) {
    let parameters = &group.parameters;
    let mut value = Vec::with_capacity(GROUP_LEN);
    value.extend(parameters.q_key.to_be_bytes());
    value.extend(parameters.p_key.0.to_be_bytes());
    value.extend([
        parameters.mtu.code(),
        parameters.rate.0,
        parameters.packet_life_time,
        parameters.sl,
        parameters.t_class,
    ]);
    value.extend(parameters.flow_label.to_be_bytes());
    value.extend([parameters.hop_limit, parameters.scope]);
    value.extend(group.mlid.0.to_be_bytes());
    (parameters.mgid.0.to_be_bytes().to_vec(), value)
}

/// Encodes the creator of a group: its port GUID (8 bytes, big-endian). `None` if no port is charged
/// with the group.
fn encode_creator(group: &MulticastGroup) -> Option<(Vec<u8>, Vec<u8>)> {
    let mgid = group.parameters.mgid.0.to_be_bytes().to_vec();
    Some((mgid, group.creator?.0.to_be_bytes().to_vec()))
}

/// Decodes the row of a group; `None` if the row is invalid.
fn decode_group(key: &[u8], value: &[u8]) -> Option<SavedGroup> {
    let mgid = Gid(u128::from_be_bytes(key.try_into().ok()?));
    let value: &[u8; GROUP_LEN] = value.try_into().ok()?;
    let (q_key, rest) = value.split_first_chunk()?;
    let (p_key, rest) = rest.split_first_chunk()?;
    let (&[mtu, rate, packet_life_time, sl, t_class], rest) = rest.split_first_chunk()?;
    let (flow_label, rest) = rest.split_first_chunk()?;
    let (&[hop_limit, scope], mlid) = rest.split_first_chunk()?;
    let parameters = Parameters {
        mgid,
        q_key: u32::from_be_bytes(*q_key),
        p_key: PKey(u16::from_be_bytes(*p_key)),
        mtu: Mtu::from_code(mtu),
        rate: Rate(rate),
        packet_life_time,
        sl,
        t_class,
        flow_label: u32::from_be_bytes(*flow_label),
        hop_limit,
        scope,
    };
    // Accepts only valid groups: no record can contain other values.
    let is_sound = parameters.mtu.bytes().is_some()
        && parameters.rate.tenth_gbps().is_some()
        && packet_life_time < 64
        && sl < 16
        && scope < 16
        && parameters.flow_label < 1 << 20;
    is_sound.then_some(SavedGroup {
        parameters,
        mlid: Lid(u16::from_be_bytes(mlid.try_into().ok()?)),
        creator: None,
        members: Vec::new(),
    })
}

/// Decodes the row of a member, with the MGID of its group; `None` if the row is invalid.
fn decode_member(key: &[u8], value: &[u8]) -> Option<(Gid, SavedMember)> {
    let (mgid, gid) = key.split_first_chunk::<GID_LEN>()?;
    let value: &[u8; MEMBER_LEN] = value.try_into().ok()?;
    let (port, &[state, proxy]) = value.split_first_chunk::<8>().and_then(|(port, rest)| {
        let rest: &[u8; 2] = rest.try_into().ok()?;
        Some((port, rest))
    })?;
    let member = SavedMember {
        gid: Gid(u128::from_be_bytes(gid.try_into().ok()?)),
        port: Guid(u64::from_be_bytes(*port)),
        state: JoinState(state),
        proxy: proxy != 0,
    };
    Some((Gid(u128::from_be_bytes(*mgid)), member))
}

#[cfg(test)]
mod tests {
    use rsm_mad::Time;
    use rsm_sa::mcast::{GroupRegistry, GroupRegistryConfig};
    use rsm_store::Namespace;

    use super::*;

    fn samples() -> Vec<SavedGroup> {
        let group = |number: u128, mlid| SavedGroup {
            parameters: Parameters {
                mgid: Gid(0xFF12_A01C << 96 | number),
                q_key: 0x8001_0B1B,
                p_key: PKey(0x8005),
                mtu: Mtu::Bytes2048,
                rate: Rate::GBPS_400,
                packet_life_time: 18,
                sl: 3,
                t_class: 7,
                flow_label: 0xF_FFFF,
                hop_limit: 255,
                scope: 2,
            },
            mlid: Lid(mlid),
            creator: (number == 1).then_some(Guid(7)),
            members: vec![SavedMember {
                gid: Gid(0xFE80 << 112 | number),
                port: Guid(9),
                state: JoinState::FULL_MEMBER,
                proxy: number == 2,
            }],
        };
        vec![group(1, 0xC001), group(2, 0xFFFE)]
    }

    fn view(groups: Vec<SavedGroup>) -> GroupsView {
        let mut registry = GroupRegistry::new(GroupRegistryConfig::default());
        assert_eq!(registry.restore(groups, Time::MAX), 0);
        registry.view()
    }

    fn change(persisted: &Persisted, view: &GroupsView) -> ChangeSet {
        let mut set = ChangeSet::new();
        changes(persisted, view, &mut set);
        set
    }

    #[test]
    fn stored_groups_are_restored() {
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &view(samples())));
        assert_eq!(persisted.len(), 5, "two groups, a creator and two members");
        assert_eq!(restored(&persisted), samples());
        assert!(
            change(&persisted, &view(samples())).is_empty(),
            "nothing is written twice"
        );
        // A deleted group also leaves the store.
        let fewer = samples()[..1].to_vec();
        persisted.apply(&change(&persisted, &view(fewer.clone())));
        assert_eq!(restored(&persisted), fewer);
        assert_eq!(persisted.len(), 3);
        let none = change(&persisted, &view(Vec::new()));
        persisted.apply(&none);
        assert_eq!(persisted.len(), 0);
    }

    #[test]
    fn group_without_a_row_of_its_creator_is_charged_to_nobody() {
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &view(samples())));
        let mut earlier = ChangeSet::new();
        let creators = Namespace::new(CREATORS).unwrap();
        let mgid = samples()[0].parameters.mgid.0;
        earlier.remove_record(&creators, &mgid.to_be_bytes());
        // An earlier version deleted this group, and kept the row.
        let absent = (mgid + 7).to_be_bytes();
        earlier.set_record(&creators, &absent, &[1; 8]).unwrap();
        persisted.apply(&earlier);
        let groups = restored(&persisted);
        assert_eq!(groups.len(), 2);
        assert!(groups.iter().all(|group| group.creator.is_none()));
    }

    #[test]
    fn only_the_row_of_the_joining_or_leaving_member_is_written() {
        let mut groups = samples();
        let member = |prefix: u128, port: u64| SavedMember {
            gid: Gid(prefix << 64 | u128::from(port)),
            port: Guid(port),
            state: JoinState::FULL_MEMBER,
            proxy: false,
        };
        // Members joined before and after the operator changed the prefix: the orders by GID and by
        // GUID differ.
        let (old, new) = (0xFE80_0000_0000_0001, 0xFE80_0000_0000_0000);
        let of_old = [member(old, 10), member(old, 12)];
        groups[0].members.extend(of_old);
        groups[0].members.extend([member(new, 11), member(new, 13)]);
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &view(groups.clone())));
        assert_eq!(persisted.len(), 2 + 1 + 6);
        assert!(change(&persisted, &view(groups.clone())).is_empty());
        groups[0].members.remove(1);
        groups[1].members.push(member(new, 14));
        let after = change(&persisted, &view(groups.clone()));
        assert_eq!(after.len(), 2);
        persisted.apply(&after);
        for group in &mut groups {
            group.members.sort_by_key(|member| member.gid);
        }
        assert_eq!(restored(&persisted), groups);
    }

    #[test]
    fn invalid_records_are_skipped() {
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &view(samples())));
        let mut broken = ChangeSet::new();
        let groups = Namespace::new(GROUPS).unwrap();
        let members = Namespace::new(MEMBERS).unwrap();
        for length in [0, 1, 15, 16, 17, 31, 32, 33] {
            broken
                .set_record(&groups, &vec![0xFF; length], &[0xFF; GROUP_LEN])
                .unwrap();
            broken
                .set_record(&members, &vec![0xFF; length], &[0xFF; MEMBER_LEN])
                .unwrap();
        }
        let other = Gid(0xFF12_A01C << 96 | 9).0.to_be_bytes();
        for length in [0, GROUP_LEN - 1, GROUP_LEN + 1] {
            broken
                .set_record(&groups, &other, &vec![1; length])
                .unwrap();
            persisted.apply(&broken);
            assert_eq!(restored(&persisted), samples());
        }
    }
}
