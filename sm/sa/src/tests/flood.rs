//! Tests of hosts that demand more than their share: limits are kept, and other hosts are answered.

use std::time::Duration;

use rsm_config::KNOWN_KEY;
use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::findings::FindingKind;

use super::world::{SM_KEY, SMALL, World};
use crate::SaRequest;
use crate::mcast::limits::{MAX_CREATED_PER_PORT, MAX_VERSIONS};

/// The number of groups to create: twice the limit of one port, and more than the number of
/// multicast LIDs of usual switches.
const MANY: u32 = 10_000;

/// The components of a request that creates a group.
const COMPLETE: ComponentMask = ComponentMask(
    McMemberRecord::MGID.0
        | McMemberRecord::PORT_GID.0
        | McMemberRecord::JOIN_STATE.0
        | McMemberRecord::Q_KEY.0
        | McMemberRecord::P_KEY.0
        | McMemberRecord::T_CLASS.0
        | McMemberRecord::SL.0
        | McMemberRecord::FLOW_LABEL.0,
);

/// The MGID of a transient group that the SA did not assign.
fn group_mgid(number: u32) -> Gid {
    Gid(0xFF12_A01D_0000_0000_0000_0000_0000_0000 | u128::from(number))
}

/// The answer to the request of a host to join a group, or to create it if it does not exist.
fn join(world: &mut World, host: Lid, mgid: Gid, p_key: PKey) -> Result<McMemberRecord, Status> {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(world.gid(host))
        .set_q_key(0x8000_0001)
        .set_p_key(p_key)
        .set_join_state(JoinState::FULL_MEMBER);
    let mad = SaMad::request(Method::SET, Tid(1), COMPLETE, &record);
    let answer = answer_to(world, host, &mad).expect("every request is answered");
    super::world::records(answer).map(|records| records[0])
}

/// The answer to a request of `host`; `None` if there is none.
fn answer_to(world: &mut World, host: Lid, mad: &SaMad) -> Option<crate::SaAnswer> {
    let request = SaRequest {
        bytes: mad.as_bytes(),
        requester: RemoteAddress::gsi(host, 0),
    };
    world.sa.handle(request, world.now)
}

/// A world of two partitions with two hosts each.
fn two_partitions() -> (World, Vec<Lid>) {
    let world = World::new(SMALL);
    let hosts = world.hosts();
    let tables: Vec<(Lid, &[u16])> = vec![
        (hosts[0], &[0x8001]),
        (hosts[1], &[0x8001]),
        (hosts[2], &[0x8002]),
        (hosts[3], &[0x8002]),
    ];
    (world.with_partitions(&tables), hosts)
}

#[test]
fn port_that_creates_thousands_of_groups_is_refused_beyond_its_share() {
    let (mut world, hosts) = two_partitions();
    let greedy = hosts[0];
    let (mut created, mut refused) = (0, 0);
    for number in 0..MANY {
        match join(&mut world, greedy, group_mgid(number), PKey(0x8001)) {
            Ok(_) => created += 1,
            Err(status) => {
                assert_eq!(status, SaStatus::NO_RESOURCES);
                refused += 1;
            }
        }
    }
    assert_eq!(created, MAX_CREATED_PER_PORT);
    assert_eq!(refused, MANY as usize - MAX_CREATED_PER_PORT);
    let registry = world.sa.multicast();
    assert_eq!(registry.members(), MAX_CREATED_PER_PORT);
    // The count excludes well-known groups.
    let groups = registry.groups().filter(|group| !group.well_known).count();
    assert_eq!(groups, MAX_CREATED_PER_PORT);
    // One finding names the port, with its cable.
    let found = world.sa.poll_findings(world.now).unwrap();
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(finding.kind, FindingKind::SaShare);
    let count = format!("{refused} new multicast groups");
    for part in [" port 1 at ", &count] {
        assert!(finding.text.contains(part), "{part}: {}", finding.text);
    }
    // A port that has used up its share may join its own groups again.
    assert!(join(&mut world, greedy, group_mgid(0), PKey(0x8001)).is_ok());
    // Other ports, in this partition and the other, create their groups.
    for (host, p_key) in [(hosts[1], 0x8001), (hosts[2], 0x8002), (hosts[3], 0x8002)] {
        let own = group_mgid(MANY + u32::from(host.0));
        let answer = join(&mut world, host, own, PKey(p_key)).unwrap();
        // No group gets a multicast LID of the other partition.
        let sharing = world.sa.multicast().groups();
        let mut sharing = sharing.filter(|group| group.mlid == answer.mlid());
        assert!(sharing.all(|group| group.parameters.p_key.base() == p_key & 0x7FFF));
    }
    // No query for all groups, or for a group by MGID, shows a group of another partition.
    let mut wanted = McMemberRecord::default();
    let all = SaMad::request(Method::GET_TABLE, Tid(2), ComponentMask::NONE, &wanted);
    let table = answer_to(&mut world, hosts[2], &all).unwrap();
    let seen = super::world::records::<McMemberRecord>(table).unwrap();
    assert!(seen.iter().all(|group| group.p_key().base() == 0x0002));
    assert_eq!(seen.len(), 2);
    wanted.set_mgid(group_mgid(7));
    let one = SaMad::request(Method::GET, Tid(3), McMemberRecord::MGID, &wanted);
    let refused = answer_to(&mut world, hosts[2], &one).unwrap();
    assert_eq!(refused.status(), SaStatus::NO_RECORDS);
    let taken = join(&mut world, hosts[2], group_mgid(7), PKey(0x8002));
    assert_eq!(taken.unwrap_err(), SaStatus::REQ_INVALID);
}

#[test]
fn thousands_of_memberships_end_after_their_port_vanished() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    world.sa.handle_deadline(Time::ZERO);
    for number in 0..MANY {
        let _ = join(&mut world, hosts[2], group_mgid(number), PKey::DEFAULT_FULL);
    }
    assert_eq!(world.sa.multicast().members(), MAX_CREATED_PER_PORT);
    world.remove_host(hosts[2]);
    world
        .sa
        .handle_deadline(Time::ZERO + Duration::from_secs(1));
    world
        .sa
        .handle_deadline(Time::ZERO + Duration::from_secs(60));
    let registry = world.sa.multicast();
    assert_eq!(registry.members(), 0);
    assert!(registry.groups().all(|group| group.well_known));
}

#[test]
fn requests_with_guessed_keys_get_no_answer_and_change_nothing() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let mut record = McMemberRecord::default();
    record
        .set_mgid(group_mgid(1))
        .set_port_gid(world.gid(hosts[0]))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let mut mad = SaMad::request(Method::SET, Tid(1), COMPLETE, &record);
    let mut guesses = 0;
    for guess in 1..=u64::from(MANY) {
        // Some guesses are close to the right key, others are not.
        for key in [SM_KEY ^ guess, guess.rotate_left(32), guess] {
            // A key of 0, and the publicly known one, are no guesses.
            if key == SM_KEY || key == 0 || key == KNOWN_KEY {
                continue;
            }
            guesses += 1;
            mad.header.set_sm_key(key);
            assert!(answer_to(&mut world, hosts[0], &mad).is_none());
        }
    }
    let counters = world.sa.counters();
    assert!(guesses > 2 * u64::from(MANY));
    assert_eq!(counters.wrong_keys, guesses);
    // Requests with a wrong key count neither as requests nor as answers.
    assert!(counters.answers.is_empty() && counters.requests.is_empty());
    assert_eq!(world.sa.multicast().members(), 0);
    let mut path = PathRecord::default();
    path.set_slid(hosts[1]).set_dlid(hosts[2]);
    let found = world.get(PathRecord::SLID | PathRecord::DLID, &path);
    assert_eq!(found.unwrap().dlid(), hosts[2]);
}

#[test]
fn unfetched_tables_keep_at_most_max_versions_of_the_groups() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let all = SaMad::request(
        Method::GET_TABLE,
        Tid(2),
        ComponentMask::NONE,
        &McMemberRecord::default(),
    );
    let mut unfetched = Vec::new();
    for number in 0..MAX_VERSIONS as u32 {
        join(&mut world, hosts[1], group_mgid(number), PKey::DEFAULT_FULL).unwrap();
        // Two tables of the same version count as one.
        for _ in 0..2 {
            let table = answer_to(&mut world, hosts[0], &all).unwrap();
            assert_eq!(table.status(), Status::OK);
            unfetched.push(table);
        }
    }
    join(&mut world, hosts[1], group_mgid(1000), PKey::DEFAULT_FULL).unwrap();
    let refused = answer_to(&mut world, hosts[0], &all).unwrap();
    assert_eq!(refused.status(), Status::BUSY);
    // Other queries are answered meanwhile. A new table is possible as soon as both tables of one
    // version are fetched.
    let mut path = PathRecord::default();
    path.set_slid(hosts[1]).set_dlid(hosts[2]);
    assert!(
        world
            .get(PathRecord::SLID | PathRecord::DLID, &path)
            .is_ok()
    );
    unfetched.drain(..2);
    let table = answer_to(&mut world, hosts[0], &all).unwrap();
    let groups = super::world::records::<McMemberRecord>(table).unwrap();
    let created = groups
        .iter()
        .filter(|group| group.mgid().0 >= group_mgid(0).0);
    assert!(created.count() > MAX_VERSIONS);
    // The first remaining table shows the groups at the time of its request.
    let first = super::world::records::<McMemberRecord>(unfetched.remove(0)).unwrap();
    assert_eq!(first.len() + MAX_VERSIONS - 1, groups.len());
}
