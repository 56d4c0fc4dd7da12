//! The tables of all contenders for one fabric.

use rsm_routing::engine::{self, EngineError, EngineKind, Ranking, Routing};
use rsm_routing::lfts;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;
use rsm_routing::verify::verify_whole;
use rsm_tests::clock::Stopwatch;
use rsm_tests::measure::{median, milliseconds};

use crate::AnyError;
use crate::foreign::Foreign;
use crate::options::Options;
use crate::row::Row;

/// OpenSM's engines, as `-R` names them.
const OPENSM: [&str; 7] = ["minhop", "updn", "dnup", "ftree", "dfsssp", "lash", "nue"];

/// The default limit of blocks of a rebalancing step.
const STEP_BLOCKS: usize = 256;

/// One fabric, and its contenders.
pub(crate) struct Contest<'a> {
    pub(crate) options: &'a Options,
    /// The fabric before it broke.
    pub(crate) known: &'a Topology,
    pub(crate) case: String,
    pub(crate) netlist: &'a Netlist,
}

impl Contest<'_> {
    /// A row for each contender.
    pub(crate) fn rows(&self, foreign: &mut Foreign) -> Result<Vec<Row>, AnyError> {
        let topology = Topology::from_netlist(self.netlist)?;
        let mut rows = Vec::new();
        for kind in EngineKind::ALL {
            let name = format!("rsm {kind}");
            // The engine `file` has no tables of its own, and `auto` chooses one of the others.
            let is_other = !matches!(kind, EngineKind::File | EngineKind::Auto);
            if is_other && self.options.takes_part(&name) {
                rows.extend(self.own(name, &topology, kind, None));
            }
        }
        // The tables of rsm after it repaired the fault.
        let repaired = format!("rsm {}, repaired", EngineKind::FabricTree);
        if self.options.takes_part(&repaired) && topology != *self.known {
            let before = route(EngineKind::FabricTree, self.known, None)?;
            rows.extend(self.own(
                repaired,
                &topology,
                EngineKind::FabricTree,
                before.ranking.as_ref(),
            ));
        }
        // The tables after rebalancing a lasting fault.
        let rebalanced = format!("rsm {}, rebalanced", EngineKind::FabricTree);
        if self.options.takes_part(&rebalanced) && topology != *self.known {
            rows.push(self.rebalanced(rebalanced, &topology)?);
        }
        for engine in OPENSM {
            let name = format!("OpenSM {engine}");
            if !self.options.takes_part(&name) {
                continue;
            }
            let made = match foreign.routes(&self.case, self.netlist, engine)? {
                Ok(made) => made,
                Err(reason) => {
                    rows.push(Row::failed(name, reason));
                    continue;
                }
            };
            let fit = lfts::parse(&made.dump, "opensm-lfts.dump")?.fit(&topology);
            let unfit = fit.unknown_lids + fit.unknown_switches.len() + fit.missing_ports;
            if unfit > 0 {
                let text = format!("{name}: {unfit} parts of its dump do not fit the fabric");
                return Err(text.into());
            }
            let name = if made.used == engine {
                name
            } else {
                format!("{name}, which gave up: {}", made.used)
            };
            rows.push(Row::measured(&topology, name, &fit.tables, made.route_ms));
        }
        Ok(rows)
    }

    /// The row of `fabric-tree` after all steps of rebalancing; its time is that of all of them.
    fn rebalanced(&self, name: String, topology: &Topology) -> Result<Row, AnyError> {
        let before = route(EngineKind::FabricTree, self.known, None)?;
        let mut made = route(EngineKind::FabricTree, topology, before.ranking.as_ref())?;
        let mut time_ms = 0.0;
        loop {
            let tally = verify_whole(topology, &made.tables).tally;
            let options = engine::Options {
                previous_ranking: made.ranking.clone(),
                ..engine::Options::default()
            };
            let watch = Stopwatch::start();
            let next = engine::rebalance(topology, &options, &tally, STEP_BLOCKS);
            time_ms += milliseconds(watch.elapsed());
            match next {
                Some(next) => made = next.routing,
                None => return Ok(Row::measured(topology, name, &made.tables, time_ms)),
            }
        }
    }

    /// The row of an engine of rsm; none where the fabric is not of its kind.
    fn own(
        &self,
        name: String,
        topology: &Topology,
        kind: EngineKind,
        earlier: Option<&Ranking>,
    ) -> Option<Row> {
        let mut times = Vec::new();
        let mut made = None;
        for _ in 0..self.options.rounds().max(1) {
            let watch = Stopwatch::start();
            made = Some(route(kind, topology, earlier));
            times.push(milliseconds(watch.elapsed()));
        }
        match made? {
            Ok(made) => {
                let row = Row::measured(topology, name, &made.tables, median(&times));
                Some(row.on_lanes(topology, &made))
            }
            Err(EngineError::Shape { .. }) => None,
            Err(error) => Some(Row::failed(name, error.to_string())),
        }
    }
}

fn route(
    kind: EngineKind,
    topology: &Topology,
    earlier: Option<&Ranking>,
) -> Result<Routing, EngineError> {
    let options = engine::Options {
        previous_ranking: earlier.cloned(),
        ..engine::Options::default()
    };
    engine::route(kind, topology, &options, None)
}
