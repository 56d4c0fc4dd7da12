//! A host that shows generally known keys through umad reads no M_Key, and changes nothing of other
//! hosts.

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

/// A fabric of two switches, with hosts at both.
const FABRIC: &str = "fat-tree:k=4,levels=2";

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// The key of OpenSM's and rsm's defaults.
const KNOWN: u64 = 1;

/// An SM_Key of the site's own, which SMInfo shows.
const SM_KEY: u64 = 0x77;

/// The index of the host that is attacked.
const VICTIM: usize = 2;

const NAMED: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The settings of M_Keys: one for each port, and one key for all ports.
const M_KEYS: [&str; 2] = ["per-port", "one"];

/// A fabric whose ports hold M_Keys, with rsm, the victim and the attacker.
struct Attacked {
    managed: Managed,
    rsm: rsm_tests::process::Running,
    victim: Host,
    attacker: Host,
}

impl Attacked {
    /// Starts the fabric. `sm_key` is the SM_Key of the managers, and `has_own` says whether the SA
    /// has a key of its own.
    fn start(m_keys: &str, sm_key: u64, has_own: bool) -> Attacked {
        let managed = Managed::start(FABRIC);
        let folder = managed.fabric.directory().join("conf");
        let config = sa_key::configuration(&folder);
        let secret = folder.join("m-key-secret");
        std::fs::copy(folder.join("sa.key"), &secret).unwrap();
        std::fs::write(&secret, "07".repeat(32)).unwrap();
        if !has_own {
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
        Attacked {
            managed,
            rsm,
            victim,
            attacker,
        }
    }

    /// The M_Keys that the attacker reads with `key`; `None` without an answer.
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
        let joined = self.victim.ask(Method::SET, NAMED, &member);
        assert_eq!(joined.status(), Status::OK);
        let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
        let named = self
            .victim
            .ask(Method::SET, mask | ServiceRecord::SERVICE_LEASE, &service);
        assert_eq!(named.status(), Status::OK);
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

    /// Tries to change registrations of the victim with `key`; returns the statuses of the answers,
    /// `None` without one.
    fn attack(&mut self, key: u64) -> [Option<Status>; 3] {
        let (member, service) = (self.membership(), self.service());
        let mut alias = GuidInfoRecord::default();
        alias.set_lid(self.managed.lid(VICTIM)).set_block_num(0);
        let of_alias = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
        let of_alias = of_alias | GuidInfoRecord::guid_component(2).expect("there is an index");
        let of_service = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
        let patience = Duration::from_secs(1);
        let host = &mut self.attacker;
        let leave = host.try_ask(patience, (Method::DELETE, NAMED, key), &member);
        let forget = host.try_ask(patience, (Method::DELETE, of_service, key), &service);
        let name = host.try_ask(patience, (Method::SET, of_alias, key), &alias);
        [leave, forget, name].map(|answer| answer.map(|answer| answer.status()))
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
fn keys_that_everybody_knows_read_no_m_key_and_change_nothing_of_others() {
    for m_keys in M_KEYS {
        for sm_key in [KNOWN, SM_KEY] {
            let mut attacked = Attacked::start(m_keys, sm_key, false);
            attacked.register();
            for key in [0, KNOWN, SM_KEY] {
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
fn the_own_key_of_the_sa_opens_what_no_other_key_does() {
    // Both wait for answers that do not come.
    std::thread::scope(|scope| {
        for m_keys in M_KEYS {
            scope.spawn(move || assert_only_the_own_key_opens(m_keys));
        }
    });
}

fn assert_only_the_own_key_opens(m_keys: &str) {
    let mut attacked = Attacked::start(m_keys, SM_KEY, true);
    attacked.register();
    for key in [0, KNOWN] {
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
