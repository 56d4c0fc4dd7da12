//! The state of one simulated node.

use std::collections::BTreeMap;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::wire::attr::{
    Attribute, MulticastForwardingTable, NodeDescription, NodeInfo, Notice, SwitchInfo,
    SwitchPortStateTable,
};
use rsm_routing::netlist::NodeKind;

use super::adaptive::AdaptiveRouting;
use super::port::RateSet;
use crate::personality::{Personality, Role};
use crate::rng::Probability;

/// The degree to which a node's agent is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Silence {
    /// The agent answers.
    #[default]
    None,
    /// The agent forwards directed-route SMPs but answers none.
    Answers,
    /// The agent does nothing, so that directed routes through the node fail too. LID-routed
    /// packets still pass: the hardware forwards them.
    Everything,
}

/// A node of the fabric.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) guid: Guid,
    pub(crate) kind: NodeKind,
    /// The index of the node's port 0 among the ports of the fabric; the port exists even if the
    /// node does not use the number.
    pub(crate) first_port: u32,
    /// The number of external ports.
    pub(crate) num_ports: u8,
    /// The habits of the node's agent and the fields that it mishandles.
    pub(crate) personality: Personality,
    /// The rate of the node's ports, before the personality of the node reduces it.
    pub(crate) supported: RateSet,
    /// Whether the node has power; without power it neither sends nor receives.
    pub(crate) is_powered: bool,
    pub(crate) silence: Silence,
    /// The number of requests that the agent will still answer with BUSY.
    pub(crate) busy_answers: u32,
    /// The probability with which a packet that reaches the agent is lost.
    pub(crate) loss: Probability,
    /// The number of times that the node lost its power. Packets of an earlier epoch are lost at
    /// the agent.
    pub(crate) epoch: u32,
    /// The time at which the agent has finished all its packets.
    pub(crate) busy_until: Time,
    /// The time at which a [slow processor](crate::Habit::SlowProcessor) has finished its requests.
    pub(crate) answers_until: Time,
    /// The number of requests that wait for the processor, for the limit of a small buffer.
    pub(crate) requests: u16,
    /// The number of packets that the agent has to handle, including packets on the wire to the
    /// node.
    pub(crate) queued: u16,
    /// The number of Sets that took effect.
    pub(crate) sets: u64,
    /// The answer to Get(NodeInfo), except for the port.
    pub(crate) info: NodeInfo,
    pub(crate) description: NodeDescription,
    /// The state of a switch; `None` on other nodes.
    pub(crate) switch: Option<Box<Switch>>,
    /// The traps that were sent and are not repressed.
    pub(crate) traps: Vec<OutstandingTrap>,
    /// The number of traps begun so far, from which their transaction identifiers derive.
    pub(crate) traps_begun: u32,
}

/// The state that only a switch has.
#[derive(Debug, Clone)]
pub(crate) struct Switch {
    pub(crate) info: SwitchInfo,
    /// The exit port by LID, up to the highest block ever written; packets to LIDs beyond it are
    /// dropped.
    pub(crate) lft: Vec<u8>,
    /// The blocks of the multicast table that were ever written, by modifier; other blocks have no
    /// ports.
    pub(crate) mft: BTreeMap<u32, [u8; 64]>,
    /// The port states that [`FrozenPortStates`](crate::Habit::FrozenPortStates) shows, by block.
    pub(crate) frozen_states: BTreeMap<u32, SwitchPortStateTable>,
    /// The adaptive routing of the switch, `None` if the switch does not support it.
    pub(crate) adaptive: Option<AdaptiveRouting>,
}

/// The value of a forwarding table entry that drops packets (IBA 14.2.5.10).
pub(crate) const DROP: u8 = 255;

/// A trap that was sent and has not been repressed.
#[derive(Debug, Clone)]
pub(crate) struct OutstandingTrap {
    pub(crate) serial: u32,
    pub(crate) tid: Tid,
    /// The index of the port from which the trap is sent.
    pub(crate) port: u32,
    pub(crate) notice: Notice,
    pub(crate) repeats_left: u16,
    /// Whether the same event happened again since the trap was sent, so that another trap follows
    /// once this trap is repressed.
    pub(crate) is_raised_again: bool,
}

impl Node {
    /// The role of one of the node's ports for the device.
    pub(crate) fn role(&self, port: u8) -> Role {
        match &self.switch {
            None => Role::End,
            Some(_) if port != 0 => Role::External,
            Some(switch) => Role::Port0 {
                enhanced: switch.info.enhanced_port0(),
            },
        }
    }

    pub(crate) fn is_switch(&self) -> bool {
        self.switch.is_some()
    }

    /// Whether the node is a switch with an enhanced port 0, which works like an adapter's port but
    /// has no link (IBA 18.2.4.1).
    pub(crate) fn has_enhanced_port0(&self) -> bool {
        let switch = self.switch.as_ref();
        switch.is_some_and(|switch| switch.info.enhanced_port0())
    }

    /// The index of a port, if the node has it. A switch has port 0, other nodes do not.
    pub(crate) fn port(&self, number: u8) -> Option<u32> {
        let lowest = u8::from(!self.is_switch());
        (lowest..=self.num_ports)
            .contains(&number)
            .then(|| self.first_port + u32::from(number))
    }

    /// The indices of all ports, port 0 of a switch included.
    pub(crate) fn ports(&self) -> std::ops::RangeInclusive<u32> {
        let lowest = u32::from(!self.is_switch());
        self.first_port + lowest..=self.first_port + u32::from(self.num_ports)
    }
}

impl Switch {
    /// The exit port of a packet to this LID; `None` if the switch drops the packet.
    pub(crate) fn exit(&self, lid: rsm_ids::Lid) -> Option<u8> {
        if lid > self.info.linear_fdb_top() {
            return None;
        }
        let adaptive = self.adaptive.as_ref();
        adaptive
            .and_then(AdaptiveRouting::in_force)
            .unwrap_or(&self.lft)
            .get(lid.index())
            .copied()
            .filter(|&exit| exit != DROP)
    }

    /// Whether the switch uses the entry of a multicast LID, by MulticastFDBCap and MulticastFDBTop
    /// (IBA 14.2.5.4). A top of 0 means the whole table.
    pub(crate) fn multicast_in_effect(&self, mlid: rsm_ids::Lid) -> bool {
        let top = self.info.multicast_fdb_top();
        let offset = mlid.0.wrapping_sub(rsm_ids::Lid::MULTICAST_FIRST.0);
        mlid.is_multicast()
            && offset < self.info.multicast_fdb_cap()
            && (top == rsm_ids::Lid::NONE || mlid <= top)
    }

    /// The mask in the multicast table for a block and position, at `index`; `None` if the block
    /// was never written.
    pub(crate) fn multicast_mask(&self, modifier: u32, index: usize) -> Option<u16> {
        MulticastForwardingTable::from_data(self.mft.get(&modifier)?).mask(index)
    }
}
