//! The Sets of one port, to its settings and its link to Active.

use rsm_ids::Guid;
use rsm_mad::wire::attr::{PortInfo, PortState};

use super::PortStep;
use super::p_keys::PKeyPush;
use crate::diff::{PortChange, heeds};
use crate::port_info::FieldMask;
use crate::sweep::inventory::PortKey;

/// How far the link at a port may go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// Its state stays as it is.
    Waits,
    /// Its ends may be armed.
    Arms,
    /// It may carry data: the switches at both ends permit it, and both ports hold their keys.
    Opens,
}

/// The Sets of one port.
#[derive(Debug)]
pub(super) struct PortPush {
    change: PortChange,
    pub(super) p_keys: PKeyPush,
    on_its_way: bool,
    configured: bool,
    given_up: bool,
    /// Its settings go in a Set of their own, before its state.
    apart: bool,
}

impl PortPush {
    pub(super) fn new(mut change: PortChange, apart: bool) -> PortPush {
        PortPush {
            p_keys: PKeyPush::new(std::mem::take(&mut change.p_keys)),
            change,
            on_its_way: false,
            configured: false,
            given_up: false,
            apart,
        }
    }

    /// Handles the refusal of a Set with settings and Armed. Returns whether the settings go alone
    /// from now on, which is worth one attempt.
    pub(super) fn set_apart(&mut self, info: &PortInfo) -> bool {
        let combined = !self.apart && self.has_settings(info);
        if combined {
            self.on_its_way = false;
            self.apart = true;
        }
        combined
    }

    /// Sends the settings alone from now on.
    pub(super) fn go_apart(&mut self) {
        self.apart |= !self.on_its_way;
    }

    /// Whether its settings go alone.
    pub(super) fn is_apart(&self) -> bool {
        self.apart
    }

    fn has_settings(&self, info: &PortInfo) -> bool {
        !self.configured && (self.differs(info) || self.change.reregister.is_some())
    }

    /// The other end of the cable.
    pub(super) fn peer(&self) -> Option<PortKey> {
        self.change.peer
    }

    /// Whether it can drop packets of partitions that its table lacks. Then the port at the other
    /// end gets its keys after it.
    pub(super) fn is_enforcing(&self) -> bool {
        self.change.external_of_switch
    }

    /// Whether its keys go after its PortInfo. The answer to PortInfo is the last reading of the
    /// port, whose LID and state show a reset: a reset between keys and settings would not show if
    /// the keys went first.
    pub(super) fn info_goes_first(&self, info: &PortInfo) -> bool {
        let arms = self.change.activate && info.port_state() == PortState::Init;
        !self.is_enforcing() && !self.configured && (arms || self.differs(info))
    }

    /// Whether a Set of its PortInfo is still to come.
    pub(super) fn awaits_info(&self) -> bool {
        self.change.info && !self.configured && !self.given_up
    }

    fn differs(&self, info: &PortInfo) -> bool {
        let settings = &self.change.settings;
        !settings.differing(info, self.change.ignored).is_empty()
    }

    /// The next step of the port, by its last answer, its peer's state, and how far its link may
    /// go.
    pub(super) fn due(
        &self,
        info: &PortInfo,
        peer: impl Fn() -> Option<PortState>,
        link: impl Fn() -> Link,
    ) -> Option<PortStep> {
        if self.on_its_way || self.given_up {
            return None;
        }
        let differs = self.has_settings(info);
        match info.port_state() {
            PortState::Init if self.change.activate && self.apart && differs => {
                Some(PortStep::Configure)
            }
            PortState::Init if self.change.activate && link() != Link::Waits => Some(PortStep::Arm),
            // Its settings go together with its state.
            PortState::Init if self.change.activate => None,
            // Both ends must be Armed at least: packets from an Active end to one in Init are lost
            // (IBA 7.2.7).
            PortState::Armed
                if self.change.activate
                    && matches!(peer(), Some(PortState::Armed | PortState::Active))
                    && link() == Link::Opens =>
            {
                Some(PortStep::Activate)
            }
            // Enforcement begins only after the port holds its table.
            _ if differs && (!self.is_enforcing() || self.p_keys.is_held()) => {
                Some(PortStep::Configure)
            }
            _ => None,
        }
    }

    /// Records that a Set was queued.
    pub(super) fn sent(&mut self) {
        self.on_its_way = true;
    }

    /// Sends no more Sets in this push.
    pub(super) fn give_up(&mut self) {
        self.on_its_way = false;
        self.given_up = true;
    }

    /// The content of the Set for `step`, based on the port's last answer.
    pub(super) fn content(&self, current: &PortInfo, step: PortStep) -> PortInfo {
        // With settings apart, fields that the device does not keep must not go with its state.
        let left_out = match step {
            PortStep::Arm | PortStep::Activate if self.apart => self.change.ignored,
            _ => FieldMask::default(),
        };
        let mut info = self.change.settings.apply(current, left_out);
        if self.configured && step == PortStep::Activate {
            // The port may have answered with old values; the Set must not restore them.
            self.change.settings.repeat(&mut info);
        }
        let settings = &self.change.settings;
        let moved = settings.changes_manager(current, self.change.ignored) && heeds(current);
        // Only with the first Set, which has all settings.
        info.set_client_reregister(!self.configured && (moved || self.change.reregister.is_some()));
        info.set_port_state(match step {
            PortStep::Configure => PortState::NoChange,
            PortStep::Arm => PortState::Armed,
            PortStep::Activate => PortState::Active,
        });
        info
    }

    /// The GUID of the port, if it was due for ClientReregister and got it.
    pub(super) fn reregistered(&self) -> Option<Guid> {
        self.change.reregister.filter(|_| self.configured)
    }

    /// Takes the answer to a Set. Returns the fields that were set and not kept.
    pub(super) fn take_answer(&mut self, before: &PortInfo, info: &PortInfo) -> FieldMask {
        self.on_its_way = false;
        self.configured = true;
        let asked = self.change.settings.differing(before, self.change.ignored);
        self.change.settings.not_kept(asked, info)
    }

    /// Whether the port is in the state of `step`, or beyond.
    pub(super) fn reached(&self, info: &PortInfo, step: PortStep) -> bool {
        match step {
            PortStep::Configure => true,
            PortStep::Arm => matches!(info.port_state(), PortState::Armed | PortState::Active),
            PortStep::Activate => info.port_state() == PortState::Active,
        }
    }

    /// Whether the link carries data from this end.
    pub(super) fn is_active(&self, info: &PortInfo) -> bool {
        info.port_state() == PortState::Active
    }
}
