//! Keys that tutorials mention although no manager reads them, each with the intended key.

pub(super) const KEYS: &[(&str, &str)] = &[
    (
        "ar_enable",
        "`routing_engine ar_updn` of NVIDIA's manager; rsm routes statically",
    ),
    (
        "ar_threshold",
        "`ar_tree_asymmetric_flow_threshold` of NVIDIA's manager; rsm routes statically",
    ),
    (
        "cache_file",
        "`use_ucast_cache`; rsm keeps its state in state.dir",
    ),
    (
        "f_rebalance",
        "`offsweep_balancing_enabled` of NVIDIA's manager; here routing.rebalance_after_ms",
    ),
    ("log_level", "`log_flags`; here the option --log"),
    ("priority", "`sm_priority`; here sm.priority"),
    (
        "sharp_enable",
        "`sharp_enabled` of NVIDIA's manager, here sm.aggregation_nodes",
    ),
];
