//! The planned PortInfo of each port.

use rsm_config::m_keys::KeyHolder;
use rsm_ids::{Lid, PortNum};
use rsm_mad::wire::attr::{
    CapabilityMask, LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, NodeType, PortInfo,
    SwitchInfo,
};
use rsm_model::fabric::{Fabric, Node, PortRef};
use rsm_model::port_info::{FieldIndex, PortSettings};

use super::lids::Claim;
use super::partitions::Enforced;
use super::policy::{Policy, PortPolicy};
use crate::qos::{PortClass, vl_codes};

/// The planned settings of the port `at`. Without a `claim`, LIDs and keys are not planned.
/// `enforced` has the directions in which a switch port enforces partitions.
///
/// `None` if the port never returned PortInfo.
pub fn desired(
    fabric: &Fabric,
    at: PortRef,
    claim: Option<Claim>,
    sm_lid: Lid,
    enforced: Enforced,
    policy: &Policy,
) -> Option<PortSettings> {
    let node = fabric.node(at.node);
    let info = fabric.port(at).info.as_ref()?;
    let mut settings = PortSettings::default();
    let is_switch = node.kind() == NodeType::Switch;
    let is_external = at.port != PortNum::ZERO;
    let peer = fabric.peer(at).map(|peer| fabric.node(peer.node).kind());
    if !(is_switch && is_external)
        && let Some(claim) = claim
    {
        let holder = KeyHolder {
            port: fabric.key(at),
            guid: fabric.port(at).guid,
            is_switch,
        };
        put_end_port(&mut settings, holder, claim, sm_lid, &policy.ports);
    }
    if let Some(switch) = &node.switch
        && !is_external
    {
        put_port0_mtu(&mut settings, switch, info);
    }
    if is_external {
        settings.put(
            FieldIndex::LinkDownDefault,
            u64::from(LinkDownDefault::Polling.code()),
        );
        put_error_thresholds(&mut settings, &policy.ports);
        put_vls(&mut settings, fabric, at, info, policy);
        if is_switch {
            force_link(&mut settings, fabric, at, info, &policy.ports);
            put_enforcement(&mut settings, node, enforced);
        }
        if is_switch || node.kind() == NodeType::Router {
            put_lifetimes(&mut settings, peer, &policy.ports);
        }
    }
    Some(settings)
}

/// Puts the fields of ports with a LID: LIDs, subnet prefix, manager, and keys.
fn put_end_port(
    settings: &mut PortSettings,
    holder: KeyHolder,
    claim: Claim,
    sm_lid: Lid,
    policy: &PortPolicy,
) {
    settings.put(FieldIndex::MKey, policy.m_keys.planned(holder));
    settings.put(FieldIndex::Prefix, policy.subnet_prefix);
    settings.put(FieldIndex::BaseLid, u64::from(claim.base.0));
    settings.put(FieldIndex::MasterSmLid, u64::from(sm_lid.0));
    settings.put(FieldIndex::MKeyLease, u64::from(policy.m_key_lease_s));
    settings.put(FieldIndex::MKeyProtect, u64::from(policy.m_key_protect));
    settings.put(FieldIndex::LidMask, u64::from(claim.lmc.get()));
    settings.put(FieldIndex::MasterSmSl, u64::from(policy.sm_sl));
    settings.put(
        FieldIndex::SubnetTimeout,
        u64::from(policy.links.subnet_timeout),
    );
}

/// Puts MTUCap as NeighborMTU of an enhanced port 0, because answers of the SA state this MTU as
/// well. A base port 0 sends no data.
fn put_port0_mtu(settings: &mut PortSettings, switch: &SwitchInfo, info: &PortInfo) {
    if switch.enhanced_port0() && info.mtu_cap().bytes().is_some() {
        settings.put(FieldIndex::Port0Mtu, u64::from(info.mtu_cap().code()));
    }
}

fn put_error_thresholds(settings: &mut PortSettings, policy: &PortPolicy) {
    settings.put(
        FieldIndex::LocalPhyErrors,
        u64::from(policy.links.phy_error_threshold),
    );
    settings.put(
        FieldIndex::OverrunErrors,
        u64::from(policy.links.overrun_error_threshold),
    );
}

/// Sets the MTU and the VLs of a port with a link to the best values that both ends support, and
/// the limit of its high-priority VLs.
fn put_vls(
    settings: &mut PortSettings,
    fabric: &Fabric,
    at: PortRef,
    info: &PortInfo,
    policy: &Policy,
) {
    let qos = policy.qos.as_deref();
    let ours = fabric.node(at.node).kind();
    let peer = fabric.peer(at);
    let peer_kind = peer.map(|peer| fabric.node(peer.node).kind());
    if let Some(theirs) = peer.and_then(|peer| fabric.port(peer).info.as_ref()) {
        settings.put(
            FieldIndex::NeighborMtu,
            u64::from(info.mtu_cap().code().min(theirs.mtu_cap().code())),
        );
        let mut vls = vl_codes(info, theirs).min(policy.ports.links.max_op_vls);
        if let (Some(qos), Some(theirs)) = (qos, peer_kind) {
            let [near, far] = [
                PortClass::of(ours, false, Some(theirs)),
                PortClass::of(theirs, false, Some(ours)),
            ];
            vls = vls.min(qos.most_vls(near)).min(qos.most_vls(far));
        }
        settings.put(FieldIndex::OperationalVls, u64::from(vls.max(1)));
    }
    if let Some(qos) = qos {
        let set = qos.set(PortClass::of(ours, false, peer_kind));
        // With a single VL, there are no priorities.
        let limit = if info.vl_cap().code() <= 1 {
            0
        } else {
            set.high_limit
        };
        settings.put(FieldIndex::VlHighLimit, u64::from(limit));
    }
}

/// Puts the directions in which a switch port enforces partitions, if the switch can.
fn put_enforcement(settings: &mut PortSettings, node: &Node, enforced: Enforced) {
    if let Some(switch) = &node.switch
        && switch.partition_enforcement_cap() > 0
    {
        settings.put(FieldIndex::EnforceInbound, u64::from(enforced.inbound));
        settings.put(FieldIndex::EnforceOutbound, u64::from(enforced.outbound));
    }
}

/// Puts HOQLife and VLStallCount of an external switch or router port: `hoq_life` and
/// `vl_stall_count` towards a switch, the `leaf_` values towards any other node or with no link.
fn put_lifetimes(settings: &mut PortSettings, peer: Option<NodeType>, policy: &PortPolicy) {
    let links = &policy.links;
    let (hoq, stall) = match peer {
        Some(NodeType::Switch) => (links.hoq_life, links.vl_stall_count),
        _ => (links.leaf_hoq_life, links.leaf_vl_stall_count),
    };
    settings.put(FieldIndex::HoqLife, u64::from(hoq));
    settings.put(FieldIndex::VlStall, u64::from(stall));
}

/// Puts the widths and speeds that the operator forces at a switch port. The values for "all that
/// the port supports" become the port's mask, which the port reads back; a port that shows an empty
/// mask keeps what it has. LinkSpeedExtEnabled is planned only if both ends of the link know
/// extended speeds.
fn force_link(
    settings: &mut PortSettings,
    fabric: &Fabric,
    at: PortRef,
    info: &PortInfo,
    policy: &PortPolicy,
) {
    let links = &policy.links;
    let knows_extended = || {
        let peer = fabric.peer(at);
        peer.is_some_and(|peer| has_extended_speeds(fabric, peer))
            && has_extended_speeds(fabric, at)
    };
    let forced = [
        (
            FieldIndex::WidthEnabled,
            links.force_width,
            LinkWidths::ALL_SUPPORTED.0,
            info.link_width_supported().0,
        ),
        (
            FieldIndex::SpeedEnabled,
            links.force_speed,
            LinkSpeeds::ALL_SUPPORTED.0,
            info.link_speed_supported().0,
        ),
        (
            FieldIndex::SpeedExtEnabled,
            links.force_speed_ext.filter(|_| knows_extended()),
            LinkSpeedExt::ALL_SUPPORTED.0,
            info.link_speed_ext_supported().0,
        ),
    ];
    for (index, value, all, supported) in forced {
        let value = value.map(|value| if value == all { supported } else { value });
        if let Some(value) = value.filter(|&value| value != 0) {
            settings.put(index, u64::from(value));
        }
    }
}

/// Whether a port knows extended speeds, by the CapabilityMask of its device: that of port 0 for a
/// switch (IBA 14.2.5.6).
fn has_extended_speeds(fabric: &Fabric, at: PortRef) -> bool {
    let port = match fabric.node(at.node).kind() {
        NodeType::Switch => PortNum::ZERO,
        _ => at.port,
    };
    let info = fabric.port(PortRef { port, ..at }).info.as_ref();
    info.is_some_and(|info| {
        info.capability_mask()
            .contains(CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED)
    })
}

/// The planned SwitchInfo: `current` with `top` as LinearFDBTop, and with LifeTimeValue of the
/// policy. PortStateChange is written back as read, which confirms the report of changed ports
/// (IBA 14.2.5.4).
pub fn desired_switch_info(current: &SwitchInfo, top: Lid, policy: &PortPolicy) -> SwitchInfo {
    let mut info = *current;
    info.set_linear_fdb_top(top);
    info.set_life_time_value(policy.links.packet_life_time);
    info
}
