//! Sends the Sets of one port, from its settings to an Active link.

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{PortInfo, PortState};
use rsm_model::port_info::{FieldIndex, FieldMask};

use super::PortStep;
use super::p_keys::PKeyPush;
use crate::diff::{PortChange, heeds};

/// The Sets of one port, and their progress.
#[derive(Debug)]
pub(super) struct PortPush {
    change: Box<PortChange>,
    pub(super) p_keys: PKeyPush,
    /// Whether a Set of PortInfo was queued and is not settled.
    is_open: bool,
    /// Whether a Set of PortInfo was answered.
    configured: bool,
    /// Whether the port gets no more Sets of PortInfo in this push.
    given_up: bool,
    /// Whether the port's settings are sent in a Set of their own, before the state.
    settings_first: bool,
}

impl PortPush {
    pub(super) fn new(mut change: Box<PortChange>, settings_first: bool) -> PortPush {
        PortPush {
            p_keys: PKeyPush::new(std::mem::take(&mut change.p_keys)),
            change,
            is_open: false,
            configured: false,
            given_up: false,
            settings_first,
        }
    }

    /// Handles the refusal of a Set with settings and Armed. Returns whether the settings are sent
    /// in a Set of their own from now on; `false` if this was tried before, or no settings differ.
    /// Fields that count as not kept count here: the refused Set had them, and the next Set of the
    /// state leaves them out.
    pub(super) fn separate_settings(&mut self, info: &PortInfo) -> bool {
        let all = self.change.settings.differing(info, FieldMask::default());
        let combined = !self.settings_first && (self.has_settings(info) || !all.is_empty());
        if combined {
            self.is_open = false;
            self.settings_first = true;
        }
        combined
    }

    /// Makes the settings be sent in a Set of their own, unless a Set is under way.
    pub(super) fn send_settings_first(&mut self) {
        self.settings_first |= !self.is_open;
    }

    /// Whether the settings are sent in a Set of their own.
    pub(super) fn sends_settings_first(&self) -> bool {
        self.settings_first
    }

    /// Whether settings, or ClientReregister, must still be sent.
    fn has_settings(&self, info: &PortInfo) -> bool {
        !self.configured && (self.differs(info) || self.change.reregister)
    }

    /// The planned M_Key; `None` if the plan has none for the port.
    pub(super) fn m_key(&self) -> Option<u64> {
        self.change.settings.value(FieldIndex::MKey)
    }

    /// The other end of the cable; `None` without a cable.
    pub(super) fn peer(&self) -> Option<PortKey> {
        self.change.peer
    }

    /// Whether the port may enforce partitions, as external ports of switches do. If so, the port
    /// at the other end gets its keys later.
    pub(super) fn is_enforcing(&self) -> bool {
        self.change.external_of_switch
    }

    /// Whether the keys must wait for a Set of PortInfo. The LID and state in the answer to that
    /// Set show a reset before it. If the keys were sent first, a reset after them would clear them
    /// without a sign.
    pub(super) fn info_goes_first(&self, info: &PortInfo) -> bool {
        let arms = self.change.activate && info.port_state() == PortState::Init;
        !self.is_enforcing() && !self.configured && (arms || self.differs(info))
    }

    /// Whether a Set of PortInfo must still be sent.
    pub(super) fn awaits_info(&self) -> bool {
        self.change.info && !self.configured && !self.given_up
    }

    /// Whether a Set that arms the port or changes its settings must still be sent.
    pub(super) fn awaits_settings(&self, info: &PortInfo) -> bool {
        let is_armed = info.port_state() == PortState::Armed && self.change.activate;
        self.awaits_info() && (!is_armed || self.has_settings(info))
    }

    /// Whether the port's settings differ from the planned ones.
    fn differs(&self, info: &PortInfo) -> bool {
        let settings = &self.change.settings;
        !settings.differing(info, self.change.ignored).is_empty()
    }

    /// Whether the port may begin to enforce partitions: it holds its table, or carries no data
    /// yet.
    pub(super) fn may_enforce(&self, info: &PortInfo) -> bool {
        let is_idle = self.change.activate && info.port_state() == PortState::Init;
        !self.is_enforcing() || is_idle || self.p_keys.is_held()
    }

    /// The steps that are possible after the port's last answer. The push takes the first step that
    /// may be sent.
    pub(super) fn steps(&self, info: &PortInfo) -> [Option<PortStep>; 2] {
        if self.is_open || self.given_up {
            return [None, None];
        }
        let configure = self.has_settings(info).then_some(PortStep::Configure);
        let separates_settings = self.settings_first && configure.is_some();
        match info.port_state() {
            // One Set has the settings and the state.
            PortState::Init if self.change.activate && !separates_settings => {
                [Some(PortStep::Arm), None]
            }
            PortState::Armed if self.change.activate => [Some(PortStep::Activate), configure],
            _ => [configure, None],
        }
    }

    /// Records that a Set of PortInfo was queued.
    pub(super) fn sent(&mut self) {
        self.is_open = true;
    }

    /// Stops sending Sets of PortInfo to the port in this push.
    pub(super) fn give_up(&mut self) {
        self.is_open = false;
        self.given_up = true;
    }

    /// The content of the Set for `step`, derived from the port's last answer.
    pub(super) fn content(&self, current: &PortInfo, step: PortStep) -> PortInfo {
        // If the settings have a Set of their own, the Set of the state must leave out fields that
        // the device does not keep.
        let left_out = match step {
            PortStep::Arm | PortStep::Activate if self.settings_first => self.change.ignored,
            _ => FieldMask::default(),
        };
        let mut info = self.change.settings.apply(current, left_out);
        if self.configured && step == PortStep::Activate {
            // The port may have answered with old values, which this Set must not restore.
            self.change.settings.put_before_active(&mut info);
        }
        let settings = &self.change.settings;
        let ended = self.change.reregisters
            && settings.ends_registrations(current, self.change.ignored)
            && heeds(current);
        // Only the first Set, which has all settings, has the bit.
        info.set_client_reregister(!self.configured && (ended || self.change.reregister));
        info.set_port_state(match step {
            PortStep::Configure => PortState::NoChange,
            PortStep::Arm => PortState::Armed,
            PortStep::Activate => PortState::Active,
        });
        info
    }

    /// Whether the port was due to get ClientReregister, and got it.
    pub(super) fn is_reregistered(&self) -> bool {
        self.change.reregister && self.configured
    }

    /// Handles the answer to a Set of PortInfo; `before` is the PortInfo before the Set. Returns
    /// the fields that the Set changed and the answer does not show.
    pub(super) fn take_answer(&mut self, before: &PortInfo, info: &PortInfo) -> FieldMask {
        self.is_open = false;
        self.configured = true;
        let asked = self.change.settings.differing(before, self.change.ignored);
        self.change.settings.not_kept(asked, info)
    }

    /// Whether the port has reached the state of `step`, or a higher one.
    pub(super) fn reached(&self, info: &PortInfo, step: PortStep) -> bool {
        match step {
            PortStep::Configure => true,
            PortStep::Arm => matches!(info.port_state(), PortState::Armed | PortState::Active),
            PortStep::Activate => info.port_state() == PortState::Active,
        }
    }

    /// Whether the port is Active.
    pub(super) fn is_active(&self, info: &PortInfo) -> bool {
        info.port_state() == PortState::Active
    }
}
