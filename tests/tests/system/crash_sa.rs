//! Kills rsm with SIGKILL and restarts it: the registrations of hosts survive, and no host has to
//! register again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{
    ComponentMask, GuidInfoRecord, JoinState, McMemberRecord, PathRecord, Record, ServiceRecord,
};
use rsm_tests::answering::Host;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for_every;
use rsm_tests::managed::Managed;
use rsm_tests::sa_key::SA_KEY;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// A time longer than rsm takes to write new registrations to its store, its delay included.
const WRITE_TIME: Duration = Duration::from_secs(2);

/// A time longer than a bring-up of so small a fabric takes, repairs included.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// The components that identify a membership: MGID, PortGID and JoinState.
const MEMBERSHIP: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The components that a join needs besides [`MEMBERSHIP`] if it creates the group.
const TO_CREATE: ComponentMask = McMemberRecord::Q_KEY
    .with(McMemberRecord::P_KEY)
    .with(McMemberRecord::T_CLASS)
    .with(McMemberRecord::SL)
    .with(McMemberRecord::FLOW_LABEL);

/// A fabric with five attached hosts. Methods number hosts by their index in [`Managed::hosts`],
/// where 0 is the manager's own host.
struct World {
    hosted: Managed,
    /// The hosts 1 to 5, by number.
    hosts: BTreeMap<usize, Host>,
}

impl World {
    fn gid(&self, place: usize) -> Gid {
        let (node, port) = self.hosted.hosts[place];
        let guid = self.hosted.fabric.sim.with(move |sim| {
            let guid = sim.port_guid(node, port);
            guid.expect("it is there")
        });
        Gid::new(0xFE80_0000_0000_0000, guid.expect("it runs"))
    }

    /// Joins a host to [`BROADCAST`], or to another group, which the join creates if necessary.
    fn join(&mut self, place: usize, mgid: Gid, state: JoinState) -> McMemberRecord {
        let mut record = McMemberRecord::default();
        record
            .set_mgid(mgid)
            .set_port_gid(self.gid(place))
            .set_p_key(PKey::DEFAULT_FULL)
            .set_join_state(state);
        let mask = if mgid == BROADCAST {
            MEMBERSHIP
        } else {
            MEMBERSHIP | TO_CREATE
        };
        self.host(place).ask(Method::SET, mask, &record).record()
    }

    /// Requests an alias GUID for a host at `index` of block 0 of its GUIDInfo. Returns the GUID
    /// that the SA assigned.
    fn request_alias(&mut self, place: usize, index: usize) -> Guid {
        let mut record = GuidInfoRecord::default();
        record.set_lid(self.hosted.lid(place)).set_block_num(0);
        let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
        let mask = mask | GuidInfoRecord::guid_component(index).expect("there is an index");
        let answer = self.host(place).ask(Method::SET, mask, &record);
        let answer: GuidInfoRecord = answer.record();
        let given = answer.guid_info().guid(index).expect("there is an index");
        assert!(!given.is_zero());
        given
    }

    /// Waits until the GUIDInfo of the port has the alias GUID at `index`.
    fn wait_alias(&self, place: usize, index: usize, alias: Guid) {
        let named = wait_for_every(Duration::from_millis(50), LIMIT, || {
            (self.hosted.guids(place).get(index) == Some(&alias)).then_some(())
        });
        assert!(named.is_some(), "{:?}", self.hosted.guids(place));
    }

    fn host(&mut self, place: usize) -> &mut Host {
        self.hosts.get_mut(&place).expect("there is a host")
    }

    /// All records of a kind, as a trusted requester sees them.
    fn all<R: Record>(&mut self) -> Vec<R> {
        let question = (Method::GET_TABLE, ComponentMask::NONE, SA_KEY);
        let answer = self.host(1).try_ask(LIMIT, question, &R::default());
        answer.expect("there is an answer").records()
    }

    /// Waits until exactly the hosts `to` receive a packet from `from`, one copy each.
    fn wait_delivered(&self, from: usize, mlid: Lid, to: &[usize]) {
        let expected: BTreeMap<usize, u32> = to.iter().map(|&place| (place, 1)).collect();
        let delivered = wait_for_every(Duration::from_millis(50), LIMIT, || {
            (self.hosted.receivers(from, mlid) == expected).then_some(())
        });
        assert!(
            delivered.is_some(),
            "{mlid:?} from {from}: {:?} and not {expected:?}",
            self.hosted.receivers(from, mlid)
        );
    }
}

/// Serves a fabric with hosts, and starts an rsm that answers.
fn start() -> (World, rsm_tests::process::Running) {
    let hosted = Managed::start(FABRIC);
    let mut first = hosted.host(1);
    let rsm = hosted.rsm(&mut first);
    let mut hosts = BTreeMap::from([(1, first)]);
    hosts.extend((2..=5).map(|place| (place, hosted.host(place))));
    (World { hosted, hosts }, rsm)
}

#[test]
fn members_services_and_alias_guids_survive_sigkill() {
    let (mut world, rsm) = start();
    let full = JoinState::FULL_MEMBER;
    for place in [1, 2, 3] {
        assert_eq!(world.join(place, BROADCAST, full).mlid(), Lid(0xC000));
    }
    let own = world.join(4, Gid(0), full);
    world.join(5, own.mgid(), JoinState::SEND_ONLY_NON_MEMBER);
    for (place, lease) in [(1, ServiceRecord::LEASE_INDEFINITE), (2, 3600)] {
        let mut service = ServiceRecord::default();
        service
            .set_service_id(place as u64)
            .set_service_gid(world.gid(place))
            .set_service_lease(lease);
        let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
        let mask = mask | ServiceRecord::SERVICE_LEASE;
        let answer = world.host(place).ask(Method::SET, mask, &service);
        let registered: ServiceRecord = answer.record();
        assert_eq!(registered.service_lease(), lease);
    }
    let alias = world.request_alias(3, 2);
    world.wait_delivered(1, Lid(0xC000), &[2, 3]);
    world.wait_delivered(5, own.mlid(), &[4]);
    world.wait_alias(3, 2, alias);
    std::thread::sleep(WRITE_TIME);
    let members: Vec<McMemberRecord> = world.all();
    let services: Vec<ServiceRecord> = world.all();
    assert_eq!((members.len(), services.len()), (5, 2));
    let tables = world.hosted.multicast_tables();
    let sets = world.hosted.sets();

    rsm.kill().unwrap();
    // rsm is down, and packets still reach every member.
    world.wait_delivered(2, Lid(0xC000), &[1, 3]);
    let mut first = world.hosts.remove(&1).expect("there is a host");
    let rsm = world.hosted.rsm(&mut first);
    world.hosts.insert(1, first);
    std::thread::sleep(QUIET_TIME);
    assert_eq!(world.hosted.sets(), sets, "{}", rsm.stderr_so_far());
    assert_eq!(world.hosted.multicast_tables(), tables);
    assert_eq!(world.all::<McMemberRecord>(), members);
    let again: Vec<ServiceRecord> = world.all();
    assert_eq!(again.len(), 2);
    assert_eq!(again[0], services[0]);
    let (before, after) = (services[1].service_lease(), again[1].service_lease());
    assert!((before - 600..before).contains(&after), "{before} {after}");
    world.wait_delivered(3, Lid(0xC000), &[1, 2]);
    world.wait_delivered(5, own.mlid(), &[4]);
    world.wait_alias(3, 2, alias);
    let mut path = PathRecord::default();
    path.set_sgid(world.gid(1))
        .set_dgid(Gid::new(0xFE80_0000_0000_0000, alias));
    let mask = PathRecord::SGID | PathRecord::DGID;
    let path: PathRecord = world.host(1).ask(Method::GET, mask, &path).record();
    assert_eq!(path.dlid(), world.hosted.lid(3));
    // New joins work as well.
    world.join(5, BROADCAST, full);
    world.wait_delivered(1, Lid(0xC000), &[2, 3, 5]);
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn registrations_acknowledged_just_before_sigkill_are_kept() {
    let (mut world, rsm) = start();
    let full = JoinState::FULL_MEMBER;
    world.join(1, BROADCAST, full);
    // The database has the registration from before this pause, but not the later ones: SIGKILL
    // comes too soon after them.
    std::thread::sleep(WRITE_TIME);
    for place in [2, 3, 4, 5] {
        world.join(place, BROADCAST, full);
    }
    let own = world.join(4, Gid(0), full);
    let mut service = ServiceRecord::default();
    service.set_service_id(7).set_service_gid(world.gid(2));
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let answer = world.host(2).ask(Method::SET, mask, &service);
    assert_eq!(answer.record::<ServiceRecord>().service_id(), 7);
    let alias = world.request_alias(3, 2);
    let mut leaving = McMemberRecord::default();
    leaving
        .set_mgid(BROADCAST)
        .set_port_gid(world.gid(1))
        .set_join_state(full);
    let left = world.host(1).ask(Method::DELETE, MEMBERSHIP, &leaving);
    assert_eq!(left.status(), Status::OK);
    rsm.kill().unwrap();

    let mut first = world.hosts.remove(&1).expect("there is a host");
    let rsm = world.hosted.rsm(&mut first);
    world.hosts.insert(1, first);
    let members: Vec<McMemberRecord> = world.all();
    let port_gids_of = |mgid: Gid| -> BTreeSet<Gid> {
        let members = members.iter().filter(|record| record.mgid() == mgid);
        members.map(|record| record.port_gid()).collect()
    };
    let expected = |places: &[usize]| places.iter().map(|&place| world.gid(place)).collect();
    assert_eq!(port_gids_of(BROADCAST), expected(&[2, 3, 4, 5]));
    assert_eq!(port_gids_of(own.mgid()), expected(&[4]));
    assert_eq!(world.all::<ServiceRecord>().len(), 1);
    world.wait_alias(3, 2, alias);
    let requests: Vec<u32> = (1..=5)
        .map(|place| world.hosts[&place].reregistrations())
        .collect();
    assert!(requests.iter().all(|&times| times <= 1), "{requests:?}");
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn members_receive_packets_after_sigkill_and_loss_of_the_store() {
    let (mut world, rsm) = start();
    let full = JoinState::FULL_MEMBER;
    for place in [1, 2, 3] {
        world.join(place, BROADCAST, full);
    }
    let own = world.join(4, Gid(0), full);
    world.join(2, own.mgid(), full);
    world.wait_delivered(1, Lid(0xC000), &[2, 3]);
    world.wait_delivered(4, own.mlid(), &[2]);
    rsm.kill().unwrap();
    std::fs::remove_dir_all(world.hosted.state()).unwrap();
    let mut first = world.hosts.remove(&1).expect("there is a host");
    let rsm = world.hosted.rsm(&mut first);
    world.hosts.insert(1, first);
    assert!(
        world
            .all::<McMemberRecord>()
            .iter()
            .all(|record| record.port_gid() == Gid(0))
    );
    // One member joins again and a new member joins; the other members do not join again.
    world.join(1, BROADCAST, full);
    world.join(5, BROADCAST, full);
    world.wait_delivered(1, Lid(0xC000), &[2, 3, 5]);
    world.wait_delivered(3, Lid(0xC000), &[1, 2, 5]);
    world.wait_delivered(4, own.mlid(), &[2]);
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}
