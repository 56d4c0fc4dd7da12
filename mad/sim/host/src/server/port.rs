//! A port of the fabric that programs have open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rsm_ids::{Guid, PortNum};
use rsm_mad::transport::{Datagram, Inbound};
use rsm_sim::live::{LiveError, SimHandle, SimTransport};

use super::packet::Wake;
use crate::layer::{FileId, MadLayer};

/// The node and the number of a port.
pub(super) type NodePort = (Guid, PortNum);

/// The maximum number of datagrams from the simulation that wait for the loop: 2^16, which is also
/// the number that can wait to leave the simulation. Further datagrams are dropped, as with a full
/// receive queue.
const MAX_ARRIVED: usize = 1 << 16;

/// A port that programs have open.
#[derive(Debug)]
pub(super) struct ServedPort {
    pub(super) layer: MadLayer,
    /// The attachment of the port to the simulation.
    pub(super) wire: SimTransport,
    /// The connection of each open device.
    pub(super) files: BTreeMap<FileId, u64>,
    /// The connection that set IsSM.
    pub(super) is_sm: Option<u64>,
    /// The connections that wait for IsSM.
    pub(super) want_is_sm: VecDeque<u64>,
}

impl ServedPort {
    /// Whether no program has a device of the port open.
    pub(super) fn is_idle(&self) -> bool {
        self.layer.is_idle() && self.is_sm.is_none() && self.want_is_sm.is_empty()
    }
}

/// The datagrams that arrived at all ports.
#[derive(Debug)]
pub(super) struct Arrivals {
    sender: SyncSender<(NodePort, Datagram)>,
    pub(super) receiver: Receiver<(NodePort, Datagram)>,
    lost: Arc<AtomicU64>,
}

impl Arrivals {
    pub(super) fn new() -> Arrivals {
        let (sender, receiver) = sync_channel(MAX_ARRIVED);
        Arrivals {
            sender,
            receiver,
            lost: Arc::default(),
        }
    }

    /// The number of datagrams that were dropped for lack of room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Attaches to a port of the fabric. Each datagram that arrives at the port is queued here, and
    /// wakes the loop.
    pub(super) fn attach(
        &self,
        sim: &SimHandle,
        (node, number): NodePort,
        wake: &Arc<Wake>,
    ) -> Result<SimTransport, LiveError> {
        let (sender, lost, wake) = (
            self.sender.clone(),
            Arc::clone(&self.lost),
            Arc::clone(wake),
        );
        let sink = Box::new(move |inbound| {
            // Ignore everything but datagrams: the layer has its own time-outs, and events of the
            // port appear in sysfs.
            let Inbound::Mad(datagram) = inbound else {
                return;
            };
            match sender.try_send(((node, number), datagram)) {
                Ok(()) => wake.wake(),
                Err(TrySendError::Full(_)) => {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
                Err(TrySendError::Disconnected(_)) => {}
            }
        });
        sim.attach(node, number, sink)
    }
}
