//! The answers of a node's subnet management agent (IBA 14.2.5), one file for each group of
//! attributes.
//!
//! An agent changes the fabric's tables itself. Changes that take time or concern other nodes
//! (links that go down, traps, events for the host) are returned to its caller as [`Effect`]s.

mod adaptive;
mod forwarding;
mod m_key;
mod node;
mod partition;
mod port_info;
mod qos;
mod rate_limits;
mod vendor;
mod vport;

use rsm_mad::transport::PortEvent;
use rsm_mad::wire::attr::Notice;
use rsm_mad::wire::header::{AttrId, Class, Method, Status};
use rsm_mad::wire::smp::{CLASS_VERSION, Smp};

use crate::config::SimConfig;
use crate::counters::DropReason;
use crate::fabric::{Fabric, NONE};
use crate::personality::{Habit, Personality};

/// A consequence of an agent's work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// The manager took the link at this port down. The link trains again if both ends can train.
    LinkDown(u32),
    /// Both ends of the link at this port may be able to train now.
    Train(u32),
    /// The port became Armed.
    Armed(u32),
    /// An event for the host at this port.
    Event(u32, PortEvent),
    /// The countdown of this port's M_Key lease starts.
    LeaseStart(u32),
    /// The agent sends a trap to the manager.
    Trap(u32, Notice),
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The data is the answer.
    Answer(Status),
    /// The agent sends no answer.
    Discard(DropReason),
    /// The client at the port answers.
    Client,
}

/// A request that an agent handles.
pub(crate) struct Request<'a> {
    pub(crate) fabric: &'a mut Fabric,
    pub(crate) config: &'a SimConfig,
    pub(crate) effects: &'a mut Vec<Effect>,
    /// The port through which the request entered the node; port 0 of a switch if the request came
    /// from the switch's own host.
    pub(crate) entry: u32,
    /// The index of the node.
    pub(crate) node: u32,
    /// The port that holds the agent's LID and M_Key.
    pub(crate) address: u32,
}

/// The result of a handler: with `Ok`, the agent answers with the data; with `Err`, with the
/// status.
type Handled = Result<(), Status>;

impl<'a> Request<'a> {
    /// A request that entered the node through the port `entry`.
    pub(crate) fn at(
        fabric: &'a mut Fabric,
        config: &'a SimConfig,
        effects: &'a mut Vec<Effect>,
        entry: u32,
    ) -> Request<'a> {
        let node = fabric.port(entry).node;
        let address = fabric.address_port(entry);
        Request {
            fabric,
            config,
            effects,
            entry,
            node,
            address,
        }
    }

    /// Handles a Get or a Set; the data of the answer replace the data of the request. `slid` is
    /// the packet's SLID, for the trap that a wrong key raises.
    pub(crate) fn handle(&mut self, smp: &mut Smp, slid: rsm_ids::Lid) -> Outcome {
        let header = *smp.header();
        if !self.m_key_matches(smp, slid) {
            return Outcome::Discard(DropReason::MKey);
        }
        let is_known = matches!(
            header.class(),
            Class::SUBNET_LID_ROUTED | Class::SUBNET_DIRECTED
        );
        if !is_known || header.base_version() != 1 || header.class_version() != CLASS_VERSION {
            return Outcome::Answer(Status::BAD_VERSION);
        }
        if header.attribute() == AttrId::SM_INFO {
            return if self.fabric.port(self.address).client == NONE {
                Outcome::Answer(Status::UNSUPPORTED_METHOD_ATTRIBUTE)
            } else {
                Outcome::Client
            };
        }
        if self.is_deaf_to(header.attribute())
            || self.is_deaf_to_vports(&header)
            || self.is_deaf_to_rate_limits(header.attribute())
        {
            return Outcome::Discard(DropReason::Silent);
        }
        let handled = match header.method() {
            Method::GET => self.get(smp),
            Method::SET => self.set(smp),
            _ => Err(Status::UNSUPPORTED_METHOD),
        };
        Outcome::Answer(handled.err().unwrap_or(Status::OK))
    }

    fn get(&mut self, smp: &mut Smp) -> Handled {
        let modifier = smp.header().modifier();
        match smp.header().attribute() {
            AttrId::NODE_DESCRIPTION => self.get_node_description(smp.data_mut()),
            AttrId::NODE_INFO => self.get_node_info(smp.data_mut()),
            AttrId::SWITCH_INFO => self.get_switch_info(smp.data_mut()),
            AttrId::GUID_INFO => self.get_guid_info(modifier, smp.data_mut()),
            AttrId::PORT_INFO => self.get_port_info(smp),
            AttrId::P_KEY_TABLE => self.get_p_keys(modifier, smp.data_mut()),
            AttrId::SL_TO_VL_MAPPING => self.get_sl_to_vl(modifier, smp.data_mut()),
            AttrId::VL_ARBITRATION => self.get_vl_arbitration(modifier, smp.data_mut()),
            AttrId::LINEAR_FORWARDING_TABLE => self.get_lft(modifier, smp.data_mut()),
            AttrId::MULTICAST_FORWARDING_TABLE => self.get_mft(modifier, smp.data_mut()),
            AttrId::AR_INFO => self.get_ar_info(modifier, smp.data_mut()),
            AttrId::AR_GROUP_TABLE => self.get_ar_groups(modifier, smp.data_mut()),
            AttrId::AR_LINEAR_FORWARDING_TABLE => self.get_ar_entries(modifier, smp.data_mut()),
            AttrId::EXTENDED_PORT_INFO => self.get_extended_port_info(modifier, smp.data_mut()),
            AttrId::QOS_CONFIG_SL => self.get_rate_limits(modifier, smp.data_mut()),
            AttrId::GENERAL_INFO => self.get_general_info(modifier, smp.data_mut()),
            AttrId::SWITCH_PORT_STATE_TABLE => self.get_port_states(modifier, smp.data_mut()),
            AttrId::PORT_INFO_EXTENDED => self.get_port_info_extended(modifier, smp.data_mut()),
            attribute if vport::ATTRIBUTES.contains(&attribute) => {
                self.get_vport_attribute(attribute, modifier, smp.data_mut())
            }
            _ => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
        }
    }

    fn set(&mut self, smp: &mut Smp) -> Handled {
        let modifier = smp.header().modifier();
        match smp.header().attribute() {
            AttrId::SWITCH_INFO => self.set_switch_info(smp.data_mut()),
            AttrId::GUID_INFO => self.set_guid_info(modifier, smp.data_mut()),
            AttrId::PORT_INFO => self.set_port_info(smp),
            AttrId::P_KEY_TABLE => self.set_p_keys(modifier, smp.data_mut()),
            AttrId::SL_TO_VL_MAPPING => self.set_sl_to_vl(modifier, smp.data_mut()),
            AttrId::VL_ARBITRATION => self.set_vl_arbitration(modifier, smp.data_mut()),
            AttrId::LINEAR_FORWARDING_TABLE => self.set_lft(modifier, smp.data_mut()),
            AttrId::MULTICAST_FORWARDING_TABLE => self.set_mft(modifier, smp.data_mut()),
            AttrId::AR_INFO => self.set_ar_info(modifier, smp.data_mut()),
            AttrId::EXTENDED_PORT_INFO => self.set_extended_port_info(modifier, smp.data_mut()),
            AttrId::QOS_CONFIG_SL => self.set_rate_limits(modifier, smp.data_mut()),
            attribute if vport::ATTRIBUTES.contains(&attribute) => {
                self.set_vport_attribute(attribute, modifier, smp.data_mut())
            }
            AttrId::AR_GROUP_TABLE => self.set_ar_groups(modifier, smp.data_mut()),
            AttrId::AR_LINEAR_FORWARDING_TABLE => self.set_ar_entries(modifier, smp.data_mut()),
            _ => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
        }
    }

    fn personality(&self) -> Personality {
        self.fabric.node(self.node).personality
    }

    fn has(&self, habit: Habit) -> bool {
        self.personality().has(habit)
    }

    fn is_switch(&self) -> bool {
        self.fabric.node(self.node).is_switch()
    }

    /// The port that `number` in a modifier names: on a switch, the port with that number; on other
    /// nodes, always the port that received the request.
    fn table_port(&self, number: u8) -> Result<u32, Status> {
        if self.is_switch() {
            self.fabric
                .node(self.node)
                .port(number)
                .ok_or(Status::INVALID_FIELD)
        } else {
            Ok(self.entry)
        }
    }
}
