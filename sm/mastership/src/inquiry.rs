//! The inquiry whether this subnet manager is still the master, after a sign of another master.
//!
//! ```text
//!          it did not run for a while,
//!          MasterSMLID of another, an order by another master
//! Master ──────────────────────────────────────────────────▶ Master, in doubt ──no other master──▶ Master
//!                                                              sets nothing │
//!                                                                           │ another master
//!                                                                           ▼
//!                                                       Standby, HANDOVER, or Master: role::decide
//! ```
//!
//! A master in doubt withdraws all Sets, including Sets already sent. It asks its own port, whose
//! MasterSMLID shows the manager that wrote the port last, and every port that shows a subnet
//! manager (IsSM). If it finds another master after a pause of this process, that master has taken
//! the subnet over, and this manager stands by. If this manager has precedence even as a standby,
//! it then sends its successor trap 144, and the successor hands over (IBA 14.4.1). Until the
//! outcome is known, requests for this manager's SMInfo wait: the successor would hand over to a
//! master with the higher `master_priority`. Sweeps and plans continue during the inquiry, because
//! they change no hardware.
//!
//! If a store is shared, the inquiry after a pause also waits for the answer of the store, at most
//! one second, and then repeats queries whose answers are too old. The check gives a sign of life
//! and compares the epoch in one transaction, so no claim can succeed between the two.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{CapabilityMask, PortInfo};

/// Time until a master repeats its queries, if neither its own port nor another master has
/// answered.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(250);

/// Time for which a standby's answer proves that it has not taken over since: a standby takes over
/// only after three unanswered polls, 100 ms apart.
pub(crate) const FRESH: Duration = Duration::from_millis(100);

/// Maximum number of requests for SMInfo that wait for the end of an inquiry: enough for a request
/// from each manager of a subnet, with repetitions.
const DEFERRED_MAX: usize = 64;

/// Why this subnet manager may not be the only master.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MastershipDoubt {
    /// Another master appeared while this manager was running: precedence decides.
    Rival,
    /// This process was paused, or cut off from the fabric and from the store: any other master has
    /// taken over in that time.
    Paused,
}

/// A query of the inquiry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Question {
    /// PortInfo of the own port.
    OwnPort(PortKey),
    /// SMInfo of the manager behind a port.
    Manager(PortKey),
    /// SMInfo of the manager at a LID, which a MasterSMLID showed.
    Lid(Lid),
}

/// A sign that another manager acts as master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    /// LID of the other manager; `None` if it is not known.
    pub(crate) lid: Option<Lid>,
}

/// Signs of another master, and the requests and Sets that wait for the outcome.
#[derive(Default, Debug)]
pub(crate) struct Doubts {
    /// The inquiry whether this manager is still the master; `None` unless one is under way.
    pub(crate) inquiry: Option<Box<Inquiry>>,
    /// Requests for SMInfo that wait until this manager knows whether it is still the master.
    deferred: Vec<Datagram>,
    /// A sign of another master since the last inquiry.
    pub(crate) suspicion: Option<Suspicion>,
    /// Devices with withdrawn Sets that may have arrived; a sweep reads them before the next push.
    pub(crate) unsure: BTreeSet<Guid>,
}

impl Doubts {
    /// Whether there is no sign of another master, and no request waits.
    pub(crate) fn is_settled(&self) -> bool {
        self.inquiry.is_none() && self.suspicion.is_none() && self.deferred.is_empty()
    }

    /// Time at which the inquiry asks again or stops waiting for the store; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.inquiry.as_ref()?.deadline()
    }

    /// Keeps a request for SMInfo until the inquiry ends; drops it if too many wait.
    pub(crate) fn defer(&mut self, datagram: &Datagram) {
        if self.deferred.len() < DEFERRED_MAX {
            self.deferred.push(*datagram);
        }
    }

    /// Takes the requests that wait.
    pub(crate) fn take_deferred(&mut self) -> Vec<Datagram> {
        std::mem::take(&mut self.deferred)
    }
}

/// An inquiry under way: its queries, and their answers so far.
#[derive(Debug)]
pub(crate) struct Inquiry {
    doubt: MastershipDoubt,
    /// Time at which the queries were sent; `None` once the answered queries have been repeated.
    pub(crate) asked: Option<Time>,
    /// Number of queries without an answer.
    waiting: usize,
    /// Ports whose manager has answered.
    answered: BTreeSet<PortKey>,
    /// LID of another master, if no known port has this LID.
    pub(crate) unknown_master: Option<Lid>,
    /// Whether the own port differs from the last reading, so that another manager has written it.
    pub(crate) overwritten: bool,
    /// Whether the own port did not answer, or refused.
    pub(crate) own_port_silent: bool,
    /// Time at which the inquiry repeats all queries, because the own port did not answer.
    pub(crate) again_at: Option<Time>,
    /// Time until which the inquiry waits for the answer whether this manager still holds the
    /// epoch.
    pub(crate) epoch_until: Option<Time>,
    /// Whether another manager holds the epoch. In that case this manager discovers the subnet
    /// again, unless the inquiry finds the other master.
    pub(crate) is_deposed: bool,
}

impl Inquiry {
    /// An inquiry whose queries are sent at `now`.
    pub(crate) fn new(
        doubt: MastershipDoubt,
        epoch_until: Option<Time>,
        is_deposed: bool,
        now: Time,
    ) -> Inquiry {
        Inquiry {
            doubt,
            asked: Some(now),
            waiting: 0,
            answered: BTreeSet::new(),
            unknown_master: None,
            overwritten: false,
            own_port_silent: false,
            again_at: None,
            epoch_until,
            is_deposed,
        }
    }

    /// Why the inquiry began.
    pub(crate) fn doubt(&self) -> MastershipDoubt {
        self.doubt
    }

    /// Records a query.
    pub(crate) fn count_query(&mut self) {
        self.waiting += 1;
    }

    /// Records that a query has ended, with or without an answer.
    pub(crate) fn count_end(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Records whether the manager behind a port has answered.
    pub(crate) fn record_manager(&mut self, port: PortKey, answered: bool) {
        match answered {
            true => self.answered.insert(port),
            false => self.answered.remove(&port),
        };
    }

    /// Whether the manager behind a port has answered.
    pub(crate) fn has_answered(&self, port: PortKey) -> bool {
        self.answered.contains(&port)
    }

    /// Ports whose manager has answered.
    pub(crate) fn answered(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.answered.iter().copied()
    }

    /// Whether the inquiry still waits for an answer of a port or of the store, or to ask again.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting > 0 || self.again_at.is_some() || self.epoch_until.is_some()
    }

    /// Time at which the inquiry repeats its queries or stops waiting for the store; `None` if
    /// never.
    fn deadline(&self) -> Option<Time> {
        [self.again_at, self.epoch_until]
            .into_iter()
            .flatten()
            .min()
    }
}

/// The end ports that show a subnet manager, by IsSM or by an earlier SMInfo, without the own port.
pub(crate) fn manager_ports(inventory: &Inventory) -> impl Iterator<Item = PortKey> + '_ {
    inventory.hardware.nodes().flat_map(move |(guid, node)| {
        let end_ports = if node.is_switch() {
            0..1
        } else {
            1..node.ports.len()
        };
        let shows = |info: &PortInfo| info.capability_mask().contains(CapabilityMask::IS_SM);
        end_ports
            .map(move |number| {
                (
                    PortKey::new(guid, PortNum(number as u8)),
                    &node.ports[number],
                )
            })
            .filter(move |(key, port)| {
                inventory.hardware.manager(*key).is_some() || port.info.as_ref().is_some_and(shows)
            })
            .map(|(key, _)| key)
            .filter(move |&key| inventory.hardware.local != Some(key))
    })
}
