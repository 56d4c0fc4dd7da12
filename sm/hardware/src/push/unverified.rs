//! Handles answers to Sets of PortInfo that do not show whether the port took the values.

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Attribute, PortInfo};
use rsm_mad::wire::header::Status;
use rsm_model::habits::DeviceKind;
use rsm_model::port_info::FieldMask;

use super::{Cause, FailedSet, PortStep, Push, Task};
use crate::diff::NotKept;
use crate::sweep::inventory::Inventory;

impl Push {
    /// Handles an answer in which `fields` differ from the Set. If the port was read after an
    /// earlier Set with the same result (`read`), essential fields count as failed, and other
    /// fields as fields that this kind of device never keeps. Otherwise a sweep reads the port
    /// after this push.
    pub(super) fn fields_open(
        &mut self,
        not_kept: &mut NotKept,
        key: PortKey,
        kind: DeviceKind,
        fields: FieldMask,
        read: bool,
    ) {
        let essential = fields.and(FieldMask::ESSENTIAL);
        if !read {
            self.report.has_unverified |= !essential.is_empty();
            return;
        }
        self.report.learned |= not_kept.learn(kind, fields);
        if !essential.is_empty() {
            self.report.failures.push(FailedSet {
                task: Task::Port(key, PortStep::Configure),
                cause: Cause::NotKept(essential),
            });
        }
    }

    /// Handles a refused state, which the port may have reached by itself: from Armed to Active
    /// with the first packet (IBA 7.2.7), or by an attempt whose answer was lost. A sweep reads the
    /// port, unless a sweep did so after an earlier refusal.
    pub(super) fn state_refused(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        step: PortStep,
        status: Status,
    ) {
        let order = self.write_port(inventory, Task::Port(key, step));
        let asked = order.map_or_else(PortInfo::default, |order| *PortInfo::from_data(&order.data));
        self.state_open(inventory, key, step, asked, Cause::Refused(status));
    }

    /// Handles an answer that does not show the state of the Set. A sweep reads the port; if a
    /// sweep did so before, the Set has failed with `cause`.
    pub(super) fn state_open(
        &mut self,
        inventory: &mut Inventory,
        key: PortKey,
        step: PortStep,
        asked: PortInfo,
        cause: Cause,
    ) {
        let fields = FieldMask::default();
        if inventory.unverified.raise(key, fields, asked, None) {
            self.failed(inventory, Task::Port(key, step), cause);
        } else {
            self.await_reading(inventory, key);
            self.consider_others_after(inventory, key);
        }
    }
}
