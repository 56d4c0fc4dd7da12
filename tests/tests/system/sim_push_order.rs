//! The order of Sets in a form for field engineers: the phases of a push, the Sets of each, and the
//! prerequisites of each Set.
//!
//! `RSM_UPDATE_GOLDEN=1` rewrites the golden file, for review.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use rsm_core::{CoreConfig, Mode};
use rsm_hardware::diff::{Comparison, NotKept, Reregister};
use rsm_hardware::link_step::LinkStep;
use rsm_hardware::push::{
    AWAITED_LINK, AdaptiveStep, Foreseen, Need, OTHER_LINK, Phase, PortStep, Task, rehearse,
};
use rsm_ids::Guid;
use rsm_routing::netlist::NodeKind;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=4,levels=3";

#[test]
fn phases_of_a_cold_start_and_of_a_link_fault_match_the_golden_file() {
    let mut text = phases(&format!("Cold start of {TREE}"), &cold_start());
    text += &phases("A link between a leaf and a spine is lost", &link_fault());
    text += "A link that tables wait for:\n";
    text += &conditions(AWAITED_LINK);
    text += "Any other link:\n";
    text += &conditions(OTHER_LINK);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/push-order.txt");
    if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        std::fs::write(&path, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == text,
        "{}: RSM_UPDATE_GOLDEN=1 writes\n{text}",
        path.display()
    );
}

/// The Sets to a fabric after power-on.
fn cold_start() -> Vec<Foreseen> {
    let settings = Settings {
        core: CoreConfig {
            mode: Mode::DryRun,
            ..CoreConfig::default()
        },
        ..Settings::default()
    };
    let mut world = World::generated(TREE, settings);
    world.run_for(Duration::from_secs(5));
    let sets = world.manager().foreseen();
    sets.expect("it has planned").to_vec()
}

/// The Sets after the loss of the first cable between two switches: the plan of the core, compared
/// with the previous tables.
fn link_fault() -> Vec<Foreseen> {
    let mut world = World::brought_up(TREE, Settings::default());
    let before = world.manager().core().inventory().clone();
    let switches: Vec<Guid> = world
        .sim
        .nodes()
        .filter(|&(_, kind)| kind == NodeKind::Switch)
        .map(|(guid, _)| guid)
        .collect();
    let links = expect::reach(&world, &[]).links;
    let (near, far) = links
        .into_iter()
        .find(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0))
        .expect("there is such a cable");
    world.sim.unlink(near.0, near.1).expect("it is a cable");
    world.settle(LIMIT);

    let core = world.manager().core();
    let plan = core.plan().expect("it has planned").clone();
    let mut hardware = core.inventory().clone();
    for (guid, _, switch) in before.hardware.switches() {
        let record = hardware
            .hardware
            .switch_mut(guid)
            .expect("no switch is lost");
        record.lft = switch.lft.clone();
        if [near.0, far.0].contains(&guid) {
            let mut info = record.info;
            info.set_port_state_change(true);
            hardware.hardware.put_switch_info(guid, &info);
        }
    }
    let comparison = Comparison {
        inventory: &hardware,
        fabric: &plan.fabric,
        plan: &plan,
        interim: &plan.transition.interim,
        not_kept: &NotKept::default(),
        reregister: &Reregister::default(),
    };
    let changes = comparison.changes(None);
    rehearse(plan.clone(), changes, &hardware)
}

/// The phases of `sets`, each with its kinds of Sets in the order in which the first Set of each
/// kind is sent.
fn phases(title: &str, sets: &[Foreseen]) -> String {
    let mut text = format!("{title}: {} Sets\n\n", sets.len());
    for phase in sets.chunk_by(|one, next| one.phase == next.phase) {
        let _ = writeln!(text, "{}:", title_of(phase[0].phase));
        let mut kinds: Vec<(&str, usize, Task)> = Vec::new();
        for set in phase {
            let name = name_of(set.order.task);
            match kinds.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, count, _)) => *count += 1,
                None => kinds.push((name, 1, set.order.task)),
            }
        }
        for (name, count, task) in kinds {
            let _ = writeln!(text, "{count:5} {name}");
            text += &conditions(task.needs());
        }
        text.push('\n');
    }
    text
}

fn conditions(needs: &[Need]) -> String {
    if needs.is_empty() {
        return "        needs: nothing\n".to_owned();
    }
    let lines = needs.iter().map(|&need| text_of(need));
    lines
        .map(|line| format!("        needs: {line}\n"))
        .collect()
}

fn title_of(phase: Phase) -> String {
    match phase {
        Phase::Adaptive => "Groups out of force".to_owned(),
        Phase::Interim(stage) => format!("Interim tables {}", stage + 1),
        Phase::SlToVl => "SLtoVLMappingTables".to_owned(),
        Phase::Links => "Links that later tables lead to".to_owned(),
        Phase::Last => "Planned tables".to_owned(),
    }
}

fn name_of(task: Task) -> &'static str {
    match task {
        Task::Switch(_) => "SwitchInfo",
        Task::AdaptiveRouting(_) => "ARInfo, adaptive routing off",
        Task::Adaptive(_, AdaptiveStep::Prepare) => "ARInfo, groups out of force",
        Task::Adaptive(_, AdaptiveStep::Groups(_)) => "ARGroupTable",
        Task::Adaptive(_, AdaptiveStep::Entries(_)) => "ARLinearForwardingTable",
        Task::Adaptive(_, AdaptiveStep::Emptied(_)) => "ARGroupTable, groups emptied",
        Task::Adaptive(_, AdaptiveStep::Enable) => "ARInfo, groups in force",
        Task::Block { interim: None, .. } => "LinearForwardingTable",
        Task::Block { .. } => "LinearForwardingTable, interim entries",
        Task::SlToVl { .. } => "SLtoVLMappingTable",
        Task::Multicast { first: true, .. } => "MulticastForwardingTable, ports removed",
        Task::Multicast { .. } => "MulticastForwardingTable, ports added",
        Task::MulticastTop(_) => "SwitchInfo, MulticastFDBTop",
        Task::Port(_, PortStep::Configure) => "PortInfo, settings",
        Task::Port(_, PortStep::Arm) => "PortInfo, settings and Armed",
        Task::Port(_, PortStep::Activate) => "PortInfo, Active",
        Task::Link(_, LinkStep::Bounce) => "PortInfo, Down",
        Task::Link(_, LinkStep::Disable) => "PortInfo, Disabled",
        Task::Link(_, LinkStep::Enable) => "PortInfo, Polling",
        Task::PKeys(..) => "P_KeyTable",
        Task::Managed(key) if key.is_qos() => "tables for quality of service",
        Task::Managed(_) => "GUIDInfo",
        Task::Virtualization(_) => "VirtualizationInfo",
        Task::VPort(..) => "VPortInfo",
        Task::VPortPKeys(..) => "P_KeyTable of a virtual port",
    }
}

fn text_of(need: Need) -> &'static str {
    match need {
        Need::Phase => "the phase has begun",
        Need::Answers => "the switch answers, or the last phase has begun",
        Need::AdaptiveRouting => "ARInfo of the switch has left, if it is to be written",
        Need::GroupsLeft => "groups that are to go out of force have, on all switches",
        Need::AdaptiveStep => "the switch holds the Sets of adaptive routing before",
        Need::ResetShows => "SwitchInfo is acknowledged, or if it goes last, PortInfo of port 0",
        Need::TablesBelowTop => "if it is sent last, the switch holds its tables",
        Need::KeyChange => "the switch has answered another M_Key, if port 0 gets one",
        Need::SwitchInfo => "the switch holds its SwitchInfo",
        Need::Programmed => "the switches hold their SwitchInfo and all tables",
        Need::MulticastLosses => "all switches have removed multicast ports",
        Need::MulticastBlocks => "the switch holds its multicast table",
        Need::PortZero => "PortInfo of port 0 of the switch is settled",
        Need::PortInfoAnswered => "an end port has answered its PortInfo",
        Need::PortInfoSettled => "PortInfo of the port is settled",
        Need::OldRoutesGone => "no packet passes the port by old routes",
        Need::PortSettings => "the Set of PortInfo that arms or configures the port is settled",
        Need::Qos => "tables for quality of service are settled at both ends",
        Need::PKeys => "both ends hold their P_Keys",
        Need::PKeysIfEnforcing => "if the port enforces partitions, it holds its P_Keys",
        Need::PKeysOfEnforcingPeer => "P_Keys of the enforcing port at the other end are settled",
        Need::PortActive => "the port is Active",
        Need::VPortPKeys => "the virtual port holds its P_Keys",
        Need::VPortLimits => "the limits of rates of the virtual port are answered",
        Need::NeighbourProgrammed => "the switch at the other end holds all of its tables",
        Need::Armed => "both ends are Armed or Active",
        Need::Link => "the link may open (below)",
        Need::LinkIfAwaited => "if tables wait for the link, it may open (below)",
        Need::Removals => "all switches have removed entries that could close a loop over it",
        Need::SlToVlEverywhere => "all switches hold their SLtoVLMappingTables",
        Need::DarkProgrammed => "switches without traffic hold their SwitchInfo and all tables",
    }
}
