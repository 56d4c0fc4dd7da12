//! Messages of the SA through a port: with the RMPP of the port's transport, or with [rsm's own
//! RMPP](crate::client::rmpp) if the transport does no RMPP.
//!
//! The kernel does RMPP for umad, and accepts a table only as a whole. rsm's own RMPP serves the
//! simulator, and generates the table while it is sent. ibsim does no RMPP and delivers 224 of 256
//! bytes, which suffices for some answers.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::Time;
use crate::client::Transmit;
use crate::client::rmpp::{Refused, Rmpp, RmppConfig, RmppStats};
use crate::ids::Tid;
use crate::transport::{
    Datagram, Message, Outgoing, RemoteAddress, SA_HEADER_LEN, SaInbound, SaPort, SendError,
    Streamed,
};
use crate::wire::rmpp::RmppFlags;
use crate::wire::{MAD_LEN, MadBytes, header::MadHeader};

/// The maximum length of a message for a transport that does RMPP, which needs the message as a
/// whole: 64 MiB, a million PathRecords. The kernel uses about twice as much memory while it sends
/// the message.
pub const MAX_WHOLE: usize = 64 << 20;

/// The maximum total length of the messages under construction for transports that do RMPP: 256
/// MiB.
pub const MAX_PARTIAL_BYTES: usize = 256 << 20;

/// The maximum numbers of messages under construction for transports that do RMPP, in total and for
/// one LID: a host needs one or two.
const MAX_PARTIAL_MESSAGES: [usize; 2] = [1024, 16];

/// The number of bytes of a message under construction that are generated before another message
/// has its turn.
const CHUNK: usize = 16 << 10;

/// The time until the next attempt after the transport had no room.
const RETRY_DELAY: Duration = Duration::from_micros(200);

/// An event that a messenger delivers.
#[derive(Debug)]
pub enum Delivery {
    /// A message arrived.
    Message(Message),
    /// A request has no answer.
    Unanswered {
        /// The transaction identifier of the request. Match on [`Tid::low`].
        tid: Tid,
    },
    /// A message is too long to send; see [`MAX_WHOLE`].
    TooLong {
        /// The headers of the request.
        header: [u8; SA_HEADER_LEN],
        /// The destination of the request.
        remote: RemoteAddress,
    },
}

/// The messenger did not accept a message.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// The messenger has no room for the message, or the message is malformed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The transport did not accept the message.
    #[error(transparent)]
    Transport(#[from] SendError),
}

/// The work that remains after [`Messenger::transmit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// There is no work before the next inbound event or deadline.
    Nothing,
    /// More datagrams or parts wait: call the function again, after handling inbound messages.
    More,
    /// The transport has no room until the next deadline. The messenger refuses further messages
    /// once its own queue is full.
    Blocked,
}

/// Sends and receives messages of the SA through a port, by the RMPP of the transport or by the
/// messenger's own [`Rmpp`].
///
/// The owner calls a messenger like an [`Rmpp`], but the messenger itself sends the datagrams.
pub struct Messenger {
    port: Arc<dyn SaPort>,
    mode: RmppMode,
    /// The received messages and failures that the owner has not polled.
    deliveries: VecDeque<Delivery>,
    /// The number of accepted messages that the transport refused.
    lost: u64,
}

/// The side that does RMPP, with its state.
enum RmppMode {
    /// The messenger does RMPP.
    Own {
        rmpp: Box<Rmpp>,
        /// The datagram for which the transport had no room, and the time of the next attempt.
        held: Option<(Box<Transmit>, Time)>,
    },
    /// The transport does RMPP.
    Transport {
        /// The messages under construction.
        partial_messages: VecDeque<PartialMessage>,
        /// The number of bytes of these messages generated so far.
        partial_bytes: usize,
    },
}

/// A message under construction for a transport that needs it as a whole.
struct PartialMessage {
    streamed: Streamed,
    /// The headers and the data generated so far.
    bytes: Vec<u8>,
    /// The timeout of the answer; zero if the message has no answer.
    patience: Duration,
}

impl Messenger {
    /// A messenger over `port`. `config` is used if the port does no RMPP.
    pub fn new(port: Arc<dyn SaPort>, config: RmppConfig) -> Messenger {
        let mode = if port.does_rmpp() {
            RmppMode::Transport {
                partial_messages: VecDeque::new(),
                partial_bytes: 0,
            }
        } else {
            RmppMode::Own {
                rmpp: Box::new(Rmpp::new(config)),
                held: None,
            }
        };
        Messenger {
            port,
            mode,
            deliveries: VecDeque::new(),
            lost: 0,
        }
    }

    /// The port through which the messenger sends.
    pub fn port(&self) -> &Arc<dyn SaPort> {
        &self.port
    }

    /// The counters of RMPP; all zero if the transport does RMPP.
    pub fn stats(&self) -> RmppStats {
        match &self.mode {
            RmppMode::Own { rmpp, .. } => rmpp.stats(),
            RmppMode::Transport { .. } => RmppStats::default(),
        }
    }

    /// The number of messages that the messenger accepted and the transport then refused.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Handles an inbound event of the port.
    pub fn handle(&mut self, inbound: SaInbound, now: Time) {
        match (&mut self.mode, inbound) {
            (RmppMode::Own { rmpp, .. }, SaInbound::Datagram(datagram)) => {
                rmpp.handle(&datagram, now);
            }
            (RmppMode::Transport { .. }, SaInbound::Datagram(datagram)) => {
                self.deliveries
                    .push_back(Delivery::Message(Message::of(&datagram)));
            }
            (_, SaInbound::Message(message)) => {
                self.deliveries.push_back(Delivery::Message(message));
            }
            // The timers of `Rmpp` decide when a request is unanswered.
            (RmppMode::Own { .. }, SaInbound::SendFailed { .. }) => {}
            (RmppMode::Transport { .. }, SaInbound::SendFailed { tid, .. }) => {
                self.deliveries.push_back(Delivery::Unanswered { tid });
            }
        }
    }

    /// Accepts a message to send. A request with a timeout ends in one [`Delivery::Message`] or one
    /// [`Delivery::Unanswered`]; the timeout is zero for answers and for messages without an
    /// answer.
    ///
    /// # Errors
    /// The message is not sent; [`NotSent`] has the reasons.
    pub fn send(
        &mut self,
        outgoing: impl Into<Outgoing>,
        patience: Duration,
        now: Time,
    ) -> Result<(), NotSent> {
        match &mut self.mode {
            RmppMode::Own { rmpp, .. } => Ok(rmpp.send(outgoing, patience, now)?),
            RmppMode::Transport {
                partial_messages, ..
            } => match outgoing.into() {
                Outgoing::Whole(message) => send_whole(&*self.port, message, patience),
                Outgoing::Streamed(streamed) => {
                    let lid = streamed.remote.lid;
                    let has_lid = |other: &&PartialMessage| other.streamed.remote.lid == lid;
                    if partial_messages.len() >= MAX_PARTIAL_MESSAGES[0] {
                        return Err(Refused::Full.into());
                    }
                    if partial_messages.iter().filter(has_lid).count() >= MAX_PARTIAL_MESSAGES[1] {
                        return Err(Refused::ClientFull.into());
                    }
                    let mut bytes = streamed.header.to_vec();
                    mark_rmpp(&mut bytes);
                    partial_messages.push_back(PartialMessage {
                        streamed,
                        bytes,
                        patience,
                    });
                    Ok(())
                }
            },
        }
    }

    /// Accepts a message that is one datagram, to be sent without RMPP. The timeout has the same
    /// meaning as in [`Messenger::send`].
    ///
    /// # Errors
    /// The message is not sent; [`NotSent`] has the reasons.
    pub fn send_datagram(
        &mut self,
        mad: &MadBytes,
        remote: &RemoteAddress,
        patience: Duration,
        now: Time,
    ) -> Result<(), NotSent> {
        match &mut self.mode {
            RmppMode::Own { rmpp, .. } => {
                let (mad, remote) = (*mad, *remote);
                Ok(rmpp.send_datagram(Datagram { mad, remote }, patience, now)?)
            }
            RmppMode::Transport { .. } => Ok(self.port.send(mad, remote, patience)?),
        }
    }

    /// Sends at most `max` datagrams or parts of a message, as windows and the transport's room
    /// allow.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the transport is closed.
    pub fn transmit(&mut self, max: usize, now: Time) -> Result<Left, SendError> {
        for _ in 0..max {
            let progressed = match &mut self.mode {
                RmppMode::Own { rmpp, held } => {
                    transmit_one(&*self.port, rmpp, held, &mut self.lost, now)?
                }
                RmppMode::Transport { .. } => self.generate_part(),
            };
            if !progressed {
                break;
            }
        }
        Ok(match &self.mode {
            RmppMode::Own { held: Some(_), .. } => Left::Blocked,
            RmppMode::Own { rmpp, .. } if rmpp.is_working() => Left::More,
            RmppMode::Transport {
                partial_messages, ..
            } if !partial_messages.is_empty() => Left::More,
            RmppMode::Own { .. } | RmppMode::Transport { .. } => Left::Nothing,
        })
    }

    /// The next delivery; `None` if no delivery waits.
    pub fn poll(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.deliveries.pop_front() {
            return Some(delivery);
        }
        let RmppMode::Own { rmpp, .. } = &mut self.mode else {
            return None;
        };
        if let Some(message) = rmpp.poll_message() {
            return Some(Delivery::Message(message));
        }
        std::iter::from_fn(|| rmpp.poll_failure())
            .find(|failed| !failed.key.answers)
            .map(|failed| Delivery::Unanswered {
                tid: failed.key.tid,
            })
    }

    /// The next time to call [`Messenger::handle_deadline`].
    pub fn next_deadline(&self) -> Option<Time> {
        match &self.mode {
            RmppMode::Own { rmpp, held } => {
                let again = held.as_ref().map(|(_, again)| *again);
                rmpp.next_deadline().into_iter().chain(again).min()
            }
            RmppMode::Transport { .. } => None,
        }
    }

    /// Handles all timers due at `now`; [`Messenger::transmit`] sends the results.
    pub fn handle_deadline(&mut self, now: Time) {
        if let RmppMode::Own { rmpp, .. } = &mut self.mode {
            rmpp.handle_deadline(now);
        }
    }

    /// Generates a part of the first message under construction, and sends the message once it is
    /// complete. Returns false if no message is under construction.
    fn generate_part(&mut self) -> bool {
        let RmppMode::Transport {
            partial_messages,
            partial_bytes,
        } = &mut self.mode
        else {
            return false;
        };
        let Some(mut message) = partial_messages.pop_front() else {
            return false;
        };
        let before = message.bytes.len();
        message.bytes.resize(before + CHUNK, 0);
        let filled = message.streamed.data.fill(&mut message.bytes[before..]);
        message.bytes.truncate(before + filled.bytes.min(CHUNK));
        *partial_bytes += message.bytes.len() - before;
        let too_long = message.bytes.len() > MAX_WHOLE || *partial_bytes > MAX_PARTIAL_BYTES;
        if !too_long && !filled.ended {
            // The message goes to the end of the queue, so that the other messages have their turn.
            partial_messages.push_back(message);
            return true;
        }
        *partial_bytes -= message.bytes.len() - SA_HEADER_LEN;
        let Streamed { header, remote, .. } = message.streamed;
        if too_long {
            self.deliveries
                .push_back(Delivery::TooLong { header, remote });
            return true;
        }
        let bytes = message.bytes;
        if let Err(error) = send_whole(&*self.port, Message { bytes, remote }, message.patience) {
            let error: &dyn std::error::Error = &error;
            tracing::debug!(error, "the transport did not accept a message");
            self.lost += 1;
        }
        true
    }
}

/// Sends a datagram. Returns false if no datagram waits, or if the transport has no room.
fn transmit_one(
    port: &dyn SaPort,
    rmpp: &mut Rmpp,
    held: &mut Option<(Box<Transmit>, Time)>,
    lost: &mut u64,
    now: Time,
) -> Result<bool, SendError> {
    let next = match held.take() {
        Some((transmit, again)) if again > now => {
            *held = Some((transmit, again));
            return Ok(false);
        }
        Some((transmit, _)) => Some(*transmit),
        None => rmpp.poll_transmit(now),
    };
    let Some(transmit) = next else {
        return Ok(false);
    };
    let Transmit { datagram, timeout } = &transmit;
    match port.send(&datagram.mad, &datagram.remote, *timeout) {
        Ok(()) => Ok(true),
        Err(SendError::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => {
            *held = Some((Box::new(transmit), now + RETRY_DELAY));
            Ok(false)
        }
        Err(SendError::Closed) => Err(SendError::Closed),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::debug!(error, "the transport did not accept a datagram");
            *lost += 1;
            Ok(true)
        }
    }
}

/// Passes a whole message to a transport that does RMPP.
fn send_whole(port: &dyn SaPort, mut message: Message, patience: Duration) -> Result<(), NotSent> {
    let length = message.bytes.len();
    if length < SA_HEADER_LEN {
        return Err(Refused::TooShort.into());
    }
    if message.is_rmpp() {
        crate::wire::segment::complete_header(&mut message.bytes);
    } else if length > MAD_LEN {
        return Err(Refused::TooLong.into());
    } else {
        message.bytes.resize(MAD_LEN, 0);
    }
    Ok(port.send(&message.bytes, &message.remote, patience)?)
}

/// Sets ACTIVE, because a streamed message may lack the flag.
fn mark_rmpp(bytes: &mut [u8]) {
    use zerocopy::FromBytes as _;
    let rmpp = &mut bytes[size_of::<MadHeader>()..];
    if let Ok((rmpp, _)) = crate::wire::rmpp::RmppHeader::mut_from_prefix(rmpp) {
        rmpp.set_flags(RmppFlags::ACTIVE);
    }
}

#[cfg(test)]
mod tests;
