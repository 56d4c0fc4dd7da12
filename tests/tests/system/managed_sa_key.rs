//! A host that sends SA requests with well-known keys reads no M_Key, and changes no registration
//! of another host.

use std::time::Duration;

use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{
    ComponentMask, GuidInfoRecord, JoinState, McMemberRecord, PortInfoRecord, ServiceRecord,
};
use rsm_tests::answering::Host;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for_every;
use rsm_tests::managed::Managed;
use rsm_tests::sa_key::{self, SA_KEY};

/// A fabric of four leaves with two hosts each, and two spines.
const FABRIC: &str = "fat-tree:k=4,levels=2";

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// The default SM_Key of OpenSM and rsm.
const DEFAULT_KEY: u64 = 1;

/// An SM_Key that the site has chosen, which SMInfo shows to every host.
const SM_KEY: u64 = 0x77;

/// The index of the host that is attacked.
const VICTIM: usize = 2;

/// The components that identify a membership: MGID, PortGID and JoinState.
const MEMBERSHIP: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The settings of M_Keys: one for each port, and one key for all ports.
const M_KEYS: [&str; 2] = ["per-port", "one"];

/// A fabric whose ports hold M_Keys, with rsm, the victim and the attacker.
struct AttackedFabric {
    managed: Managed,
    rsm: rsm_tests::process::Running,
    victim: Host,
    attacker: Host,
}

impl AttackedFabric {
    /// Starts the fabric. `m_keys` is the setting of M_Keys, `sm_key` is the SM_Key of the
    /// managers, and `has_sa_key` says whether the SA has a key of its own.
    fn start(m_keys: &str, sm_key: u64, has_sa_key: bool) -> AttackedFabric {
        let managed = Managed::start(FABRIC);
        let folder = managed.fabric.directory().join("conf");
        let config = sa_key::configuration(&folder);
        let secret = folder.join("m-key-secret");
        std::fs::copy(folder.join("sa.key"), &secret).unwrap();
        std::fs::write(&secret, "07".repeat(32)).unwrap();
        if !has_sa_key {
            std::fs::remove_file(folder.join("sa.key")).unwrap();
        }
        let text = format!(
            "[sm]\nsm_key = \"{sm_key:#x}\"\nm_keys = {m_keys:?}\nm_key = \"0x4d4b\"\n\
             m_key_secret_file = {secret:?}\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut victim = managed.host(VICTIM);
        let rsm = managed.rsm_with(&mut victim, &["--config", config.to_str().unwrap()]);
        let attacker = managed.host(3);
        AttackedFabric {
            managed,
            rsm,
            victim,
            attacker,
        }
    }

    /// The M_Keys of all ports as the attacker reads them with `key`, 0 if hidden; `None` without
    /// an answer.
    fn m_keys(&mut self, key: u64) -> Option<Vec<u64>> {
        let question = (Method::GET_TABLE, ComponentMask::NONE, key);
        let template = PortInfoRecord::default();
        let answer = self
            .attacker
            .try_ask(Duration::from_secs(1), question, &template)?;
        let records = answer.records::<PortInfoRecord>();
        Some(
            records
                .iter()
                .map(|record| record.port_info().m_key())
                .collect(),
        )
    }

    /// Joins the victim to the broadcast group, and registers a service for it.
    fn register(&mut self) {
        let (member, service) = (self.membership(), self.service());
        let joined = self.victim.ask(Method::SET, MEMBERSHIP, &member);
        assert_eq!(joined.status(), Status::OK);
        let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
        let registered =
            self.victim
                .ask(Method::SET, mask | ServiceRecord::SERVICE_LEASE, &service);
        assert_eq!(registered.status(), Status::OK);
    }

    fn membership(&self) -> McMemberRecord {
        let mut record = McMemberRecord::default();
        record
            .set_mgid(BROADCAST)
            .set_port_gid(self.managed.gid(VICTIM))
            .set_p_key(PKey::DEFAULT_FULL)
            .set_join_state(JoinState::FULL_MEMBER);
        record
    }

    fn service(&self) -> ServiceRecord {
        let mut record = ServiceRecord::default();
        record
            .set_service_id(7)
            .set_service_gid(self.managed.gid(VICTIM))
            .set_service_lease(ServiceRecord::LEASE_INDEFINITE);
        record
    }

    /// Tries to delete the victim's membership and service and to assign it an alias GUID, each
    /// with `key`. Returns the statuses of the answers, `None` without an answer.
    fn attack(&mut self, key: u64) -> [Option<Status>; 3] {
        let (member, service) = (self.membership(), self.service());
        let mut alias = GuidInfoRecord::default();
        alias.set_lid(self.managed.lid(VICTIM)).set_block_num(0);
        let of_alias = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
        let of_alias = of_alias | GuidInfoRecord::guid_component(2).expect("there is an index");
        let of_service = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
        let patience = Duration::from_secs(1);
        let host = &mut self.attacker;
        let leave = host.try_ask(patience, (Method::DELETE, MEMBERSHIP, key), &member);
        let forget = host.try_ask(patience, (Method::DELETE, of_service, key), &service);
        let assign = host.try_ask(patience, (Method::SET, of_alias, key), &alias);
        [leave, forget, assign].map(|answer| answer.map(|answer| answer.status()))
    }

    /// Whether the victim's membership, service and alias GUIDs are as the victim left them.
    fn is_untouched(&mut self) -> bool {
        let of_service = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
        let service = self.service();
        let found = self.victim.ask(Method::GET_TABLE, of_service, &service);
        let mut member = McMemberRecord::default();
        member
            .set_mgid(BROADCAST)
            .set_port_gid(self.managed.gid(VICTIM));
        let of_member = McMemberRecord::MGID | McMemberRecord::PORT_GID;
        let joined = self.victim.ask(Method::GET_TABLE, of_member, &member);
        let guids = self.managed.guids(VICTIM);
        found.records::<ServiceRecord>().len() == 1
            && joined.records::<McMemberRecord>().len() == 1
            && guids.get(2).is_none_or(|guid| guid.is_zero())
    }

    fn stop(self) {
        self.rsm.terminate(LIMIT).unwrap().success().unwrap();
    }
}

#[test]
fn well_known_keys_read_no_m_key_and_change_nothing_of_other_hosts() {
    for m_keys in M_KEYS {
        for sm_key in [DEFAULT_KEY, SM_KEY] {
            let mut attacked = AttackedFabric::start(m_keys, sm_key, false);
            attacked.register();
            for key in [0, DEFAULT_KEY, SM_KEY] {
                let read = attacked.m_keys(key).expect("it is answered");
                assert!(
                    read.len() > 4 && read.iter().all(|key| *key == 0),
                    "{key:#x}: {read:x?}"
                );
                let statuses = attacked.attack(key);
                let refused = |status: &Option<Status>| status.is_some_and(|s| s != Status::OK);
                assert!(statuses.iter().all(refused), "{key:#x}: {statuses:?}");
                assert!(attacked.is_untouched(), "{key:#x}");
            }
            attacked.stop();
        }
    }
}

#[test]
fn only_the_key_of_the_sa_reads_m_keys_and_changes_other_hosts() {
    // Both settings wait for answers that do not come: they are tested at the same time.
    std::thread::scope(|scope| {
        for m_keys in M_KEYS {
            scope.spawn(move || assert_only_the_sa_key_is_trusted(m_keys));
        }
    });
}

/// Asserts that only [`SA_KEY`] reads M_Keys and changes registrations of another host.
fn assert_only_the_sa_key_is_trusted(m_keys: &str) {
    let mut attacked = AttackedFabric::start(m_keys, SM_KEY, true);
    attacked.register();
    for key in [0, DEFAULT_KEY] {
        let read = attacked.m_keys(key).expect("it is answered");
        assert!(read.iter().all(|key| *key == 0), "{key:#x}: {read:x?}");
        assert!(
            attacked
                .attack(key)
                .iter()
                .all(|status| *status != Some(Status::OK))
        );
    }
    // A wrong key gets no answer, so that trying keys reveals nothing.
    for key in [SM_KEY, SA_KEY ^ 1] {
        assert_eq!(attacked.m_keys(key), None);
        assert_eq!(attacked.attack(key), [None; 3]);
    }
    assert!(attacked.is_untouched());
    let read = wait_for_every(Duration::from_millis(100), LIMIT, || {
        attacked
            .m_keys(SA_KEY)
            .filter(|keys| keys.iter().any(|key| *key != 0))
    });
    assert!(read.is_some(), "{}", attacked.rsm.stderr_so_far());
    assert_eq!(attacked.attack(SA_KEY), [Some(Status::OK); 3]);
    assert!(!attacked.is_untouched());
    attacked.stop();
}
