//! Steps of a convergence that were computed for the whole subnet, and why.
//!
//! Each step computes only the part that a change concerns, if it can follow the change; [`Whole`]
//! records why a step computed everything. Builds with debug assertions, and so all tests, compare
//! the result of each step with the result for the whole subnet.
//!
//! ```text
//! step             follows                                    whole subnet if
//! paths            nodes with new answers, their neighbors    the path to a switch differs
//! model, rows of   nodes with new answers; unchanged nodes    never
//!  the store       are shared, and comparing pointers finds
//!                  the others
//! LIDs             ports at nodes with new answers            a port has no claim, or another LID
//! tables held      switches written since the last job        never
//! avoided cables   nothing                                    always: one pass over the cables
//! switch graph     switches at nodes with changed cables      no plan is in force
//! host order       whether every host port was there before,  a port is new or moved; inventories
//!                  at the same switch                         or categories changed
//! partitions       ports at nodes with new answers and across enforcement changed, or more of the
//!                  their cables, ports with changed rules     configuration
//! links            switches with changed cables, or with      the graph was not made from the
//!                  another part of the graph                  former one
//! routes           these switches, the columns of costs that  a switch is new; a cable joins
//!                  they change, detours over parts that       other subtrees; a host shifts
//!                  appeared or vanished                       numbers; order, roots or categories
//!                                                             changed; the engine is not
//!                                                             fabric-tree
//! proof            entries that differ, links at the same     the incremental proof cannot decide
//!                  switches, entries of turned switches
//! interim tables   entries that differ, LID by LID            old and new routes share no order
//! multicast trees  links, members and depths that differ,     no order; members without a common
//!                  switches whose tables differ from the plan top; another MulticastFDBCap
//! multicast tables switches with another planned table, or    no comparison was made before
//!                  with writes
//! difference       ports of nodes that differ and their       the configuration or habits changed
//!                  peers, written switches, changes of the
//!                  plan
//! ```

use std::fmt;

/// A step of a convergence that follows changes if it can.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Directed paths to all nodes.
    Paths,
    /// The LIDs of ports.
    Lids,
    /// The switch graph for routing.
    Graph,
    /// The categories and the host order by which routes are spread.
    Order,
    /// Data VLs and port states of the links between switches.
    Links,
    /// The unicast routes.
    Routes,
    /// The proof of the unicast routes.
    Proof,
    /// The interim tables between the tables in force and the planned ones.
    Interim,
    /// Members of partitions.
    Partitions,
    /// The trees of multicast groups.
    Multicast,
    /// Differences between ports and the plan.
    Difference,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Paths => "paths",
            Step::Lids => "LIDs",
            Step::Graph => "switch graph",
            Step::Order => "host order",
            Step::Links => "links",
            Step::Routes => "routes",
            Step::Proof => "proof",
            Step::Interim => "interim tables",
            Step::Partitions => "partitions",
            Step::Multicast => "multicast trees",
            Step::Difference => "difference",
        })
    }
}

/// A step that was computed for the whole subnet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Whole {
    /// The step.
    pub step: Step,
    /// The reason, as a phrase.
    pub why: String,
}

impl Whole {
    /// Records that `step` was computed for the whole subnet, because of `why`.
    pub fn new(step: Step, why: impl Into<String>) -> Whole {
        let why = why.into();
        Whole { step, why }
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.why)
    }
}
