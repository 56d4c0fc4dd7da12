//! Paths as a packet would find them, written apart from the code that answers.

use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::attr::PortInfo;
use rsm_mad::wire::sa::Rate;

use crate::fabric::{Fabric, PortRef};
use crate::plan::Plan;

/// The least MTU in bytes and the least rate in units of 100 Mb/s, and the nodes on the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) mtu: u16,
    pub(super) rate: u16,
    pub(super) nodes: Vec<PortRef>,
}

fn limits(info: &PortInfo) -> (u16, u16) {
    let rate = Rate::of_link(info.link_rate().unwrap());
    (
        info.neighbor_mtu().bytes().unwrap(),
        rate.tenth_gbps().unwrap(),
    )
}

/// Sends a packet from the port `from` to `dlid`, which is one of the LIDs of `to`.
pub(super) fn walk(
    fabric: &Fabric,
    plan: &Plan,
    from: PortRef,
    to: PortRef,
    dlid: Lid,
) -> Option<Found> {
    let mut found = Found {
        mtu: u16::MAX,
        rate: u16::MAX,
        nodes: Vec::new(),
    };
    let mut at = from;
    let mut left = fabric.nodes.len() + 2;
    loop {
        found.nodes.push(at);
        let node = fabric.node(at.node);
        let exit = if node.is_switch() {
            plan.table(node.guid)?.port(dlid)?
        } else if at == from {
            at.port
        } else {
            return (at == to).then_some(found);
        };
        if exit == PortNum::ZERO {
            return (at.node == to.node).then_some(found);
        }
        let exit = PortRef {
            node: at.node,
            port: exit,
        };
        let port = node.ports.get(exit.port.index())?;
        let next = port.peer?;
        for end in [exit, next] {
            let (mtu, rate) = limits(fabric.port(end).info.as_ref()?);
            found.mtu = found.mtu.min(mtu);
            found.rate = found.rate.min(rate);
        }
        at = next;
        left = left.checked_sub(1)?;
    }
}
