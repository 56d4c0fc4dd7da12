use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, port_of, timestamp};

/// Performance counters of ports: traffic, and errors
#[derive(Debug, Args)]
#[command(
    after_help = "A `?` behind the time of a reading: it is old, the port has not been read since. A `+` behind a\ntotal: the hardware's counter is at its end.\n\nExamples:\n  rsmctl counters\n  rsmctl counters leaf-03\n  rsmctl counters leaf-03:7 --format json"
)]
pub(crate) struct CountersArguments {
    /// Only the ports of this node, or only this port
    #[arg(add = of_nodes(), value_name = "NODE|NODE:PORT")]
    part: Option<String>,
}

pub(crate) async fn run(
    arguments: CountersArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let ports = all_pages(
        v1::ListPortCountersRequest {
            part: arguments.part.unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.counters().list_port_counters(request).await,
    )
    .await?;
    session.output.list(
        ports,
        [
            "PORT",
            "+READ",
            "+>SENT_B",
            "+>RCVD_B",
            ">SENT_B/S",
            ">RCVD_B/S",
            ">WAIT",
            "ERRORS",
        ],
        |port| {
            [
                port_of(&port.description, port.port.as_ref()),
                read(&port),
                total(port.xmit_bytes),
                total(port.rcv_bytes),
                rate(port.xmit_bytes_per_s),
                rate(port.rcv_bytes_per_s),
                port.wait_share
                    .map_or_else(|| NONE.to_owned(), |share| format!("{share:.3}")),
                errors(&port.errors),
            ]
        },
    )
}

/// The time of the reading, followed by `?` if it is stale.
fn read(port: &v1::PortCounters) -> String {
    let stale = if port.stale { "?" } else { "" };
    timestamp(port.read_unix_ms) + stale
}

fn total(count: Option<u64>) -> String {
    count.map_or_else(|| NONE.to_owned(), |count| count.to_string())
}

pub(super) fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| NONE.to_owned(), |rate| format!("{rate:.0}"))
}

/// The text `SymbolErrorCounter=40 (12/h)`, with a `+` after a total that is saturated.
pub(super) fn errors(errors: &[v1::ErrorCounter]) -> String {
    let shown = errors.iter().map(|error| {
        let full = if error.full { "+" } else { "" };
        let v1::ErrorCounter {
            name,
            total,
            per_hour,
            ..
        } = error;
        format!("{name}={total}{full} ({per_hour:.0}/h)")
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() {
        NONE.to_owned()
    } else {
        shown.join(" ")
    }
}
