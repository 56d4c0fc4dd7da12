//! Compares the routes that switches hold with the planned routes, by how they spread traffic.

use std::fmt;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::Guid;
use rsm_plan::Plan;
use rsm_routing::quality::{Settings, measure};
use rsm_routing::tables::{Lft, Tables};
use rsm_routing::topology::Topology;
use serde::Serialize;

/// Factor by which a measure of the planned routes may be worse and still count as equally good.
const TOLERANCE: f64 = 1.02;

/// Measures of how routes spread traffic between hosts.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct RouteMeasures {
    /// Ordered pairs of hosts without a path.
    pub lost_pairs: u64,
    /// Maximum link load in paths, weighted by rate.
    pub fullest_link: f64,
    /// Maximum link load in flows of the mean shift, weighted by rate.
    pub shift_mean: f64,
    /// Effective bisection bandwidth, as a share of the fastest link's rate.
    pub bisection: f64,
}

impl RouteMeasures {
    fn of(topology: &Topology, tables: &Tables) -> RouteMeasures {
        let quality = measure(topology, tables, &Settings::default());
        RouteMeasures {
            lost_pairs: quality.lost_pairs,
            fullest_link: quality.paths.rate_max,
            shift_mean: quality.shift.mean,
            bisection: quality.bisection.mean,
        }
    }
}

/// The measures of the routes that switches hold from another manager, and of the planned routes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RoutesCompared {
    /// The routes that switches hold.
    pub held: RouteMeasures,
    /// The routes of the plan.
    pub planned: RouteMeasures,
}

impl RoutesCompared {
    /// Compares the routes that the switches of `inventory` hold with the routes of `plan`; `None`
    /// if the held routes reach no host by the LIDs of the plan, or equal the plan's routes.
    pub(super) fn of(inventory: &Inventory, plan: &Plan) -> Option<RoutesCompared> {
        let held = |guid: Guid| {
            let switch = inventory.hardware.node(guid)?.switch.as_ref()?;
            Some(switch.lft.entries().clone())
        };
        let switches = plan.topology.switches().iter();
        let lfts = switches.map(|switch| held(switch.guid).unwrap_or_default());
        let held = Tables {
            lfts: lfts.collect(),
        };
        RoutesCompared::between(&plan.topology, &held, &plan.routing.tables)
    }

    /// Compares the routes `held` with the routes `planned`; `None` if `held` reach no host, or are
    /// equal to `planned`.
    pub fn between(topology: &Topology, held: &Tables, planned: &Tables) -> Option<RoutesCompared> {
        let is_planned = |(held, planned): (&Lft, &Lft)| planned.differing(held).next().is_none();
        if held.lfts.iter().zip(&planned.lfts).all(is_planned) {
            return None;
        }
        let compared = RoutesCompared {
            held: RouteMeasures::of(topology, held),
            planned: RouteMeasures::of(topology, planned),
        };
        let reaches = compared.held.fullest_link > 0.0;
        reaches.then_some(compared)
    }

    /// The names of the measures by which the plan is worse.
    fn worse(&self) -> Vec<&'static str> {
        let RoutesCompared { held, planned } = self;
        let measures = [
            (planned.fullest_link, held.fullest_link, "the fullest link"),
            (planned.shift_mean, held.shift_mean, "shifts"),
            (held.bisection, planned.bisection, "bisection"),
        ];
        let worse = measures
            .into_iter()
            .filter(|(more, less, _)| *more > less * TOLERANCE);
        worse.map(|(.., name)| name).collect()
    }
}

/// Formats as one line, including its end.
impl fmt::Display for RoutesCompared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoutesCompared { held, planned } = self;
        write!(
            f,
            "routes in the switches and planned: {:.0} and {:.0} paths on the fullest link, {:.2} and {:.2} flows on it \
             in shifts, {:.0} % and {:.0} % bisection",
            held.fullest_link,
            planned.fullest_link,
            held.shift_mean,
            planned.shift_mean,
            held.bisection * 100.0,
            planned.bisection * 100.0
        )?;
        if held.lost_pairs > 0 {
            let lost = held.lost_pairs;
            write!(f, "; {lost} pairs of hosts have no path in the switches")?;
        }
        let worse = self.worse();
        if worse.is_empty() {
            return writeln!(f);
        }
        writeln!(
            f,
            "; the plan is worse in {}: compare engines (`rsm plan --compare`) before rsm takes over",
            worse.join(" and ")
        )
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::Lid;
    use rsm_routing::engine::{EngineKind, Options, route};
    use rsm_routing::generate::generate;

    use super::*;

    fn tables(topology: &Topology, engine: EngineKind) -> Tables {
        let routing = route(engine, topology, &Options::default(), None);
        routing.unwrap().tables
    }

    /// `tables` in which all packets that leave the first switch by one of several uplinks take the
    /// first of these.
    fn crowded(tables: &Tables, top: Lid) -> Tables {
        let mut entries: Vec<u8> = (0..=top.0)
            .map(|lid| tables.lfts[0].entry(Lid(lid)))
            .collect();
        let users = |port: u8| entries.iter().filter(|&&entry| entry == port).count();
        let uplinks: Vec<u8> = (1..=64).filter(|&port| users(port) > 1).collect();
        assert!(uplinks.len() > 1, "{uplinks:?}");
        for entry in entries.iter_mut().filter(|entry| uplinks.contains(entry)) {
            *entry = uplinks[0];
        }
        let mut crowded = tables.clone();
        crowded.lfts[0] = Lft::from_entries(&entries);
        crowded
    }

    #[test]
    fn routes_of_another_manager_are_compared_on_one_line() {
        let netlist = generate("fat-tree:k=8,levels=3").unwrap();
        let topology = Topology::from_netlist(&netlist).unwrap();
        let good = tables(&topology, EngineKind::FabricTree);
        let other = crowded(&good, topology.top_lid());
        assert_eq!(RoutesCompared::between(&topology, &good, &good), None);
        let empty = Tables::default();
        assert_eq!(RoutesCompared::between(&topology, &empty, &good), None);
        let better = RoutesCompared::between(&topology, &other, &good).unwrap();
        assert!(better.held.shift_mean > better.planned.shift_mean);
        let line = better.to_string();
        assert!(
            line.ends_with("bisection\n") && line.lines().count() == 1,
            "{line}"
        );
        let worse = RoutesCompared::between(&topology, &good, &other).unwrap();
        assert!(
            worse.to_string().contains("; the plan is worse in "),
            "{worse}"
        );
    }
}
