//! Keys that only NVIDIA's manager has and rsm does not need.

use super::Topic;

pub(super) const TOPICS: &[Topic] = &[
    Topic::NotNeeded {
        why: "rsm uses all processors for plans, and threads of their own for the SA and the wire",
        keys: &[
            "gmp_threads",
            "gmp_traps_threads_num",
            "max_threads_per_core",
            "routing_threads_num",
            "smp_threads",
        ],
    },
    Topic::NotNeeded {
        why: "sweep.per_target limits the requests to one node, sweep.window those to all",
        keys: &["max_wire_smps_per_device"],
    },
    Topic::NotNeeded {
        why: "links.max_op_vls limits the VLs of links between switches as well; qos.sw2sw_max_vls of rsm limits theirs alone",
        keys: &["qos_sw2sw_max_vls"],
    },
    Topic::NotNeeded {
        why: "rsm repeats a request on another path if there is one, sweep.retries times",
        keys: &["max_alt_dr_path_retries", "max_seq_redisc"],
    },
    Topic::NotNeeded {
        why: "rsm computes and writes only what a change concerns, and reads tables back at its start",
        keys: &[
            "cache_ar_group_id",
            "enable_inc_mc_routing",
            "force_heavy_sweep_window",
            "get_mft_tables",
            "mepi_cache_enabled",
            "sweep_every_hup_signal",
        ],
    },
    Topic::NotNeeded {
        why: "the SA answers from the last plan while rsm routes, and the hosts with the most requests get BUSY",
        keys: &[
            "enable_queries_during_routing",
            "max_msg_fifo_len",
            "max_sa_reports_on_wire",
            "max_sa_reports_queued",
            "sa_pr_full_world_queries_allowed",
            "sa_rate_threshold",
        ],
    },
    Topic::NotNeeded {
        why: "subscriptions end some time after their port is gone or stops answering, and rsm keeps them over a restart",
        keys: &[
            "drop_subscr_on_report_fail",
            "drop_unreachable_event_subscriptions",
            "load_inform_info_from_sadb",
        ],
    },
    Topic::NotNeeded {
        why: "rsm logs to standard error and keeps a history of convergences: see `rsmctl history` and --log",
        keys: &[
            "activity_report_subjects",
            "enable_crashd",
            "enable_performance_logging",
            "osm_perflog_dump_limit",
            "osm_stats_dump_limit",
            "osm_stats_dump_per_sm_port",
            "osm_stats_interval",
            "syslog_log_flags",
            "verbose_bypass_policy_file",
        ],
    },
    Topic::NotNeeded {
        why: "dump.dir writes all files in OpenSM's formats, and state.dir keeps LIDs and registrations",
        keys: &[
            "dump_ar",
            "enable_subnet_lst",
            "ftree_ca_order_dump_file",
            "sa_db_dump_file",
            "sm_db_dump",
            "subnet_lst_file",
            "virt_dump_file",
        ],
    },
    Topic::NotNeeded {
        why: "the physical function has the limits of its port: give the GUID of the port a rule in qos.rate_limits_file",
        keys: &["enhanced_qos_vport0_unlimit_default_rl"],
    },
    Topic::NotNeeded {
        why: "rsm serves virtual ports by their GUIDs, gives paths to those that share a LID HopLimit 2, and paces its requests by itself",
        keys: &["virt_default_hop_limit", "virt_max_ports_in_process"],
    },
    Topic::NotNeeded {
        why: "rsm finds roots and ranks from the cables, or takes them from root_guid_file; `rsm plan` shows the result",
        keys: &[
            "calculate_missing_routes",
            "dfp_down_up_turns_mode",
            "dfp_find_roots_color_algorithm",
            "dfp_max_cas_on_spine",
            "dor_hyper_cube_mode",
            "find_roots_color_algorithm",
            "improved_lmc_path_distribution",
            "max_cas_on_spine",
            "pqft_structure",
            "routing_flags",
            "updn_lid_tracking_converge_routes",
            "updn_lid_tracking_mode",
            "updn_lid_tracking_prefer_total_routes",
            "use_scatter_for_switch_lid",
        ],
    },
    Topic::NotNeeded {
        why: "rsm takes load off the fullest links when nothing has changed for routing.rebalance_after_ms",
        keys: &["offsweep_balancing_enabled", "offsweep_balancing_window"],
    },
    Topic::NotNeeded {
        why: "links.bounce decides whether rsm takes a link down for its MTU and VLs; speeds apply when the link next trains",
        keys: &[
            "allow_sm_port_reset",
            "port_ame_bit_change_action",
            "port_ext_speed2_change_action",
            "port_ext_speed_change_action",
            "port_mepi_speed_change_action",
            "port_mtu_change_action",
            "port_speed_change_action",
            "port_vl_change_action",
        ],
    },
    Topic::NotNeeded {
        why: "rsm checks every answer, and remembers what a kind of device refuses",
        keys: &[
            "additional_gi_supporting_devices",
            "additional_mepi_force_devices",
            "disable_default_gi_support",
            "reply_lid_smps_in_dr",
            "respond_unknown_lid_traps",
            "validate_smps",
        ],
    },
    Topic::NotNeeded {
        why: "rsm sends ClientReregister when the link becomes Active, to hosts whose registrations are lost",
        keys: &["client_rereg_mode", "rereg_on_guid_migr"],
    },
];
