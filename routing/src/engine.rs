//! Routing engines: forwarding tables from a topology.
//!
//! An engine gives complete tables or an error, never partial ones: every destination has an entry
//! in every switch that its guarantee reaches. [`NO_PATH`](crate::tables::NO_PATH) stands where no
//! cable leads, and, under up*/down* with several roots, between two switches that carry nothing
//! (see [`EngineKind::UpDn`]).

mod auto;
mod choose;
mod fabric_tree;
mod levels;
mod minhop;
mod order;
mod paths;
mod prepare;
mod slots;
mod spread;
mod updn;

pub use auto::Auto;
pub use fabric_tree::{Categories, Category, FabricTree, Prepared, Replan, replan};
pub use minhop::MinHop;
pub use updn::UpDn;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rsm_ids::Guid;

use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology};

/// What an engine is told beside the topology.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The switches at the top of the tree, for engines that rank switches. Empty: found by itself.
    pub root_guids: Vec<Guid>,
    /// How many threads may compute; 0 leaves it to the global thread pool. Never shows in the result.
    pub threads: usize,
    /// The ranking of an earlier routing of (nearly) this fabric: kept for as long as it reaches
    /// everything, because tables of one ranking can replace each other with the least change.
    pub previous_ranking: Option<Ranking>,
    /// What ports are there for, where they are not what is usual for their kind; see [`FabricTree`].
    pub categories: Categories,
}

/// Which switch lies above which: the order that up*/down* paths follow.
///
/// Holds GUIDs, not numbers, so that it outlives the topology that it was found on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Every switch, the highest first, with its level: its distance from the top of the tree as
    /// far as the spreading of traffic is concerned.
    pub switches: Vec<(Guid, u8)>,
    /// The root GUIDs that were given when it was made, sorted; it is kept only while they are the same.
    pub roots: Vec<Guid>,
    /// What it was made from, as part of a sentence.
    pub reason: String,
    /// The fabric that it was made for, with what has gone since, for engines that give everything back its place when
    /// it returns.
    pub known: Option<Arc<Topology>>,
    /// What an engine computed on the way, for the next time.
    pub prepared: Prepared,
}

impl Ranking {
    /// The same without what was computed on the way: what comes of it is the same, and takes longer.
    pub fn unprepared(self) -> Ranking {
        Ranking {
            prepared: Prepared::default(),
            ..self
        }
    }
}

/// What an engine found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// A forwarding table for each switch.
    pub tables: Tables,
    /// The engine that made them (for [`EngineKind::Auto`]: the one that was chosen).
    pub engine: &'static str,
    /// One sentence for the operator: what was decided, and why.
    pub reason: String,
    /// The level of each switch, by index, 0 at the top, for engines that rank switches.
    pub ranks: Option<Vec<u8>>,
    /// The ranking that the tables follow, to be handed in again with the next topology.
    pub ranking: Option<Ranking>,
}

/// Why there are no tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Root switches that the fabric does not have.
    #[error("no switch has the root GUID {}", list(.guids))]
    UnknownRoots {
        /// Every one of them.
        guids: Vec<Guid>,
    },
    /// A switch's forwarding table is too short for a LID in use.
    #[error("switch {guid} holds {capacity} forwarding entries, and the highest LID is {top}")]
    TableTooSmall {
        /// The switch.
        guid: Guid,
        /// Its LinearFDBCap: LIDs below this number can be forwarded.
        capacity: u16,
        /// The highest LID in use.
        top: u16,
    },
    /// A path is longer than costs can count.
    #[error("a path from switch {guid} has more than {limit} hops")]
    PathTooLong {
        /// Where it starts.
        guid: Guid,
        /// The longest that can be counted.
        limit: u8,
    },
    /// The threads could not be started.
    #[error("{threads} routing threads could not be started: {reason}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

fn list(guids: &[Guid]) -> String {
    let texts: Vec<String> = guids.iter().map(Guid::to_string).collect();
    texts.join(", ")
}

/// Computes forwarding tables.
pub trait Engine: Sync {
    /// Its name in configuration and reports.
    fn name(&self) -> &'static str;

    /// What its tables are sure to be, in one sentence.
    fn guarantee(&self) -> &'static str;

    /// Tables for `topology`.
    ///
    /// With `previous`, the tables in force by the same switch numbers, an entry that is still a
    /// least-cost choice keeps its port, so that as little as possible changes.
    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError>;
}

/// The engines that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum EngineKind {
    /// The engine that suits the fabric.
    #[default]
    Auto,
    /// [`MinHop`].
    MinHop,
    /// [`UpDn`].
    UpDn,
    /// [`FabricTree`].
    FabricTree,
}

impl EngineKind {
    /// Every kind, by name.
    pub const ALL: [EngineKind; 4] = [
        EngineKind::Auto,
        EngineKind::MinHop,
        EngineKind::UpDn,
        EngineKind::FabricTree,
    ];

    /// Its name in configuration and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Auto => "auto",
            EngineKind::MinHop => "minhop",
            EngineKind::UpDn => "updn",
            EngineKind::FabricTree => "fabric-tree",
        }
    }

    /// The engine itself.
    pub fn engine(self) -> &'static dyn Engine {
        match self {
            EngineKind::Auto => &Auto,
            EngineKind::MinHop => &MinHop,
            EngineKind::UpDn => &UpDn,
            EngineKind::FabricTree => &FabricTree,
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No engine has the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a routing engine: expected auto, minhop, updn or fabric-tree")]
pub struct UnknownEngine {
    /// What was asked for.
    pub name: String,
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        EngineKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownEngine {
                name: name.to_owned(),
            })
    }
}

/// Every switch, the farthest from the hosts first, equals by GUID: the order that fits most trees.
pub(crate) fn by_distance_from_hosts(topology: &Topology) -> Vec<SwitchIdx> {
    let levels = levels::from_edges(topology, levels::ANY_HOST);
    order::Order::new(levels, &[]).highest_first().to_vec()
}

/// Every switch, what hangs together below some level of the tree next to each other: leaf switches of one pod, pods of one
/// building; a switch comes after all that hangs off it.
pub fn by_subtree(topology: &Topology) -> Vec<SwitchIdx> {
    let levels = levels::from_edges(topology, levels::ANY_HOST);
    fabric_tree::by_subtree(topology, &levels)
}

/// Computes tables with an engine; see [`Engine::route`].
pub fn route(
    kind: EngineKind,
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<Routing, EngineError> {
    kind.engine().route(topology, options, previous)
}
