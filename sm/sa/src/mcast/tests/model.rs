//! Random requests to the registry of multicast groups, and to a model of it that has no indices,
//! no shared multicast LIDs and no deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use rsm_ids::Lid;
use rsm_plan::groups::GroupSet;

use super::*;

const HOSTS: u64 = 6;
/// The number of different MGIDs.
const GROUPS: u128 = 5;

/// A step of a test. The numbers of hosts are 1 to [`HOSTS`], and the numbers of groups are below
/// [`GROUPS`].
#[derive(Clone, Debug)]
enum Step {
    /// Host `requester` sends a join of `host`.
    Join {
        requester: u64,
        host: u64,
        group: u128,
        /// JoinState, a mask.
        state: u8,
        /// Whether the P_Key is [`EVEN_HOSTS`] rather than [`ALL_HOSTS`].
        in_even_hosts: bool,
    },
    /// Host `requester` removes `host` from a group.
    Leave {
        requester: u64,
        host: u64,
        group: u128,
        /// JoinState, a mask.
        state: u8,
    },
    /// A host vanishes from the subnet.
    Vanish { host: u64 },
    /// A host returns.
    Return { host: u64 },
    /// Time passes.
    Elapse { seconds: u64 },
    /// The number of multicast LIDs changes.
    Capacity { mlids: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    let host = || 1..=HOSTS;
    // Most requests are about the requester itself.
    let pair = prop_oneof![
        4 => host().prop_map(|host| (host, host)),
        1 => (host(), host()),
    ];
    let state = prop_oneof![Just(1u8), Just(2), Just(4), Just(8), 0u8..16];
    prop_oneof![
        8 => (pair.clone(), 0..GROUPS, state.clone(), any::<bool>()).prop_map(
            |((requester, host), group, state, in_even_hosts)| {
                Step::Join { requester, host, group, state, in_even_hosts }
            }
        ),
        6 => (pair, 0..GROUPS, state).prop_map(
            |((requester, host), group, state)| Step::Leave { requester, host, group, state }
        ),
        1 => host().prop_map(|host| Step::Vanish { host }),
        1 => host().prop_map(|host| Step::Return { host }),
        1 => (1u64..15).prop_map(|seconds| Step::Elapse { seconds }),
        1 => (1u16..5).prop_map(|mlids| Step::Capacity { mlids }),
    ]
}

/// The members of a group by host: join state, and whether another host joined for them.
type Members = BTreeMap<u64, (u8, bool)>;

#[derive(Default)]
struct Model {
    /// Whether the group is in partition [`EVEN_HOSTS`], and its members, by group number.
    groups: BTreeMap<u128, (bool, Members)>,
    /// Time in seconds at which each absent host vanished.
    absent: BTreeMap<u64, u64>,
    /// Present time in seconds.
    now: u64,
}

impl Model {
    fn is_present(&self, host: u64) -> bool {
        !self.absent.contains_key(&host)
    }

    /// Whether a requester may change a membership.
    fn may_change(&self, by: u64, host: u64, group: u128) -> bool {
        let Some((in_even_hosts, members)) = self.groups.get(&group) else {
            return true;
        };
        match members.get(&host) {
            None => true,
            Some((_, true)) => !in_even_hosts || by.is_multiple_of(2),
            Some((_, false)) => by == host,
        }
    }

    /// Adds a host to a group; `even` means that the P_Key of the request is [`EVEN_HOSTS`].
    /// Returns the join state of the member; `None` if the join is refused.
    fn join(&mut self, by: u64, host: u64, group: u128, state: u8, even: bool) -> Option<u8> {
        let existing = self.groups.get(&group).map(|(even, _)| *even);
        let in_even_hosts = existing.unwrap_or(even);
        let same_partition = existing.is_none_or(|existing| existing == even);
        let may_create = existing.is_some() || state & 0b1001 != 0;
        let in_partition = !in_even_hosts || host.is_multiple_of(2);
        if !self.is_present(host) || state == 0 || !same_partition || !may_create || !in_partition {
            return None;
        }
        if !self.may_change(by, host, group) {
            return None;
        }
        let (_, members) = self.groups.entry(group).or_insert((even, BTreeMap::new()));
        let member = members.entry(host).or_insert((0, by != host));
        member.0 |= state;
        member.1 &= by != host;
        Some(member.0)
    }

    /// Removes bits of a member's join state. Returns the remaining bits; `None` if the request is
    /// refused.
    fn leave(&mut self, by: u64, host: u64, group: u128, state: u8) -> Option<u8> {
        if !self.is_present(host) || !self.may_change(by, host, group) {
            return None;
        }
        let (_, members) = self.groups.get_mut(&group)?;
        let member = members.get_mut(&host)?;
        if state == 0 || member.0 & state != state {
            return None;
        }
        member.0 &= !state;
        let left = member.0;
        members.retain(|_, member| member.0 != 0);
        self.end_groups();
        Some(left)
    }

    /// Ends the groups that have neither a full member nor a send-only full member.
    fn end_groups(&mut self) {
        self.groups
            .retain(|_, (_, members)| members.values().any(|(state, _)| state & 0b1001 != 0));
    }

    /// Lets time pass, and ends the memberships of hosts that have been absent for 10 s.
    fn elapse(&mut self, seconds: u64) {
        self.now += seconds;
        let now = self.now;
        let lost: Vec<u64> = self
            .absent
            .iter()
            .filter(|&(_, &since)| now >= since + 10)
            .map(|(&host, _)| host)
            .collect();
        for (_, members) in self.groups.values_mut() {
            members.retain(|host, _| !lost.contains(host));
        }
        self.end_groups();
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn group_mgid(number: u128) -> Gid {
    Gid(MGID.0 + number)
}

/// Asserts that the registry agrees with the model, and that its own views agree with each other.
fn assert_agrees(subnet: &mut Subnet, model: &Model) {
    let mut memberships = 0;
    assert_eq!(subnet.registry.groups().len(), model.groups.len());
    for (&number, (in_even_hosts, members)) in &model.groups {
        let group = subnet
            .registry
            .group(group_mgid(number))
            .expect("the model has the group");
        assert_eq!(group.parameters.p_key == EVEN_HOSTS, *in_even_hosts);
        let found: Members = group
            .members
            .values()
            .map(|member| (member.port.0, (member.state.0, member.proxy)))
            .collect();
        assert_eq!(&found, members, "group {number}");
        memberships += members.len();
    }
    assert_eq!(subnet.registry.members(), memberships);

    // No two partitions share a multicast LID, and the members of each multicast LID are exactly
    // the members of its groups.
    let mut partitions: BTreeMap<Lid, BTreeSet<u16>> = BTreeMap::new();
    let mut expected: BTreeMap<Lid, BTreeMap<Guid, bool>> = BTreeMap::new();
    for group in subnet.registry.groups() {
        let partition = group.parameters.p_key.base();
        partitions.entry(group.mlid).or_default().insert(partition);
        for member in group.members.values() {
            let ports = expected.entry(group.mlid).or_default();
            *ports.entry(member.port).or_default() |= member.state.0 & 3 != 0;
        }
    }
    assert!(partitions.values().all(|partitions| partitions.len() == 1));
    let set = subnet.registry.group_set();
    let found: BTreeMap<Lid, BTreeMap<Guid, bool>> = GroupSet::clone(&set)
        .by_mlid
        .into_iter()
        .map(|(mlid, members)| (mlid, members.ports.clone()))
        .collect();
    assert_eq!(found, expected);
    assert!(!subnet.registry.is_stale());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn registry_agrees_with_the_model_after_each_random_step(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut subnet = Subnet::of(HOSTS);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Join { requester, host, group: number, state, in_even_hosts } => {
                    let mut record = request(host, group_mgid(number), JoinState(state));
                    record.set_p_key(if in_even_hosts { EVEN_HOSTS } else { ALL_HOSTS });
                    let answer = subnet.set(requester, &record, COMPLETE);
                    let exists = subnet.registry.group(group_mgid(number)).is_some();
                    if answer == Err(rsm_mad::wire::sa::SaStatus::NO_RESOURCES) {
                        // The other partition has all multicast LIDs.
                        prop_assert!(!exists);
                        continue;
                    }
                    let expected = model.join(requester, host, number, state, in_even_hosts);
                    prop_assert_eq!(answer.ok().map(|answer| answer.join_state().0), expected);
                }
                Step::Leave { requester, host, group: number, state } => {
                    let record = request(host, group_mgid(number), JoinState(state));
                    let answer = subnet.delete(requester, &record);
                    let expected = model.leave(requester, host, number, state);
                    prop_assert_eq!(answer.ok().map(|answer| answer.join_state().0), expected);
                }
                Step::Vanish { host } => {
                    subnet.host(host).present = false;
                    model.absent.entry(host).or_insert(model.now);
                    subnet.ports_changed(at(model.now));
                }
                Step::Return { host } => {
                    subnet.host(host).present = true;
                    model.absent.remove(&host);
                    subnet.ports_changed(at(model.now));
                }
                Step::Elapse { seconds } => {
                    model.elapse(seconds);
                    subnet.registry.handle_deadline(at(model.now));
                }
                Step::Capacity { mlids } => subnet.registry.set_capacity(mlids, 1),
            }
            assert_agrees(&mut subnet, &model);
            let saved: Vec<_> = subnet.registry.save().collect();
            let mut again = GroupRegistry::new(GroupRegistryConfig::default());
            prop_assert_eq!(again.restore(saved, Time::MAX), 0);
            prop_assert_eq!(again.group_set(), subnet.registry.group_set());
        }
    }

    /// Requests with any bytes as record and any mask, from any host.
    #[test]
    fn random_requests_neither_panic_nor_end_the_broadcast_group(
        requests in proptest::collection::vec(
            (any::<[u8; 32]>(), any::<[u8; 24]>(), any::<u64>(), 1..=HOSTS, any::<bool>()), 1..40),
    ) {
        let mut subnet = Subnet::with_broadcast(HOSTS);
        for (head, tail, mask, by, plausible) in requests {
            let mut bytes = [0u8; 56];
            bytes[..32].copy_from_slice(&head);
            bytes[32..].copy_from_slice(&tail);
            if plausible {
                bytes[0] = 0xFF;
                bytes[16..32].copy_from_slice(&Gid::new(PREFIX, Guid(by)).0.to_be_bytes());
            }
            let record = *<McMemberRecord as rsm_mad::wire::sa::Record>::from_prefix(&bytes).unwrap();
            let mask = ComponentMask(mask | if plausible { COMPLETE.0 } else { 0 });
            let _ = subnet.set(by, &record, mask);
            let _ = subnet.delete(by, &record);
            let access = super::super::McMemberAccess {
                p_keys: subnet.requester(by).port.p_keys,
                trusted: plausible,
            };
            let cursor = super::super::Cursor::default();
            subnet.registry.view().query(&record, mask, access, cursor, 100);
            subnet.registry.group_set();
        }
        prop_assert!(subnet.registry.group(broadcast(ALL_HOSTS).mgid).is_some());
    }
}
