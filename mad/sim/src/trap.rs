//! Traps: notices that agents send to the manager until it represses them (IBA 13.4.9).

use rsm_ids::Lid;
use rsm_mad::ids::Tid;
use rsm_mad::wire::attr::{Attribute, Notice};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};

use crate::fabric::OutstandingTrap;
use crate::packet::Packet;
use crate::personality::Habit;
use crate::queue::Event;
use crate::sim::Sim;

/// The maximum number of different traps that one node keeps until they are repressed. Further
/// traps are not sent; real agents also have a queue of a few entries.
const MAX_OUTSTANDING: usize = 16;

impl Sim {
    /// Begins a trap: sends the notice now, and repeats it until a TrapRepress arrives. If the port
    /// already sends this notice, the trap begins anew after the TrapRepress. A port without a LID
    /// or without a manager's LID sends nothing.
    pub(crate) fn raise(&mut self, port: u32, notice: Notice) {
        let info = &self.fabric.port(port).info;
        if info.lid() == Lid::NONE || info.master_sm_lid() == Lid::NONE {
            return;
        }
        let node_index = self.fabric.port(port).node;
        let repeats = self.config.trap_repeats;
        let node = self.fabric.node_mut(node_index);
        if !node.is_powered {
            return;
        }
        let unrepressed = node
            .traps
            .iter_mut()
            .find(|trap| trap.port == port && trap.notice == notice);
        if let Some(trap) = unrepressed {
            trap.is_raised_again = true;
            return;
        }
        if node.traps.len() >= MAX_OUTSTANDING {
            return;
        }
        node.traps_begun = node.traps_begun.wrapping_add(1);
        let serial = node.traps_begun;
        node.traps.push(OutstandingTrap {
            serial,
            tid: Tid(u64::from(serial)),
            port,
            notice,
            repeats_left: repeats,
            is_raised_again: false,
        });
        self.send_trap(node_index, serial);
    }

    /// Repeats a trap whose interval has passed without TrapRepress, or ends the trap after its
    /// last repetition.
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

    /// Sends a trap, and schedules its repetition.
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
        let is_to_own_port = self.fabric.port(trap.port).holds(info.master_sm_lid());
        let from_zero = is_to_own_port
            && self
                .fabric
                .node(node_index)
                .personality
                .has(Habit::OwnTrapFromLidZero);
        let packet = Packet {
            slid: if from_zero { Lid::NONE } else { info.lid() },
            dlid: info.master_sm_lid(),
            at: trap.port,
            answers_local_request: from_zero,
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

    /// Ends the trap that a TrapRepress names, unless the node is [deaf](Habit::DeafToRepress).
    /// Returns whether the node sends such a trap; if not, the packet is for a client of the port.
    pub(crate) fn repress(&mut self, node_index: u32, smp: &Smp) -> bool {
        let node = self.fabric.node_mut(node_index);
        let is_deaf = node.personality.has(Habit::DeafToRepress);
        let traps = &mut node.traps;
        let notice = Notice::from_data(smp.data());
        let Some(index) = traps
            .iter()
            .position(|trap| trap.tid == smp.header().tid() || trap.notice == *notice)
        else {
            return false;
        };
        if is_deaf {
            return true;
        }
        let trap = traps.remove(index);
        if trap.is_raised_again {
            self.raise(trap.port, trap.notice);
        }
        true
    }
}
