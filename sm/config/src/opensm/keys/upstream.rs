//! Keys of OpenSM without a counterpart in rsm.

use super::{Keys, Missing, Topic};

// Values with which a key requests no function. A key that is not set requests no function, either.
const UNSET: &[&str] = &[];
const FALSE: &[&str] = &["FALSE"];
const TRUE: &[&str] = &["TRUE"];
const ZERO: &[&str] = &["0"];

pub(super) const TOPICS: &[Topic] = &[
    Topic::NotNeeded {
        why: "rsm writes each line of its log at once; --log sets the level, by module too",
        keys: &[
            "force_log_flush",
            "log_flags",
            "log_prefix",
            "per_module_logging_file",
        ],
    },
    Topic::NotNeeded {
        why: "rsm runs in the foreground, and the service manager puts it in the background",
        keys: &["daemon"],
    },
    Topic::NotNeeded {
        why: "rsmctl replaces the console",
        keys: &["console", "console_port"],
    },
    Topic::NotNeeded {
        why: "rsm names what is wrong as a finding and goes on with the rest of the fabric",
        keys: &["exit_on_fatal", "suppress_sl2vl_mad_status_errors"],
    },
    Topic::NotNeeded {
        why: "rsm learns from each kind of device what it refuses, and sends that in another form",
        keys: &["enable_quirks"],
    },
    Topic::NotNeeded {
        why: "rsm adapts the number of requests in flight, up to sweep.window, and their time-outs to the answers",
        keys: &[
            "long_transaction_timeout",
            "max_smps_timeout",
            "max_wire_smps2",
        ],
    },
    Topic::NotNeeded {
        why: "the SA answers on a thread of its own from the last plan, and the hosts with the most requests get BUSY",
        keys: &["max_msg_fifo_timeout", "single_thread"],
    },
    Topic::NotNeeded {
        why: "rsm computes only what a change concerns, and `rsmctl sweep --full` reads everything",
        keys: &["force_heavy_sweep", "use_ucast_cache"],
    },
    Topic::NotNeeded {
        why: "rsm keeps the LIDs that ports hold and those of its store, with every role",
        keys: &["honor_guid2lid_file"],
    },
    Topic::NotNeeded {
        why: "OpenSM limits the VLs of links by max_op_vls alone, and gives this key no effect; qos.max_vls of rsm does limit them",
        keys: &[
            "qos_max_vls",
            "qos_ca_max_vls",
            "qos_rtr_max_vls",
            "qos_sw0_max_vls",
            "qos_swe_max_vls",
        ],
    },
    Topic::NotNeeded {
        why: "P_Keys keep their index",
        keys: &["keep_pkey_indexes"],
    },
    Topic::NotNeeded {
        why: "rsm's store is safe against a loss of power, and keeps registrations of hosts",
        keys: &["fsync_high_avail_files", "sa_db_dump"],
    },
    Topic::NotNeeded {
        why: "subscriptions end some time after their port is gone, and rsm keeps them over a restart",
        keys: &["drop_event_subscriptions"],
    },
    Topic::NotNeeded {
        why: "rsm tries the keys of sm.m_key_table_file and names ports that hold another (finding m-key-mismatch)",
        keys: &["m_key_lookup"],
    },
    Topic::NotNeeded {
        why: "rsm spreads routes evenly by itself, the same at every start",
        keys: &[
            "guid_routing_order_no_scatter",
            "port_profile_switch_nodes",
            "port_shifting",
            "quasi_ftree_indexing",
            "scatter_ports",
        ],
    },
    Topic::NotNeeded {
        why: "every two ports of hosts have a path, those at switches at the top of a tree as well",
        keys: &["max_reverse_hops"],
    },
    Topic::NotNeeded {
        why: "rsm has no LASH: `dfsssp` is its engine for shortest paths on several VLs, and picks the VLs itself",
        keys: &["do_mesh_analysis", "lash_start_vl"],
    },
    Topic::NotNeeded {
        why: "rsm follows redirections, reads capabilities first, forgets ports that leave, and has as many requests in flight as answers come for",
        keys: &[
            "perfmgr_max_outstanding_queries",
            "perfmgr_query_cpi",
            "perfmgr_redir",
            "perfmgr_rm_nodes",
        ],
    },
    Topic::NotNeeded {
        why: "counters are in `rsmctl counters`, `rsmctl top` and /metrics, errors and congestion included, and findings name links with errors",
        keys: &[
            "event_db_dump_file",
            "perfmgr_log_errors",
            "perfmgr_xmit_wait_log",
            "perfmgr_xmit_wait_threshold",
        ],
    },
    Topic::NotAvailable(
        Missing {
            lost: "rsm loads no plugins",
            instead: "follow events with `rsmctl watch` or over gRPC",
        },
        Keys {
            asking: &[("event_plugin_name", UNSET)],
            tuning: &["event_plugin_options"],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm spreads routes by numbers of ports, and searches them in no order",
            instead: "weigh ports in hop_weights_file, and look at the spread with `rsm plan`",
        },
        Keys {
            asking: &[("port_search_ordering_file", UNSET)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm finds the dimensions of a mesh from its cables",
            instead: "look at the plan with `rsm plan FILE --engine dor` first",
        },
        Keys {
            asking: &[("dimn_ports_file", UNSET)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm computes hops itself, and reads no matrix of them",
            instead: "name a dump of the routes themselves as lfts_file",
        },
        Keys {
            asking: &[("lid_matrix_dump_file", UNSET)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "engines do not treat these paths apart",
            instead: "look at the routes with `rsm plan` first",
        },
        Keys {
            asking: &[
                ("avoid_throttled_links", FALSE),
                ("nue_include_switches", FALSE),
            ],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "paths and groups name the rate of their links, which old drivers may not understand",
            instead: "update such hosts",
        },
        Keys {
            asking: &[
                ("max_rate_enum", &["22", "63"]),
                ("use_original_extended_sa_rates_only", FALSE),
            ],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm uses MulticastFDBTop where switches have it",
            instead: "nothing needs it: rsm reads the tables of other switches up to the last group",
        },
        Keys {
            asking: &[("use_mfttop", TRUE)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "rsm does not read the registrations of hosts from OpenSM's file",
            instead: "`rsm migrate` puts them into its store; without it every host registers anew once, when rsm takes over",
        },
        Keys {
            asking: &[("sa_db_file", UNSET)],
            tuning: &[],
        },
    ),
    Topic::NotAvailable(
        Missing {
            lost: "alias GUIDs that the SA makes begin with 0x0252534d, whatever this byte is",
            instead: "let hosts choose their alias GUIDs themselves",
        },
        Keys {
            asking: &[("sm_assigned_guid", ZERO)],
            tuning: &[],
        },
    ),
];
