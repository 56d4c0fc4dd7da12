//! OpenSM's `partitions.conf`: partitions, their members, and their multicast groups.
//!
//! ```text
//! NAME[=P_KEY][, FLAG[=VALUE]]… : MEMBER[=full|limited|both], … ;
//! ```
//!
//! A definition ends with `;`, `#` begins a comment, and a line of members that begins with `mgid=`
//! is a multicast group. All of OpenSM's syntax is accepted with the same effect, except for its
//! guesses: where OpenSM assumes a value, omits a word, or drops the rest of the file and opens
//! every partition, there is an error here, and with one error nothing of the file is used. Rates
//! and MTUs can also be written in units: `rate=400G`, `mtu=4096`.
//!
//! rsm adds three words of its own: the flag `trust=off|report|enforce` before the colon, and
//! among the members `mgids=MGID/BITS` and `guids=GUID/BITS`, names that the partition owns.

mod build;
mod flags;
mod group;
mod loss;
mod model;
mod protection;
pub(super) mod report;
mod syntax;
#[cfg(test)]
mod tests;
pub(super) mod value;

use std::path::Path;

pub use self::loss::PartitionLoss;
pub use self::model::{
    Membership, Partition, PartitionGroup, PartitionMembers, PartitionOrigin, Partitions, Rule,
};
pub use self::protection::{Owned, OwnedKind, Protection, Protections};
use self::report::Report;
use super::PartitionConfig;
use super::finding::ConfigFinding;
use super::text_file::{ConfigError, is_missing, read_text, usable};

/// Parses `text`, the content of `file`. The partitions are usable only if no finding is an error.
pub fn parse_partitions(
    file: &Path,
    text: &str,
    allow_both: bool,
) -> (Partitions, Vec<ConfigFinding>) {
    let clean = syntax::without_comments(text);
    let mut report = Report::new(file, text);
    let definitions = syntax::definitions(&clean, &mut report);
    if definitions.is_empty() {
        report.error(
            0,
            "no partition is defined",
            "expected a definition such as `Default=0x7fff : ALL=full ;`",
        );
    }
    let partitions = build::build(file, &definitions, allow_both, &mut report);
    (partitions, report.finish())
}

/// Reads the file that `config` names. Without a file, every port is a full member of the default
/// partition.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub fn load_partitions(
    config: &PartitionConfig,
) -> Result<(Partitions, Vec<ConfigFinding>), ConfigError> {
    let none = || Partitions {
        allow_both: config.allow_both,
        ..Partitions::default()
    };
    let Some(file) = &config.file else {
        return Ok((none(), Vec::new()));
    };
    let text = match read_text(file) {
        Err(error) if config.file_may_be_missing && is_missing(&error) => {
            let effect = "every port is a full member of the default partition";
            let finding = ConfigFinding::no_such_file(file, effect);
            return Ok((none(), vec![finding]));
        }
        text => text?,
    };
    usable(parse_partitions(file, &text, config.allow_both))
}
