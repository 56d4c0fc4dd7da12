use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{NONE, nanoseconds};

/// Requests of hosts to the SA, and the latency of its answers
#[derive(Debug, Args)]
#[command(
    after_help = "Numbers count from the start of rsm. A latency is the time from the moment when the SA reads a\nrequest from the device until it hands the answer to the port; `below` is exact to an eighth.\n\nExample: rsmctl sa --format json | jq .busy"
)]
pub(crate) struct SaArguments {}

pub(crate) async fn run(_: SaArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetSaCountersRequest {};
    let mut client = session.sa();
    let answer = client.get_sa_counters(request).await?;
    let counters = answer.into_inner().counters.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&counters);
    }
    let mut rows = Rows::new(&["ATTRIBUTE", "METHOD", ">REQUESTS"]);
    for requests in &counters.requests {
        let count = requests.count.to_string();
        rows.add([requests.attribute.clone(), requests.method.clone(), count]);
    }
    session.output.table(rows)?;
    session.output.line("")?;
    let mut rows = Rows::new(&["STATUS", ">ANSWERS"]);
    for answers in &counters.answers {
        rows.add([answers.status.clone(), answers.count.to_string()]);
    }
    session.output.table(rows)?;
    session.output.line("")?;
    let latencies = counters.latencies.clone().unwrap_or_default();
    session.output.table(summary(&counters, &latencies))
}

fn summary(counters: &v1::SaCounters, latencies: &v1::Latencies) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    row("Latency", distribution(latencies));
    row("Told BUSY", counters.busy.to_string());
    row("Dropped", counters.dropped.to_string());
    row("Not sent", counters.failed.to_string());
    row("Ignored", counters.ignored.to_string());
    row("Wrong SM_Keys", counters.wrong_keys.to_string());
    row(
        "Traps of unknown ports",
        counters.unknown_issuers.to_string(),
    );
    row("Not served", counters.unserved.to_string());
    rows
}

/// The text for latencies: `mean 3.1 µs; 50 % below 2.8 µs, 99 % below 20 µs, all below 1.3 ms`.
fn distribution(latencies: &v1::Latencies) -> String {
    if latencies.count == 0 {
        return NONE.to_owned();
    }
    let below = |share: f64| match quantile(latencies, share) {
        Some(bound) => format!("below {}", nanoseconds(bound)),
        None => "beyond what is told apart".to_owned(),
    };
    format!(
        "mean {}; 50 % {}, 99 % {}, 99.9 % {}, all {}",
        nanoseconds(latencies.sum_ns / latencies.count),
        below(0.5),
        below(0.99),
        below(0.999),
        below(1.0)
    )
}

/// The bound in nanoseconds below which `share` of the answers (0 to 1) stayed; `None` if it is in
/// the unbounded bucket.
pub(super) fn quantile(latencies: &v1::Latencies, share: f64) -> Option<u64> {
    let wanted = (latencies.count as f64 * share).ceil() as u64;
    let mut seen = 0;
    let at = latencies.buckets.iter().find(|bucket| {
        seen += bucket.count;
        seen >= wanted
    });
    at.map(|bucket| bucket.below_ns).filter(|&bound| bound != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_states_bounds_unless_they_are_in_the_unbounded_bucket() {
        let bucket = |below_ns, count| v1::LatencyBucket { below_ns, count };
        let latencies = v1::Latencies {
            count: 1000,
            sum_ns: 5_000_000,
            buckets: vec![bucket(4_096, 600), bucket(20_480, 395), bucket(0, 5)],
        };
        let expected = "mean 5.0 µs; 50 % below 4.1 µs, 99 % below 20.5 µs, \
                        99.9 % beyond what is told apart, all beyond what is told apart";
        assert_eq!(distribution(&latencies), expected);
        assert_eq!(distribution(&v1::Latencies::default()), "-");
    }
}
