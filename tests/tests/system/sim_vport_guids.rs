//! GUID tables of virtual ports (VPortGUIDInfo): which adapters are queried for them and how often,
//! and GUIDInfoRecords compared with the tables of the simulated adapters.

use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{Attribute, GuidInfo, PortState, VPortGuidInfo};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::sa::{GuidInfoRecord, Record, SA_HEADER_LEN, SaMad};
use rsm_model::findings::FindingKind;
use rsm_routing::netlist::NodeKind;
use rsm_sa::{Sa, SaConfig, SaRequest};
use rsm_sim::{Devices, VPortAt, VPortLids};
use rsm_tests::virtual_time::{Dice, Memory, Settings, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(120);
/// A fabric of eight adapters of a model that is asked for GeneralInfo.
const TREE: &str = "fat-tree:k=4,levels=2,speed=ndr";
const PORT: PortNum = PortNum(1);
/// The number of virtual ports of each host, including the physical function.
const VPORTS: u16 = 4;

type Guids = [Guid; GuidInfo::ENTRIES];

/// Settings with virtual ports whose GUIDCap is `guid_cap`, on these devices or, if empty, on
/// devices without habits.
fn settings(guid_cap: u8, devices: &str) -> Settings {
    let mut settings = Settings::default();
    settings.core.manages_vports = true;
    (settings.sim.vports, settings.sim.vport_lids) = (VPORTS, VPortLids::Own);
    settings.sim.vport_guid_cap = guid_cap;
    if !devices.is_empty() {
        settings.sim.devices = Devices::parse(devices).unwrap();
    }
    settings
}

/// A world whose manager has not yet started to work, and whose requests are counted.
fn world_with_counts(settings: Settings) -> World {
    let mut world = World::generated(TREE, settings);
    world.count_requests();
    world
}

fn brought_up(settings: Settings) -> World {
    let mut world = world_with_counts(settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

fn requests(world: &World, method: Method, attribute: AttrId) -> u64 {
    let nodes = world.requests().nodes(method, attribute);
    let counts = nodes.iter();
    counts
        .map(|&node| world.requests().of(node, method, attribute))
        .sum()
}

/// The number of requests for VPortGUIDInfo.
fn table_requests(world: &World, method: Method) -> u64 {
    requests(world, method, VPortGuidInfo::ID)
}

/// The existing virtual ports, without physical functions.
fn vports(world: &World) -> Vec<VPortAt> {
    let hosts = world.nodes(NodeKind::Ca).into_iter();
    let all = hosts.flat_map(|host| {
        let vports = world.sim.vports(host, PORT).unwrap();
        let wanted = vports.into_iter().filter(|(_, vport)| vport.is_wanted);
        let indices = wanted.map(|(index, _)| index).filter(|&index| index > 0);
        indices.map(move |index| (host, PORT, index))
    });
    all.collect()
}

/// The GUIDs of a block, derived from a number. The first GUID of block 0 is always the virtual
/// port's own, whatever is written there.
fn block_of(number: u64) -> Guids {
    std::array::from_fn(|entry| Guid(0x00DD_0000 + number * 0x10 + entry as u64))
}

/// The GUIDInfoRecord of a virtual port for a trusted requester; `None` if the SA has none.
fn served_guids(world: &World, at: VPortAt, block: u8) -> Option<Guids> {
    let vports = world.sim.vports(at.0, PORT).unwrap();
    let (_, vport) = vports.into_iter().find(|(index, _)| *index == at.2)?;
    let mut sa = Sa::new(SaConfig {
        sm_key: 7,
        ..SaConfig::default()
    });
    sa.replace(world.manager().snapshot().unwrap());
    let mut wanted = GuidInfoRecord::default();
    wanted.set_lid(vport.info.lid()).set_block_num(block);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let mut mad = SaMad::request(Method::GET, Tid(1), mask, &wanted);
    mad.header.set_sm_key(7);
    let request = SaRequest {
        bytes: mad.as_bytes(),
        requester: RemoteAddress::gsi(vport.info.lid(), 0),
    };
    let answer = sa.handle(request, Time::ZERO)?;
    if !answer.status().is_ok() {
        return None;
    }
    let datagram = answer.datagram()?;
    let record = GuidInfoRecord::from_prefix(&datagram[SA_HEADER_LEN..])?;
    Some(record.guid_info().guids())
}

/// Asserts that all blocks of all virtual ports are served as their adapters hold them, as far as
/// GUIDCap counts entries.
fn assert_tables_served(world: &World, guid_cap: u8) {
    for at in vports(world) {
        for block in 0..guid_cap.div_ceil(8) {
            let mut held = world.sim.vport_guids(at, block).unwrap().unwrap();
            let count = usize::from(guid_cap - 8 * block);
            held.iter_mut()
                .skip(count)
                .for_each(|guid| *guid = Guid::ZERO);
            assert_eq!(
                served_guids(world, at, block),
                Some(held),
                "{at:?} block {block}"
            );
        }
        assert_eq!(
            served_guids(world, at, guid_cap.div_ceil(8)),
            None,
            "{at:?}"
        );
    }
}

/// Asserts that only the virtual port's own GUID is served.
fn assert_own_guid_alone(world: &World, at: VPortAt) {
    let own = world.sim.vport_guids(at, 0).unwrap().unwrap()[0];
    let mut alone = [Guid::ZERO; GuidInfo::ENTRIES];
    alone[0] = own;
    assert_eq!(served_guids(world, at, 0), Some(alone), "{at:?}");
    assert_eq!(served_guids(world, at, 1), None, "{at:?}");
}

fn assert_active(world: &World) {
    for at in vports(world) {
        let vports = world.sim.vports(at.0, PORT).unwrap();
        let (_, vport) = vports.iter().find(|(index, _)| *index == at.2).unwrap();
        assert_eq!(vport.info.state(), PortState::Active, "{at:?}");
    }
}

/// Whether a finding about a habit of devices names VPortGUIDInfo.
fn has_habit(world: &World) -> bool {
    let findings = &world.manager().snapshot().unwrap().findings;
    let mut habits = findings.iter();
    habits.any(|finding| {
        finding.kind == FindingKind::DeviceHabit && finding.text.contains("VPortGUIDInfo")
    })
}

/// Each block is read once at discovery; after trap 1144, the blocks of the virtual port that it
/// names are read, and all blocks in an audit. No block is ever set.
#[test]
fn additional_guids_are_read_once_and_served() {
    const CAP: u8 = 20;
    let mut world = world_with_counts(settings(CAP, ""));
    for (number, at) in (0..).zip(vports(&world)) {
        for block in 0..3 {
            let guids = block_of(number * 3 + u64::from(block));
            world.sim.set_vport_guids(at, block, guids).unwrap();
        }
    }
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_active(&world);
    assert_tables_served(&world, CAP);
    let blocks = 3 * vports(&world).len() as u64;
    assert_eq!(table_requests(&world, Method::GET), blocks);
    world.run_for(Duration::from_secs(30));
    assert_eq!(table_requests(&world, Method::GET), blocks, "light sweeps");

    let at = vports(&world)[4];
    world.sim.set_vport_guids(at, 1, block_of(500)).unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_tables_served(&world, CAP);
    assert_eq!(
        table_requests(&world, Method::GET),
        blocks + 3,
        "after a report"
    );

    // There is another change, of which no report arrives.
    world.sim.set_attribute_loss(AttrId::NOTICE, 1.0).unwrap();
    world.sim.set_vport_guids(at, 2, block_of(501)).unwrap();
    world.run_for(Duration::from_secs(60));
    world.resweep(LIMIT);
    assert_tables_served(&world, CAP);
    assert_eq!(
        table_requests(&world, Method::GET),
        2 * blocks + 3,
        "an audit"
    );
    assert_eq!(table_requests(&world, Method::SET), 0);
}

/// A GUIDCap of 1 or 0, and adapters without the capability, cost no request.
#[test]
fn vports_without_additional_guids_are_not_asked() {
    let cost = |guid_cap: u8, devices: &str| {
        let mut world = brought_up(settings(guid_cap, devices));
        world.run_for(Duration::from_secs(60));
        world.resweep(LIMIT);
        let requests = world.requests();
        let all = (requests.count(Method::GET), requests.count(Method::SET));
        (table_requests(&world, Method::GET), all)
    };
    let (none, all) = cost(1, "");
    assert_eq!(none, 0);
    assert_eq!(cost(0, ""), (0, all));
    assert_eq!(cost(20, "no-vport-guids"), (0, all));
    // Eight hosts with three virtual ports of one block each are read at discovery and in the
    // audit.
    let (blocks, with) = cost(8, "");
    assert_eq!(blocks, 2 * 24);
    assert_eq!(with, (all.0 + blocks, all.1));
}

#[test]
fn devices_that_claim_guid_tables_and_do_not_show_them_are_not_asked_again() {
    for devices in ["refuses-vport-guids", "deaf-to-vport-guids"] {
        let mut world = brought_up(settings(20, devices));
        world.run_for(Duration::from_secs(60));
        world.settle(LIMIT);
        assert_active(&world);
        assert!(has_habit(&world), "{devices}");
        vports(&world)
            .into_iter()
            .for_each(|at| assert_own_guid_alone(&world, at));
        world.count_requests();
        world.resweep(LIMIT);
        world.kill(0);
        world.start(0, Memory::Kept);
        world.settle(LIMIT);
        assert_eq!(table_requests(&world, Method::GET), 0, "{devices}");
    }
}

/// Every virtual port answers with the table of another virtual port: one block of each is
/// requested, and nothing of it is trusted.
#[test]
fn tables_of_other_vports_are_not_served() {
    let mut world = brought_up(settings(20, "foreign-vport-guids"));
    let at = vports(&world)[1];
    let blocks = table_requests(&world, Method::GET);
    world.sim.set_vport_guids(at, 1, block_of(1)).unwrap();
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    assert_active(&world);
    assert!(!has_habit(&world));
    vports(&world)
        .into_iter()
        .for_each(|at| assert_own_guid_alone(&world, at));
    let at_most = blocks + u64::from(VPORTS - 1);
    assert!(
        table_requests(&world, Method::GET) <= at_most,
        "light sweeps ask none"
    );
    expect::assert_no_findings(&world);
}

/// The silent adapter is of a kind that shows its tables. Once it answers, its tables are served.
#[test]
fn a_silent_adapter_hides_only_its_own_tables() {
    const CAP: u8 = 12;
    let mut world = world_with_counts(settings(CAP, ""));
    let silent = world.nodes(NodeKind::Ca)[3];
    let deaf = Devices::parse("deaf-to-vport-guids").unwrap();
    let personality = deaf.of(NodeKind::Ca, silent);
    world.sim.set_personality(silent, personality).unwrap();
    for (number, at) in (0..).zip(vports(&world)) {
        world.sim.set_vport_guids(at, 0, block_of(number)).unwrap();
    }
    world.run_for(Duration::from_secs(120));
    expect::assert_up(&world);
    assert_active(&world);
    assert!(!has_habit(&world));
    for at in vports(&world) {
        match at.0 == silent {
            true => assert_own_guid_alone(&world, at),
            false => assert_eq!(
                served_guids(&world, at, 0),
                world.sim.vport_guids(at, 0).unwrap()
            ),
        }
    }
    let polite = Devices::default().of(NodeKind::Ca, silent);
    world.sim.set_personality(silent, polite).unwrap();
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    assert_tables_served(&world, CAP);
    expect::assert_no_findings(&world);
}

#[test]
fn restart_reads_the_tables_and_sets_nothing() {
    const CAP: u8 = 12;
    for memory in [Memory::Kept, Memory::Lost] {
        let mut world = brought_up(settings(CAP, ""));
        let at = vports(&world)[0];
        world.sim.set_vport_guids(at, 1, block_of(1)).unwrap();
        world.run_for(Duration::from_secs(2));
        world.kill(0);
        world.start(0, memory);
        world.count_requests();
        world.settle(LIMIT);
        assert_tables_served(&world, CAP);
        assert_eq!(
            table_requests(&world, Method::GET),
            2 * vports(&world).len() as u64
        );
        for attribute in [
            AttrId::VIRTUALIZATION_INFO,
            AttrId::VPORT_INFO,
            AttrId::VPORT_GUID_INFO,
            AttrId::GUID_INFO,
        ] {
            let sets = requests(&world, Method::SET, attribute);
            assert_eq!(sets, 0, "{attribute}, {memory:?}");
        }
    }
}

/// Another machine at the same index has its own table.
#[test]
fn vport_with_another_guid_has_another_table() {
    const CAP: u8 = 8;
    let mut world = brought_up(settings(CAP, ""));
    let at = vports(&world)[2];
    world.sim.set_vport_guids(at, 0, block_of(1)).unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_tables_served(&world, CAP);
    world.sim.remove_vport(at).unwrap();
    world.run_for(Duration::from_secs(2));
    let guid = Guid(0x00AA_0001);
    world.sim.set_vport(at, guid, VPortLids::Own).unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_tables_served(&world, CAP);
    assert_own_guid_alone(&world, at);
}

/// Makes one change at a random virtual port, or in its table.
fn make_random_change(world: &mut World, dice: &mut Dice, number: u64) {
    let host = dice.pick(&world.nodes(NodeKind::Ca));
    let at = (host, PORT, 1 + dice.below(6) as u16);
    let guid = Guid(0x00BB_0000 + number);
    match dice.below(6) {
        0 => world.sim.remove_vport(at).unwrap(),
        1 => world.sim.want_vport(at, dice.below(2) == 0).unwrap(),
        2 => world.sim.set_vport(at, guid, VPortLids::Own).unwrap(),
        _ => {
            let block = dice.below(3) as u8;
            let guids = block_of(1000 + number);
            world.sim.set_vport_guids(at, block, guids).unwrap();
        }
    }
}

/// Virtual ports and their tables change under loss, with hosts that reboot and a manager that is
/// killed.
fn run(seed: u64) {
    let guid_cap = [8, 20, 24][seed as usize % 3];
    let mut settings = settings(guid_cap, "");
    settings.seed = seed;
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    let mut dice = Dice::new(seed);
    for number in 0..16 {
        world.schedule_loss(Duration::ZERO, Duration::from_secs(1), 0.1);
        make_random_change(&mut world, &mut dice, number);
        match dice.below(8) {
            0 => {
                let hosts = world.nodes(NodeKind::Ca);
                let host = dice.pick(&hosts[1..]);
                world.sim.reboot(host).unwrap();
            }
            1 => world.schedule_kill(Duration::ZERO, Duration::from_millis(300), Memory::Kept),
            _ => {}
        }
        world.run_for(dice.duration(Duration::from_micros(10), Duration::from_secs(3)));
    }
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT * 5);
    expect::assert_up(&world);
    assert_active(&world);
    assert_tables_served(&world, guid_cap);
}

#[test]
fn tables_that_change_under_loss_are_served_as_held() {
    let test = "--test system sim_vport_guids::tables_that_change_under_loss_are_served_as_held";
    seeds::run(test, 8, run);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 500"]
fn soak_of_tables_that_change_under_loss() {
    let count = seeds::number("RSM_SEEDS").unwrap_or(500);
    seeds::run(
        "--test system sim_vport_guids::soak_of_tables_that_change_under_loss -- --ignored",
        count,
        run,
    );
}
