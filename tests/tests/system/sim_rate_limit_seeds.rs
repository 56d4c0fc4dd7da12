//! Rate limits under loss: hosts and virtual ports come, go and move between adapters that accept
//! limits, refuse them, drop them or are slow, while the manager is killed. At the end each port
//! and virtual port holds exactly the limits of the file, and none was Active without them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::{RateLimits, parse_rate_limits};
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::{AttrId, Method};
use rsm_plan::policy::Policy;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_sim::{Devices, VPortAt, VPortLids};
use rsm_tests::virtual_time::{Dice, Memory, Settings, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(600);
const TREE: &str = "fat-tree:k=4,levels=2,speed=ndr";
const PORT: PortNum = PortNum(1);
/// The number of virtual ports of each host at the start, including the physical function.
const VPORTS: u16 = 3;
/// The device ID of other adapters than the ConnectX-7 of the generated fabric: ConnectX-5.
const OTHER_DEVICE: u16 = 0x1017;
/// The first GUID of virtual ports; GUIDs with even numbers have a rule.
const FIRST_GUID: u64 = 0x00BB_0000;
const GUIDS: u64 = 64;
/// The limits in Mb/s that the rules call `slow` and `fast`.
const SLOW: u32 = 1000;
const FAST: u32 = 50_000;

/// The personalities of the adapters of the other model.
const OTHER_PERSONALITIES: [&str; 5] = [
    "refuses-rate-limits",
    "refuses-rate-limit-sets",
    "drops-rate-limits",
    "deaf-to-rate-limits",
    "general-info",
];

/// The additional habits of adapters that accept limits.
const PACES: [&str; 4] = ["", "+slow-processor", "+small-buffer", "+pauses"];

/// Rules for every second GUID of virtual ports, for the port GUID `special`, and for all other
/// GUIDs.
fn limits(special: Guid) -> Arc<RateLimits> {
    let mut text = format!("BW_NAMES\nslow = {SLOW}\nfast = {FAST}\nBW_RULES\ndefault = 1:fast\n");
    for number in (0..GUIDS).step_by(2) {
        let guid = Guid(FIRST_GUID + number);
        writeln!(text, "{guid} = 0:slow, 2:fast").unwrap();
    }
    writeln!(text, "{special} = 0:slow, 2:fast").unwrap();
    let (limits, findings) = parse_rate_limits(Path::new("limits"), &text);
    assert!(findings.is_empty(), "{findings:?}");
    Arc::new(limits)
}

/// The fabric, with adapters of another model at every third host except the first.
fn netlist() -> Netlist {
    let netlist = rsm_routing::generate::generate(TREE).unwrap();
    let (mut nodes, cables) = netlist.into_parts();
    let hosts = nodes.iter_mut().filter(|node| node.kind == NodeKind::Ca);
    for node in hosts.skip(1).step_by(3) {
        node.device_id = OTHER_DEVICE;
    }
    Netlist::new(nodes, cables).unwrap()
}

/// The limits that the file has for a GUID.
fn wanted(guid: Guid, is_special: bool) -> [u32; 16] {
    let number = guid.0.checked_sub(FIRST_GUID);
    let has_rule = number.is_some_and(|number| number < GUIDS && number.is_multiple_of(2));
    let mut all = [0; 16];
    match has_rule || is_special {
        true => (all[0], all[2]) = (SLOW, FAST),
        false => all[1] = FAST,
    }
    all
}

/// Observes virtual ports that become Active, at adapters that accept limits.
struct Watcher {
    /// The hosts whose adapters accept limits.
    accepting: BTreeSet<Guid>,
    /// The virtual ports that were Active at the last check.
    active: RefCell<BTreeSet<VPortAt>>,
    /// The number of Sets of VPortInfo that adapters had received by then.
    sets: Cell<u64>,
}

impl Watcher {
    /// Calls [`Watcher::check_new_vports`] if an adapter has received a Set of VPortInfo since the
    /// last call, because the Set may have activated a virtual port.
    fn after_event(&self, world: &World) {
        let sets = world.sim.counters();
        let sets = sets.received(AttrId::VPORT_INFO, Method::SET);
        if self.sets.replace(sets) != sets {
            self.check_new_vports(world);
        }
    }

    /// Asserts that virtual ports that have become Active since the last check hold their limits.
    fn check_new_vports(&self, world: &World) {
        let mut now = BTreeSet::new();
        for &host in &self.accepting {
            for (index, vport) in world.sim.vports(host, PORT).unwrap() {
                if index == 0 || vport.info.state() != PortState::Active {
                    continue;
                }
                now.insert((host, PORT, index));
                if self.active.borrow().contains(&(host, PORT, index)) {
                    continue;
                }
                let held = world.sim.rate_limits((host, PORT), Some(index)).unwrap();
                assert_eq!(
                    held.rate_limits(),
                    wanted(vport.info.port_guid(), false),
                    "{host} vport {index} became Active at {:?}",
                    world.now()
                );
            }
        }
        self.active.replace(now);
    }
}

/// A subnet with limits.
struct LimitedSubnet {
    world: World,
    watcher: Watcher,
    /// A host whose port has a rule of its own.
    special: Guid,
    dice: Dice,
    /// The number of virtual ports created so far.
    given: u64,
}

impl LimitedSubnet {
    fn new(seed: u64) -> LimitedSubnet {
        let mut dice = Dice::new(seed);
        let netlist = netlist();
        let hosts = netlist.nodes().iter();
        let hosts = hosts.filter(|node| node.kind == NodeKind::Ca);
        let (others, accepting): (Vec<_>, Vec<_>) =
            hosts.partition(|node| node.device_id == OTHER_DEVICE);
        let [others, accepting] = [others, accepting].map(|nodes| {
            let guids = nodes.iter().map(|node| node.guid);
            guids.collect::<Vec<Guid>>()
        });
        let special = accepting[1];
        let mut settings = Settings {
            seed,
            ..Settings::default()
        };
        settings.core.manages_vports = true;
        let lids = [VPortLids::Own, VPortLids::ByIndex, VPortLids::Base];
        (settings.sim.vports, settings.sim.vport_lids) = (VPORTS, dice.pick(&lids));
        settings.sim.devices = Devices::parse("rate-limits").unwrap();
        let unmanaged = World::new(&netlist, settings.clone());
        let port_guid = unmanaged.sim.port_guid(special, PORT).unwrap();
        settings.core.policy = Arc::new(Policy {
            rate_limits: Some(limits(port_guid)),
            ..Policy::default()
        });
        let mut world = World::new(&netlist, settings);
        let other = Devices::parse(dice.pick(&OTHER_PERSONALITIES)).unwrap();
        let paced = format!("rate-limits{}", dice.pick(&PACES));
        let paced = Devices::parse(&paced).unwrap();
        for (devices, hosts) in [(other, &others[..]), (paced, &accepting[1..])] {
            for &host in hosts {
                let personality = devices.of(NodeKind::Ca, host);
                world.sim.set_personality(host, personality).unwrap();
            }
        }
        world.add_manager(accepting[0], PORT);
        let watcher = Watcher {
            accepting: accepting.into_iter().collect(),
            active: RefCell::default(),
            sets: Cell::default(),
        };
        LimitedSubnet {
            world,
            watcher,
            special,
            dice,
            given: 0,
        }
    }

    /// Runs for `duration`, and asserts that no virtual port becomes Active without its limits.
    fn run_for(&mut self, duration: Duration) {
        // The test may have taken some virtual ports down.
        self.watcher.check_new_vports(&self.world);
        let until = self.world.now() + duration;
        let watcher = &self.watcher;
        self.world.run(until, |world| {
            watcher.after_event(world);
            false
        });
    }

    /// Makes one change at a random host or virtual port. A GUID always comes at an unused index:
    /// otherwise a Set on its way to the previous virtual port would be carried out at the new one.
    fn change(&mut self) {
        let hosts: Vec<Guid> = self.world.nodes(NodeKind::Ca);
        let host = self.dice.pick(&hosts);
        let there = self.world.sim.vports(host, PORT).unwrap();
        let there: Vec<u16> = there.into_iter().map(|(index, _)| index).collect();
        let at = (host, PORT, self.dice.pick(&there));
        let sim = &mut self.world.sim;
        match self.dice.below(6) {
            0 if at.2 > 0 => sim.remove_vport(at).unwrap(),
            1 if at.2 > 0 => sim.want_vport(at, false).unwrap(),
            2 => sim.want_vport(at, true).unwrap(),
            3 if host != hosts[0] => sim.reboot(host).unwrap(),
            4 if at.2 > 0 => {
                // A virtual machine moves.
                let vports = sim.vports(host, PORT).unwrap();
                let (_, moved) = vports
                    .into_iter()
                    .find(|(index, _)| *index == at.2)
                    .unwrap();
                sim.remove_vport(at).unwrap();
                let to = self.dice.pick(&hosts);
                self.add(to, moved.info.port_guid());
            }
            _ => {
                let guid = Guid(FIRST_GUID + self.given % GUIDS);
                self.add(host, guid);
            }
        }
    }

    /// Adds a virtual port with this GUID at an unused index.
    fn add(&mut self, host: Guid, guid: Guid) {
        let at = (host, PORT, VPORTS + self.given as u16);
        self.given += 1;
        let lids = self.dice.pick(&[VPortLids::Own, VPortLids::Base]);
        self.world.sim.set_vport(at, guid, lids).unwrap();
    }

    /// Asserts that every port and virtual port is up, and holds the limits of its GUID if its
    /// adapter accepts limits, and none otherwise.
    fn assert_limits_held(&self) {
        let world = &self.world;
        expect::assert_up(world);
        for host in world.nodes(NodeKind::Ca) {
            let accepts = self.watcher.accepting.contains(&host);
            let wanted = |guid, is_special| match accepts {
                true => wanted(guid, is_special),
                false => [0; 16],
            };
            let held = world.sim.rate_limits((host, PORT), None).unwrap();
            let guid = world.sim.port_guid(host, PORT).unwrap();
            let expected = wanted(guid, host == self.special);
            assert_eq!(held.rate_limits(), expected, "{host}");
            for (index, vport) in world.sim.vports(host, PORT).unwrap() {
                if !vport.is_wanted || index == 0 {
                    continue;
                }
                assert_eq!(vport.info.state(), PortState::Active, "{host} {index}");
                let held = world.sim.rate_limits((host, PORT), Some(index)).unwrap();
                let expected = wanted(vport.info.port_guid(), false);
                assert_eq!(held.rate_limits(), expected, "{host} {index}");
            }
        }
    }
}

/// Makes twelve random changes under loss, and asserts that the limits are held in the end.
fn run(seed: u64) {
    let mut subnet = LimitedSubnet::new(seed);
    if subnet.dice.one_in(2) {
        subnet.run_for(Duration::from_secs(30));
    }
    for _ in 0..12 {
        let over = Duration::from_secs(1);
        subnet.world.schedule_loss(Duration::ZERO, over, 0.1);
        subnet.change();
        if subnet.dice.one_in(6) {
            let memory = subnet.dice.pick(&[Memory::Kept, Memory::Lost]);
            let over = Duration::from_millis(300);
            subnet.world.schedule_kill(Duration::ZERO, over, memory);
        }
        let pause = subnet
            .dice
            .duration(Duration::from_micros(10), Duration::from_secs(3));
        subnet.run_for(pause);
    }
    subnet.run_for(Duration::from_secs(120));
    subnet.world.settle(LIMIT);
    subnet.assert_limits_held();
    subnet.world.count_requests();
    subnet.world.run_for(Duration::from_secs(60));
    let sets = subnet.world.requests().count(Method::SET);
    assert_eq!(sets, 0, "nothing is left to set");
}

#[test]
fn limits_are_held_where_hosts_and_vports_come_and_go_under_loss() {
    let test = "--test system sim_rate_limit_seeds::limits_are_held";
    seeds::run(test, 16, run);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 500"]
fn soak_of_limits_under_loss() {
    let count = seeds::number("RSM_SEEDS").unwrap_or(500);
    let test = "--test system sim_rate_limit_seeds::soak_of_limits_under_loss -- --ignored";
    seeds::run(test, count, run);
}
