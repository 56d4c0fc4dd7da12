//! Traps: reports of agents to the manager (IBA 13.4.9, 14.2.5.1).

use rsm_ids::Lid;
use rsm_mad::ids::Tid;
use rsm_mad::wire::attr::{
    Attribute, Details, LinkStateChange, LocalChange, LocalChanges, Notice, NoticeType,
    ProducerType, Trap,
};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_routing::netlist::NodeKind;

use crate::fabric::{Fabric, Outstanding};
use crate::packet::Packet;
use crate::personality::Habit;
use crate::queue::Event;
use crate::sim::Sim;

/// How many different traps one node keeps until they are repressed. Further ones are not sent;
/// real agents have one queue of a few entries too.
const MAX_OUTSTANDING: usize = 16;

/// A generic notice from the agent at `port`.
pub(crate) fn notice_of<D: Details>(
    fabric: &Fabric,
    port: u32,
    kind: NoticeType,
    trap: Trap,
    details: &D,
) -> Notice {
    let producer = match fabric.node_of(port).kind {
        NodeKind::Ca => ProducerType::CA,
        NodeKind::Switch => ProducerType::SWITCH,
        NodeKind::Router => ProducerType::ROUTER,
    };
    Notice::generic(kind, producer, trap, fabric.port(port).info.lid(), details)
}

/// Trap 128 from a switch.
pub(crate) fn link_state_change(fabric: &Fabric, port0: u32) -> Notice {
    let mut details = LinkStateChange::default();
    details.set_lid(fabric.port(port0).info.lid());
    let (kind, trap) = (NoticeType::Urgent, Trap::LINK_STATE_CHANGED);
    notice_of(fabric, port0, kind, trap, &details)
}

/// Trap 144 from the agent at `port`: its capability mask changed, or `changes`.
pub(crate) fn local_change(fabric: &Fabric, port: u32, changes: LocalChanges) -> Notice {
    let info = &fabric.port(port).info;
    let mut details = LocalChange::default();
    details
        .set_lid(info.lid())
        .set_other_local_changes(!changes.is_empty())
        .set_capability_mask(info.capability_mask())
        .set_capability_mask2(info.capability_mask2())
        .set_changes(changes);
    let (kind, trap) = (NoticeType::Informational, Trap::LOCAL_CHANGE);
    notice_of(fabric, port, kind, trap, &details)
}

impl Sim {
    /// Begins a trap: sends it now and again until it is repressed. A port without a LID or without
    /// a manager's LID sends nothing.
    pub(crate) fn raise(&mut self, port: u32, notice: Notice) {
        let info = &self.fabric.port(port).info;
        if info.lid() == Lid::NONE || info.master_sm_lid() == Lid::NONE {
            return;
        }
        let node_index = self.fabric.port(port).node;
        let repeats = self.config.trap_repeats;
        let node = self.fabric.node_mut(node_index);
        if !node.powered {
            return;
        }
        let same = node
            .traps
            .iter_mut()
            .find(|trap| trap.port == port && trap.notice == notice);
        if let Some(trap) = same {
            trap.again = true;
            return;
        }
        if node.traps.len() >= MAX_OUTSTANDING {
            return;
        }
        node.traps_begun = node.traps_begun.wrapping_add(1);
        let serial = node.traps_begun;
        node.traps.push(Outstanding {
            serial,
            tid: Tid(u64::from(serial)),
            port,
            notice,
            repeats_left: repeats,
            again: false,
        });
        self.send_trap(node_index, serial);
    }

    /// The interval passed without TrapRepress.
    pub(crate) fn trap_due(&mut self, node_index: u32, serial: u32) {
        let traps = &mut self.fabric.node_mut(node_index).traps;
        let Some(index) = traps.iter().position(|trap| trap.serial == serial) else {
            return;
        };
        if traps[index].repeats_left == 0 {
            traps.remove(index);
            return;
        }
        traps[index].repeats_left -= 1;
        self.send_trap(node_index, serial);
    }

    fn send_trap(&mut self, node_index: u32, serial: u32) {
        let traps = &self.fabric.node(node_index).traps;
        let Some(trap) = traps.iter().find(|trap| trap.serial == serial) else {
            return;
        };
        let info = &self.fabric.port(trap.port).info;
        let smp = Smp::lid_routed(&SmpRequest {
            method: Method::TRAP,
            attribute: AttrId::NOTICE,
            modifier: 0,
            tid: trap.tid,
            m_key: 0,
            data: *trap.notice.as_data(),
        });
        let own = self.fabric.port(trap.port).holds(info.master_sm_lid());
        let from_zero = own
            && self
                .fabric
                .node(node_index)
                .personality
                .has(Habit::OwnTrapFromLidZero);
        let packet = Packet {
            slid: if from_zero { Lid::NONE } else { info.lid() },
            dlid: info.master_sm_lid(),
            at: trap.port,
            home: from_zero,
            ..Packet::new(*smp.as_bytes())
        };
        let due = self.now + self.config.trap_interval;
        self.queue.push(
            due,
            Event::TrapDue {
                node: node_index,
                serial,
            },
        );
        if let Some(index) = self.admit(packet) {
            self.counters.traps += 1;
            self.depart(index);
        }
    }

    /// A manager has repressed a trap. Returns whether the node knows the trap: if not, the packet
    /// is for a client of the port.
    pub(crate) fn repress(&mut self, node_index: u32, smp: &Smp) -> bool {
        let traps = &mut self.fabric.node_mut(node_index).traps;
        let notice = Notice::from_data(smp.data());
        let Some(index) = traps
            .iter()
            .position(|trap| trap.tid == smp.header().tid() || trap.notice == *notice)
        else {
            return false;
        };
        let trap = traps.remove(index);
        if trap.again {
            self.raise(trap.port, trap.notice);
        }
        true
    }
}
