use std::time::Duration;

use parking_lot::Mutex;
use zerocopy::FromBytes as _;

use super::{FaultCounts, FaultInjector, InboundHalf, Random};
use crate::transport::{LocalPort, RemoteAddress, SaPort, SaSink, SendError};
use crate::wire::header::{AttrId, MadHeader};

impl FaultInjector {
    /// Wraps the receiving half of the SA. Failures of requests always pass.
    pub fn sa_sink(&self, mut sink: SaSink) -> SaSink {
        let mut half = InboundHalf::new(self);
        let faults = self.clone();
        Box::new(move |inbound| match inbound.header() {
            None => sink(inbound),
            Some(header) => {
                let rates = faults.plan.rates(header.attribute());
                half.inject(inbound, rates, &mut sink);
            }
        })
    }

    /// Wraps the sending half of the SA.
    pub fn sa<P: SaPort>(&self, port: P) -> FaultySaPort<P> {
        FaultySaPort {
            port,
            faults: self.clone(),
            random: Mutex::new(Random(self.plan.seed)),
        }
    }
}

/// A sending half of the SA that loses and duplicates outgoing datagrams.
#[derive(Debug)]
pub struct FaultySaPort<P> {
    port: P,
    faults: FaultInjector,
    /// The generator is behind a lock, because any thread may send.
    random: Mutex<Random>,
}

impl<P> FaultySaPort<P> {
    /// The counts of both halves so far.
    pub fn counts(&self) -> FaultCounts {
        self.faults.counts()
    }
}

impl<P: SaPort> SaPort for FaultySaPort<P> {
    fn does_rmpp(&self) -> bool {
        self.port.does_rmpp()
    }

    /// Sends the message, unless a fault loses it. A lost datagram counts as sent: the sender
    /// relies on its own timeouts.
    fn send(
        &self,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout: Duration,
    ) -> Result<(), SendError> {
        let header = MadHeader::ref_from_prefix(bytes).ok();
        let attribute = header.map_or(AttrId(0), |(header, _)| header.attribute());
        let copies = self.faults.copies(attribute, &mut self.random.lock());
        for _ in 0..copies {
            self.port.send(bytes, remote, timeout)?;
        }
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        self.port.local_port()
    }

    fn is_polled(&self) -> bool {
        self.port.is_polled()
    }

    fn receive(&self, most: usize, timeout: Duration) -> usize {
        self.port.receive(most, timeout)
    }

    fn wake(&self) {
        self.port.wake();
    }
}
