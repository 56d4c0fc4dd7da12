use super::transfers::Full;
use crate::transport::{SA_DATA_LEN, SA_HEADER_LEN};

/// The reason why RMPP refused a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The number of transfers has reached
    /// [`RmppConfig::max_transactions`](super::RmppConfig::max_transactions).
    #[error("there are too many transfers")]
    Full,
    /// The number of transfers with this LID has reached
    /// [`RmppConfig::max_per_client`](super::RmppConfig::max_per_client).
    #[error("there are too many transfers with this LID")]
    ClientFull,
    /// A message of this transaction is still being sent.
    #[error("a message of this transaction is being sent")]
    UnderWay,
    /// The message is shorter than its headers.
    #[error("the message is shorter than its {SA_HEADER_LEN} bytes of headers")]
    TooShort,
    /// The message is not sent by RMPP, and has more data than one datagram.
    #[error("the message has more than {SA_DATA_LEN} bytes of data, and is not sent by RMPP")]
    TooLong,
    /// Too many datagrams wait for [`Rmpp::poll_transmit`](super::Rmpp::poll_transmit).
    #[error("too many datagrams wait to be sent")]
    Congested,
}

impl From<Full> for Refused {
    fn from(full: Full) -> Refused {
        match full {
            Full::Total => Refused::Full,
            Full::Client => Refused::ClientFull,
        }
    }
}
