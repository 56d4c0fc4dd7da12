//! The notices of agents, which are the content of traps (IBA 13.4.8, 14.2.5.1).

use rsm_mad::wire::attr::{
    Details, LinkStateChange, LocalChange, LocalChanges, Notice, NoticeType, ProducerType, Trap,
};
use rsm_routing::netlist::NodeKind;

use crate::fabric::Fabric;

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

/// The notice of trap 128 from a switch.
pub(crate) fn link_state_change(fabric: &Fabric, port0: u32) -> Notice {
    let mut details = LinkStateChange::default();
    details.set_lid(fabric.port(port0).info.lid());
    let (kind, trap) = (NoticeType::Urgent, Trap::LINK_STATE_CHANGED);
    notice_of(fabric, port0, kind, trap, &details)
}

/// The notice of trap 144 from the agent at `port`: its capability mask changed, or `changes` lists
/// the changes.
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
