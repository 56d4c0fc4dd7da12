//! Hosts that act against the subnet: the core calls a host hostile only with a proof, and no host
//! can make another host count as hostile.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_core::Hostility;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_model::findings::Subject;
use rsm_routing::netlist::NodeKind;
use rsm_sim::AttachId;
use rsm_tests::virtual_time::{ForeignManager, Settings, World};

const FABRIC: &str = "pgft:2;4,2;1,2;1,1";

const LIMIT: Duration = Duration::from_secs(60);
const PORT_1: PortNum = PortNum(1);

struct Site {
    world: World,
    /// The hosts except the manager's.
    hosts: Vec<Guid>,
}

impl Site {
    fn up() -> Site {
        Site::up_with(FABRIC)
    }

    fn up_with(fabric: &str) -> Site {
        let world = World::brought_up(fabric, Settings::default());
        let own = world.manager().local(&world.sim).expect("it has a port").0;
        let mut hosts = world.nodes(NodeKind::Ca);
        hosts.retain(|&host| host != own);
        Site { world, hosts }
    }

    fn lid(&self, node: Guid, port: PortNum) -> Lid {
        self.world
            .sim
            .port_info(node, port)
            .expect("it is there")
            .lid()
    }

    /// The LID of the manager's port.
    fn manager_lid(&self) -> Lid {
        let (node, port) = self.world.manager().local(&self.world.sim).expect("a port");
        self.lid(node, port)
    }

    /// Sends a trap to the manager from the port to which a program is attached.
    fn trap(&mut self, from: AttachId, notice: &Notice) {
        let smp = Smp::lid_routed(&SmpRequest {
            method: Method::TRAP,
            attribute: Notice::ID,
            modifier: 0,
            tid: Tid(1),
            m_key: 0,
            data: *notice.as_data(),
        });
        let datagram = Datagram {
            mad: *smp.as_bytes(),
            remote: RemoteAddress::smi(self.manager_lid()),
        };
        self.world.send_from(from, &datagram);
        self.world.run_for(Duration::from_millis(1));
    }

    /// The ports that count as hostile, each with the last act of its host.
    fn hostile(&self) -> BTreeMap<PortKey, Hostility> {
        let ports = self.world.manager().core().hostile_ports(self.world.now());
        let ports = ports.into_iter();
        ports.map(|(port, (what, _))| (port, what)).collect()
    }
}

fn port(node: Guid) -> PortKey {
    PortKey::new(node, PORT_1)
}

/// A report of the port at `reporter` that the port at `culprit` has sent a Set with a wrong M_Key.
fn bad_m_key(reporter: Lid, culprit: Lid) -> Notice {
    let mut details = BadMKey::default();
    details.set_lid(culprit).set_method(Method::SET);
    let (kind, producer) = (NoticeType::Security, ProducerType::CA);
    Notice::generic(kind, producer, Trap::BAD_M_KEY, reporter, &details)
}

#[test]
fn host_that_forges_traps_is_hostile_and_the_host_that_it_names_is_not() {
    let mut site = Site::up();
    let (forger, victim) = (site.hosts[0], site.hosts[1]);
    let program = site.world.listen(forger, PORT_1);
    let victims = site.lid(victim, PORT_1);
    let details = GidChange::default();
    let (kind, producer) = (NoticeType::Security, ProducerType::CA);
    let gone = Notice::generic(kind, producer, Trap::GID_OUT_OF_SERVICE, victims, &details);
    for _ in 0..2 {
        site.trap(program, &gone);
    }
    assert_eq!(site.hostile(), BTreeMap::new(), "two may be a mistake");
    site.trap(program, &gone);
    assert_eq!(
        site.hostile(),
        BTreeMap::from([(port(forger), Hostility::ForgesTraps)])
    );
    let last =
        |site: &Site| site.world.manager().core().hostile_ports(site.world.now())[&port(forger)].1;
    let before = last(&site);
    site.world.run_for(Duration::from_secs(5));
    assert_eq!(last(&site), before);
    site.trap(program, &gone);
    assert!(last(&site) > before);
}

#[test]
fn wrong_m_keys_make_a_host_hostile_if_a_switch_reports_them_and_not_if_hosts_do() {
    let mut site = Site::up();
    let culprit = site.lid(site.hosts[0], PORT_1);
    // Two other hosts report the host.
    for accuser in [site.hosts[1], site.hosts[2]] {
        let program = site.world.listen(accuser, PORT_1);
        let own = site.lid(accuser, PORT_1);
        for _ in 0..20 {
            site.trap(program, &bad_m_key(own, culprit));
        }
    }
    assert_eq!(site.hostile(), BTreeMap::new());
    let switch = site.world.nodes(NodeKind::Switch)[0];
    let agent = site.world.listen(switch, PortNum::ZERO);
    let own = site.lid(switch, PortNum::ZERO);
    for sets in 1..=3 {
        site.trap(agent, &bad_m_key(own, culprit));
        let expected = match sets {
            3 => BTreeMap::from([(port(site.hosts[0]), Hostility::WrongMKeys)]),
            _ => BTreeMap::new(),
        };
        assert_eq!(site.hostile(), expected, "{sets} Sets");
    }
}

#[test]
fn managers_with_another_sm_key_are_hostile_and_other_managers_are_not() {
    let mut site = Site::up();
    let with_key = |site: &Site, host: usize, sm_key| ForeignManager {
        sm_key,
        ..ForeignManager::new(site.hosts[host], 0, SmState::Standby)
    };
    let own_key = Settings::default().core.mastership.identity.sm_key;
    let known = with_key(&site, 0, own_key);
    let stranger = with_key(&site, 1, 5);
    site.world.add_foreign(site.hosts[0], PORT_1, known);
    let attach = site.world.add_foreign(site.hosts[1], PORT_1, stranger);
    site.world.run_for(Duration::from_secs(30));
    site.world.settle(LIMIT);
    let expected = BTreeMap::from([(port(site.hosts[1]), Hostility::Manages)]);
    assert_eq!(site.hostile(), expected);
    // The last act counts: an order that no manager gives to a master.
    site.world.order(attach, SmControl::DISABLE);
    site.world.run_for(Duration::from_secs(1));
    let expected = BTreeMap::from([(port(site.hosts[1]), Hostility::OrdersManager)]);
    assert_eq!(site.hostile(), expected);
}

#[test]
fn switches_and_the_managers_own_host_are_never_hostile() {
    let mut site = Site::up();
    let switch = site.world.nodes(NodeKind::Switch)[0];
    let agent = site.world.listen(switch, PortNum::ZERO);
    let foreign = site.lid(site.hosts[0], PORT_1);
    let details = GidChange::default();
    let (kind, producer) = (NoticeType::Security, ProducerType::CA);
    let gone = Notice::generic(kind, producer, Trap::GID_OUT_OF_SERVICE, foreign, &details);
    let own = site.manager_lid();
    for _ in 0..50 {
        site.trap(agent, &gone);
        site.trap(agent, &bad_m_key(foreign, own));
    }
    assert_eq!(site.hostile(), BTreeMap::new());
    let kinds: Vec<&str> = site
        .world
        .manager()
        .findings()
        .iter()
        .map(|(kind, _)| *kind)
        .collect();
    assert!(
        kinds.contains(&"forged-trap"),
        "the switch is named: {kinds:?}"
    );
}

#[test]
fn host_that_reports_wrong_m_keys_of_all_ports_has_one_finding() {
    let mut site = Site::up_with("fat-tree:k=4,levels=3");
    let reporter = site.hosts[0];
    let program = site.world.listen(reporter, PORT_1);
    let own = site.lid(reporter, PORT_1);
    let others: Vec<Lid> = site.hosts[1..]
        .iter()
        .map(|&host| site.lid(host, PORT_1))
        .collect();
    let switches = site.world.nodes(NodeKind::Switch).into_iter();
    let switches = switches.map(|switch| site.lid(switch, PortNum::ZERO));
    let culprits: Vec<Lid> = others.into_iter().chain(switches).collect();
    assert!(culprits.len() > 30);
    for &culprit in &culprits {
        site.trap(program, &bad_m_key(own, culprit));
    }
    site.world.run_for(Duration::from_secs(1));
    let findings = &site.world.manager().snapshot().expect("it is up").findings;
    let found = findings
        .iter()
        .filter(|one| one.kind.code() == "key-violation");
    let found: Vec<_> = found.collect();
    let [finding] = found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(finding.subject, Subject::Port(port(reporter)));
    assert!(
        finding.text.contains("reports 16 times") && finding.text.contains("and 15 more"),
        "{}",
        finding.text
    );
}
