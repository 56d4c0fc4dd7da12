//! Routing engines: forwarding tables from a topology.
//!
//! An engine gives complete tables or an error, never partial ones: every destination within the
//! engine's guarantee has an entry in every switch. [`NO_PATH`](crate::tables::NO_PATH) stands
//! where no cable leads, and, under up*/down* with several roots, between two switches that carry
//! nothing (see [`EngineKind::UpDn`]).

mod auto;
mod avoided;
mod balance;
mod channels;
mod choose;
mod columns;
mod dependencies;
mod dfsssp;
mod dragonfly;
mod fabric_tree;
mod file;
mod further;
pub(crate) mod groups;
mod minhop;
mod nue;
mod options;
mod orientation;
mod paths;
mod prepare;
mod shape;
mod slots;
mod spread;
mod torus;
mod updn;

pub use auto::{Auto, AutoChoice};
pub use dfsssp::Dfsssp;
pub use dragonfly::DragonflyPlus;
pub use fabric_tree::{
    Categories, Category, Change, FabricTree, Numbers, Prepared, Rebalanced, Replan, Unmoved,
    misses_parts, rebalance, replan,
};
pub use file::File;
pub use minhop::MinHop;
pub use nue::Nue;
pub use options::{EngineOption, EngineOptions};
pub use shape::{
    Coordinates, Groups, LayoutDimension, LayoutMisfit, LayoutSeed, NoGrid, NoGroups, SeedLink,
    TorusLayout,
};
pub use torus::{Dor, Torus};
pub use updn::{DnUp, UpDn};

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rsm_ids::Guid;

use crate::lanes::Lanes;
use crate::lfts::Dump;
use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology, levels};

/// The input of an engine beside the topology.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The switches at the top of the tree, for engines that rank switches. Empty: the engine
    /// finds them.
    pub root_guids: Vec<Guid>,
    /// How to treat root GUIDs that no switch has.
    pub absent_roots: AbsentRoots,
    /// How many threads may compute; 0 leaves it to the global thread pool. Does not affect the
    /// result.
    pub threads: usize,
    /// The ranking of an earlier routing of (nearly) this fabric: kept for as long as it reaches
    /// everything, because tables of one ranking can replace each other with the least change.
    pub previous_ranking: Option<Ranking>,
    /// Where an earlier routing of (nearly) this fabric saw each switch of a mesh or torus: kept as
    /// long as every link fits, so that service levels stay.
    pub previous_coordinates: Option<Arc<Coordinates>>,
    /// The operator's order of the dimensions of a mesh or torus, their directions and datelines.
    pub layout: Option<Arc<TorusLayout>>,
    /// The choice of [`Auto`] in an earlier routing of (nearly) this fabric: kept while the fabric
    /// does not grow, so that no fault changes the engine.
    pub previous_choice: Option<Arc<AutoChoice>>,
    /// How many data VLs every link between switches has. `None`: not known, taken as
    /// [`DEFAULT_VLS`].
    pub max_vls: Option<u8>,
    /// The tables that [`File`] takes.
    pub tables: Option<Arc<Dump>>,
    /// The engines' own options; see [`Engine::options`].
    pub engine_options: EngineOptions,
    /// The categories of ports, where they are not the default of their kind; see [`FabricTree`].
    pub categories: Arc<Categories>,
    /// Numbers of ports that have their own order of spreading; see [`FabricTree`].
    pub numbers: Arc<Numbers>,
    /// Numbers of ports in the order of the operator's list, by which [`MinHop`], [`UpDn`] and
    /// [`DnUp`] spread them; for [`FabricTree`] they are among `numbers`.
    pub listed: Arc<Numbers>,
    /// Whether two switches that carry nothing themselves need a path between their ports 0 as
    /// well; for [`FabricTree`], the others do not distinguish such pairs.
    pub connect_roots: bool,
    /// Whether routes have to be the shortest that follow their order of the switches, as groups
    /// for adaptive routing take them to be: then [`Auto`] chooses no engine with others.
    pub shortest_only: bool,
}

/// The treatment of root GUIDs that no switch of the fabric has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentRoots {
    /// [`EngineError::UnknownRoots`]: an operator who misspells a GUID gets an error.
    #[default]
    Refuse,
    /// The engine ignores them; with none left, it finds roots from the fabric. A switch that is
    /// off must not keep a subnet from being routed.
    LeaveOut,
}

/// The data VLs of a link whose number is not known: switches since DDR have this many.
pub const DEFAULT_VLS: u8 = 8;

/// The order of the switches, highest first, that up*/down* paths follow.
///
/// Holds GUIDs, not numbers, so that it outlives the topology that it was found on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Every switch, the highest first, with its level: its distance from the top of the tree as
    /// far as the spreading of traffic is concerned.
    pub switches: Vec<(Guid, u8)>,
    /// Every switch, the highest first, in the order that the routes follow; `None` where that is
    /// the order of `switches`.
    pub follows: Option<Vec<Guid>>,
    /// Whether missing parts keep the usual order from reaching all pairs, so that the routes
    /// follow another until the parts are back.
    pub is_interim: bool,
    /// The root GUIDs given at the time, sorted; engines keep the ranking only while they are the
    /// same.
    pub roots: Vec<Guid>,
    /// The reason for this ranking, as part of a sentence.
    pub reason: String,
    /// The fabric that it was made for, missing parts included, for engines that give a returning
    /// part its place back.
    pub known: Option<Arc<Topology>>,
    /// Intermediate results of an engine, for the next time.
    pub prepared: Prepared,
}

impl Ranking {
    /// The switches in the order that the routes follow, the highest first.
    pub fn followed(&self) -> Vec<Guid> {
        match &self.follows {
            Some(follows) => follows.clone(),
            None => self.switches.iter().map(|&(guid, _)| guid).collect(),
        }
    }

    /// The switches in the order by which the routes are shortest, the highest first. Detours take
    /// longer ways, which [`Ranking::followed`] has as well.
    pub fn shortest(&self) -> Vec<Guid> {
        if self.is_interim {
            return self.followed();
        }
        self.switches.iter().map(|&(guid, _)| guid).collect()
    }

    /// Whether routes take the shortest paths of the order, up from where no way leads down. Those
    /// of [`Nue`] do not: they follow the order, and are balanced over more paths.
    pub fn has_shortest_routes(&self) -> bool {
        !nue::depth_first::is_of(self)
    }

    /// The ranking without intermediate results: tables come out the same, and take longer.
    pub fn unprepared(self) -> Ranking {
        Ranking {
            prepared: Prepared::default(),
            ..self
        }
    }
}

/// The result of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// A forwarding table for each switch.
    pub tables: Tables,
    /// The engine that made them (for [`EngineKind::Auto`]: the one that was chosen).
    pub engine: &'static str,
    /// One sentence for the operator: the decision, and its reason.
    pub reason: String,
    /// The level of each switch, by index, 0 at the top, for engines that rank switches.
    pub ranks: Option<Vec<u8>>,
    /// The ranking that the tables follow, to be handed in again with the next topology.
    pub ranking: Option<Ranking>,
    /// Where each switch of a mesh or torus is, to be handed in again with the next topology.
    pub coordinates: Option<Arc<Coordinates>>,
    /// The service levels and virtual lanes that the tables need.
    pub lanes: Lanes,
    /// The choice of [`Auto`], to be handed in again with the next topology; `None` from the other
    /// engines.
    pub choice: Option<Arc<AutoChoice>>,
}

impl Routing {
    /// The result of an engine that neither ranks switches nor places them.
    fn unranked(engine: &'static str, reason: String, tables: Tables, lanes: Lanes) -> Routing {
        Routing {
            tables,
            engine,
            reason,
            ranks: None,
            ranking: None,
            coordinates: None,
            lanes,
            choice: None,
        }
    }

    /// Why the routes were computed from the topology, in a few words; `None` where those before
    /// were changed, which only [`FabricTree`] does.
    pub fn whole(&self) -> Option<&'static str> {
        let prepared = self.ranking.as_ref().map(|ranking| ranking.prepared.whole);
        prepared.unwrap_or(Prepared::default().whole)
    }
}

/// Why there are no tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Root switches that the fabric does not have.
    #[error("no switch has the root GUID {}", list(.guids))]
    UnknownRoots {
        /// Their GUIDs.
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
    /// The options hold no tables for [`File`].
    #[error("file has no tables to take: expected a file like opensm-lfts.dump")]
    NoTables,
    /// The fabric is not of the kind that the engine routes.
    #[error(
        "{engine} does not fit this fabric: {reason}; auto, fabric-tree, updn and nue route any"
    )]
    Shape {
        /// The engine.
        engine: &'static str,
        /// The part of the fabric that does not fit.
        reason: String,
    },
    /// The links have fewer virtual lanes than the engine needs.
    #[error(
        "{engine} needs {needed} virtual lanes on this fabric, and its links have {available}; \
         auto, fabric-tree, updn and nue need one"
    )]
    TooFewLanes {
        /// The engine.
        engine: &'static str,
        /// How many it needs.
        needed: u8,
        /// How many every link has.
        available: u8,
    },
    /// The threads could not be started.
    #[error("{threads} routing threads could not be started: {reason}")]
    Threads {
        /// How many the options ask for.
        threads: usize,
        /// The error of the operating system.
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

    /// The guarantee of its tables, in one sentence.
    fn guarantee(&self) -> &'static str;

    /// Its numeric options; each of them is a key of the configuration.
    fn options(&self) -> &'static [EngineOption] {
        &[]
    }

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

/// The engines that a configuration can select.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum EngineKind {
    /// The engine that suits the fabric.
    #[default]
    Auto,
    /// [`MinHop`].
    MinHop,
    /// [`UpDn`].
    UpDn,
    /// [`DnUp`].
    DnUp,
    /// [`Dor`].
    Dor,
    /// [`Torus`].
    Torus,
    /// [`DragonflyPlus`].
    DragonflyPlus,
    /// [`Nue`].
    Nue,
    /// [`FabricTree`].
    FabricTree,
    /// [`Dfsssp`].
    Dfsssp,
    /// [`File`].
    File,
}

impl EngineKind {
    /// Every kind, by name.
    pub const ALL: [EngineKind; 11] = [
        EngineKind::Auto,
        EngineKind::FabricTree,
        EngineKind::UpDn,
        EngineKind::DnUp,
        EngineKind::MinHop,
        EngineKind::Dor,
        EngineKind::Torus,
        EngineKind::DragonflyPlus,
        EngineKind::Nue,
        EngineKind::Dfsssp,
        EngineKind::File,
    ];

    /// Its name in configuration and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Auto => "auto",
            EngineKind::MinHop => "minhop",
            EngineKind::UpDn => "updn",
            EngineKind::DnUp => "dnup",
            EngineKind::Dor => "dor",
            EngineKind::Torus => "torus",
            EngineKind::DragonflyPlus => "dragonfly+",
            EngineKind::Nue => "nue",
            EngineKind::FabricTree => "fabric-tree",
            EngineKind::Dfsssp => "dfsssp",
            EngineKind::File => "file",
        }
    }

    /// Whether its tables may need several virtual lanes, so that the SLtoVL tables of switches
    /// matter.
    pub const fn may_need_lanes(self) -> bool {
        match self {
            EngineKind::Torus
            | EngineKind::DragonflyPlus
            | EngineKind::Nue
            | EngineKind::Dfsssp => true,
            EngineKind::Auto
            | EngineKind::MinHop
            | EngineKind::FabricTree
            | EngineKind::UpDn
            | EngineKind::DnUp
            | EngineKind::Dor
            | EngineKind::File => false,
        }
    }

    /// The engine itself.
    pub fn engine(self) -> &'static dyn Engine {
        match self {
            EngineKind::Auto => &Auto,
            EngineKind::MinHop => &MinHop,
            EngineKind::UpDn => &UpDn,
            EngineKind::DnUp => &DnUp,
            EngineKind::Dor => &Dor,
            EngineKind::Torus => &Torus,
            EngineKind::DragonflyPlus => &DragonflyPlus,
            EngineKind::Nue => &Nue,
            EngineKind::FabricTree => &FabricTree,
            EngineKind::Dfsssp => &Dfsssp,
            EngineKind::File => &File,
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
#[error("`{name}` is not a routing engine: expected {}", names())]
pub struct UnknownEngine {
    /// The name given.
    pub name: String,
}

/// The names of all engines, as a sentence lists them.
fn names() -> String {
    let names = EngineKind::ALL.map(EngineKind::name);
    let [others @ .., last] = &names;
    format!("{} or {last}", others.join(", "))
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

/// The level of each switch, 0 at the top, guessed from its distance to the nearest host: for
/// tables without a known ranking.
pub fn levels_from_hosts(topology: &Topology) -> Vec<u8> {
    levels::from_edges(topology, levels::ANY_HOST)
}

/// Every switch, in order of subtrees: leaf switches of one pod are next to each other, and so are
/// pods of one building; a switch comes after all switches below it.
pub fn by_subtree(topology: &Topology) -> Vec<SwitchIdx> {
    by_subtree_and(topology, |switch| switch.0)
}

/// The same, with switches of equal subtrees in the order of `rank` instead of by GUID.
pub fn by_subtree_and(topology: &Topology, rank: impl Fn(SwitchIdx) -> u32) -> Vec<SwitchIdx> {
    let levels = levels::from_edges(topology, levels::ANY_HOST);
    fabric_tree::by_subtree(topology, &levels, rank)
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
