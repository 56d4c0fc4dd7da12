//! Routing engines: forwarding tables from a topology.
//!
//! An engine returns complete tables or an error, never partial tables: every destination within
//! the engine's guarantee has an entry in every switch. [`NO_PATH`](crate::tables::NO_PATH) means
//! that no cable leads to the destination or, under up*/down* with several roots, that a pair of
//! switches carries no traffic of its own (see [`EngineKind::UpDn`]).

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
    adopt_moves, misses_parts, rebalance, replan,
};
pub use file::File;
pub use minhop::MinHop;
pub use nue::Nue;
pub use options::{EngineOption, EngineOptions};
pub use shape::{
    Coordinates, Groups, LayoutDimension, LayoutMisfit, LayoutSeed, NoGrid, NoGroups, RowCables,
    SeedLink, TorusLayout,
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

/// The inputs of an engine in addition to the topology.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The switches at the top of the tree, for engines that rank switches. If empty, the engine
    /// finds them.
    pub root_guids: Vec<Guid>,
    /// How to treat root GUIDs that match no switch.
    pub absent_roots: AbsentRoots,
    /// The maximum number of threads; 0 for that of the global thread pool. The number does not
    /// affect the result.
    pub threads: usize,
    /// The ranking of an earlier routing of (nearly) this fabric. The engine keeps it while it
    /// connects all pairs: tables of one ranking replace each other with the fewest changes.
    pub previous_ranking: Option<Ranking>,
    /// The coordinates that an earlier routing of (nearly) this fabric gave each switch of a mesh
    /// or torus. The engine keeps them while every link fits, so that service levels stay.
    pub previous_coordinates: Option<Arc<Coordinates>>,
    /// The operator's order of the dimensions of a mesh or torus, with their directions and
    /// datelines.
    pub layout: Option<Arc<TorusLayout>>,
    /// The choice that [`Auto`] made in an earlier routing of (nearly) this fabric. [`Auto`] keeps
    /// it while the fabric does not grow, so that no fault changes the engine.
    pub previous_choice: Option<Arc<AutoChoice>>,
    /// The number of data VLs that every link between switches supports; `None` if unknown, which
    /// stands for [`DEFAULT_VLS`].
    pub max_vls: Option<u8>,
    /// The tables that [`File`] uses.
    pub tables: Option<Arc<Dump>>,
    /// The engines' own options; see [`Engine::options`].
    pub engine_options: EngineOptions,
    /// The categories of ports whose category is not the default of their kind, for [`FabricTree`].
    pub categories: Arc<Categories>,
    /// The numbers of ports for which the operator sets the order of spreading, for [`FabricTree`].
    pub numbers: Arc<Numbers>,
    /// The numbers of ports in the order of the operator's list. [`MinHop`], [`UpDn`] and [`DnUp`]
    /// spread these ports in that order; [`FabricTree`] takes them as part of `numbers`.
    pub listed: Arc<Numbers>,
    /// Whether two switches that carry no traffic of their own need a path between their ports 0.
    /// Only [`FabricTree`] distinguishes such pairs.
    pub connect_roots: bool,
    /// Whether routes must be shortest paths under their order of the switches, because groups for
    /// adaptive routing need that. If so, [`Auto`] chooses no engine with other routes.
    pub shortest_only: bool,
}

/// The treatment of root GUIDs that match no switch of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbsentRoots {
    /// Fail with [`EngineError::UnknownRoots`]: the operator may have misspelled a GUID.
    #[default]
    Refuse,
    /// Ignore such GUIDs; if none is left, the engine finds roots from the fabric. A switch that is
    /// off must not keep a subnet from being routed.
    LeaveOut,
}

/// The number of data VLs that every link is assumed to have if the number is unknown: switches
/// since DDR have this many.
pub const DEFAULT_VLS: u8 = 8;

/// The order of the switches, the highest first, that up*/down* paths follow.
///
/// A ranking holds GUIDs, not numbers, so that it outlives the topology on which it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// All switches, the highest first, each with its level: the distance from the top of the tree
    /// by which traffic is spread.
    pub switches: Vec<(Guid, u8)>,
    /// All switches, the highest first, in the order that the routes follow; `None` if that is the
    /// order of `switches`.
    pub follows: Option<Vec<Guid>>,
    /// Whether the routes follow an interim order: the usual order leaves pairs without a path
    /// until missing parts are back.
    pub is_interim: bool,
    /// The root GUIDs given to the engine, sorted. An engine keeps the ranking only while it is
    /// given the same roots.
    pub roots: Vec<Guid>,
    /// The explanation of this ranking, as a part of a sentence: "ranked …".
    pub reason: String,
    /// The fabric for which the ranking was made, including parts that are missing now, for engines
    /// in which a returning part gets its place back.
    pub known: Option<Arc<Topology>>,
    /// Intermediate results of an engine, for its next run.
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

    /// The switches in the order under which the routes are shortest, the highest first.
    /// [`Ranking::followed`] also covers detours, which are longer.
    pub fn shortest(&self) -> Vec<Guid> {
        if self.is_interim {
            return self.followed();
        }
        self.switches.iter().map(|&(guid, _)| guid).collect()
    }

    /// Whether routes take the shortest paths of the order, and go up only if no path leads down.
    /// Routes of [`Nue`] do not: they follow the order, but are balanced over more paths.
    pub fn has_shortest_routes(&self) -> bool {
        !nue::depth_first::is_depth_first(self)
    }

    /// The ranking without intermediate results: the next run computes equal tables, but takes
    /// longer.
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
    /// The engine that made the tables (for [`EngineKind::Auto`], the chosen engine).
    pub engine: &'static str,
    /// One sentence for the operator: the decision and its reason.
    pub reason: String,
    /// The level of each switch, by index, with 0 at the top; `None` from engines that do not rank
    /// switches.
    pub ranks: Option<Vec<u8>>,
    /// The ranking that the tables follow, to be passed in with the next topology.
    pub ranking: Option<Ranking>,
    /// The coordinates of each switch of a mesh or torus, to be passed in with the next topology.
    pub coordinates: Option<Arc<Coordinates>>,
    /// The service levels and VLs that the tables need.
    pub lanes: Lanes,
    /// The choice of [`Auto`], to be passed in with the next topology; `None` from all other
    /// engines.
    pub choice: Option<Arc<AutoChoice>>,
}

impl Routing {
    /// Creates the result of an engine that neither ranks switches nor assigns coordinates.
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

    /// The reason, in a few words, why the engine computed all routes from the topology; `None` if
    /// it updated the previous routes, as only [`FabricTree`] does.
    pub fn whole(&self) -> Option<&'static str> {
        let prepared = self.ranking.as_ref().map(|ranking| ranking.prepared.whole);
        prepared.unwrap_or(Prepared::default().whole)
    }
}

/// The reason why an engine returns no tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The fabric lacks some of the given root switches.
    #[error("no switch has the root GUID {}", list(.guids))]
    UnknownRoots {
        /// The GUIDs of the missing roots.
        guids: Vec<Guid>,
    },
    /// A switch's forwarding table is too short for a LID in use.
    #[error("switch {guid} holds {capacity} forwarding entries, and the highest LID is {top}")]
    TableTooSmall {
        /// The GUID of the switch.
        guid: Guid,
        /// The LinearFDBCap of the switch: LIDs below this number can be forwarded.
        capacity: u16,
        /// The highest LID in use.
        top: u16,
    },
    /// A path is longer than costs can represent.
    #[error("a path from switch {guid} has more than {limit} hops")]
    PathTooLong {
        /// The switch where the path starts.
        guid: Guid,
        /// The maximum number of hops.
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
        /// The name of the engine.
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
        /// The name of the engine.
        engine: &'static str,
        /// The number of VLs that the engine needs.
        needed: u8,
        /// The number of VLs that every link has.
        available: u8,
    },
    /// The threads could not be started.
    #[error("{threads} routing threads could not be started: {reason}")]
    Threads {
        /// The number of threads that the options ask for.
        threads: usize,
        /// The error of the operating system.
        reason: String,
    },
}

/// The GUIDs as text, separated by commas.
fn list(guids: &[Guid]) -> String {
    let texts: Vec<String> = guids.iter().map(Guid::to_string).collect();
    texts.join(", ")
}

/// Computes forwarding tables.
pub trait Engine: Sync {
    /// The engine's name in configuration and reports.
    fn name(&self) -> &'static str;

    /// The guarantee of the engine's tables, in one sentence.
    fn guarantee(&self) -> &'static str;

    /// The engine's numeric options; each of them is a key of the configuration.
    fn options(&self) -> &'static [EngineOption] {
        &[]
    }

    /// Computes the tables of `topology`.
    ///
    /// `previous` are the tables in force, with the same switch numbers. An entry of them that is
    /// still a least-cost choice keeps its port, so that as few entries as possible change.
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
    /// The engine [`MinHop`].
    MinHop,
    /// The engine [`UpDn`].
    UpDn,
    /// The engine [`DnUp`].
    DnUp,
    /// The engine [`Dor`].
    Dor,
    /// The engine [`Torus`].
    Torus,
    /// The engine [`DragonflyPlus`].
    DragonflyPlus,
    /// The engine [`Nue`].
    Nue,
    /// The engine [`FabricTree`].
    FabricTree,
    /// The engine [`Dfsssp`].
    Dfsssp,
    /// The engine [`File`].
    File,
}

impl EngineKind {
    /// All kinds, sorted by name.
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

    /// The engine's name in configuration and on the command line.
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

    /// Whether the engine's tables may need several VLs, so that the SLtoVL mapping tables of
    /// switches matter.
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

    /// The engine of this kind.
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

/// The error for a name that no engine has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a routing engine: expected {}", names())]
pub struct UnknownEngine {
    /// The given name.
    pub name: String,
}

/// The names of all engines, listed in prose.
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

/// The level of each switch, 0 at the top, derived from its distance to the nearest host, for
/// tables without a known ranking.
pub fn levels_from_hosts(topology: &Topology) -> Vec<u8> {
    levels::from_edges(topology, levels::ANY_HOST)
}

/// All switches, subtree by subtree: leaf switches of one pod are adjacent, and so are the pods of
/// a larger subtree. A switch comes after all switches below it.
pub fn by_subtree(topology: &Topology) -> Vec<SwitchIdx> {
    by_subtree_and(topology, |switch| switch.0)
}

/// All switches in the order of [`by_subtree`], except that `rank`, and not the GUID, orders
/// subtrees and switches within them.
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
