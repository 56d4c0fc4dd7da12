//! The errors of specifications, with the position in the text.

use std::fmt;

use crate::netlist::NetlistError;

/// The error of a specification that describes no fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateError {
    /// The text of the specification.
    pub spec: String,
    /// The position in the text, in characters from 1; one past the end if something is missing
    /// there.
    pub column: usize,
    /// The error at that position.
    pub reason: GenerateReason,
    /// The expected form.
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
    /// An option is given twice.
    #[error("`{key}` is given twice")]
    RepeatedOption {
        /// The repeated option.
        key: String,
    },
    /// A required part is missing.
    #[error("{what} is missing")]
    Missing {
        /// The part that is missing.
        what: String,
    },
    /// A part of the text does not parse.
    #[error("`{text}` cannot be understood")]
    Syntax {
        /// The text given.
        text: String,
    },
    /// A number is out of its range.
    #[error("{what} is {text}")]
    Range {
        /// The name of the number.
        what: String,
        /// The number given.
        text: String,
    },
    /// The fabric needs more LIDs than a subnet has unicast LIDs.
    #[error("the fabric needs {lids} LIDs")]
    TooLarge {
        /// The number of LIDs, one for each switch and each host port; `u64::MAX` stands for that
        /// number or more.
        lids: u64,
    },
    /// A switch needs more than 254 ports.
    #[error("a switch needs {ports} ports")]
    Radix {
        /// The number of ports; `u64::MAX` stands for that number or more.
        ports: u64,
    },
    /// The faults exceed the number of parts.
    #[error("{wanted} {what} are to fail, and there are {count}")]
    TooManyFaults {
        /// The kind of parts that should fail.
        what: &'static str,
        /// The number of parts that should fail.
        wanted: usize,
        /// The number of parts in the fabric.
        count: usize,
    },
    /// The parts do not fit together.
    #[error(transparent)]
    Netlist(#[from] NetlistError),
}
