//! The errors of fabric specifications, with their position in the text.

use std::fmt;

use crate::netlist::NetlistError;

/// The error of a specification from which no fabric can be generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateError {
    /// The text of the specification.
    pub spec: String,
    /// The position of the error in the text, in characters from 1; one past the end if a part is
    /// missing at the end.
    pub column: usize,
    /// The error at that position.
    pub reason: GenerateReason,
    /// The form that is expected at that position.
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

/// The kinds of errors in a specification.
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
        /// The number of LIDs, one for each switch and each host port; `u64::MAX` if the number
        /// does not fit.
        lids: u64,
    },
    /// A switch needs more than 254 ports.
    #[error("a switch needs {ports} ports")]
    Radix {
        /// The number of ports; `u64::MAX` if the number does not fit.
        ports: u64,
    },
    /// More parts are to fail than the fabric has.
    #[error("{wanted} {what} are to fail, and there are {count}")]
    TooManyFaults {
        /// The kind of parts that are to fail.
        what: &'static str,
        /// The number of parts that are to fail.
        wanted: usize,
        /// The number of such parts in the fabric.
        count: usize,
    },
    /// The generated nodes and cables form no valid netlist.
    #[error(transparent)]
    Netlist(#[from] NetlistError),
}
