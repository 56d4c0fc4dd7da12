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
use crate::foreign::OpenSmRunner;
use crate::options::Options;
use crate::row::{IbdmchkVerdict, Row};

/// The engines of OpenSM, with their names for `-R`.
const OPENSM: [&str; 7] = ["minhop", "updn", "dnup", "ftree", "dfsssp", "lash", "nue"];

/// The engine in the summary, which is the engine of a site without a configured engine.
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
    pub(crate) intact_topology: &'a Topology,
    pub(crate) case: String,
    pub(crate) netlist: &'a Netlist,
}

impl Contest<'_> {
    /// The rows of all contenders that take part.
    pub(crate) fn rows(&self, opensm: &mut OpenSmRunner) -> Result<Vec<Row>, AnyError> {
        let topology = Topology::from_netlist(self.netlist)?;
        let mut rows = Vec::new();
        for kind in EngineKind::ALL {
            let name = format!("rsm {kind}");
            // The engine `file` computes no tables.
            if kind != EngineKind::File && self.options.takes_part(&name) {
                rows.extend(self.rsm_row(name, &topology, kind, None)?);
            }
        }
        // The tables with which rsm repairs the fault.
        let repaired = format!("rsm {SUBJECT}, repaired");
        if self.options.takes_part(&repaired) && topology != *self.intact_topology {
            let before = route(SUBJECT, self.intact_topology, None)?;
            rows.extend(self.rsm_row(repaired, &topology, SUBJECT, Some(&before))?);
        }
        // The tables of rsm after rebalancing around a lasting fault.
        let rebalanced = format!("rsm {SUBJECT}, rebalanced");
        if self.options.takes_part(&rebalanced) && topology != *self.intact_topology {
            rows.push(self.rebalanced(rebalanced, &topology)?);
        }
        for engine in OPENSM {
            let name = format!("OpenSM {engine}");
            if !self.options.takes_part(&name) {
                continue;
            }
            let opensm_tables = match opensm.routes(&self.case, self.netlist, engine)? {
                Ok(opensm_tables) => opensm_tables,
                Err(reason) => {
                    rows.push(Row::failed(name, reason));
                    continue;
                }
            };
            let fitted = lfts::parse(&opensm_tables.dump, "opensm-lfts.dump")?.fit(&topology);
            let unfit_count =
                fitted.unknown_lids + fitted.unknown_switches.len() + fitted.missing_ports;
            if unfit_count > 0 {
                let text =
                    format!("{name}: {unfit_count} entries of its dump do not fit the fabric");
                return Err(text.into());
            }
            let name = if opensm_tables.used == engine {
                name
            } else {
                format!("{name}, which gave up: {}", opensm_tables.used)
            };
            let row = Row::measured(&topology, name, &fitted.tables, opensm_tables.route_ms);
            rows.push(row.checked(self.ibdmchk(&topology, &fitted.tables)?));
        }
        Ok(rows)
    }

    /// The verdict of ibdmchk on `tables`; `None` if the fabric has more than [`IBDMCHK_HOSTS`]
    /// hosts.
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
            // ibdmchk ends without a verdict on some real fabrics, some fabrics of DGX hosts
            // included.
            Err(rsm_tests::Error::Output { .. }) => IbdmchkVerdict::Stopped,
            Err(error) => return Err(error.into()),
        }))
    }

    /// The row of [`SUBJECT`] after all steps of rebalancing. Its time is the total time of the
    /// steps.
    fn rebalanced(&self, name: String, topology: &Topology) -> Result<Row, AnyError> {
        let before = route(SUBJECT, self.intact_topology, None)?;
        let mut routing = route(SUBJECT, topology, Some(&before))?;
        let mut time_ms = 0.0;
        loop {
            let tally = verify_whole(topology, &routing.tables).tally;
            let options = engine::Options {
                previous_ranking: routing.ranking.clone(),
                previous_choice: routing.choice.clone(),
                ..engine::Options::default()
            };
            let watch = Stopwatch::start();
            let rebalancing = engine::rebalance(topology, &options, &tally, STEP_BLOCKS);
            time_ms += milliseconds(watch.elapsed());
            match rebalancing {
                Ok(rebalancing) => routing = rebalancing.routing,
                Err(_) => {
                    let row = Row::measured(topology, name, &routing.tables, time_ms);
                    return Ok(row.checked(self.ibdmchk(topology, &routing.tables)?));
                }
            }
        }
    }

    /// The row of an engine of rsm, which starts from the routing `previous` if it is set; `None`
    /// if the engine cannot route a fabric of this shape.
    fn rsm_row(
        &self,
        name: String,
        topology: &Topology,
        kind: EngineKind,
        previous: Option<&Routing>,
    ) -> Result<Option<Row>, AnyError> {
        let mut times = Vec::new();
        let mut routing = None;
        for _ in 0..self.options.rounds().max(1) {
            let watch = Stopwatch::start();
            routing = Some(route(kind, topology, previous));
            times.push(milliseconds(watch.elapsed()));
        }
        Ok(match routing {
            Some(Ok(routing)) => {
                let row = Row::measured(topology, name, &routing.tables, median(&times));
                let row = row.on_lanes(topology, &routing);
                Some(row.checked(self.ibdmchk(topology, &routing.tables)?))
            }
            None | Some(Err(EngineError::Shape { .. })) => None,
            Some(Err(error)) => Some(Row::failed(name, error.to_string())),
        })
    }
}

fn route(
    kind: EngineKind,
    topology: &Topology,
    previous: Option<&Routing>,
) -> Result<Routing, EngineError> {
    let options = engine::Options {
        previous_ranking: previous.and_then(|routing| routing.ranking.clone()),
        previous_choice: previous.and_then(|routing| routing.choice.clone()),
        ..engine::Options::default()
    };
    engine::route(kind, topology, &options, None)
}
