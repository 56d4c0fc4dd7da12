//! Virtual ports in the form of the API.

use rsm_api::model::{Keyed, Page, VirtualPortId};
use rsm_api::v1;
use rsm_ids::{Guid, Lid};
use rsm_model::fabric::PortRef;
use rsm_model::vports::{PortVPorts, VPort, VPortKey};

use super::api_view::{api_key, core_key, shown_state};
use super::published::Published;
use super::subnet::{page, ports_from};

/// Page of virtual ports after the key `after`; only virtual ports of the node `of`, if given.
pub(super) fn virtual_ports(
    published: &Published,
    after: Option<VirtualPortId>,
    limit: usize,
    of: Option<Guid>,
) -> Page<Keyed<VirtualPortId, v1::VirtualPort>> {
    let fabric = published.fabric();
    // The port of `after` may have further virtual ports.
    let before = after.map(|after| after.port);
    let of_port = before.and_then(|port| fabric.find_port(core_key(port)));
    let of_port = of_port.filter(|&at| of.is_none_or(|of| fabric.node(at.node).guid == of));
    let ports = of_port
        .into_iter()
        .chain(ports_from(fabric, before, of, |_| true));
    let shown = ports.flat_map(|at| of_one(published, at));
    let shown = shown.filter(|vport| after.is_none_or(|after| vport.key > after));
    page(published, shown, limit)
}

fn of_one(
    published: &Published,
    at: PortRef,
) -> impl Iterator<Item = Keyed<VirtualPortId, v1::VirtualPort>> + '_ {
    let vports = published.fabric().port(at).vports.as_deref().into_iter();
    vports.flat_map(move |vports| {
        let all = vports.vports.iter();
        all.map(move |(&index, vport)| shown(published, at, vports, (index, vport)))
    })
}

fn shown(
    published: &Published,
    at: PortRef,
    vports: &PortVPorts,
    (index, vport): (u16, &VPort),
) -> Keyed<VirtualPortId, v1::VirtualPort> {
    let fabric = published.fabric();
    let key = VPortKey::new(fabric.key(at), index);
    let plan = published.plan();
    let lid = plan.and_then(|plan| plan.lids.of_vport(vports, key));
    let message = v1::VirtualPort {
        port: Some(api_key(fabric.key(at)).into()),
        index: index.into(),
        host: fabric.node(at.node).description.clone(),
        guid: vport.guid().to_string(),
        node_guid: vport.node.guid.to_string(),
        description: vport.description.to_string(),
        state: shown_state(vport.info.state()).into(),
        lid: lid.unwrap_or(Lid::NONE).0.into(),
        shares_lid: lid.is_some() && !vport.info.lid_required(),
        served: lid.is_some(),
        alias_guids: vport.further_guids().map(|guid| guid.to_string()).collect(),
    };
    Keyed {
        key: VirtualPortId {
            port: api_key(fabric.key(at)),
            index,
        },
        message,
    }
}
