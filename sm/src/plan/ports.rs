//! The planned PortInfo of each port.

use rsm_ids::Lid;
use rsm_mad::wire::attr::{NodeType, SwitchInfo};

use super::lids::Claim;
use super::partitions::Enforced;
use super::policy::PortPolicy;
use crate::fabric::{Fabric, PortRef};
use crate::port_info::{Index, PortSettings};

/// The planned settings of the port `at`, by its LIDs (`claim`), the LID of the subnet manager,
/// and, for a switch port, the enforced directions.
///
/// `None` for a port that never answered.
pub fn desired(
    fabric: &Fabric,
    at: PortRef,
    claim: Option<Claim>,
    sm_lid: Lid,
    enforced: Enforced,
    policy: &PortPolicy,
) -> Option<PortSettings> {
    let node = fabric.node(at.node);
    let info = fabric.port(at).info.as_ref()?;
    let mut settings = PortSettings::default();
    let switch = node.kind() == NodeType::Switch;
    let external = at.port.0 != 0;
    if !(switch && external)
        && let Some(claim) = claim
    {
        settings.put(Index::MKey, policy.m_key);
        settings.put(Index::Prefix, policy.subnet_prefix);
        settings.put(Index::BaseLid, u64::from(claim.base.0));
        settings.put(Index::MasterSmLid, u64::from(sm_lid.0));
        settings.put(Index::MKeyLease, u64::from(policy.m_key_lease_s));
        settings.put(Index::MKeyProtect, u64::from(policy.m_key_protect));
        settings.put(Index::LidMask, u64::from(claim.lmc.get()));
        settings.put(Index::MasterSmSl, u64::from(policy.sm_sl));
        settings.put(Index::SubnetTimeout, u64::from(policy.links.subnet_timeout));
    }
    if external {
        settings.put(
            Index::LocalPhyErrors,
            u64::from(policy.links.phy_error_threshold),
        );
        settings.put(
            Index::OverrunErrors,
            u64::from(policy.links.overrun_error_threshold),
        );
        force_link(&mut settings, policy);
        let peer = fabric.peer(at);
        if let Some(theirs) = peer.and_then(|peer| fabric.port(peer).info.as_ref()) {
            settings.put(
                Index::NeighborMtu,
                u64::from(info.mtu_cap().code().min(theirs.mtu_cap().code())),
            );
            let vls = info
                .vl_cap()
                .code()
                .min(theirs.vl_cap().code())
                .min(policy.links.max_op_vls)
                .max(1);
            settings.put(Index::OperationalVls, u64::from(vls));
        }
        if switch {
            let leaf = peer.is_none_or(|peer| fabric.node(peer.node).kind() != NodeType::Switch);
            let (hoq, stall) = if leaf {
                (policy.links.leaf_hoq_life, policy.links.leaf_vl_stall_count)
            } else {
                (policy.links.hoq_life, policy.links.vl_stall_count)
            };
            if let Some(switch) = &node.switch
                && switch.partition_enforcement_cap() > 0
            {
                settings.put(Index::EnforceInbound, u64::from(enforced.inbound));
                settings.put(Index::EnforceOutbound, u64::from(enforced.outbound));
            }
            settings.put(Index::HoqLife, u64::from(hoq));
            settings.put(Index::VlStall, u64::from(stall));
        }
    }
    Some(settings)
}

fn force_link(settings: &mut PortSettings, policy: &PortPolicy) {
    let forced = [
        (Index::WidthEnabled, policy.links.force_width),
        (Index::SpeedEnabled, policy.links.force_speed),
        (Index::SpeedExtEnabled, policy.links.force_speed_ext),
    ];
    for (index, value) in forced {
        if let Some(value) = value {
            settings.put(index, u64::from(value));
        }
    }
}

/// The planned SwitchInfo: LinearFDBTop and LifeTimeValue. It writes PortStateChange back as read,
/// which confirms the report of changed ports (IBA 14.2.5.4).
pub fn desired_switch_info(current: &SwitchInfo, top: Lid, policy: &PortPolicy) -> SwitchInfo {
    let mut info = *current;
    info.set_linear_fdb_top(top);
    info.set_life_time_value(policy.links.packet_life_time);
    info
}
