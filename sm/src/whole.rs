//! Stages that were computed for the whole subnet, and why not only for what changed.

use std::fmt;

/// A part of a pass that follows what changed where it can.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Directed paths to all nodes.
    Paths,
    /// Who gets which LID.
    Lids,
    /// The switch graph that is routed.
    Graph,
    /// What routes are spread by: categories and the order of host ports.
    Order,
    /// Data VLs and port states of the links between switches.
    Links,
    /// The unicast routes.
    Routes,
    /// The proof of the unicast routes.
    Proof,
    /// The interim tables between the tables in force and the planned ones.
    Interim,
    /// Who is in which partition.
    Partitions,
    /// The trees of multicast groups.
    Multicast,
    /// Where ports differ from the plan.
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

/// A step that took all of the subnet into account.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Whole {
    /// Which.
    pub step: Step,
    /// Why, in a few words.
    pub why: String,
}

impl Whole {
    /// `step` was computed whole for this reason.
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
