//! Stages that were computed for the whole subnet, and why not only for the changes.

use std::fmt;

/// A stage that follows changes where it can.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Directed paths to all nodes.
    Paths,
    /// The LIDs of ports.
    Lids,
    /// The switch graph that is routed.
    Graph,
    /// The categories and the host order that routes are spread by.
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
    /// The reason, in a few words.
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
