//! Receivers: their connections, and the threads that feed them.

mod connect;
mod inbox;
mod otlp;
mod syslog;
mod webhook;
mod worker;

use std::time::Duration;

pub(crate) use self::inbox::Inbox;
pub(crate) use self::worker::{Status, Worker, WorkerContext};
use crate::settings::Target;
use crate::source::{Record, Source};

/// Result of an attempt to send records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The receiver has taken all records except the rejected ones.
    Taken {
        /// Number of records that the receiver has rejected.
        rejected: u64,
    },
    /// The receiver will never take these records.
    Refused(String),
    /// The receiver does not answer, or takes no records at present.
    Failed {
        /// Reason of the failure.
        why: String,
        /// Pause that the receiver asks for; `None` if it asks for none.
        pause: Option<Duration>,
    },
}

impl Outcome {
    /// The receiver has taken all records.
    const TAKEN: Outcome = Outcome::Taken { rejected: 0 };

    /// Failure after which the receiver asks for no pause.
    fn failed(why: impl std::fmt::Display) -> Outcome {
        Outcome::Failed {
            why: why.to_string(),
            pause: None,
        }
    }
}

/// Connection to one receiver.
pub(crate) enum Sender {
    Webhook(webhook::Webhook),
    Syslog(syslog::Syslog),
    Otlp(Box<otlp::Otlp>),
}

impl Sender {
    /// Creates a sender, which connects at its first use.
    pub(crate) fn new(target: &Target, source: &Source) -> Sender {
        match target {
            Target::Webhook(target) => {
                Sender::Webhook(webhook::Webhook::new(target.clone(), source.clone()))
            }
            Target::Syslog { address, facility } => Sender::Syslog(syslog::Syslog::new(
                address.clone(),
                *facility,
                source.clone(),
            )),
            Target::Otlp(target) => {
                Sender::Otlp(Box::new(otlp::Otlp::new(target.clone(), source.clone())))
            }
        }
    }

    /// Sends records, and waits for the receiver's answer if it gives one.
    pub(crate) async fn send(&mut self, records: &[Record]) -> Outcome {
        match self {
            Sender::Webhook(webhook) => webhook.send(records).await,
            Sender::Syslog(syslog) => syslog.send(records).await,
            Sender::Otlp(otlp) => otlp.send(records).await,
        }
    }
}
