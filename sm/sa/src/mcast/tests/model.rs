//! Random requests against a model without indices, sharing and time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use rsm_ids::Lid;
use rsm_plan::groups::GroupSet;

use super::*;

const HOSTS: u64 = 6;
const NAMES: u128 = 5;

#[derive(Clone, Debug)]
enum Step {
    Join {
        by: u64,
        host: u64,
        name: u128,
        state: u8,
        some: bool,
    },
    Leave {
        by: u64,
        host: u64,
        name: u128,
        state: u8,
    },
    Goes {
        host: u64,
    },
    Comes {
        host: u64,
    },
    Passes {
        seconds: u64,
    },
    Capacity {
        mlids: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let host = || 1..=HOSTS;
    // Most requests are in person.
    let pair = prop_oneof![
        4 => host().prop_map(|host| (host, host)),
        1 => (host(), host()),
    ];
    let state = prop_oneof![Just(1u8), Just(2), Just(4), Just(8), 0u8..16];
    prop_oneof![
        8 => (pair.clone(), 0..NAMES, state.clone(), any::<bool>()).prop_map(
            |((by, host), name, state, some)| Step::Join { by, host, name, state, some }
        ),
        6 => (pair, 0..NAMES, state).prop_map(
            |((by, host), name, state)| Step::Leave { by, host, name, state }
        ),
        1 => host().prop_map(|host| Step::Goes { host }),
        1 => host().prop_map(|host| Step::Comes { host }),
        1 => (1u64..15).prop_map(|seconds| Step::Passes { seconds }),
        1 => (1u16..5).prop_map(|mlids| Step::Capacity { mlids }),
    ]
}

/// The members of a group by host: join state, and whether the membership is by proxy.
type Takers = BTreeMap<u64, (u8, bool)>;

#[derive(Default)]
struct Model {
    /// Group name → whether the group is in the second partition, and its members.
    groups: BTreeMap<u128, (bool, Takers)>,
    gone: BTreeMap<u64, u64>,
    now: u64,
}

impl Model {
    fn is_present(&self, host: u64) -> bool {
        !self.gone.contains_key(&host)
    }

    /// Whether a requester may change a membership.
    fn may(&self, by: u64, host: u64, name: u128) -> bool {
        let Some((some, members)) = self.groups.get(&name) else {
            return true;
        };
        match members.get(&host) {
            None => true,
            Some((_, true)) => !some || by.is_multiple_of(2),
            Some((_, false)) => by == host,
        }
    }

    fn join(&mut self, by: u64, host: u64, name: u128, state: u8, some: bool) -> Option<u8> {
        let exists = self.groups.get(&name).map(|(some, _)| *some);
        let of_some = exists.unwrap_or(some);
        let fits = exists.is_none_or(|exists| exists == some);
        let makes = exists.is_some() || state & 0b1001 != 0;
        let is_in = !of_some || host.is_multiple_of(2);
        if !self.is_present(host) || state == 0 || !fits || !makes || !is_in {
            return None;
        }
        if !self.may(by, host, name) {
            return None;
        }
        let (_, members) = self.groups.entry(name).or_insert((some, BTreeMap::new()));
        let member = members.entry(host).or_insert((0, by != host));
        member.0 |= state;
        member.1 &= by != host;
        Some(member.0)
    }

    fn leave(&mut self, by: u64, host: u64, name: u128, state: u8) -> Option<u8> {
        if !self.is_present(host) || !self.may(by, host, name) {
            return None;
        }
        let (_, members) = self.groups.get_mut(&name)?;
        let member = members.get_mut(&host)?;
        if state == 0 || member.0 & state != state {
            return None;
        }
        member.0 &= !state;
        let left = member.0;
        members.retain(|_, member| member.0 != 0);
        self.end();
        Some(left)
    }

    fn end(&mut self) {
        self.groups
            .retain(|_, (_, members)| members.values().any(|(state, _)| state & 0b1001 != 0));
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        let now = self.now;
        let lost: Vec<u64> = self
            .gone
            .iter()
            .filter(|&(_, &since)| now >= since + 10)
            .map(|(&host, _)| host)
            .collect();
        for (_, members) in self.groups.values_mut() {
            members.retain(|host, _| !lost.contains(host));
        }
        self.end();
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn name(number: u128) -> Gid {
    Gid(NAME.0 + number)
}

/// Asserts that the registry agrees with the model, and its own views with each other.
fn assert_agrees(subnet: &mut Subnet, model: &Model) {
    let mut memberships = 0;
    assert_eq!(subnet.registry.groups().len(), model.groups.len());
    for (&number, (some, members)) in &model.groups {
        let group = subnet
            .registry
            .group(name(number))
            .expect("the model has it");
        assert_eq!(group.parameters.p_key == SOME, *some);
        let found: Takers = group
            .members
            .values()
            .map(|member| (member.port.0, (member.state.0, member.proxy)))
            .collect();
        assert_eq!(&found, members, "group {number}");
        memberships += members.len();
    }
    assert_eq!(subnet.registry.members(), memberships);

    // No partitions share a multicast LID, and the members of each multicast LID are exactly those
    // of its groups.
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
    fn requests_in_any_order_agree_with_the_model(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut subnet = Subnet::of(HOSTS);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Join { by, host, name: number, state, some } => {
                    let mut record = request(host, name(number), JoinState(state));
                    record.set_p_key(if some { SOME } else { EVERYBODY });
                    let answer = subnet.set(by, &record, COMPLETE);
                    let room = subnet.registry.group(name(number)).is_some();
                    if answer == Err(rsm_mad::wire::sa::SaStatus::NO_RESOURCES) {
                        // The other partition has all multicast LIDs.
                        prop_assert!(!room);
                        continue;
                    }
                    let expected = model.join(by, host, number, state, some);
                    prop_assert_eq!(answer.ok().map(|answer| answer.join_state().0), expected);
                }
                Step::Leave { by, host, name: number, state } => {
                    let answer = subnet.delete(by, &request(host, name(number), JoinState(state)));
                    let expected = model.leave(by, host, number, state);
                    prop_assert_eq!(answer.ok().map(|answer| answer.join_state().0), expected);
                }
                Step::Goes { host } => {
                    subnet.host(host).present = false;
                    model.gone.entry(host).or_insert(model.now);
                    subnet.ports_changed(at(model.now));
                }
                Step::Comes { host } => {
                    subnet.host(host).present = true;
                    model.gone.remove(&host);
                    subnet.ports_changed(at(model.now));
                }
                Step::Passes { seconds } => {
                    model.pass(seconds);
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
    fn hostile_requests_do_no_harm(
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
        prop_assert!(subnet.registry.group(broadcast(EVERYBODY).mgid).is_some());
    }
}
