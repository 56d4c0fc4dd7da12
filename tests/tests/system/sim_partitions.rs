//! Partitions: P_KeyTables follow the file, with the fewest SMPs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, PKey, PKeyTable, PortInfo, PortState};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::policy::Policy;
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect, partitions};

const LIMIT: Duration = Duration::from_secs(60);

const SPEC: &str = "fat-tree:k=4,levels=3";

/// A partition file: all ports in one partition, half of the hosts in a second partition, one host
/// in a third partition.
fn three_partitions(world: &World) -> String {
    let hosts = hosts(world);
    let mut text = "Default=0x7fff : ALL=limited, SELF=full, ALL_SWITCHES=full ;\n\
                    Half=0x10, indx0 :"
        .to_owned();
    for (host, _) in hosts.iter().step_by(2) {
        text.push_str(&format!(" {host}=full,"));
    }
    text.push_str(&format!(";\nOne=0x11 : {}=full ;", hosts[1].0));
    text
}

/// The port GUIDs of the hosts, each with its port.
fn hosts(world: &World) -> Vec<(Guid, (Guid, PortNum))> {
    let reach = expect::reach(world, &[]);
    let adapters = reach
        .end_ports
        .iter()
        .filter(|port| port.1 != PortNum::ZERO);
    let plan = world.manager().core().plan().expect("there is a plan");
    let guid = |port: (Guid, PortNum)| {
        let key = PortKey::new(port.0, port.1);
        let at = plan.fabric.find_port(key).expect("it was met");
        plan.fabric.port(at).guid
    };
    adapters.map(|&port| (guid(port), port)).collect()
}

/// Reloads the configuration with this policy, and asserts that the subnet is up without findings.
fn reload(world: &mut World, policy: Arc<Policy>) {
    let config = CoreConfig {
        policy,
        ..CoreConfig::default()
    };
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
    expect::assert_up(world);
    expect::assert_no_findings(world);
}

fn settings(policy: Arc<Policy>) -> Settings {
    let mut settings = Settings::default();
    settings.core.policy = policy;
    settings
}

/// The number of Gets or Sets of P_KeyTable so far.
fn p_key_smps(world: &World, method: Method) -> usize {
    let counters = world.sim.counters();
    counters.received(AttrId::P_KEY_TABLE, method) as usize
}

/// The P_Key tables that differ from the initial table.
fn tables(world: &World) -> BTreeMap<(Guid, PortNum), Vec<PKey>> {
    let nodes = world.sim.nodes();
    let ports = nodes.flat_map(|(guid, _)| {
        let last = world.sim.num_ports(guid).unwrap();
        (0..=last).map(move |port| (guid, PortNum(port)))
    });
    ports
        .filter(|port| world.sim.port_info(port.0, port.1).is_ok())
        .map(|port| (port, partitions::held(&world.sim, port)))
        .filter(|(_, keys)| keys[..] != [PKey::DEFAULT_FULL])
        .collect()
}

#[test]
fn without_a_file_one_block_of_each_end_port_is_read_and_none_is_set() {
    let world = World::brought_up(SPEC, Settings::default());
    let end_ports = expect::reach(&world, &[]).end_ports.len();
    assert_eq!(p_key_smps(&world, Method::GET), end_ports);
    assert_eq!(p_key_smps(&world, Method::SET), 0);
}

#[test]
fn with_a_file_each_p_key_table_is_set_once_before_activation() {
    let text = three_partitions(&World::brought_up(SPEC, Settings::default()));
    let mut world = World::generated(SPEC, settings(partitions::policy(&text)));
    world.sim.start_journal(1 << 16);
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);

    let hosts = hosts(&world);
    let end_ports = expect::reach(&world, &[]).end_ports.len();
    assert_eq!(p_key_smps(&world, Method::GET), end_ports);
    // Only ports of switches keep the power-on table. The core sets the switch ports towards hosts
    // without reading them.
    assert_eq!(p_key_smps(&world, Method::SET), 2 * hosts.len());

    let local = world.manager().local(&world.sim).unwrap();
    for (index, &(guid, port)) in hosts.iter().enumerate() {
        let default = if port == local { 0xffff } else { 0x7fff };
        let expected: &[u16] = match index {
            1 => &[0x7fff, 0x8011],
            _ if index % 2 == 0 => &[0x8010, default],
            _ => &[default],
        };
        let held: Vec<u16> = partitions::held(&world.sim, port)
            .iter()
            .map(|key| key.0)
            .collect();
        assert_eq!(held, expected, "{guid}");
        let facing = world.sim.peer(port.0, port.1).unwrap().unwrap();
        assert_eq!(
            partitions::held(&world.sim, facing),
            partitions::held(&world.sim, port)
        );
        let info = world.sim.port_info(facing.0, facing.1).unwrap();
        assert!(info.partition_enforcement_inbound() && info.partition_enforcement_outbound());
    }

    let journal = world.sim.take_journal().unwrap();
    let mut keyed = Vec::new();
    let mut activated = 0;
    for entry in journal.entries() {
        let switch = world.sim.switch_info(entry.node).is_ok();
        if entry.attribute == PKeyTable::ID {
            let port = match switch {
                true => PKeyTable::modifier_port(entry.modifier),
                false => entry.port,
            };
            keyed.push((entry.node, port));
        }
        let info = PortInfo::from_data(&entry.data);
        if entry.attribute == PortInfo::ID && info.port_state() == PortState::Active {
            let port = match switch {
                true => PortInfo::modifier_port(entry.modifier),
                false => entry.port,
            };
            if hosts.iter().any(|&(_, host)| host == (entry.node, port)) {
                let facing = world.sim.peer(entry.node, port).unwrap().unwrap();
                assert!(keyed.contains(&(entry.node, port)), "{}", entry.node);
                assert!(keyed.contains(&facing), "{}", entry.node);
                activated += 1;
            }
        }
    }
    assert_eq!((journal.overwritten, activated), (0, hosts.len()));
}

#[test]
fn after_a_reload_kept_keys_keep_their_index() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let host = hosts(&world)[2];
    let before = tables(&world);
    let file = |keys: &[u16]| {
        let mut text = "Default=0x7fff : ALL=full ;\n".to_owned();
        for key in keys {
            text.push_str(&format!("P=0x{key:x} : {}=full ;\n", host.0));
        }
        partitions::policy(&text)
    };
    let held = |world: &World| -> Vec<u16> {
        let keys = partitions::held(&world.sim, host.1);
        keys.iter().map(|key| key.0).collect()
    };
    reload(&mut world, file(&[1, 2, 3]));
    assert_eq!(held(&world), [0xffff, 0x8001, 0x8002, 0x8003]);
    let sets = p_key_smps(&world, Method::SET);
    reload(&mut world, file(&[1, 2, 4, 5]));
    assert_eq!(held(&world), [0xffff, 0x8001, 0x8002, 0, 0x8004, 0x8005]);
    assert_eq!(
        p_key_smps(&world, Method::SET),
        sets + 2,
        "the host's, and that of the port it is cabled to"
    );
    reload(&mut world, file(&[5, 6]));
    assert_eq!(held(&world), [0xffff, 0, 0, 0x8006, 0, 0x8005]);

    // The host gets thirty keys, and then only the default key, because there is no file.
    let many: Vec<u16> = (1..=30).collect();
    reload(&mut world, file(&many));
    assert_eq!(held(&world)[5], 0x8005);
    reload(&mut world, Arc::default());
    let facing = world.sim.peer(host.1.0, host.1.1).unwrap().unwrap();
    let mut after = tables(&world);
    // A port without enforcement keeps its table.
    assert!(after.remove(&facing).is_some());
    assert_eq!(after, before);
}

#[test]
fn default_key_returns_to_index_0_when_the_partition_there_is_removed() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let host = hosts(&world)[2];
    let held = |world: &World| -> Vec<u16> {
        let keys = partitions::held(&world.sim, host.1);
        keys.iter().map(|key| key.0).collect()
    };
    let default = "Default=0x7fff : ALL=full ;";
    let first = format!(
        "{default} P=0x10, indx0 : {}=full ; Q=0x11 : {}=full ;",
        host.0, host.0
    );
    let second = format!("{default} Q=0x11 : {}=full ;", host.0);
    for memory in [None, Some(Memory::Kept), Some(Memory::Lost)] {
        reload(&mut world, partitions::policy(&first));
        assert_eq!(held(&world)[0], 0x8010);
        match memory {
            None => reload(&mut world, partitions::policy(&second)),
            // The next manager begins without a file.
            Some(memory) => {
                world.kill(0);
                world.start(0, memory);
                world.settle(LIMIT);
            }
        }
        let now = held(&world);
        assert_eq!(now[0], 0xffff, "{memory:?}: {now:x?}");
        let kept = now[1..].contains(&0x8011);
        assert_eq!(
            (kept, now[1..].contains(&0xffff)),
            (memory.is_none(), false),
            "{now:x?}"
        );
    }
}

#[test]
fn after_a_restart_no_p_key_table_is_set() {
    for memory in [Memory::Kept, Memory::Lost] {
        let text = three_partitions(&World::brought_up(SPEC, Settings::default()));
        let mut world = World::brought_up(SPEC, settings(partitions::policy(&text)));
        let hosts = hosts(&world).len();
        let before = tables(&world);
        let sets = expect::sets(&world.sim.counters());
        let gets = p_key_smps(&world, Method::GET);
        world.kill(0);
        world.run_for(Duration::from_secs(3));
        world.start(0, memory);
        world.settle(LIMIT);
        assert_eq!(expect::sets(&world.sim.counters()), sets, "{memory:?}");
        assert_eq!(tables(&world), before);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        // Each block of each end port, and of the enforcing ports, is read.
        let config = world.sim.config();
        let blocks = usize::from(config.partition_cap / 32);
        let enforced = usize::from(config.partition_enforcement_cap / 32);
        let end_ports = expect::reach(&world, &[]).end_ports.len();
        assert_eq!(
            p_key_smps(&world, Method::GET) - gets,
            end_ports * blocks + hosts * enforced
        );
        let gets = p_key_smps(&world, Method::GET);
        world.run_for(Duration::from_secs(60));
        world.command(Command::Resweep {
            full: false,
            ticket: 1,
        });
        world.settle(LIMIT);
        // Each of seven light sweeps reads back at most eight blocks of P_KeyTables for a switch
        // and the hosts behind it.
        let switches = world.nodes(rsm_routing::netlist::NodeKind::Switch).len();
        let read_back = p_key_smps(&world, Method::GET) - gets;
        assert!(read_back <= 7 * 8 * switches, "{read_back} of {switches}");
    }
}

/// The core finds keys of an earlier manager at any index, even behind unused indices.
#[test]
fn keys_of_another_manager_are_removed() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let host = hosts(&world)[3];
    let file = |keys: std::ops::RangeInclusive<u16>| {
        let text: String = keys
            .map(|key| format!("P=0x{key:x} : {}=full ;\n", host.0))
            .collect();
        partitions::policy(&format!("{text}Default : ALL=full ;"))
    };
    let full = CoreConfig {
        policy: file(1..=100),
        ..CoreConfig::default()
    };
    world.event(Event::Reload(Box::new(full)));
    world.settle(LIMIT);
    let findings = world.manager().findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].0, "partition-table-too-small");
    // Now the table has one key in its first block, and one in its last.
    reload(&mut world, file(100..=100));
    let held = partitions::held(&world.sim, host.1);
    assert_eq!(
        (held.len(), held[0], held[100]),
        (101, PKey(0xffff), PKey(0x8064))
    );
    assert!(held[1..100].iter().all(|key| !key.is_valid()));

    // The next manager begins without a file.
    world.kill(0);
    world.start(0, Memory::Lost);
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(partitions::held(&world.sim, host.1), [PKey::DEFAULT_FULL]);
}

#[test]
fn a_host_that_was_reset_gets_its_keys_back() {
    let text = three_partitions(&World::brought_up(SPEC, Settings::default()));
    let mut world = World::brought_up(SPEC, settings(partitions::policy(&text)));
    let before = tables(&world);
    let switch = world
        .sim
        .nodes()
        .find(|(guid, _)| world.sim.switch_info(*guid).is_ok());
    for node in [hosts(&world)[2].1.0, switch.unwrap().0] {
        world.sim.reboot(node).unwrap();
        world.run_for(Duration::from_secs(30));
        world.settle(LIMIT);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        assert_eq!(tables(&world), before);
    }
}

/// All SMPs for P_KeyTables are lost for two minutes.
#[test]
fn a_port_without_its_keys_is_not_activated() {
    let text = three_partitions(&World::brought_up(SPEC, Settings::default()));
    let mut world = World::generated(SPEC, settings(partitions::policy(&text)));
    world
        .sim
        .set_attribute_loss(AttrId::P_KEY_TABLE, 1.0)
        .unwrap();
    world.run_for(Duration::from_secs(120));
    let reach = expect::reach(&world, &[]);
    let local = world.manager().local(&world.sim).unwrap();
    for &port in reach
        .end_ports
        .iter()
        .filter(|port| port.1 != PortNum::ZERO)
    {
        let info = world.sim.port_info(port.0, port.1).unwrap();
        let state = info.port_state();
        assert_eq!(state, PortState::Armed, "{} {}", port.0, port == local);
    }
    world
        .sim
        .set_attribute_loss(AttrId::P_KEY_TABLE, 0.0)
        .unwrap();
    world.settle(Duration::from_secs(120));
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn a_refused_configuration_is_a_finding_until_the_next_valid_one() {
    let mut world = World::brought_up("ring:3", Settings::default());
    let why = Finding::new(
        FindingKind::ConfigRefused,
        Subject::Subnet,
        Severity::Error,
        "partitions.conf:1:1: error".to_owned(),
    );
    world.event(Event::Refused(vec![why]));
    world.settle(LIMIT);
    assert_eq!(
        world.manager().findings(),
        [("config-refused", "subnet".to_owned())]
    );
    expect::assert_up(&world);
    reload(&mut world, Arc::default());
}
