//! The whole system: in simulation (`sim_*`), next to real peers (`peers_*`), as an operator runs
//! it (`managed_*`), and after crashes (`crash_*`).

mod crash_sa;
mod docs;
mod fuzz;
mod managed_counters;
mod managed_events;
#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures, and says so"
)]
mod managed_gpu_agents;
mod managed_gpus;
mod managed_history;
mod managed_names;
mod managed_pause;
mod managed_questions;
mod managed_ufm;
mod managed_web;
mod peers_alike;
mod peers_bringup;
mod peers_config;
mod peers_counters;
mod peers_dry_run;
mod peers_election;
mod peers_etcd;
mod peers_harness;
mod peers_ibdmchk;
mod peers_link;
mod peers_loss;
mod peers_migrate;
mod peers_multicast;
mod peers_osmtest;
mod peers_osmtest_whole;
mod peers_partitions;
mod peers_preload;
mod peers_qos;
mod peers_real_fabrics;
mod peers_restart;
mod peers_routes;
mod peers_saquery;
mod peers_shared;
mod peers_slurm;
mod peers_standby;
#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it measures, and says so"
)]
mod peers_web;
mod sim_bringup;
#[allow(clippy::print_stdout, reason = "it measures, and says so")]
mod sim_capabilities;
mod sim_deltas;
mod sim_devices;
mod sim_drain;
mod sim_dry_run;
mod sim_election;
mod sim_engine;
mod sim_guids;
mod sim_harness;
mod sim_health;
mod sim_hosts;
mod sim_lanes;
mod sim_lids;
mod sim_links;
mod sim_loss;
mod sim_m_key;
mod sim_managers;
mod sim_missing;
mod sim_multicast;
mod sim_oddities;
mod sim_order;
mod sim_overlay;
mod sim_partitions;
mod sim_power;
mod sim_push_order;
mod sim_qos;
mod sim_rebalance;
mod sim_refusals;
mod sim_refused;
mod sim_relink;
mod sim_restart;
mod sim_sa;
mod sim_seeds;
mod sim_standby;
mod sim_takeover;
