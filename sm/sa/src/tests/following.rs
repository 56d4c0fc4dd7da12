//! Tests that a directory derived from its predecessor equals one built from the whole snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use rsm_ids::{Guid, PortKey};
use rsm_mad::wire::attr::{Mtu, PortState};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_plan::{self, Plan, PlanJob};
use rsm_state::Snapshot;

use super::world::{World, planned};
use crate::{Directory, EndIx};

/// A tree of two levels with parallel cables between switches, a tree of three levels, and a
/// network that is no tree.
const SPECS: [&str; 3] = [
    "pgft:2;3,3;1,2;1,2",
    "fat-tree:k=4,levels=3",
    "random:switches=6,degree=3,hosts=2",
];

/// A change of the subnet between two snapshots. The numbers select a cable or port, modulo their
/// count.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// This cable vanishes, or returns.
    Cable(usize),
    /// The MTU of this port changes.
    Mtu(usize),
    /// The state of this port of a host changes.
    State(usize),
    /// This port loses its LID, or gets it back.
    Lid(usize),
    /// The plan is adapted to the fabric.
    Plan,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => any::<usize>().prop_map(Change::Cable),
        2 => any::<usize>().prop_map(Change::Mtu),
        1 => any::<usize>().prop_map(Change::State),
        1 => any::<usize>().prop_map(Change::Lid),
        4 => Just(Change::Plan),
    ]
}

/// The subnet of a test.
struct Subnet {
    /// The fabric with all cables.
    complete: Fabric,
    /// Cables that are absent at present, each by one of its ports.
    absent_cables: BTreeSet<PortKey>,
    plan: Arc<Plan>,
    snapshot: Snapshot,
}

impl Subnet {
    fn new(spec: &str) -> Subnet {
        let (complete, plan) = planned(spec, 0);
        let world = World::of(complete.clone(), plan);
        let plan = world.snapshot.plan.clone().unwrap();
        Subnet {
            complete,
            absent_cables: BTreeSet::new(),
            plan,
            snapshot: world.snapshot,
        }
    }

    fn carry_out(&mut self, change: Change) {
        match change {
            Change::Cable(number) => {
                let cables: Vec<PortKey> = self
                    .complete
                    .links()
                    .map(|(end, _)| self.complete.key(end))
                    .collect();
                let cable = cables[number % cables.len()];
                if !self.absent_cables.remove(&cable) {
                    self.absent_cables.insert(cable);
                }
            }
            Change::Mtu(number) => self.at_port(number, |info| {
                let other = match info.neighbor_mtu() {
                    Mtu::Bytes2048 => Mtu::Bytes4096,
                    _ => Mtu::Bytes2048,
                };
                info.set_neighbor_mtu(other);
            }),
            Change::State(number) => self.at_port(number, |info| {
                let other = match info.port_state() {
                    PortState::Active => PortState::Armed,
                    _ => PortState::Active,
                };
                info.set_port_state(other);
            }),
            Change::Lid(number) => self.at_port(number, |info| {
                let lid = info.lid().0;
                info.set_lid(rsm_ids::Lid(if lid == 0 { 0x4000 } else { 0 }));
            }),
            Change::Plan => {}
        }
        self.snapshot.fabric = Arc::new(match self.absent_cables.is_empty() {
            true => self.complete.clone(),
            false => self.complete.without(&self.absent_cables),
        });
        if matches!(change, Change::Plan) {
            let job = PlanJob::after(&self.plan, self.snapshot.fabric.clone());
            // After a refused plan, the former one stays in force.
            if let Ok(plan) = rsm_plan::plan(&job).plan() {
                self.plan = plan.clone();
                self.snapshot.plan = Some(plan);
            }
        }
    }

    fn at_port(&mut self, number: usize, write: impl FnOnce(&mut rsm_mad::wire::attr::PortInfo)) {
        let ports: Vec<_> = self.complete.end_ports().map(|(at, _)| at).collect();
        let at = ports[number % ports.len()];
        write(self.complete.port_mut(at).info.as_mut().unwrap());
    }
}

/// The ports that only one of the directories has, or whose partitions differ.
fn differing_one_by_one(before: &Directory, after: &Directory) -> BTreeSet<Guid> {
    let partitions = |directory: &Directory, guid| {
        let ix = directory.by_guid(guid)?;
        Some(directory.p_keys(ix).to_vec())
    };
    let ports = [before, after]
        .map(|directory| (0..directory.len()).map(|ix| directory.end(EndIx(ix as u32)).guid));
    let ports = ports.into_iter().flatten();
    let differ = |guid: &Guid| partitions(before, *guid) != partitions(after, *guid);
    ports.filter(differ).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn directory_after_any_changes_equals_a_directory_built_anew(spec in 0..SPECS.len(), changes in prop::collection::vec(change(), 1..12)) {
        let mut subnet = Subnet::new(SPECS[spec]);
        let mut derived = Directory::of(&subnet.snapshot, None).unwrap();
        for change in changes {
            let before = derived.clone();
            subnet.carry_out(change);
            derived = Directory::of(&subnet.snapshot, Some(&derived)).unwrap();
            let complete = Directory::of(&subnet.snapshot, None).unwrap();
            prop_assert!(derived.answers_as(&complete), "after {change:?}");
            for after in [&derived, &complete] {
                let differing = after.differing_members(&before).unwrap();
                let expected = differing_one_by_one(&before, after);
                prop_assert!(differing.is_superset(&expected), "after {change:?}");
            }
        }
    }
}

/// A cable between switches that vanishes concerns no end port. The directory therefore shares all
/// parts that are indexed by end ports with its predecessor.
#[test]
fn change_of_a_cable_between_switches_keeps_all_parts_indexed_by_end() {
    let mut subnet = Subnet::new("pgft:2;3,3;1,2;1,2");
    let before = Directory::of(&subnet.snapshot, None).unwrap();
    let is_switch = |end: PortRef| subnet.complete.node(end.node).is_switch();
    let ends: Vec<(PortRef, PortRef)> = subnet.complete.links().collect();
    let between = ends.iter().position(|&(a, b)| is_switch(a) && is_switch(b));
    subnet.carry_out(Change::Cable(between.unwrap()));
    let seen = Directory::of(&subnet.snapshot, Some(&before)).unwrap();
    subnet.carry_out(Change::Plan);
    let planned = Directory::of(&subnet.snapshot, Some(&seen)).unwrap();
    for after in [&seen, &planned] {
        assert!(after.shares_ends_with(&before));
        assert_eq!(after.differing_members(&before), Some(BTreeSet::new()));
    }
    assert!(!planned.shares_ends_with(&Directory::of(&subnet.snapshot, None).unwrap()));
}
