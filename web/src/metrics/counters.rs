//! Performance counters: sums over the fabric, and the counters of ports under the names and labels
//! of `infiniband_exporter`.
//!
//! Stale readings are left out. A sum over ports that come and go is not a counter, so sums are
//! gauges of rates.

use std::collections::BTreeMap;

use rsm_api::CountersQueries;
use rsm_api::model::{CountersState, PortTotals};
use rsm_ids::{Guid, PortNum};

use super::Shard;
use super::text::Text;
use crate::limits::MAX_ERROR_PORTS;

/// The unit of PortXmitData and PortRcvData, in bytes (IBA 16.1.3.5).
const WORD: u64 = 4;

/// A counter with its name in `infiniband_exporter`.
struct Named {
    /// The name in the specification.
    counter: &'static str,
    of_switch: &'static str,
    of_hca: &'static str,
    help: &'static str,
    /// Whether the counter counts errors. Symbols and blocks that error correction corrects are no
    /// errors: they occur at every port.
    is_error: bool,
}

macro_rules! named {
    ($($counter:literal, $name:literal, $is_error:literal, $help:literal;)+) => {
        const NAMED: &[Named] = &[$(Named {
            counter: $counter,
            of_switch: concat!("infiniband_switch_port_", $name, "_total"),
            of_hca: concat!("infiniband_hca_port_", $name, "_total"),
            help: $help,
            is_error: $is_error,
        }),+];
    };
}

named! {
    "PortXmitData", "transmit_data_bytes", false, "Bytes sent on all VLs";
    "PortRcvData", "receive_data_bytes", false, "Bytes received on all VLs";
    "PortXmitPkts", "transmit_packets", false, "Packets sent on all VLs";
    "PortRcvPkts", "receive_packets", false, "Packets received on all VLs";
    "PortUnicastXmitPkts", "unicast_transmit_packets", false, "Unicast packets sent";
    "PortUnicastRcvPkts", "unicast_receive_packets", false, "Unicast packets received";
    "PortMulticastXmitPkts", "multicast_transmit_packets", false, "Multicast packets sent";
    "PortMulticastRcvPkts", "multicast_receive_packets", false, "Multicast packets received";
    "PortXmitWait", "transmit_wait", false, "Ticks during which data waited without being sent";
    "SymbolErrorCounter", "symbol_error", true, "Minor link errors on one or more lanes";
    "LinkErrorRecoveryCounter", "link_error_recovery", true, "Successful recoveries of the link";
    "LinkDownedCounter", "link_downed", true, "Failed recoveries: the link went down";
    "PortRcvErrors", "receive_errors", true, "Packets received with an error";
    "PortRcvRemotePhysicalErrors", "receive_remote_physical_errors", true,
        "Packets received that another port had marked as bad";
    "PortRcvSwitchRelayErrors", "receive_switch_relay_errors", true,
        "Packets received that the switch could not relay";
    "PortXmitDiscards", "transmit_discards", true, "Packets dropped instead of being sent";
    "PortXmitConstraintErrors", "transmit_constraint_errors", true,
        "Packets not sent because of their partition or kind";
    "PortRcvConstraintErrors", "receive_constraint_errors", true,
        "Packets dropped at reception because of their partition or kind";
    "LocalLinkIntegrityErrors", "local_link_integrity_errors", true,
        "Times that local link errors passed their threshold";
    "ExcessiveBufferOverrunErrors", "excessive_buffer_overrun_errors", true,
        "Times that receive buffers overran for longer than their threshold";
    "VL15Dropped", "vl15_dropped", true, "SMPs dropped for lack of room";
    "QP1Dropped", "qp1_dropped", true, "Packets to QP 1 dropped for lack of room";
    "PortLocalPhysicalErrors", "local_physical_errors", true,
        "Packets received with physical errors, a cause of receive_errors";
    "PortMalformedPacketErrors", "malformed_packet_errors", true,
        "Malformed packets received, a cause of receive_errors";
    "PortBufferOverrunErrors", "buffer_overrun_errors", true,
        "Packets received without room for them, a cause of receive_errors";
    "PortDLIDMappingErrors", "dli_mapping_errors", true,
        "Packets received for an unknown DLID, a cause of receive_errors";
    "PortDLIDMappingErrors", "dlid_mapping_errors", true,
        "The name of dli_mapping_errors in SckyzO's fork";
    "PortVLMappingErrors", "vl_mapping_errors", true,
        "Packets received for VLs that the output lacks, a cause of receive_errors";
    "PortLoopingErrors", "looping_errors", true,
        "Packets received that would leave by the same port, a cause of receive_errors";
    "PortInactiveDiscards", "inactive_discards", true,
        "Packets dropped because the output port was down, a cause of transmit_discards";
    "PortNeighborMTUDiscards", "neighbor_mtu_discards", true,
        "Packets dropped as larger than the neighbor's MTU, a cause of transmit_discards";
    "PortSwLifetimeLimitDiscards", "switch_lifetime_limit_discards", true,
        "Packets dropped after the switch lifetime limit, a cause of transmit_discards";
    "PortSwHOQLifetimeLimitDiscards", "switch_hoq_lifetime_limit_discards", true,
        "Packets dropped after the limit at the head of the queue, a cause of transmit_discards";
    "SyncHeaderErrorCounter", "sync_header_errors", true, "Blocks whose header was damaged";
    "UnknownBlockCounter", "unknown_blocks", true, "Blocks of control of an unknown type";
    "PortFECCorrectableBlockCtr", "fec_correctable_blocks", false,
        "Blocks that forward error correction has mended";
    "PortFECUncorrectableBlockCtr", "fec_uncorrectable_blocks", true,
        "Blocks with more errors than forward error correction mends";
    "PortFECCorrectedSymbolCtr", "fec_corrected_symbols", false,
        "Symbols that forward error correction has mended";
}

/// The samples of the counters by index in [`NAMED`], for switches and for other nodes.
#[derive(Default)]
struct Families([BTreeMap<usize, Vec<Sample>>; 2]);

/// The value of a counter at a port: port GUID, as `ibnetdiscover` gives it, port number, value.
type Sample = (Guid, PortNum, u64);

impl Families {
    fn add(&mut self, port: &PortTotals<'_>, mut is_wanted: impl FnMut(&Named, u64) -> bool) {
        let families = &mut self.0[usize::from(!port.is_switch)];
        for &(counter, total) in port.totals.iter().chain(port.causes) {
            let value = match counter {
                "PortXmitData" | "PortRcvData" => total.saturating_mul(WORD),
                _ => total,
            };
            let sample = (port.guid, port.port.number, value);
            for (place, named) in NAMED.iter().enumerate() {
                if named.counter == counter && is_wanted(named, total) {
                    families.entry(place).or_default().push(sample);
                }
            }
        }
    }

    fn write(self, text: &mut Text) {
        for (kind, families) in self.0.into_iter().enumerate() {
            for (place, samples) in families {
                let named = &NAMED[place];
                let name = [named.of_switch, named.of_hca][kind];
                let mut family = text.counter(name, named.help);
                for (guid, number, value) in samples {
                    let (guid, number) = (guid.to_string(), number.to_string());
                    family.sample(&[("guid", &guid), ("port", &number)], value);
                }
            }
        }
    }
}

/// Sums over the ports of switches, or of adapters and routers.
#[derive(Default)]
struct Sums {
    ports: u64,
    /// Bytes per second sent.
    xmit: f64,
    /// Bytes per second received.
    rcv: f64,
    /// The number of ports at which data waits for more than a tenth of the time.
    congested: u64,
    /// Errors per hour by counter.
    errors: BTreeMap<&'static str, f64>,
    /// The number of ports that count errors.
    with_errors: u64,
}

/// The share of time above which a port counts as congested.
const CONGESTED: f64 = 0.1;

impl Sums {
    fn add(&mut self, port: &PortTotals<'_>) {
        self.ports += 1;
        self.xmit += port.xmit_bytes_per_s.unwrap_or(0.0);
        self.rcv += port.rcv_bytes_per_s.unwrap_or(0.0);
        self.congested += u64::from(port.wait_share.is_some_and(|share| share > CONGESTED));
        for &(counter, rate) in port.errors_per_hour {
            *self.errors.entry(counter).or_default() += rate;
        }
        self.with_errors += u64::from(!port.errors_per_hour.is_empty());
    }
}

const KINDS: [&str; 2] = ["switch", "hca"];

/// Writes whether counters are read, and sums over the fabric; with `has_errors` also the nonzero
/// error counters of ports. Beyond [`MAX_ERROR_PORTS`], only ports that are counting errors at the
/// time are included.
pub(super) fn sums(text: &mut Text, counters: &dyn CountersQueries, has_errors: bool) {
    collection(text, &counters.state());
    let mut sums = [Sums::default(), Sums::default()];
    let mut errors = has_errors.then(Errors::default);
    counters.each_port(&mut |port| {
        sums[usize::from(!port.is_switch)].add(&port);
        if let Some(errors) = &mut errors {
            errors.add(&port);
        }
    });
    write_sums(text, &sums);
    if let Some(errors) = errors {
        errors.write(text);
    }
}

/// The nonzero error counters.
#[derive(Default)]
struct Errors {
    families: Families,
    /// The number of ports in `families`.
    shown: u64,
    /// The number of ports with errors that are not in `families`.
    left_out: u64,
}

impl Errors {
    fn add(&mut self, port: &PortTotals<'_>) {
        let is_wanted = |named: &Named, total: u64| named.is_error && total > 0;
        let mut totals = port.totals.iter().chain(port.causes);
        let has_errors = totals.any(|&(counter, total)| {
            total > 0
                && NAMED
                    .iter()
                    .any(|named| named.counter == counter && is_wanted(named, total))
        });
        if !has_errors {
            return;
        }
        if self.shown < MAX_ERROR_PORTS || !port.errors_per_hour.is_empty() {
            self.shown += 1;
            self.families.add(port, is_wanted);
        } else {
            self.left_out += 1;
        }
    }

    fn write(self, text: &mut Text) {
        text.gauge(
            "rsm_error_ports_left_out",
            "Ports with error counters that are not zero, left out here: detail=ports has them.",
        )
        .sample(&[], self.left_out);
        self.families.write(text);
    }
}

fn write_sums(text: &mut Text, sums: &[Sums; 2]) {
    let kinds = || KINDS.into_iter().zip(sums);
    let mut family = text.gauge(
        "rsm_traffic_bytes_per_second",
        "Bytes a second at all ports with counters, by kind of node and direction.",
    );
    for (kind, sum) in kinds() {
        family.sample(&[("kind", kind), ("direction", "transmit")], sum.xmit);
        family.sample(&[("kind", kind), ("direction", "receive")], sum.rcv);
    }
    let mut family = text.gauge(
        "rsm_congested_ports",
        "Ports whose data waited more than a tenth of the time without being sent.",
    );
    for (kind, sum) in kinds() {
        family.sample(&[("kind", kind)], sum.congested);
    }
    let mut family = text.gauge(
        "rsm_error_ports",
        "Ports that counted errors in the last ten to twenty minutes.",
    );
    for (kind, sum) in kinds() {
        family.sample(&[("kind", kind)], sum.with_errors);
    }
    let mut family = text.gauge(
        "rsm_errors_per_hour",
        "Errors in an hour at all ports, over the last ten to twenty minutes.",
    );
    for (kind, sum) in kinds() {
        for (counter, rate) in &sum.errors {
            family.sample(&[("kind", kind), ("counter", counter)], rate);
        }
    }
}

fn collection(text: &mut Text, state: &CountersState) {
    text.gauge(
        "rsm_counters_collecting",
        "Whether this subnet manager reads performance counters.",
    )
    .sample(&[], u8::from(state.is_collecting));
    let mut family = text.gauge(
        "rsm_counters_ports",
        "Ports by whether the last reading of their counters holds.",
    );
    family.sample(&[("state", "read")], state.ports);
    family.sample(&[("state", "stale")], state.stale_ports);
    let mut family = text.gauge(
        "rsm_counters_agents",
        "Agents of performance management by whether they answer.",
    );
    let answering = state.agents.saturating_sub(state.silent_agents);
    family.sample(&[("state", "answers")], answering);
    family.sample(&[("state", "silent")], state.silent_agents);
    text.counter(
        "rsm_counters_requests_total",
        "Requests for performance counters, repetitions included.",
    )
    .sample(&[], state.requests);
    let mut family = text.counter(
        "rsm_counters_results_total",
        "Results of requests for performance counters.",
    );
    for (result, count) in state.results {
        family.sample(&[("result", result)], count);
    }
    text.counter(
        "rsm_counters_resets_total",
        "Readings in which a counter was lower than before: another program reset it.",
    )
    .sample(&[], state.resets);
    text.gauge(
        "rsm_counters_behind_seconds",
        "How long the most overdue agent has been waiting for its turn.",
    )
    .sample(&[], state.behind.as_secs_f64());
}

/// Writes all counters of each port in a shard of the nodes.
pub(super) fn ports(text: &mut Text, counters: &dyn CountersQueries, shard: Shard) {
    let mut families = Families::default();
    counters.each_port(&mut |port| {
        if shard.has(port.port.node) {
            families.add(&port, |_, _| true);
        }
    });
    families.write(text);
}

#[cfg(test)]
mod tests {
    use rsm_api::model::PortId;

    use super::*;

    #[test]
    fn names_match_infiniband_exporter_and_are_unique() {
        let mut names: Vec<&str> = NAMED.iter().map(|named| named.of_switch).collect();
        assert!(names.contains(&"infiniband_switch_port_transmit_data_bytes_total"));
        assert!(names.contains(&"infiniband_switch_port_dli_mapping_errors_total"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMED.len());
    }

    #[test]
    fn data_counters_are_in_bytes_and_the_error_filter_omits_zeros() {
        let totals = [
            ("PortXmitData", 10),
            ("SymbolErrorCounter", 3),
            ("PortRcvErrors", 0),
        ];
        let port = PortTotals {
            port: PortId {
                node: rsm_ids::Guid(7),
                number: rsm_ids::PortNum(2),
            },
            guid: Guid(8),
            is_switch: false,
            totals: &totals,
            causes: &[],
            xmit_bytes_per_s: None,
            rcv_bytes_per_s: None,
            wait_share: None,
            use_share: None,
            errors_sum: 0.0,
            errors_per_hour: &[],
        };
        let written = |is_wanted: fn(&Named, u64) -> bool| {
            let (mut text, mut families) = (Text::new(), Families::default());
            families.add(&port, is_wanted);
            families.write(&mut text);
            let text = text.finish();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(str::to_owned).collect::<Vec<String>>()
        };
        let labels = "{guid=\"0x0000000000000008\",port=\"2\"}";
        let data = format!("infiniband_hca_port_transmit_data_bytes_total{labels} 40");
        let symbols = format!("infiniband_hca_port_symbol_error_total{labels} 3");
        let rcv = format!("infiniband_hca_port_receive_errors_total{labels} 0");
        assert_eq!(written(|_, _| true), [data, symbols.clone(), rcv]);
        assert_eq!(
            written(|named, total| named.is_error && total > 0),
            [symbols]
        );
    }
}
