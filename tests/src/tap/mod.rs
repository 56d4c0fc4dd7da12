//! A tap between ibsim and its clients, which records every MAD in both directions, with its time.
//!
//! Clients start with the tap's socket name in place of the simulator's. The tap relays the control
//! messages and the packets of each client; both sides keep their own client numbers, so the tap
//! rewrites no message. The tap works with any subnet manager, so counts and times of two subnet
//! managers are comparable. The tap adds one hop per packet, so benches measure the time of whole
//! processes without a tap.

mod packet;
mod reaction;
mod relay;
mod tally;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use packet::{Direction, Packet, attribute, method};
pub use reaction::Reaction;
pub use tally::Tally;

use crate::clock::wait_for;
use crate::error::Error;
use crate::ibsim::Ibsim;
use relay::{Relay, Shared};

/// A function that is called for every packet, on the thread that relays the packet, before the
/// packet is forwarded.
pub type Hook = Box<dyn FnMut(&Packet) + Send>;

/// A running tap. Dropping the tap disconnects its clients.
pub struct Tap {
    shared: Arc<Shared>,
    relay: Option<Relay>,
}

impl Tap {
    /// Opens a tap on `ibsim`.
    ///
    /// # Errors
    ///
    /// The sockets of the tap cannot be made.
    pub fn open(ibsim: &Ibsim) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(ibsim.socket_name()));
        let relay = Relay::start(&shared)?;
        Ok(Self {
            shared,
            relay: Some(relay),
        })
    }

    /// The base name of the sockets for clients; see [`Ibsim::client_through`].
    #[must_use]
    pub fn socket_name(&self) -> &str {
        self.shared.socket_name()
    }

    /// All packets so far, in the order in which the tap relayed them.
    #[must_use]
    pub fn packets(&self) -> Vec<Packet> {
        self.shared.packets().clone()
    }

    /// Forgets all packets recorded so far.
    pub fn clear(&self) {
        self.shared.packets().clear();
    }

    /// The counts of the requests recorded so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.shared.packets().iter().collect()
    }

    /// Calls `hook` for every further packet.
    pub fn on_packet(&self, hook: impl FnMut(&Packet) + Send + 'static) {
        self.shared.set_hook(Some(Box::new(hook)));
    }

    /// Waits until a packet has been recorded and no packet has followed for `quiet`; returns false
    /// if `limit` passes first.
    #[must_use]
    pub fn wait_quiet(&self, quiet: Duration, limit: Duration) -> bool {
        wait_for(limit, || {
            let last = self.shared.packets().last().map(|packet| packet.at)?;
            (self.shared.now().saturating_sub(last) >= quiet).then_some(())
        })
        .is_some()
    }

    /// Waits until a packet for which `matches` is true has been recorded; returns false if `limit`
    /// passes first.
    #[must_use]
    pub fn wait_packet(&self, limit: Duration, matches: impl Fn(&Packet) -> bool) -> bool {
        let mut seen = 0;
        wait_for(limit, || {
            let packets = self.shared.packets();
            let fresh = packets.get(seen..).unwrap_or_default();
            seen = packets.len();
            fresh.iter().any(&matches).then_some(())
        })
        .is_some()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.set_hook(None);
        drop(self.relay.take());
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("socket_name", &self.socket_name())
            .finish_non_exhaustive()
    }
}
