//! The measured quality of one engine's tables on one fabric.

use rsm_routing::engine::Routing;
use rsm_routing::quality::{FlowShares, Quality, Settings, flow_shares, measure};
use rsm_routing::tables::{Lft, Tables};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{verify, verify_lanes};
use serde_json::{Value, json};

/// The headings of the columns of a [`Row`].
pub(crate) const HEADING: &str = "\
| engine | max EFI | by rate | EFI max/mean | by rate | shift max | shift mean | share in shifts | share of leaf pairs | random mean | bisection | all-to-all | \
lost pairs | route ms | one VL | ibdmchk |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// Whether packets can wait for each other in a cycle if all packets use one virtual lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cycles {
    /// Packets never wait in a cycle.
    None,
    /// A cycle needs packets that start or end at switches.
    AtSwitches,
    /// Packets between hosts can wait in a cycle.
    Yes,
    /// Packets can wait in a cycle on one lane, but not on the lanes that the engine requires.
    OnOneLane,
}

/// The verdict of ibdmchk on tables, for packets between hosts that all use one virtual lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IbdmchkVerdict {
    /// Every pair has its path, and no cycle can form.
    Free,
    CreditLoop,
    /// A cycle can form, but ibdmchk treats aggregation nodes as hosts.
    LoopOfAggregation,
    /// A pair has no path, so ibdmchk does not search for cycles.
    LostPairs,
    /// The program ibdmchk ended before it gave a verdict.
    Stopped,
}

/// The measured quality of tables.
pub(crate) struct Measured {
    pub(crate) quality: Quality,
    pub(crate) shares: FlowShares,
    pub(crate) cycles: Cycles,
    pub(crate) ibdmchk: Option<IbdmchkVerdict>,
}

/// A row of the table: the result of one engine on one fabric, or the reason why the engine has no
/// tables.
pub(crate) struct Row {
    pub(crate) engine: String,
    pub(crate) outcome: Result<Measured, String>,
    route_ms: f64,
}

impl Row {
    pub(crate) fn measured(
        topology: &Topology,
        engine: String,
        tables: &Tables,
        route_ms: f64,
    ) -> Row {
        let settings = Settings {
            seed: 1,
            ..Settings::default()
        };
        let report = verify(topology, tables);
        let cycles = if report.credit_loop_free {
            Cycles::None
        } else if verify(topology, &between_hosts(topology, tables)).credit_loop_free {
            Cycles::AtSwitches
        } else {
            Cycles::Yes
        };
        let quality = measure(topology, tables, &settings);
        Row {
            engine,
            outcome: Ok(Measured {
                quality,
                shares: flow_shares(topology, tables, settings.seed),
                cycles,
                ibdmchk: None,
            }),
            route_ms,
        }
    }

    pub(crate) fn failed(engine: String, error: String) -> Row {
        Row {
            engine,
            outcome: Err(error),
            route_ms: 0.0,
        }
    }

    /// Marks a credit loop as `OnOneLane` if the VLs that the engine requires prevent it.
    pub(crate) fn on_lanes(mut self, topology: &Topology, routing: &Routing) -> Row {
        if let Ok(measured) = &mut self.outcome
            && measured.cycles == Cycles::Yes
            && !routing.lanes.is_single()
            && verify_lanes(topology, &routing.tables, &routing.lanes).is_sound()
        {
            measured.cycles = Cycles::OnOneLane;
        }
        self
    }

    /// This row with the verdict of ibdmchk; `None` if ibdmchk did not run.
    pub(crate) fn checked(mut self, verdict: Option<IbdmchkVerdict>) -> Row {
        if let Ok(measured) = &mut self.outcome {
            measured.ibdmchk = verdict;
        }
        self
    }

    /// Whether ibdmchk contradicts the proof.
    pub(crate) fn is_contradicted(&self) -> bool {
        let Ok(measured) = &self.outcome else {
            return false;
        };
        match measured.ibdmchk {
            None | Some(IbdmchkVerdict::Stopped | IbdmchkVerdict::LoopOfAggregation) => false,
            Some(IbdmchkVerdict::LostPairs) => measured.quality.lost_pairs == 0,
            Some(verdict) => {
                let is_free = verdict == IbdmchkVerdict::Free;
                measured.quality.lost_pairs > 0 || is_free != self.is_free()
            }
        }
    }

    /// Whether packets between hosts never wait for each other in a cycle, even if all use one
    /// lane.
    pub(crate) fn is_free(&self) -> bool {
        self.outcome
            .as_ref()
            .is_ok_and(|measured| matches!(measured.cycles, Cycles::None | Cycles::AtSwitches))
    }

    pub(crate) fn json(&self, case: &str) -> Value {
        let measured = match &self.outcome {
            Ok(measured) => measured,
            Err(reason) => {
                return json!({ "case": case, "engine": self.engine, "failed": reason });
            }
        };
        let quality = &measured.quality;
        json!({
            "case": case, "engine": self.engine, "route_ms": self.route_ms,
            "paths_max": quality.paths.max, "paths_max_over_mean": quality.paths.max_over_mean(),
            "paths_by_rate": quality.paths.rate_max_over_mean,
            "paths_max_by_rate": quality.paths.rate_max,
            "shift_max": quality.shift.max, "shift_mean": quality.shift.mean,
            "shift_share": measured.shares.shift, "leaf_pair_share": measured.shares.leaf_pairs,
            "random_mean": quality.random.mean, "all_to_all": quality.all_to_all,
            "bisection": quality.bisection.mean, "lost_pairs": quality.lost_pairs,
            "cycles": measured.cycles.to_string(),
            "ibdmchk": measured.ibdmchk.map(|verdict| verdict.to_string()),
        })
    }
}

impl std::fmt::Display for Cycles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cycles::None => "free",
            Cycles::AtSwitches => "free between hosts",
            Cycles::Yes => "CREDIT LOOP",
            Cycles::OnOneLane => "CREDIT LOOP, free on its lanes",
        })
    }
}

impl std::fmt::Display for IbdmchkVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            IbdmchkVerdict::Free => "free",
            IbdmchkVerdict::CreditLoop => "CREDIT LOOP",
            IbdmchkVerdict::LoopOfAggregation => "CREDIT LOOP, aggregation nodes among hosts",
            IbdmchkVerdict::LostPairs => "lost pairs",
            IbdmchkVerdict::Stopped => "stopped",
        })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let measured = match &self.outcome {
            Ok(measured) => measured,
            Err(error) => {
                return write!(
                    f,
                    "| {} | no tables: {error:.120} |{}",
                    self.engine,
                    " |".repeat(14)
                );
            }
        };
        let quality = &measured.quality;
        write!(
            f,
            "| {} | {} | {:.0} | {:.2} | {:.2} | {} | {:.2} | {:.3} | {:.3} | {:.2} | {:.3} | {} | {} | {:.1} | {} | {} |",
            self.engine,
            quality.paths.max,
            quality.paths.rate_max,
            quality.paths.max_over_mean(),
            quality.paths.rate_max_over_mean,
            quality.shift.max,
            quality.shift.mean,
            measured.shares.shift,
            measured.shares.leaf_pairs,
            quality.random.mean,
            quality.bisection.mean,
            quality.all_to_all,
            quality.lost_pairs,
            self.route_ms,
            measured.cycles,
            measured
                .ibdmchk
                .map_or_else(|| "not run".to_owned(), |verdict| verdict.to_string()),
        )
    }
}

/// Copies from `tables` only the entries on paths from leaves to hosts.
fn between_hosts(topology: &Topology, tables: &Tables) -> Tables {
    let mut used_tables = Tables {
        lfts: vec![Lft::new(topology.top_lid().index() + 1); topology.switch_count()],
    };
    let leaves: Vec<SwitchIdx> = topology
        .indices()
        .filter(|&switch| topology.hosts(switch) > 0)
        .collect();
    for destination in topology.destinations().iter().filter(|d| d.kind.is_host()) {
        for lid in destination.lids() {
            for &leaf in &leaves {
                let mut switch = leaf;
                // If the switch has an entry, the path from it on is already copied.
                while used_tables.lfts[switch.index()].port(lid).is_none() {
                    let Some(port) = tables
                        .lfts
                        .get(switch.index())
                        .and_then(|lft| lft.port(lid))
                    else {
                        break;
                    };
                    used_tables.lfts[switch.index()].set_entry(lid, port.0);
                    match topology.peer(switch, port) {
                        Some((next, _)) => switch = next,
                        None => break,
                    }
                }
            }
        }
    }
    used_tables
}
