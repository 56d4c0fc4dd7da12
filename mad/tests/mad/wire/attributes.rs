use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::fields;

use crate::wire::accessor::{Accessor, accessors, check, check_layout};

const LEN: usize = 64;

fn check_attribute<A: Attribute>(accessors: &[Accessor]) {
    let table = fields::of_attribute(A::ID).unwrap();
    check_layout(LEN, table);
    check(LEN, table, accessors);
}

macro_rules! attribute_test {
    ($test:ident, $view:ident; $($accessors:tt)*) => {
        #[test]
        fn $test() {
            check_attribute::<$view>(&accessors!($view, $view::from_data, $view::as_data; $($accessors)*));
        }
    };
}

attribute_test! { node_info_matches_its_table, NodeInfo;
    "BaseVersion": base_version, set_base_version;
    "ClassVersion": class_version, set_class_version;
    "NodeType": node_type, set_node_type;
    "NumPorts": num_ports, set_num_ports;
    "SystemImageGUID": system_image_guid, set_system_image_guid;
    "NodeGUID": node_guid, set_node_guid;
    "PortGUID": port_guid, set_port_guid;
    "PartitionCap": partition_cap, set_partition_cap;
    "DeviceID": device_id, set_device_id;
    "Revision": revision, set_revision;
    "LocalPortNum": local_port_num, set_local_port_num;
    "VendorID": vendor_id, set_vendor_id;
}

attribute_test! { switch_info_matches_its_table, SwitchInfo;
    "LinearFDBCap": linear_fdb_cap, set_linear_fdb_cap;
    "RandomFDBCap": random_fdb_cap, set_random_fdb_cap;
    "MulticastFDBCap": multicast_fdb_cap, set_multicast_fdb_cap;
    "LinearFDBTop": linear_fdb_top, set_linear_fdb_top;
    "DefaultPort": default_port, set_default_port;
    "DefaultMulticastPrimaryPort": default_multicast_primary_port, set_default_multicast_primary_port;
    "DefaultMulticastNotPrimaryPort": default_multicast_not_primary_port, set_default_multicast_not_primary_port;
    "LifeTimeValue": life_time_value, set_life_time_value;
    "PortStateChange": port_state_change, set_port_state_change;
    "OptimizedSLtoVLMappingProgramming": optimized_sl_to_vl_mapping_programming, set_optimized_sl_to_vl_mapping_programming;
    "LIDsPerPort": lids_per_port, set_lids_per_port;
    "PartitionEnforcementCap": partition_enforcement_cap, set_partition_enforcement_cap;
    "InboundEnforcementCap": inbound_enforcement_cap, set_inbound_enforcement_cap;
    "OutboundEnforcementCap": outbound_enforcement_cap, set_outbound_enforcement_cap;
    "FilterRawInboundCap": filter_raw_inbound_cap, set_filter_raw_inbound_cap;
    "FilterRawOutboundCap": filter_raw_outbound_cap, set_filter_raw_outbound_cap;
    "EnhancedPort0": enhanced_port0, set_enhanced_port0;
    "MulticastFDBTop": multicast_fdb_top, set_multicast_fdb_top;
}

attribute_test! { port_info_matches_its_table, PortInfo;
    "M_Key": m_key, set_m_key;
    "GidPrefix": gid_prefix, set_gid_prefix;
    "LID": lid, set_lid;
    "MasterSMLID": master_sm_lid, set_master_sm_lid;
    "CapabilityMask": capability_mask, set_capability_mask;
    "DiagCode": diag_code, set_diag_code;
    "M_KeyLeasePeriod": m_key_lease_period, set_m_key_lease_period;
    "LocalPortNum": local_port_num, set_local_port_num;
    "LinkWidthEnabled": link_width_enabled, set_link_width_enabled;
    "LinkWidthSupported": link_width_supported, set_link_width_supported;
    "LinkWidthActive": link_width_active, set_link_width_active;
    "LinkSpeedSupported": link_speed_supported, set_link_speed_supported;
    "PortState": port_state, set_port_state;
    "PortPhysicalState": port_physical_state, set_port_physical_state;
    "LinkDownDefaultState": link_down_default_state, set_link_down_default_state;
    "M_KeyProtectBits": m_key_protect_bits, set_m_key_protect_bits;
    "LMC": lmc, set_lmc;
    "LinkSpeedActive": link_speed_active, set_link_speed_active;
    "LinkSpeedEnabled": link_speed_enabled, set_link_speed_enabled;
    "NeighborMTU": neighbor_mtu, set_neighbor_mtu;
    "MasterSMSL": master_sm_sl, set_master_sm_sl;
    "VLCap": vl_cap, set_vl_cap;
    "InitType": init_type, set_init_type;
    "VLHighLimit": vl_high_limit, set_vl_high_limit;
    "VLArbitrationHighCap": vl_arbitration_high_cap, set_vl_arbitration_high_cap;
    "VLArbitrationLowCap": vl_arbitration_low_cap, set_vl_arbitration_low_cap;
    "InitTypeReply": init_type_reply, set_init_type_reply;
    "MTUCap": mtu_cap, set_mtu_cap;
    "VLStallCount": vl_stall_count, set_vl_stall_count;
    "HOQLife": hoq_life, set_hoq_life;
    "OperationalVLs": operational_vls, set_operational_vls;
    "PartitionEnforcementInbound": partition_enforcement_inbound, set_partition_enforcement_inbound;
    "PartitionEnforcementOutbound": partition_enforcement_outbound, set_partition_enforcement_outbound;
    "FilterRawInbound": filter_raw_inbound, set_filter_raw_inbound;
    "FilterRawOutbound": filter_raw_outbound, set_filter_raw_outbound;
    "M_KeyViolations": m_key_violations, set_m_key_violations;
    "P_KeyViolations": p_key_violations, set_p_key_violations;
    "Q_KeyViolations": q_key_violations, set_q_key_violations;
    "GUIDCap": guid_cap, set_guid_cap;
    "ClientReregister": client_reregister, set_client_reregister;
    "MulticastPKeyTrapSuppressionEnabled": multicast_p_key_trap_suppression_enabled, set_multicast_p_key_trap_suppression_enabled;
    "SubnetTimeOut": subnet_timeout, set_subnet_timeout;
    "RespTimeValue": resp_time_value, set_resp_time_value;
    "LocalPhyErrors": local_phy_errors, set_local_phy_errors;
    "OverrunErrors": overrun_errors, set_overrun_errors;
    "MaxCreditHint": max_credit_hint, set_max_credit_hint;
    "LinkSpeedExtActive2": link_speed_ext_active2, set_link_speed_ext_active2;
    "LinkSpeedExtSupported2": link_speed_ext_supported2, set_link_speed_ext_supported2;
    "LinkSpeedExtEnabled2": link_speed_ext_enabled2, set_link_speed_ext_enabled2;
    "LinkRoundTripLatency": link_round_trip_latency, set_link_round_trip_latency;
    "CapabilityMask2": capability_mask2, set_capability_mask2;
    "LinkSpeedExtActive": link_speed_ext_active, set_link_speed_ext_active;
    "LinkSpeedExtSupported": link_speed_ext_supported, set_link_speed_ext_supported;
    "LinkSpeedExtEnabled": link_speed_ext_enabled, set_link_speed_ext_enabled;
}

attribute_test! { sm_info_matches_its_table, SmInfo;
    "GUID": guid, set_guid;
    "SM_Key": sm_key, set_sm_key;
    "ActCount": act_count, set_act_count;
    "Priority": priority, set_priority;
    "SMState": sm_state, set_sm_state;
}

attribute_test! { extended_port_info_matches_its_table, ExtendedPortInfo;
    "AME": ame, set_ame;
    "SHArPANEnable": sharp_an_enabled, set_sharp_an_enabled;
    "RouterLIDEnable": router_lid_enabled, set_router_lid_enabled;
    "PortRecovered": port_recovered, set_port_recovered;
    "StateChangeEnable": state_change_enable, set_state_change_enable;
    "BWUtilEnable": bandwidth_enabled, set_bandwidth_enabled;
    "BWUtil": used_bandwidth, set_used_bandwidth;
    "UnhealthyReason": unhealthy_reason, set_unhealthy_reason;
    "LinkSpeedSupported": link_speed_supported, set_link_speed_supported;
    "MinimumBW": minimum_bandwidth, set_minimum_bandwidth;
    "LinkSpeedEnabled": link_speed_enabled, set_link_speed_enabled;
    "LinkSpeedActive": link_speed_active, set_link_speed_active;
    "AdminState": admin_state, set_admin_state;
    "CapabilityMask": capability_mask, set_capability_mask;
    "IsFNMPort": is_fnm_port, set_is_fnm_port;
    "IsMissionPortAsFNM": is_mission_port_as_fnm, set_is_mission_port_as_fnm;
    "QoSConfigVLEnabled": qos_config_vl_enabled, set_qos_config_vl_enabled;
    "AccessTrunk": is_trunk, set_is_trunk;
    "IsSpecialPort": is_special_port, set_is_special_port;
    "SpecialPortType": special_port_type, set_special_port_type;
    "AdaptiveTimeoutSLMask": adaptive_timeout_sl_mask, set_adaptive_timeout_sl_mask;
    "OOOSLMask": ooo_sl_mask, set_ooo_sl_mask;
}

attribute_test! { virtualization_info_matches_its_table, VirtualizationInfo;
    "VPortCap": vport_cap, set_vport_cap;
    "VPortIndexTop": vport_index_top, set_vport_index_top;
    "VirtualizationEnable": enabled, set_enabled;
    "VClientReregister": client_reregister, set_client_reregister;
    "VPortStateChange": vport_state_change, set_vport_state_change;
    "VirtualizationRevision": revision, set_revision;
    "Capability": capability, set_capability;
}

attribute_test! { vport_info_matches_its_table, VPortInfo;
    "VPortState": state, set_state;
    "ClientReregister": client_reregister, set_client_reregister;
    "LIDRequired": lid_required, set_lid_required;
    "GUIDCap": guid_cap, set_guid_cap;
    "CapabilityMask": capability_mask, set_capability_mask;
    "P_KeyViolations": p_key_violations, set_p_key_violations;
    "Q_KeyViolations": q_key_violations, set_q_key_violations;
    "VPortLID": lid, set_lid;
    "LIDByVPortIndex": lid_by_vport_index, set_lid_by_vport_index;
    "VPortGUID": port_guid, set_port_guid;
    "VPortProfile": profile, set_profile;
}

attribute_test! { vnode_info_matches_its_table, VNodeInfo;
    "PartitionCap": partition_cap, set_partition_cap;
    "LocalPortNum": local_port_num, set_local_port_num;
    "NumPorts": num_ports, set_num_ports;
    "VNodeGUID": node_guid, set_node_guid;
}

attribute_test! { extended_node_info_matches_its_table, ExtendedNodeInfo;
    "SL2VLAct": sl2vl_act, set_sl2vl_act;
    "SL2VLCap": sl2vl_cap, set_sl2vl_cap;
    "AnycastLIDTop": anycast_lid_top, set_anycast_lid_top;
    "AnycastLIDCap": anycast_lid_cap, set_anycast_lid_cap;
    "NodeTypeExtended": node_type_extended, set_node_type_extended;
    "AsymmetryEnable": asymmetry_enabled, set_asymmetry_enabled;
    "AutoRetrainEnable": auto_retrain_enabled, set_auto_retrain_enabled;
    "ASICMaxPlanes": asic_max_planes, set_asic_max_planes;
}

attribute_test! { extended_switch_info_matches_its_table, ExtendedSwitchInfo;
    "ISSUApprove": issu_approve, set_issu_approve;
    "ISSURequest": issu_request, set_issu_request;
    "TurboPathCap": turbo_path_cap, set_turbo_path_cap;
    "TurboPathEnable": turbo_path_enabled, set_turbo_path_enabled;
}

attribute_test! { port_info_extended_matches_its_table, PortInfoExtended;
    "CapMask": capability_mask, set_capability_mask;
    "FECModeActive": fec_mode_active, set_fec_mode_active;
    "FDRFECModeSupported": fdr_fec_mode_supported, set_fdr_fec_mode_supported;
    "FDRFECModeEnabled": fdr_fec_mode_enabled, set_fdr_fec_mode_enabled;
    "EDRFECModeSupported": edr_fec_mode_supported, set_edr_fec_mode_supported;
    "EDRFECModeEnabled": edr_fec_mode_enabled, set_edr_fec_mode_enabled;
    "HDRFECModeSupported": hdr_fec_mode_supported, set_hdr_fec_mode_supported;
    "HDRFECModeEnabled": hdr_fec_mode_enabled, set_hdr_fec_mode_enabled;
    "NDRFECModeSupported": ndr_fec_mode_supported, set_ndr_fec_mode_supported;
    "NDRFECModeEnabled": ndr_fec_mode_enabled, set_ndr_fec_mode_enabled;
}

attribute_test! { ar_info_matches_its_table, ArInfo;
    "DynCapCalcSup": dyn_cap_calc_sup, set_dyn_cap_calc_sup;
    "ByTransportCap": by_transport_cap, set_by_transport_cap;
    "BySLEn": by_sl_en, set_by_sl_en;
    "BySLCap": by_sl_cap, set_by_sl_cap;
    "GlobalGroups": global_groups, set_global_groups;
    "SubGroupsActive": sub_groups_active, set_sub_groups_active;
    "StringWidthCap": string_width_cap, set_string_width_cap;
    "GroupTableCap": group_table_cap, set_group_table_cap;
    "GroupTop": group_top, set_group_top;
    "GroupCap": group_cap, set_group_cap;
    "SLMask": sl_mask, set_sl_mask;
    "SubGroupsSupported": sub_groups_supported, set_sub_groups_supported;
    "ExcludedTransports": excluded_transports, set_excluded_transports;
    "AgeingTime": ageing_time, set_ageing_time;
    "RNTransmitEnabled": rn_transmit_enabled, set_rn_transmit_enabled;
    "FRSupported": fast_recovery_sup, set_fast_recovery_sup;
    "FREnabled": fast_recovery_enabled, set_fast_recovery_enabled;
    "E": enabled, set_enabled;
    "HBFBySLEnabled": hbf_by_sl_enabled, set_hbf_by_sl_enabled;
    "WHBFEnabled": weighted_hbf_enabled, set_weighted_hbf_enabled;
    "HBFByVLEnabled": hbf_by_vl_enabled, set_hbf_by_vl_enabled;
    "pFRNEnabled": pfrn_enabled, set_pfrn_enabled;
}

attribute_test! { notice_of_the_specification_matches_its_table, Notice;
    "IsGeneric": is_generic, set_is_generic;
    "Type": notice_type, set_notice_type;
    "ProducerType/VendorID": producer_type, set_producer_type;
    "TrapNumber/DeviceID": trap_number, set_trap_number;
    "IssuerLID": issuer_lid, set_issuer_lid;
    "NoticeToggle": notice_toggle, set_notice_toggle;
    "NoticeCount": notice_count, set_notice_count;
}

attribute_test! { notice_of_a_vendor_matches_its_table, Notice;
    "IsGeneric": is_generic, set_is_generic;
    "Type": notice_type, set_notice_type;
    "ProducerType/VendorID": vendor_id, set_vendor_id;
    "TrapNumber/DeviceID": device_id, set_device_id;
    "IssuerLID": issuer_lid, set_issuer_lid;
    "NoticeToggle": notice_toggle, set_notice_toggle;
    "NoticeCount": notice_count, set_notice_count;
}

/// The bytes of a view of `data` after `change`.
fn changed<A: Attribute>(data: &mut [u8], change: impl FnOnce(&mut A)) {
    change(A::from_data_mut(data.try_into().unwrap()));
}

fn view<A: Attribute>(data: &[u8]) -> &A {
    A::from_data(data.try_into().unwrap())
}

#[test]
fn guid_info_accessors_match_the_field_table() {
    check_attribute::<GuidInfo>(&[Accessor {
        name: "GUID",
        get: |data, index| view::<GuidInfo>(data).guid(index.into()).unwrap().0.into(),
        set: |data, index, value| {
            changed(data, |info: &mut GuidInfo| {
                let mut guids = info.guids();
                guids[usize::from(index)] = Guid(value as u64);
                info.set_guids(guids);
            });
        },
    }]);
    assert_eq!(GuidInfo::default().guid(GuidInfo::ENTRIES), None);
}

#[test]
fn qos_config_sl_accessors_match_the_field_table() {
    check_attribute::<QosConfigSl>(&[
        Accessor {
            name: "BandwidthShare",
            get: |data, index| {
                let config = view::<QosConfigSl>(data);
                config.bandwidth_share(index.into()).unwrap().into()
            },
            set: |data, index, value| {
                changed(data, |config: &mut QosConfigSl| {
                    config.set_bandwidth_share(index.into(), value as u16);
                });
            },
        },
        Accessor {
            name: "RateLimit",
            get: |data, index| {
                let config = view::<QosConfigSl>(data);
                config.rate_limit(index.into()).unwrap().into()
            },
            set: |data, index, value| {
                changed(data, |config: &mut QosConfigSl| {
                    // A limit that is too high for the field becomes the highest limit: see the
                    // next test.
                    let limit = value as u32 & QosConfigSl::LIMIT_MAX;
                    config.set_rate_limit(index.into(), limit);
                });
            },
        },
    ]);
    assert_eq!(QosConfigSl::default().rate_limit(QosConfigSl::LEVELS), None);
    assert_eq!(QosConfigSl::default().bandwidth_share(16), None);
}

/// Bytes written by hand from the layout: the share is in the upper twelve bits of each word, and
/// the limit in the lower bits.
#[test]
fn qos_config_sl_has_a_word_for_each_service_level() {
    let mut config = QosConfigSl::default();
    config
        .set_rate_limit(0, 50)
        .set_bandwidth_share(1, 0xABC)
        .set_rate_limit(1, 0x1_2345)
        .set_rate_limit(15, QosConfigSl::LIMIT_MAX);
    let mut expected = [0; 64];
    expected[..8].copy_from_slice(&[0, 0, 0, 50, 0xAB, 0xC1, 0x23, 0x45]);
    expected[60..].copy_from_slice(&[0x00, 0x0F, 0xFF, 0xFF]);
    assert_eq!(config.as_data(), &expected);
    // A limit that is too high for the field becomes the highest limit, and the share does not
    // change.
    config.set_rate_limit(1, u32::MAX).set_rate_limit(16, 7);
    expected[4..8].copy_from_slice(&[0xAB, 0xCF, 0xFF, 0xFF]);
    assert_eq!(config.as_data(), &expected);
    assert_eq!(config.rate_limits()[..2], [50, 0xF_FFFF]);
    assert_eq!(QosConfigSl::modifier(PortNum(2)), 2);
    assert_eq!(QosConfigSl::vport_modifier(0x1234), 0x8000_1234);
    assert_eq!(QosConfigSl::modifier_vport(0x8000_1234), Some(0x1234));
    assert_eq!(QosConfigSl::modifier_vport(2), None);
}

#[test]
fn vport_state_accessors_match_the_field_table() {
    check_attribute::<VPortState>(&[Accessor {
        name: "VPortState",
        get: |data, index| {
            let state = view::<VPortState>(data).state(index.into()).unwrap();
            state.code().into()
        },
        set: |data, index, value| {
            changed(data, |table: &mut VPortState| {
                table.set_state(index.into(), PortState::from_code(value as u8));
            });
        },
    }]);
    assert_eq!(VPortState::default().state(VPortState::ENTRIES), None);
    assert_eq!(VPortState::block_of(127), 0);
    assert_eq!(VPortState::block_of(999), 7);
}

#[test]
fn tables_of_vports_have_the_layout_of_the_tables_of_ports() {
    check_attribute::<VNodeDescription>(&[]);
    assert_eq!(VNodeDescription::new(b"vf-3").text(), b"vf-3");
    check_attribute::<VPortGuidInfo>(&[Accessor {
        name: "GUID",
        get: |data, index| {
            view::<VPortGuidInfo>(data).guids()[usize::from(index)]
                .0
                .into()
        },
        set: |data, index, value| {
            changed(data, |info: &mut VPortGuidInfo| {
                let mut guids = info.guids();
                guids[usize::from(index)] = Guid(value as u64);
                info.set_guids(guids);
            });
        },
    }]);
    check_attribute::<VPortPKeyTable>(&[Accessor {
        name: "P_Key",
        get: |data, index| {
            view::<VPortPKeyTable>(data).p_keys()[usize::from(index)]
                .0
                .into()
        },
        set: |data, index, value| {
            changed(data, |table: &mut VPortPKeyTable| {
                let mut p_keys = table.p_keys();
                p_keys[usize::from(index)] = PKey(value as u16);
                table.set_p_keys(p_keys);
            });
        },
    }]);
}

#[test]
fn vport_modifiers_have_index_and_block() {
    for index in [0, 1, 127, 999, u16::MAX] {
        for block in [0, 3, 0x1234] {
            let modifier = VPortPKeyTable::modifier(index, block);
            assert_eq!(VPortPKeyTable::modifier_index(modifier), index);
            assert_eq!(VPortPKeyTable::modifier_block(modifier), block);
            let modifier = VPortGuidInfo::modifier(index, block);
            assert_eq!(VPortGuidInfo::modifier_index(modifier), index);
            assert_eq!(VPortGuidInfo::modifier_block(modifier), block);
        }
        assert_eq!(VPortInfo::modifier_index(VPortInfo::modifier(index)), index);
        assert_eq!(VNodeInfo::modifier_index(VNodeInfo::modifier(index)), index);
        let modifier = VNodeDescription::modifier(index);
        assert_eq!(VNodeDescription::modifier_index(modifier), index);
    }
    assert_eq!(VPortInfo::modifier(0x0102), 0x0102);
    assert_eq!(VPortPKeyTable::modifier(2, 1), 0x0002_0001);
}

#[test]
fn p_key_table_accessors_match_the_field_table() {
    check_attribute::<PKeyTable>(&[Accessor {
        name: "P_Key",
        get: |data, index| {
            view::<PKeyTable>(data)
                .p_key(index.into())
                .unwrap()
                .0
                .into()
        },
        set: |data, index, value| {
            changed(data, |table: &mut PKeyTable| {
                let mut p_keys = table.p_keys();
                p_keys[usize::from(index)] = PKey(value as u16);
                table.set_p_keys(p_keys);
            });
        },
    }]);
    assert_eq!(PKeyTable::default().p_key(PKeyTable::ENTRIES), None);
}

#[test]
fn sl_to_vl_mapping_accessors_match_the_field_table() {
    check_attribute::<SlToVlMapping>(&[Accessor {
        name: "SLtoVL",
        get: |data, index| view::<SlToVlMapping>(data).vls()[usize::from(index)].into(),
        set: |data, index, value| {
            changed(data, |mapping: &mut SlToVlMapping| {
                let mut vls = mapping.vls();
                vls[usize::from(index)] = value as u8;
                mapping.set_vls(vls);
            });
        },
    }]);
}

#[test]
fn vl_arbitration_accessors_match_the_field_table() {
    check_attribute::<VlArbitration>(&[
        Accessor {
            name: "VL",
            get: |data, index| {
                let table: &VlArbitration = view(data);
                table.entries()[usize::from(index)].vl().into()
            },
            set: |data, index, value| {
                changed(data, |table: &mut VlArbitration| {
                    table.entries_mut()[usize::from(index)].set_vl(value as u8);
                });
            },
        },
        Accessor {
            name: "Weight",
            get: |data, index| {
                let table: &VlArbitration = view(data);
                table.entries()[usize::from(index)].weight().into()
            },
            set: |data, index, value| {
                changed(data, |table: &mut VlArbitration| {
                    table.entries_mut()[usize::from(index)].set_weight(value as u8);
                });
            },
        },
    ]);
}

#[test]
fn linear_forwarding_table_accessors_match_the_field_table() {
    check_attribute::<LinearForwardingTable>(&[Accessor {
        name: "Port",
        get: |data, index| {
            let table: &LinearForwardingTable = view(data);
            table.port(index.into()).unwrap().0.into()
        },
        set: |data, index, value| {
            changed(data, |table: &mut LinearForwardingTable| {
                table.ports_mut()[usize::from(index)] = value as u8;
            });
        },
    }]);
    let table = LinearForwardingTable::default();
    assert_eq!(table.port(LinearForwardingTable::ENTRIES), None);
    assert_eq!(LinearForwardingTable::block_of(Lid(63)), 0);
    assert_eq!(
        LinearForwardingTable::block_of(Lid::UNICAST_LAST),
        LinearForwardingTable::BLOCKS - 1
    );
}

#[test]
fn multicast_forwarding_table_accessors_match_the_field_table() {
    check_attribute::<MulticastForwardingTable>(&[Accessor {
        name: "PortMask",
        get: |data, index| {
            let table: &MulticastForwardingTable = view(data);
            table.mask(index.into()).unwrap().into()
        },
        set: |data, index, value| {
            changed(data, |table: &mut MulticastForwardingTable| {
                let mut masks = table.masks();
                masks[usize::from(index)] = value as u16;
                table.set_masks(masks);
            });
        },
    }]);
    let table = MulticastForwardingTable::default();
    assert_eq!(table.mask(MulticastForwardingTable::ENTRIES), None);
    let block_and_index = MulticastForwardingTable::block_and_index_of;
    assert_eq!(block_and_index(Lid(0xC000)), Some((0, 0)));
    assert_eq!(block_and_index(Lid(0xFFFE)), Some((511, 30)));
    assert_eq!(block_and_index(Lid(0xBFFF)), None);
}

/// The byte of a mask and the bit in the byte that stand for a port, in the assumed order of bits.
fn byte_and_bit_of(port: PortNum) -> (usize, u32) {
    (31 - port.index() / 8, u32::from(port.0 % 8))
}

#[test]
fn ar_group_table_accessors_match_the_field_table() {
    // A mask is four words of 64 bits.
    check_attribute::<ArGroupTable>(&[Accessor {
        name: "PortMask",
        get: |data, index| {
            let (group, word) = (usize::from(index) / 4, usize::from(index) % 4);
            let ports = view::<ArGroupTable>(data).ports(group);
            let bits = ports
                .map(byte_and_bit_of)
                .filter(|(byte, _)| byte / 8 == word);
            bits.map(|(byte, bit)| 1u128 << (8 * (7 - byte % 8) as u32 + bit))
                .sum()
        },
        set: |data, index, value| {
            changed(data, |table: &mut ArGroupTable| {
                let (group, word) = (usize::from(index) / 4, usize::from(index) % 4);
                let wanted = |port: &PortNum| {
                    let (byte, bit) = byte_and_bit_of(*port);
                    if byte / 8 == word {
                        value >> (8 * (7 - byte % 8) as u32 + bit) & 1 != 0
                    } else {
                        table.ports(group).any(|other| other == *port)
                    }
                };
                let ports: Vec<PortNum> = (0..=u8::MAX).map(PortNum).filter(wanted).collect();
                table.set_ports(group, ports);
            });
        },
    }]);
    let mut table = ArGroupTable::default();
    table.set_ports(1, [PortNum(1), PortNum(255)]);
    assert_eq!(table.as_data()[32], 0x80);
    assert_eq!(table.as_data()[63], 0x02);
    assert_eq!(table.ports(0).count(), 0);
    table.set_ports(ArGroupTable::ENTRIES, [PortNum(1)]);
    assert_eq!(table.ports(ArGroupTable::ENTRIES).count(), 0);
    assert_eq!(ArGroupTable::modifier(0x123), 0x123);
    assert_eq!(ArGroupTable::modifier_block(0x123), Some(0x123));
    assert_eq!(ArGroupTable::modifier_block(0x8000_0123), None);
}

#[test]
fn ar_linear_forwarding_table_accessors_match_the_field_table() {
    fn entry(data: &[u8], index: u16) -> ArEntry {
        view::<ArLinearForwardingTable>(data)
            .entry(index.into())
            .unwrap()
    }
    fn set(data: &mut [u8], index: u16, change: impl FnOnce(&mut ArEntry)) {
        changed(data, |table: &mut ArLinearForwardingTable| {
            let mut entry = table.entry(index.into()).unwrap();
            change(&mut entry);
            table.set_entry(index.into(), entry);
        });
    }
    check_attribute::<ArLinearForwardingTable>(&[
        Accessor {
            name: "State",
            get: |data, index| entry(data, index).state.code().into(),
            set: |data, index, value| {
                set(data, index, |entry| {
                    entry.state = ArLidState::from_code(value as u8)
                });
            },
        },
        Accessor {
            name: "Table",
            get: |data, index| entry(data, index).table.into(),
            set: |data, index, value| set(data, index, |entry| entry.table = value as u8),
        },
        Accessor {
            name: "Port",
            get: |data, index| entry(data, index).port.0.into(),
            set: |data, index, value| set(data, index, |entry| entry.port = PortNum(value as u8)),
        },
        Accessor {
            name: "Group",
            get: |data, index| entry(data, index).group.into(),
            set: |data, index, value| set(data, index, |entry| entry.group = value as u16),
        },
    ]);
    let table = ArLinearForwardingTable::default();
    assert_eq!(table.entry(ArLinearForwardingTable::ENTRIES), None);
    assert_eq!(
        ArLinearForwardingTable::block_and_index_of(Lid(0x123)),
        (0x12, 3)
    );
    assert_eq!(ArLinearForwardingTable::modifier(0xBFF), 0xBFF);
    assert_eq!(ArLinearForwardingTable::modifier_block(0x1000), None);
}

#[test]
fn switch_port_state_table_accessors_match_the_field_table() {
    check_attribute::<SwitchPortStateTable>(&[Accessor {
        name: "PortState",
        get: |data, index| {
            let table: &SwitchPortStateTable = view(data);
            table.state(index.into()).unwrap().code().into()
        },
        set: |data, index, value| {
            changed(data, |table: &mut SwitchPortStateTable| {
                table.set_state(index.into(), PortState::from_code(value as u8));
            });
        },
    }]);
    let mut table = SwitchPortStateTable::default();
    assert_eq!(table.state(SwitchPortStateTable::ENTRIES), None);
    table.set_state(SwitchPortStateTable::ENTRIES, PortState::Active);
    assert_eq!(table, SwitchPortStateTable::default());
}

#[test]
fn general_info_accessors_match_the_field_table() {
    check_attribute::<GeneralInfo>(&[Accessor {
        name: "CapabilityWord",
        get: |data, index| view::<GeneralInfo>(data).capabilities().0[usize::from(index)].into(),
        set: |data, index, value| {
            changed(data, |info: &mut GeneralInfo| {
                let mut capabilities = info.capabilities();
                capabilities.0[usize::from(index)] = value as u32;
                info.set_capabilities(capabilities);
            });
        },
    }]);
}

/// The capability words are from answers of devices of a real fabric.
#[test]
fn capabilities_of_real_devices_are_named() {
    let quantum2 = Capabilities([0xA02D_3775, 0x2030_5000, 0, 0]);
    let connectx7 = Capabilities([0x434B_8770, 0x0001_7000, 0x0000_0004, 0]);
    let aggregation_node = Capabilities([0x2000_0230, 0x0000_4000, 0, 0]);
    for capability in [
        Capability::PrivateLft,
        Capability::AdaptiveRouting,
        Capability::ExtendedPortInfo,
        Capability::SharpAggregationNode,
        Capability::SpecialPortMarking,
        Capability::FastRecovery,
    ] {
        assert!(quantum2.has(capability), "{}", capability.name());
    }
    assert!(!quantum2.has(Capability::AdaptiveRoutingRev0));
    assert!(connectx7.has(Capability::Virtualization) && connectx7.has(Capability::OutOfOrder));
    assert!(connectx7.has(Capability::BandwidthUtilization));
    assert!(!connectx7.has(Capability::SharpAggregationNode));
    assert!(aggregation_node.has(Capability::ExtendedPortInfo));
    let rebuilt = quantum2
        .named()
        .fold(Capabilities::NONE, Capabilities::with);
    assert!(rebuilt.named().eq(quantum2.named()));
    assert!(quantum2.unnamed().any(|number| number == 8));
}

#[test]
fn fec_modes_are_taken_from_the_fields_of_the_speed() {
    let mut info = PortInfoExtended::default();
    info.set_fec_mode_active(2)
        .set_hdr_fec_mode_supported(0xA)
        .set_hdr_fec_mode_enabled(0x2);
    assert_eq!(info.fec_mode(), None, "the field is not valid");
    info.set_capability_mask(PortInfoExtendedCapabilities::IS_FEC_MODE_SUPPORTED);
    assert_eq!(info.fec_mode(), Some(FecMode::ReedSolomon));
    assert_eq!(info.fec_modes(LinkSpeed::Hdr), Some((0xA, 0x2)));
    assert_eq!(info.fec_modes(LinkSpeed::Qdr), None);
}

#[test]
fn node_description_is_text_up_to_the_first_nul() {
    check_attribute::<NodeDescription>(&[]);
    assert_eq!(NodeDescription::new(b"leaf-1").text(), b"leaf-1");
    assert_eq!(NodeDescription::new(b"a\0b").text(), b"a");
    let full = NodeDescription::new(&[b'x'; 70]);
    assert_eq!(full.text(), [b'x'; 64]);
    assert_eq!(NodeDescription::default().text(), b"");
}

#[test]
fn modifiers_are_composed_and_decomposed() {
    let port = PortNum(0xAB);
    assert_eq!(PKeyTable::modifier(port, 0x1234), 0x00AB_1234);
    assert_eq!(PKeyTable::modifier_port(0x00AB_1234), port);
    assert_eq!(PKeyTable::modifier_block(0x00AB_1234), 0x1234);

    assert_eq!(SlToVlMapping::modifier(PortNum(1), PortNum(2)), 0x0102);
    assert_eq!(SlToVlMapping::modifier_input(0x0102), Some(PortNum(1)));
    assert_eq!(SlToVlMapping::modifier_output(0x0102), Some(PortNum(2)));
    assert_eq!(SlToVlMapping::modifier_all_ports(), 0x3_0000);
    assert_eq!(SlToVlMapping::modifier_input(0x3_0000), None);
    assert_eq!(SlToVlMapping::modifier_output(0x3_0000), None);
    assert_eq!(SlToVlMapping::modifier_all_inputs(PortNum(9)), 0x2_0009);

    for (number, block) in (1..).zip(VlArbitrationBlock::ALL) {
        let modifier = VlArbitration::modifier(port, block);
        assert_eq!(modifier, number << 16 | 0xAB);
        assert_eq!(VlArbitration::modifier_port(modifier), port);
        assert_eq!(VlArbitration::modifier_block(modifier), Some(block));
    }
    assert_eq!(VlArbitration::modifier_block(0), None);
    assert_eq!(VlArbitration::modifier_block(0x5_0000), None);

    let modifier = MulticastForwardingTable::modifier(511, 15);
    assert_eq!(modifier, 0xF000_01FF);
    assert_eq!(MulticastForwardingTable::modifier_block(modifier), 511);
    assert_eq!(MulticastForwardingTable::modifier_position(modifier), 15);

    assert_eq!(LinearForwardingTable::modifier(767), 767);
    assert_eq!(GuidInfo::modifier(31), 31);
    assert_eq!(ExtendedPortInfo::modifier(port), 0xAB);
    assert_eq!(PortInfoExtended::modifier(port), 0xAB);
    assert_eq!(SwitchPortStateTable::block_of(PortNum(127)), 0);
    assert_eq!(SwitchPortStateTable::block_of(PortNum(128)), 1);
    assert_eq!(SwitchPortStateTable::modifier(1), 1);
}

/// Capabilities and sizes belong to the switch and do not change; the bits that make it forward by
/// the groups of another manager are cleared.
#[test]
fn disabled_ar_info_forwards_by_no_group_and_keeps_other_fields() {
    let all_bits = ArInfo::from_data(&[0xFF; 64]);
    assert!(all_bits.uses_groups());
    let mut disabled = *all_bits;
    disabled.disable();
    assert!(!disabled.uses_groups());
    let mut expected = [0xFF; 64];
    (expected[3], expected[22]) = (0b1100_1110, 0x0F);
    assert_eq!(disabled.as_data(), &expected);
    let mut enabled = ArInfo::default();
    enabled.set_fast_recovery_enabled(true);
    assert!(
        enabled.uses_groups(),
        "fast recovery forwards through another port of the group"
    );
}

#[test]
fn only_qdr_refines_to_fdr10() {
    let mut ext = ExtendedPortInfo::default();
    assert_eq!(ext.refine(LinkSpeed::Qdr), LinkSpeed::Qdr);
    ext.set_link_speed_active(MlnxLinkSpeed::FDR10);
    assert_eq!(ext.refine(LinkSpeed::Qdr), LinkSpeed::Fdr10);
    assert_eq!(ext.refine(LinkSpeed::Edr), LinkSpeed::Edr);
}
