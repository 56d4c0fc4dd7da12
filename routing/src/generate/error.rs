use std::fmt;

use crate::netlist::NetlistError;

/// A specification describes no fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateError {
    /// The specification.
    pub spec: String,
    /// Where in it, in characters from 1; one past the end where something is missing.
    pub column: usize,
    /// The error there.
    pub reason: GenerateReason,
    /// The correct form.
    pub expected: String,
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`, character {}: {}, expected {}",
            self.spec, self.column, self.reason, self.expected
        )
    }
}

impl std::error::Error for GenerateError {}

/// The errors of a specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerateReason {
    /// No generator has this name.
    #[error("there is no generator `{name}`")]
    UnknownGenerator {
        /// The name given.
        name: String,
    },
    /// The generator has no such option.
    #[error("there is no option `{key}` here")]
    UnknownOption {
        /// The option given.
        key: String,
    },
    /// An option for the second time.
    #[error("`{key}` is given twice")]
    RepeatedOption {
        /// Which.
        key: String,
    },
    /// Something that must be given is not.
    #[error("{what} is missing")]
    Missing {
        /// The part that is missing.
        what: String,
    },
    /// Text that cannot stand here.
    #[error("`{text}` cannot be understood")]
    Syntax {
        /// The text given.
        text: String,
    },
    /// A number out of its range.
    #[error("{what} is {text}")]
    Range {
        /// The name of the number.
        what: String,
        /// The number given.
        text: String,
    },
    /// More switches and host ports than a subnet has unicast LIDs.
    #[error("the fabric needs {lids} LIDs")]
    TooLarge {
        /// One for each switch and each host port; `u64::MAX` stands for that and more.
        lids: u64,
    },
    /// A switch with more ports than can be numbered.
    #[error("a switch needs {ports} ports")]
    Radix {
        /// How many; `u64::MAX` stands for that and more.
        ports: u64,
    },
    /// More faults than there are parts.
    #[error("{wanted} {what} are to fail, and there are {count}")]
    TooManyFaults {
        /// The kind of parts that should fail.
        what: &'static str,
        /// How many.
        wanted: usize,
        /// How many there are.
        count: usize,
    },
    /// The parts do not fit together.
    #[error(transparent)]
    Netlist(#[from] NetlistError),
}
