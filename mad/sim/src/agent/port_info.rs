//! The agent's answers for PortInfo (IBA 14.2.5.6): the fields that a Set changes, and the port
//! state rules of IBA 7.2.7.

use rsm_ids::{Lid, PortNum};
use rsm_mad::transport::PortEvent;
use rsm_mad::wire::attr::{
    Attribute, LinkDownDefault, LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, Mtu, PortInfo,
    PortPhysicalState, PortState, VlCap,
};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::Smp;

use super::{Effect, Handled, Request};
use crate::fabric::NONE;
use crate::personality::{AcceptingPorts, Habit, PortFields};

/// The value of LinkSpeedExtEnabled2 that stands for all speeds of LinkSpeedExtSupported2.
const ALL_SPEEDS_EXT2: LinkSpeedExt2 = LinkSpeedExt2(7);

impl Request<'_> {
    /// The port that an attribute modifier names. On adapters, port 0 means the port that received
    /// the request.
    pub(super) fn info_port(&self, modifier: u32) -> Result<u32, Status> {
        let number = PortInfo::modifier_port(modifier).0;
        if PortInfo::modifier_extended_speeds(modifier) && self.has(Habit::NoExtendedSpeeds) {
            return Err(Status::INVALID_FIELD);
        }
        // Bits between the port number and the flag are reserved.
        if modifier & 0x7FFF_FF00 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if number == 0 && !self.is_switch() {
            return Ok(self.entry);
        }
        self.fabric
            .node(self.node)
            .port(number)
            .ok_or(Status::INVALID_FIELD)
    }

    pub(super) fn get_port_info(&mut self, smp: &mut Smp) -> Handled {
        let port = self.info_port(smp.header().modifier())?;
        let key = smp.m_key();
        let info = self.fabric.port(port).info;
        *smp.data_mut() = *self.visible_info(port, info, key).as_data();
        Ok(())
    }

    /// The `info` of a port as a requester with `key` sees it.
    fn visible_info(&self, port: u32, mut info: PortInfo, key: u64) -> PortInfo {
        info.set_local_port_num(PortNum(self.fabric.port(self.entry).number));
        // From protection level 1 on, only a requester with the key sees the M_Key (IBA 14.2.4.1).
        if info.m_key_protect_bits() != 0 && key != info.m_key() {
            info.set_m_key(0);
        }
        let node = self.fabric.node(self.node);
        let role = node.role(self.fabric.port(port).number);
        node.personality.show(&mut info, role);
        info
    }

    pub(super) fn set_port_info(&mut self, smp: &mut Smp) -> Handled {
        let modifier = smp.header().modifier();
        let port = self.info_port(modifier)?;
        if !self.is_switch() && port != self.entry {
            // A port of an adapter accepts Sets only through itself.
            return Err(Status::INVALID_FIELD);
        }
        let wanted = *PortInfo::from_data(smp.data());
        let old = self.fabric.port(port).info;
        let mut new = old;
        if port == self.address {
            self.set_address(&mut new, &wanted)?;
        }
        let has_link = port != self.address || !self.is_switch();
        if has_link {
            let extended = PortInfo::modifier_extended_speeds(modifier);
            set_link(&mut new, &wanted, extended)?;
        } else if self.fabric.node(self.node).has_enhanced_port0() {
            set_mtu(&mut new, &wanted)?;
        }
        self.personality().dropped().copy(&mut new, &old);
        let raises_state = matches!(wanted.port_state(), PortState::Armed | PortState::Active);
        if has_link && raises_state && new != old && self.has(Habit::ArmsAlone) {
            return Err(Status::INVALID_FIELD);
        }
        clear_violations(&mut new, &wanted);
        self.set_state(port, &mut new, &wanted, has_link)?;

        self.fabric.port_mut(port).info = new;
        self.notify_host(port, &old, &new, &wanted);
        if has_link {
            self.move_link(port, &old, &wanted);
        }
        let key = new.m_key();
        self.show_old(port, &old, &mut new);
        *smp.data_mut() = *self.visible_info(port, new, key).as_data();
        Ok(())
    }

    /// Replaces fields of the answer to a Set by their old values, where the personality of the
    /// node requires it.
    fn show_old(&mut self, port: u32, old: &PortInfo, answer: &mut PortInfo) {
        let personality = self.personality();
        let shown = self.fabric.port(port).shown_old;
        let fields = personality.old_once().without(shown);
        if fields != PortFields::NONE {
            self.fabric.port_mut(port).shown_old = shown | fields.copy(answer, old);
        }
        personality.old_always().copy(answer, old);
    }

    /// Sets the fields that only ports with an address have. Fails for an invalid LID or LMC.
    fn set_address(&self, new: &mut PortInfo, wanted: &PortInfo) -> Handled {
        let lid = wanted.lid();
        if lid != Lid::NONE && !lid.is_unicast() {
            return Err(Status::INVALID_FIELD);
        }
        let base_port0 = self.is_switch() && !self.fabric.node(self.node).has_enhanced_port0();
        if base_port0 && wanted.lmc().get() != 0 {
            return Err(Status::INVALID_FIELD);
        }
        PortFields::accepted_at(AcceptingPorts::Address).copy(new, wanted);
        new.set_lid(lid)
            .set_lmc(wanted.lmc())
            .set_multicast_p_key_trap_suppression_enabled(
                wanted.multicast_p_key_trap_suppression_enabled(),
            );
        Ok(())
    }

    /// Changes the state as the manager may request: to Armed from Init, to Active from Armed, to
    /// Down from any state.
    fn set_state(
        &self,
        port: u32,
        new: &mut PortInfo,
        wanted: &PortInfo,
        has_link: bool,
    ) -> Handled {
        let (state, physical) = (wanted.port_state(), wanted.port_physical_state());
        if !has_link {
            // Port 0 is always Active, so a Set of Active changes nothing.
            let changes_nothing = matches!(state, PortState::NoChange | PortState::Active)
                && matches!(
                    physical,
                    PortPhysicalState::NoChange | PortPhysicalState::LinkUp
                );
            return if changes_nothing {
                Ok(())
            } else {
                Err(Status::INVALID_FIELD)
            };
        }
        let is_legal = match state {
            PortState::NoChange | PortState::Down => true,
            PortState::Armed => {
                new.port_state() == PortState::Init && self.peer_allows(port, PortState::Init)
            }
            PortState::Active => {
                new.port_state() == PortState::Armed && self.peer_allows(port, PortState::Armed)
            }
            PortState::Init | PortState::Unknown(_) => false,
        };
        if !is_legal {
            return Err(Status::INVALID_FIELD);
        }
        let raises_state = matches!(state, PortState::Armed | PortState::Active);
        if raises_state {
            new.set_port_state(state);
        }
        match physical {
            PortPhysicalState::NoChange => Ok(()),
            PortPhysicalState::Sleep | PortPhysicalState::Polling | PortPhysicalState::Disabled
                if !raises_state =>
            {
                new.set_port_physical_state(physical);
                Ok(())
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Whether the state of the peer port permits a change of state. If the configuration demands
    /// the check, the peer must be in the state `min_state` or a higher state.
    fn peer_allows(&self, port: u32, min_state: PortState) -> bool {
        let peer = self.fabric.port(port).peer;
        !self.config.check_peer_state
            || (peer != NONE && self.fabric.port(peer).info.port_state() >= min_state)
    }

    /// Reports the changes of a Set to the host behind the port.
    fn notify_host(&mut self, port: u32, old: &PortInfo, new: &PortInfo, wanted: &PortInfo) {
        if port != self.address {
            return;
        }
        let changes = [
            (
                (old.lid(), old.lmc()) != (new.lid(), new.lmc()),
                PortEvent::LidChanged,
            ),
            (
                (old.master_sm_lid(), old.master_sm_sl())
                    != (new.master_sm_lid(), new.master_sm_sl()),
                PortEvent::SmChanged,
            ),
            (wanted.client_reregister(), PortEvent::ClientReregister),
        ];
        for (_, event) in changes.into_iter().filter(|(changed, _)| *changed) {
            self.effects.push(Effect::Event(port, event));
        }
    }

    /// Takes the link down or lets it train again, as the request requires.
    fn move_link(&mut self, port: u32, old: &PortInfo, wanted: &PortInfo) {
        let goes_down = wanted.port_state() == PortState::Down
            || wanted.port_physical_state() != PortPhysicalState::NoChange;
        if wanted.port_state() == PortState::Armed {
            self.effects.push(Effect::Armed(port));
        }
        if goes_down && old.port_state() != PortState::Down {
            self.effects.push(Effect::LinkDown(port));
        } else if goes_down {
            self.effects.push(Effect::Train(port));
        }
    }
}

/// Sets the fields of a link.
fn set_link(new: &mut PortInfo, wanted: &PortInfo, extended: bool) -> Handled {
    set_enabled(new, wanted, extended)?;
    set_mtu(new, wanted)?;
    match wanted.operational_vls() {
        VlCap::NoChange => {}
        vls if vls.data_vls().is_some() && vls <= new.vl_cap() => {
            new.set_operational_vls(vls);
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    match wanted.link_down_default_state() {
        LinkDownDefault::NoChange => {}
        LinkDownDefault::Unknown(_) => return Err(Status::INVALID_FIELD),
        default => {
            new.set_link_down_default_state(default);
        }
    }
    PortFields::accepted_at(AcceptingPorts::Link).copy(new, wanted);
    new.set_init_type_reply(wanted.init_type_reply())
        .set_filter_raw_inbound(wanted.filter_raw_inbound())
        .set_filter_raw_outbound(wanted.filter_raw_outbound())
        .set_link_round_trip_latency(wanted.link_round_trip_latency());
    Ok(())
}

/// Sets NeighborMTU, if MTUCap permits it.
fn set_mtu(new: &mut PortInfo, wanted: &PortInfo) -> Handled {
    match wanted.neighbor_mtu() {
        // The reserved value 0 changes nothing.
        Mtu::Unknown(0) => {}
        mtu if mtu.bytes().is_some() && mtu <= new.mtu_cap() => {
            new.set_neighbor_mtu(mtu);
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    Ok(())
}

/// Sets the widths and speeds for the next training.
fn set_enabled(new: &mut PortInfo, wanted: &PortInfo, extended: bool) -> Handled {
    let widths = new.link_width_supported();
    match wanted.link_width_enabled() {
        LinkWidths::NONE => {}
        LinkWidths::ALL_SUPPORTED => {
            new.set_link_width_enabled(widths);
        }
        some if widths.contains(some) => {
            new.set_link_width_enabled(some);
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    let speeds = new.link_speed_supported();
    match wanted.link_speed_enabled() {
        LinkSpeeds::NONE => {}
        LinkSpeeds::ALL_SUPPORTED => {
            new.set_link_speed_enabled(speeds);
        }
        some if speeds.contains(some) => {
            new.set_link_speed_enabled(some);
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    if !extended {
        // A sender that does not set the flag does not know the fields below.
        return Ok(());
    }
    let speeds = new.link_speed_ext_supported();
    match wanted.link_speed_ext_enabled() {
        LinkSpeedExt::NONE => {}
        LinkSpeedExt::ALL_SUPPORTED => {
            new.set_link_speed_ext_enabled(speeds);
        }
        some if some == LinkSpeedExt::DISABLED || speeds.contains(some) => {
            new.set_link_speed_ext_enabled(some);
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    let speeds = new.link_speed_ext_supported2();
    match wanted.link_speed_ext_enabled2() {
        LinkSpeedExt2::NONE => {}
        ALL_SPEEDS_EXT2 => {
            new.set_link_speed_ext_enabled2(speeds);
        }
        some if speeds.contains(some) => {
            new.set_link_speed_ext_enabled2(some);
        }
        _ => return Err(Status::INVALID_FIELD),
    }
    Ok(())
}

/// Resets the counters of violations to which a Set writes zero; other values have no effect.
fn clear_violations(new: &mut PortInfo, wanted: &PortInfo) {
    if wanted.m_key_violations() == 0 {
        new.set_m_key_violations(0);
    }
    if wanted.p_key_violations() == 0 {
        new.set_p_key_violations(0);
    }
    if wanted.q_key_violations() == 0 {
        new.set_q_key_violations(0);
    }
}
