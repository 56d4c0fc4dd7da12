//! Keys of functions that NVIDIA's manager has and rsm does not.

use super::{Keys, Missing, Topic};

const UNSET: &[&str] = &[];
const FALSE: &[&str] = &["FALSE"];
const TRUE: &[&str] = &["TRUE"];
const ZERO: &[&str] = &["0"];
/// Values of a three-state function that do not turn it on: 0 keeps the devices' setting, 1 turns
/// the function off.
const OFF: &[&str] = &["0", "1"];
/// Actions that isolate no port.
const QUIET: &[&str] = &["ignore", "report"];

pub(super) const TOPICS: &[Topic] = &[
    Topic::NotAvailable(
        Missing {
            lost: "rsm routes adaptively by routing.adaptive alone, never by hashes, and turns off what another manager left on",
            instead: "set routing.adaptive to on or fast-recovery, with routing.adaptive_devices and routing.adaptive_sls, and see \
                      sm.takeover; or keep NVIDIA's manager where jobs need adaptive routing",
        },
        Keys {
            asking: &[
                ("adv_routing_engine", &["none", "auto"]),
                ("ar_mode", &["0", "3"]),
                ("ar_tree_asymmetric_flow", ZERO),
                ("fast_recovery_enabled", OFF),
                ("shield_mode", &["0", "3"]),
            ],
            tuning: &[
                "ar_transport_mask",
                "ar_tree_asymmetric_flow_threshold",
                "ar_tree_asymmetric_flow_threshold_limit",
                "enable_ar_by_device_cap",
                "enable_ar_group_copy",
                "fast_recovery_conf_file",
                "hbf_hash_fields",
                "hbf_hash_type",
                "hbf_seed",
                "hbf_seed_type",
                "hbf_sl_mask",
                "hbf_weights",
                "pfrn_mask_clear_timeout",
                "pfrn_mask_force_clear_timeout",
                "pfrn_over_router_enabled",
                "pfrn_sl",
            ],
        },
    ),
    Topic::NotNeeded {
        why: "routing.adaptive_sls has the service levels of the packets that routing.adaptive routes",
        keys: &["ar_sl_mask"],
    },
    Topic::NotNeeded {
        why: "rsm gives aggregation nodes the LMC of all ports",
        keys: &["prism_an_lmc"],
    },
    Topic::NotNeeded {
        why: "the SA has a share of its own for each port, trusted or not",
        keys: &[
            "sa_etm_max_num_event_subs",
            "sa_etm_max_num_mcgs",
            "sa_etm_max_num_srvcs",
        ],
    },
    Topic::NotNeeded {
        why: "sa.trust_mode has the rules for requests in the name of another port, and sa.trust_proxies the exceptions",
        keys: &[
            "sa_check_sgid_spoofing",
            "sa_etm_allow_guidinfo_rec_by_vf",
            "sa_etm_allow_untrusted_guidinfo_rec",
            "sa_etm_allow_untrusted_proxy_requests",
        ],
    },
    Topic::NotAvailable(
        Missing {
            lost: "the SA registers a service by any name without a key",
            instead: "keep tenants apart by partitions",
        },
        Keys {
            asking: &[("service_name2key_map_file", UNSET)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm derives no keys of the classes for congestion control, vendor MADs and traffic between nodes",
            instead: "congestion.set_cc_key gives one CC_Key to all devices; rsm protects ports with sm.m_key",
        },
        Keys {
            asking: &[
                ("cc_key_enable", OFF),
                ("n2n_key_enable", OFF),
                ("vs_key_enable", OFF),
            ],
            tuning: &[
                "cc_key_lease_period",
                "cc_key_protect_bit",
                "key_mgr_seed",
                "n2n_key_lease_period",
                "n2n_key_protect_bit",
                "n2n_max_outstanding_mads",
                "vs_key_ci_protect_bits",
                "vs_key_lease_period",
                "vs_max_outstanding_mads",
            ],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "all ports get the same M_Key, as long as no secret is named that others follow from",
            instead: "set sm.m_keys = \"per-port\" and sm.m_key_secret_file",
        },
        Keys {
            asking: &[("m_key_per_port", FALSE)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm uses one port with the LID that it holds, and runs only while that port is up",
            instead: "run a standby on another port or node",
        },
        Keys {
            asking: &[
                ("enable_sm_port_failover", FALSE),
                ("master_sm_lid", ZERO),
                ("standalone", &["1"]),
            ],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm has no policies by groups of ports: the file has no effect",
            instead: "list switches in root_guid_file and ports in partitions.conf and routing.categories_file by GUID",
        },
        Keys {
            asking: &[
                ("device_configuration_file", UNSET),
                ("pgrp_policy_file", UNSET),
                ("rch_policy_file", UNSET),
                ("topo_policy_file", UNSET),
            ],
            tuning: &["auto_join_hca_wo_topo", "max_topologies_per_sw"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm reads no topology file in this form",
            instead: "design.file has the cables as comma-separated values",
        },
        Keys {
            asking: &[("topo_config_enabled", FALSE)],
            tuning: &["topo_config_file"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm knows no tenants beside partitions.conf",
            instead: "list the ports of each tenant in partitions.conf",
        },
        Keys {
            asking: &[("tenants_policy_enabled", FALSE)],
            tuning: &["tenants_policy_file"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm keeps no switch out of routes by a list",
            instead: "disable the links of the switch with ibportstate",
        },
        Keys {
            asking: &[("held_back_sw_file", UNSET)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm isolates no port for these conditions; routes avoid links that come and go, and nodes that do not answer",
            instead: "see section [flap] and `rsmctl findings`",
        },
        Keys {
            asking: &[
                ("hm_ca_flapping_action", QUIET),
                ("hm_ca_illegal_action", QUIET),
                ("hm_ca_manual_action", QUIET),
                ("hm_ca_noisy_action", QUIET),
                ("hm_ca_reboot_action", QUIET),
                ("hm_ca_seterr_action", QUIET),
                ("hm_ca_unresponsive_action", QUIET),
                ("hm_ports_health_policy_file", UNSET),
                ("hm_sw_flapping_action", QUIET),
                ("hm_sw_illegal_action", QUIET),
                ("hm_sw_manual_action", &["ignore", "report", "no_discover"]),
                ("hm_sw_noisy_action", QUIET),
                ("hm_sw_reboot_action", QUIET),
                ("hm_sw_seterr_action", QUIET),
                ("hm_sw_unresponsive_action", QUIET),
            ],
            tuning: &[
                "hm_num_flapping_sweeps",
                "hm_num_flapping_sweeps_window",
                "hm_num_illegal",
                "hm_num_no_resp_sweeps",
                "hm_num_no_resp_sweeps_window",
                "hm_num_reboots",
                "hm_num_set_err_sweeps",
                "hm_num_set_err_sweeps_window",
                "hm_num_traps",
                "hm_num_traps_period_secs",
                "hm_reboots_period_secs",
                "hm_unhealthy_ports_checks",
            ],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm writes the settings of IBA annex A10 alone, not NVIDIA's algorithms of congestion control",
            instead: "set those of annex A10 in section [congestion], or NVIDIA's by another tool",
        },
        Keys {
            asking: &[("mlnx_congestion_control", OFF)],
            tuning: &["congestion_control_policy_file", "ppcc_algo_dir"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm sets no VL buffers, and keeps the SL that a host asks for a group",
            instead: "keep NVIDIA's manager where traffic classes matter",
        },
        Keys {
            asking: &[
                ("override_create_mcg_sl", &["0xff"]),
                ("qos_config_vl_enabled", FALSE),
            ],
            tuning: &["enable_vl_packing", "use_optimized_port_mask_slvl"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm sets the VLs and the MTU of all links by one rule",
            instead: "see links.max_op_vls; rsm uses the largest MTU that both ends of a link have",
        },
        Keys {
            asking: &[
                ("max_neighbor_mtu", ZERO),
                ("max_op_vls_ca", ZERO),
                ("max_op_vls_rtr", ZERO),
                ("max_op_vls_sw", ZERO),
            ],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm leaves these vendor settings of ports as the devices have them",
            instead: "set them on the devices",
        },
        Keys {
            asking: &[
                ("adaptive_timeout_sl_mask", &["0xffff"]),
                ("force_link_speed_ext2", &["0", "7"]),
                ("mepi_enabled_speeds", &["1"]),
                ("mlnx_enhanced_link_enable", TRUE),
                ("support_mepi_speeds", TRUE),
                ("support_mlnx_enhanced_link", FALSE),
                ("suppress_mc_pkey_traps", OFF),
            ],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm picks the root and the parameters of each multicast group itself",
            instead: "create groups with other parameters in partitions.conf",
        },
        Keys {
            asking: &[
                ("consolidate_ipv4_mask", &["0xffffffff"]),
                ("default_mcg_mtu", ZERO),
                ("default_mcg_rate", ZERO),
                ("mc_primary_root_guid", ZERO),
                ("mc_roots_file", UNSET),
                ("mc_secondary_root_guid", ZERO),
                ("multicast_optimization", FALSE),
            ],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "the SA sends all reports that hosts subscribe to",
            instead: "none: a host that does not answer gets no more reports",
        },
        Keys {
            asking: &[("reports", &["1", "2"])],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "alias GUIDs follow rsm's own rules",
            instead: "see `rsmctl aliases`",
        },
        Keys {
            asking: &[
                ("aguid_inout_notice", FALSE),
                ("sm_assign_guid_func", &["uniq_count"]),
            ],
            tuning: &["aguid_default_hop_limit"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "the SA answers no path to another subnet, and routers get no alias GUIDs",
            instead: "keep NVIDIA's manager where InfiniBand routers join subnets",
        },
        Keys {
            asking: &[
                ("lids_per_rtr", ZERO),
                ("router_policy_enabled", FALSE),
                ("rtr_aguid_enable", OFF),
            ],
            tuning: &[
                "router_policy_file",
                "rtr_pr_flow_label",
                "rtr_pr_mtu",
                "rtr_pr_rate",
                "rtr_pr_sl",
                "rtr_pr_tclass",
                "rtr_selection_algo_parameters",
                "rtr_selection_function",
                "rtr_selection_seed",
            ],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm changes no firmware and no mode of switches",
            instead: "use the vendor's tools",
        },
        Keys {
            asking: &[("fabric_mode_profile", &["none"]), ("issu_mode", ZERO)],
            tuning: &[
                "fabric_mode_policy_file",
                "issu_pre_upgrade_time",
                "issu_timeout",
            ],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm loads no plugins",
            instead: "follow events with `rsmctl watch` or over gRPC",
        },
        Keys {
            asking: &[("plugin_name", UNSET)],
            tuning: &["plugin_options"],
        },
    ),
];
