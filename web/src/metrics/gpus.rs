//! Metrics about the coverage and the ages of the inventories of GPU hosts.

use rsm_api::Gpus;

use super::text::Text;

/// Writes the number of hosts by inventory, and the ages of inventories.
pub(super) fn write(text: &mut Text, gpus: &dyn Gpus) {
    let status = rsm_api::gpu_status(gpus);
    let mut family = text.gauge(
        "rsm_gpu_hosts",
        "GPU hosts by the inventory that they have: their own, that of their machine type, none.",
    );
    for (inventory, hosts) in [
        ("own", status.own),
        ("machine-type", status.machine_type),
        ("none", status.without),
    ] {
        family.sample(&[("inventory", inventory)], hosts);
    }
    text.gauge(
        "rsm_gpu_hosts_stale",
        "GPU hosts without a report for longer than gpu.max_age_s.",
    )
    .sample(&[], status.stale);
    let mut family = text.gauge(
        "rsm_gpu_report_age_seconds",
        "Time since the last reports of GPU hosts: the median of all hosts, and the oldest.",
    );
    family.sample(&[("host", "median")], status.median_age_s);
    family.sample(&[("host", "oldest")], status.oldest_age_s);
    text.gauge(
        "rsm_gpu_names_taken_twice",
        "Names of GPU hosts under which a second machine reports, at most 16.",
    )
    .sample(&[], status.names_taken_twice.len());
}
