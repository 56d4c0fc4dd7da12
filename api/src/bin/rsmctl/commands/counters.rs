use clap::Args;
use rsm_api::together::RELAY_ERRORS;
use rsm_proto::v1;

use super::series;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, per_second, port_of, timestamp};
use crate::time;

/// Performance counters of ports: traffic, and errors
#[derive(Debug, Args)]
#[command(
    after_help = "A `?` behind the time of a reading: it is old, the port has not been read since. A `+` behind a\ntotal: the hardware's counter is at its end.\n\nCORRECTED of --wide: symbols that error correction mends a second, of how many it can, and the\nblocks that it loses in an hour; read once an hour.\n\nWith --since, charts of the past that rsm keeps on its disk: of a port, of the ports of a node\ntogether, or of the fabric. A blank is a time without readings, the lowest bar is zero. Traffic is\nrounded to 1/64, errors are exact. Steps are never finer than the readings; older ones are coarser.\n\nExamples:\n  rsmctl counters\n  rsmctl counters leaf-03:7 --since 2h\n  rsmctl counters --since yesterday --step 15min\n  rsmctl counters leaf-03\n  rsmctl counters leaf-03:7 --format json"
)]
pub(crate) struct CountersArguments {
    /// Only the ports of this node, or only this port
    #[arg(add = of_nodes(), value_name = "NODE|NODE:PORT")]
    part: Option<String>,
    /// The past since this time: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// The past before this time
    #[arg(long, value_name = "TIME", requires = "since")]
    until: Option<String>,
    /// Length of a step of the past: 10s, 5min, 1h
    #[arg(long, value_name = "TIME", requires = "since", value_parser = time::seconds)]
    step: Option<u32>,
}

pub(crate) async fn run(
    arguments: CountersArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    if let Some(since) = &arguments.since {
        let request = v1::GetCounterSeriesRequest {
            since_unix_ms: time::parse(since).map_err(Failure::Usage)?,
            until_unix_ms: time::parse_optional(arguments.until.as_deref())?,
            part: arguments.part.unwrap_or_default(),
            step_seconds: arguments.step.unwrap_or_default(),
        };
        return series::run(request, session).await;
    }
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
            "+CORRECTED",
            "ERRORS",
        ],
        |port| {
            [
                port_of(&port.description, port.port.as_ref()),
                reading_time(&port),
                total(port.xmit_bytes),
                total(port.rcv_bytes),
                per_second(port.xmit_bytes_per_s),
                per_second(port.rcv_bytes_per_s),
                port.wait_share
                    .map_or_else(|| NONE.to_owned(), |share| format!("{share:.3}")),
                corrected(port.error_correction.as_ref()),
                errors(&port),
            ]
        },
    )
}

/// The time of the reading, followed by `?` if it is stale.
fn reading_time(port: &v1::PortCounters) -> String {
    let stale = if port.stale { "?" } else { "" };
    timestamp(port.read_unix_ms) + stale
}

fn total(count: Option<u64>) -> String {
    count.map_or_else(|| NONE.to_owned(), |count| count.to_string())
}

/// The text `1200/s of 1.0e8, 0 lost/h`, with a `+` if the counter of symbols is saturated.
fn corrected(correction: Option<&v1::ErrorCorrection>) -> String {
    let Some(correction) = correction else {
        return NONE.to_owned();
    };
    let full = if correction.full { "+" } else { "" };
    let (Some(rate), Some(lost)) = (correction.corrected_per_s, correction.lost_blocks_per_hour)
    else {
        return format!("{NONE}{full}");
    };
    let of = (correction.mendable_per_s).map_or_else(String::new, |most| format!(" of {most:.1e}"));
    format!("{rate:.0}/s{full}{of}, {lost:.0} lost/h")
}

/// The text `SymbolErrorCounter=40 (12/h)`, with a `+` after a total that is saturated, and with
/// the number in place of the rate if the time is short: `(1 in 15 s)`.
pub(super) fn errors(port: &v1::PortCounters) -> String {
    // Packets that a switch could not relay are no error of the cable: they come last.
    let (relay, own): (Vec<_>, Vec<_>) =
        (port.errors.iter()).partition(|error| error.name == RELAY_ERRORS);
    let shown = own.into_iter().chain(relay).map(|error| {
        let full = if error.full { "+" } else { "" };
        let v1::ErrorCounter {
            name,
            total,
            per_hour,
            ..
        } = error;
        format!("{name}={total}{full} ({})", port.error_rate(*per_hour))
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() {
        NONE.to_owned()
    } else {
        shown.join(" ")
    }
}
