//! Hosts are asked to register again with the SA when their registrations end (IBA 14.4.11).

use std::sync::Arc;
use std::time::Duration;

use rsm_core::{CoreConfig, Event};
use rsm_ids::PortNum;
use rsm_mad::transport::PortEvent;
use rsm_plan::policy::Policy;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

fn reload(world: &mut World, change: impl FnOnce(&mut Policy)) {
    let mut policy = Policy::default();
    change(&mut policy);
    let config = CoreConfig {
        policy: Arc::new(policy),
        ..CoreConfig::default()
    };
    world.event(Event::Reload(Box::new(config)));
    world.settle(LIMIT);
    expect::assert_up(world);
    expect::assert_no_findings(world);
}

#[test]
fn changed_subnet_prefix_makes_hosts_register_again_and_other_settings_do_not() {
    let mut world = World::brought_up("fat-tree:k=4,levels=2", Settings::default());
    let local = world.manager().local(&world.sim).expect("it has a port");
    let ends = expect::reach(&world, &[]).end_ports;
    let hosts = ends
        .into_iter()
        .filter(|&port| port.1 != PortNum::ZERO && port != local);
    let hosts: Vec<_> = hosts.collect();
    let listeners: Vec<_> = hosts
        .iter()
        .map(|&(node, port)| world.listen(node, port))
        .collect();
    let prefix = 0xfe80_0000_0000_0006;
    let change = |policy: &mut Policy| policy.ports.subnet_prefix = prefix;
    reload(&mut world, change);
    for (&(node, port), &listener) in hosts.iter().zip(&listeners) {
        let info = world.sim.port_info(node, port).expect("it is there");
        assert_eq!(info.gid_prefix(), prefix);
        assert_eq!(world.take_heard(listener), [PortEvent::ClientReregister]);
    }
    reload(&mut world, |policy| {
        change(policy);
        policy.ports.links.subnet_timeout += 1;
    });
    for &listener in &listeners {
        assert_eq!(world.take_heard(listener), []);
    }
    reload(&mut world, |policy| {
        policy.ports.links.subnet_timeout += 1;
        policy.ports.reregisters = false;
    });
    for &listener in &listeners {
        assert_eq!(
            world.take_heard(listener),
            [],
            "the operator has turned it off"
        );
    }
}
