//! Computes the forwarding tables of all engines of rsm and OpenSM for one fabric.

use rsm_routing::engine::{self, EngineError, EngineKind, Routing};
use rsm_routing::lfts;
use rsm_routing::netlist::{Netlist, Node};
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_routing::verify::verify_whole;
use rsm_tests::clock::Stopwatch;
use rsm_tests::measure::{median, milliseconds};
use rsm_tests::sm::check_tables;

use crate::AnyError;
use crate::foreign::Foreign;
use crate::options::Options;
use crate::row::{IbdmchkVerdict, Row};

/// OpenSM's engines, as `-R` names them.
const OPENSM: [&str; 7] = ["minhop", "updn", "dnup", "ftree", "dfsssp", "lash", "nue"];

/// The engine in the summary: the engine of a site that configures none.
pub(crate) const SUBJECT: EngineKind = EngineKind::Auto;

/// The maximum number of hosts of a fabric that ibdmchk checks. ibdmchk follows the path of every
/// pair of hosts, and needs minutes for thousands of hosts.
pub(crate) const IBDMCHK_HOSTS: usize = 1_200;

/// The default limit of blocks of a rebalancing step.
const STEP_BLOCKS: usize = 256;

/// One fabric, and its contenders.
pub(crate) struct Contest<'a> {
    pub(crate) options: &'a Options,
    /// The fabric before the fault.
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
            // The engine `file` has no tables of its own.
            if kind != EngineKind::File && self.options.takes_part(&name) {
                rows.extend(self.own(name, &topology, kind, None)?);
            }
        }
        // The tables of rsm after it repaired the fault.
        let repaired = format!("rsm {SUBJECT}, repaired");
        if self.options.takes_part(&repaired) && topology != *self.known {
            let before = route(SUBJECT, self.known, None)?;
            rows.extend(self.own(repaired, &topology, SUBJECT, Some(&before))?);
        }
        // The tables after rebalancing a lasting fault.
        let rebalanced = format!("rsm {SUBJECT}, rebalanced");
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
            let row = Row::measured(&topology, name, &fit.tables, made.route_ms);
            rows.push(row.checked(self.ibdmchk(&topology, &fit.tables)?));
        }
        Ok(rows)
    }

    /// The verdict of ibdmchk on tables; `None` for more than [`IBDMCHK_HOSTS`] hosts.
    fn ibdmchk(
        &self,
        topology: &Topology,
        tables: &Tables,
    ) -> Result<Option<IbdmchkVerdict>, AnyError> {
        let hosts = topology.destinations().iter();
        if hosts.filter(|host| host.kind.is_host()).count() > IBDMCHK_HOSTS {
            return Ok(None);
        }
        let directory = tempfile::tempdir()?;
        let verdict = check_tables(self.netlist, topology, tables, directory.path());
        Ok(Some(match verdict {
            Ok(verdict) if verdict.credit_loop_free => IbdmchkVerdict::Free,
            Ok(_) => {
                let mut nodes = self.netlist.nodes().iter();
                if nodes.any(Node::is_aggregation_node) {
                    IbdmchkVerdict::LoopOfAggregation
                } else {
                    IbdmchkVerdict::CreditLoop
                }
            }
            // ibdmchk gives no verdict on credit loops if a path is missing.
            Err(error) if error.to_string().contains("Traversals Failed") => {
                IbdmchkVerdict::LostPairs
            }
            // ibdmchk ends without a verdict on some real fabrics, also on some of DGX hosts.
            Err(rsm_tests::Error::Output { .. }) => IbdmchkVerdict::Stopped,
            Err(error) => return Err(error.into()),
        }))
    }

    /// The row of [`SUBJECT`] after all steps of rebalancing, with the total time of the steps.
    fn rebalanced(&self, name: String, topology: &Topology) -> Result<Row, AnyError> {
        let before = route(SUBJECT, self.known, None)?;
        let mut made = route(SUBJECT, topology, Some(&before))?;
        let mut time_ms = 0.0;
        loop {
            let tally = verify_whole(topology, &made.tables).tally;
            let options = engine::Options {
                previous_ranking: made.ranking.clone(),
                previous_choice: made.choice.clone(),
                ..engine::Options::default()
            };
            let watch = Stopwatch::start();
            let next = engine::rebalance(topology, &options, &tally, STEP_BLOCKS);
            time_ms += milliseconds(watch.elapsed());
            match next {
                Ok(next) => made = next.routing,
                Err(_) => {
                    let row = Row::measured(topology, name, &made.tables, time_ms);
                    return Ok(row.checked(self.ibdmchk(topology, &made.tables)?));
                }
            }
        }
    }

    /// The row of an engine of rsm, which starts from the routing `earlier` if there is one; `None`
    /// if the engine cannot route a fabric of this shape.
    fn own(
        &self,
        name: String,
        topology: &Topology,
        kind: EngineKind,
        earlier: Option<&Routing>,
    ) -> Result<Option<Row>, AnyError> {
        let mut times = Vec::new();
        let mut made = None;
        for _ in 0..self.options.rounds().max(1) {
            let watch = Stopwatch::start();
            made = Some(route(kind, topology, earlier));
            times.push(milliseconds(watch.elapsed()));
        }
        Ok(match made {
            Some(Ok(made)) => {
                let row = Row::measured(topology, name, &made.tables, median(&times));
                let row = row.on_lanes(topology, &made);
                Some(row.checked(self.ibdmchk(topology, &made.tables)?))
            }
            None | Some(Err(EngineError::Shape { .. })) => None,
            Some(Err(error)) => Some(Row::failed(name, error.to_string())),
        })
    }
}

fn route(
    kind: EngineKind,
    topology: &Topology,
    earlier: Option<&Routing>,
) -> Result<Routing, EngineError> {
    let options = engine::Options {
        previous_ranking: earlier.and_then(|routing| routing.ranking.clone()),
        previous_choice: earlier.and_then(|routing| routing.choice.clone()),
        ..engine::Options::default()
    };
    engine::route(kind, topology, &options, None)
}
