//! The past of the counters: charts of a part, and the ports that come first over a span.

use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{NONE, count, duration, or_none, per_second, port_of, timestamp};
use crate::time::minute;

/// The bars of a chart from zero to the highest value.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The minimum number of columns of a chart, even if the terminal is too narrow.
const MIN_CHART_WIDTH: usize = 10;

/// A rate of traffic, per second.
type Rate = fn(&v1::CountedTraffic) -> f64;

/// The rates of traffic, with their names in the table.
const RATES: [(&str, Rate); 5] = [
    ("sent bytes", |traffic| traffic.xmit_bytes_per_s),
    ("received bytes", |traffic| traffic.rcv_bytes_per_s),
    ("sent packets", |traffic| traffic.xmit_packets_per_s),
    ("received packets", |traffic| traffic.rcv_packets_per_s),
    ("PortXmitWait", |traffic| traffic.wait_ticks_per_s),
];

/// Asks for a series, and prints it.
pub(super) async fn run(
    request: v1::GetCounterSeriesRequest,
    session: &mut Session,
) -> Result<(), Failure> {
    let answer = session.counters().get_counter_series(request).await?;
    let series = answer.into_inner();
    if session.output.is_json() {
        return session.output.json(&series);
    }
    let part = match series.port.as_ref() {
        Some(_) => port_of(&series.description, series.port.as_ref()),
        None if series.description.is_empty() => "the fabric".to_owned(),
        None => series.description.clone(),
    };
    session.output.line(&format!(
        "{part} from {} to {}, in steps of {}",
        timestamp(series.since_unix_ms),
        timestamp(series.until_unix_ms),
        duration(u64::from(series.step_seconds) * 1000),
    ))?;
    print_if_past_begins_later(series.began_unix_ms, series.since_unix_ms, session)?;
    if series.steps.is_empty() {
        return session.output.line("Nothing was read in this span.");
    }
    for line in lines(&series, session.output.width()) {
        session.output.line(&line)?;
    }
    Ok(())
}

/// Prints when the past begins, if the span begins earlier. Times are in milliseconds since the
/// Unix epoch.
fn print_if_past_begins_later(
    began: u64,
    since: u64,
    session: &mut Session,
) -> Result<(), Failure> {
    match began > since {
        true => session.output.line(&format!(
            "The past of the counters begins at {}.",
            timestamp(began)
        )),
        false => Ok(()),
    }
}

/// A line of the table: a counter with its chart.
struct Row {
    name: String,
    per_s: String,
    total: String,
    highest: String,
    /// The value of each step of the chart; `None` for a step without readings.
    values: Vec<Option<f64>>,
}

/// The table, at most `width` wide if charts then have [`MIN_CHART_WIDTH`] columns. A chart has at
/// most a column for each step.
fn lines(series: &v1::GetCounterSeriesResponse, width: usize) -> Vec<String> {
    let rows = rows(series);
    let widest = |heading: &str, cell: fn(&Row) -> &String| {
        let cells = rows.iter().map(|row| cell(row).len());
        cells.chain([heading.len()]).max().unwrap_or(0)
    };
    let name = widest("COUNTER", |row| &row.name);
    let per_s = widest("PER_S", |row| &row.per_s);
    let total = widest("TOTAL", |row| &row.total);
    let highest = widest("HIGHEST", |row| &row.highest);
    let chart = width
        .saturating_sub(name + per_s + total + highest + 8)
        .max(MIN_CHART_WIDTH);
    let line = |cells: [&str; 4], chart: &str| {
        let [counter, mean, sum, most] = cells;
        let line =
            format!("{counter:name$}  {mean:>per_s$}  {sum:>total$}  {most:>highest$}  {chart}");
        line.trim_end().to_owned()
    };
    let span = format!(
        "{} to {}",
        minute(series.since_unix_ms),
        minute(series.until_unix_ms)
    );
    let mut lines = vec![span, line(["COUNTER", "PER_S", "TOTAL", "HIGHEST"], "")];
    lines.extend(rows.iter().map(|row| {
        let cells = [&row.name, &row.per_s, &row.total, &row.highest];
        line(cells.map(String::as_str), &bars(&row.values, chart))
    }));
    lines
}

/// The rows of traffic, then a row for each counter of errors in the series.
fn rows(series: &v1::GetCounterSeriesResponse) -> Vec<Row> {
    let step_ms = u64::from(series.step_seconds.max(1)) * 1000;
    let first = series.since_unix_ms - series.since_unix_ms % step_ms;
    let span = series.until_unix_ms.saturating_sub(first);
    // The server's limit of steps bounds this.
    let length = span.div_ceil(step_ms).max(1) as usize;
    let place = |step: &v1::CounterStep| {
        let after = step.start_unix_ms.saturating_sub(first) / step_ms;
        usize::try_from(after).ok().filter(|&at| at < length)
    };
    let steps = series.steps.iter();
    let placed: Vec<(usize, &v1::CounterStep)> = steps
        .filter_map(|step| Some((place(step)?, step)))
        .collect();
    let mut rows = Vec::new();
    for (name, rate_of) in RATES {
        let mut values = vec![None; length];
        for &(at, step) in &placed {
            values[at] = step.traffic.as_ref().map(rate_of);
        }
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let some = |value: f64| Some(value).filter(|_| !known.is_empty());
        rows.push(Row {
            name: name.to_owned(),
            per_s: per_second(some(mean)),
            total: NONE.to_owned(),
            highest: per_second(some(known.iter().copied().fold(0.0, f64::max))),
            values,
        });
    }
    let mut names: Vec<&str> = Vec::new();
    for error in series.steps.iter().flat_map(|step| &step.errors) {
        if !names.contains(&error.name.as_str()) {
            names.push(&error.name);
        }
    }
    for name in names {
        let mut values = vec![None; length];
        for &(at, step) in &placed {
            let errors = step.errors.iter().find(|error| error.name == name);
            values[at] = Some(errors.map_or(0, |errors| errors.count) as f64);
        }
        let known = || values.iter().copied().flatten();
        rows.push(Row {
            name: name.to_owned(),
            per_s: NONE.to_owned(),
            total: format!("{:.0}", known().sum::<f64>()),
            highest: format!("{:.0}", known().fold(0.0, f64::max)),
            values,
        });
    }
    rows
}

/// A chart of at most `width` columns. A column shows the highest value of its steps; a time
/// without readings is a blank.
fn bars(values: &[Option<f64>], width: usize) -> String {
    let highest = values.iter().copied().flatten().fold(0.0, f64::max);
    let together = values.len().div_ceil(width.max(1)).max(1);
    let columns = values.chunks(together).map(|values| {
        let known = values.iter().copied().flatten();
        match known.reduce(f64::max) {
            None => ' ',
            Some(value) if value <= 0.0 => BARS[0],
            // Each value above zero is above the lowest bar.
            Some(value) => BARS[((value / highest * 7.0).ceil() as usize).clamp(1, 7)],
        }
    });
    columns.collect()
}

/// Asks for the ports that come first over a span, and prints them.
pub(super) async fn top(
    request: v1::GetTopPortsSinceRequest,
    session: &mut Session,
) -> Result<(), Failure> {
    let is_of_errors = request.order() == v1::PortOrder::Errors;
    let answer = session.counters().get_top_ports_since(request).await?;
    let top = answer.into_inner();
    if session.output.is_json() {
        session.output.limited_by_server();
        return session.output.json(&top);
    }
    print_if_past_begins_later(top.began_unix_ms, top.since_unix_ms, session)?;
    let shown = top.ports.len();
    let mut rows = Rows::new(&match is_of_errors {
        true => [
            "PORT",
            "PEER",
            "+FIRST",
            "LAST",
            "ERRORS",
            "+>SENT_B/S",
            "+>RCVD_B/S",
            "+>WAIT/S",
        ],
        false => [
            "PORT",
            "PEER",
            ">SENT_B/S",
            ">RCVD_B/S",
            ">WAIT/S",
            "+FIRST",
            "+LAST",
            "+ERRORS",
        ],
    });
    for port in top.ports {
        let traffic = port.traffic.as_ref();
        let first = port.errors.iter().map(|errors| errors.first_unix_ms).min();
        let last = port.errors.iter().map(|errors| errors.last_unix_ms).max();
        let errors = port.errors.iter();
        let errors: Vec<String> = errors
            .map(|errors| format!("{}={}", errors.name, errors.count))
            .collect();
        let at = |time: Option<u64>| time.map_or_else(|| NONE.to_owned(), minute);
        let ports = [
            port_of(&port.description, port.port.as_ref()),
            port_of(&port.peer_description, port.peer.as_ref()),
        ];
        let errors = [at(first), at(last), or_none(&errors.join(" "))];
        let traffic = [
            per_second(traffic.map(|traffic| traffic.xmit_bytes_per_s)),
            per_second(traffic.map(|traffic| traffic.rcv_bytes_per_s)),
            per_second(traffic.map(|traffic| traffic.wait_ticks_per_s)),
        ];
        let [port, peer] = ports;
        let [a, b, c, d, e, f] = match (is_of_errors, errors, traffic) {
            (true, [a, b, c], [d, e, f]) | (false, [d, e, f], [a, b, c]) => [a, b, c, d, e, f],
        };
        rows.add([port, peer, a, b, c, d, e, f]);
    }
    session.output.only_table(rows)?;
    session.output.line(&format!(
        "{} to {}: {shown} of {}",
        timestamp(top.since_unix_ms),
        timestamp(top.until_unix_ms),
        count(top.total, "port", "ports")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_show_gaps_zeros_and_the_highest_value() {
        let values = [Some(0.0), None, Some(1.0), Some(100.0), Some(50.0)];
        assert_eq!(bars(&values, 80), "▁ ▂█▅");
        assert_eq!(bars(&values, 3), "▁█▅");
        assert_eq!(bars(&[Some(0.0), Some(0.0)], 80), "▁▁");
        assert_eq!(bars(&[None, None, None], 2), "  ");
    }

    #[test]
    fn table_has_a_row_for_each_error_counter_and_fits_its_width() {
        let step = |minute: u64, errors: u64| v1::CounterStep {
            start_unix_ms: minute * 60_000,
            ports: 1,
            traffic: Some(v1::CountedTraffic {
                xmit_bytes_per_s: 100.0 * minute as f64,
                ..v1::CountedTraffic::default()
            }),
            errors: vec![v1::CountedErrors {
                name: "SymbolErrorCounter".to_owned(),
                count: errors,
                ..v1::CountedErrors::default()
            }],
        };
        let series = v1::GetCounterSeriesResponse {
            steps: vec![step(1, 0), step(2, 7), step(240, 5)],
            step_seconds: 60,
            since_unix_ms: 60_000,
            until_unix_ms: 241 * 60_000,
            ..v1::GetCounterSeriesResponse::default()
        };
        let lines = lines(&series, 80);
        assert_eq!(lines.len(), 8);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{lines:#?}"
        );
        let errors: Vec<&str> = lines[7].split_whitespace().take(4).collect();
        assert_eq!(errors, ["SymbolErrorCounter", "-", "12", "7"]);
        assert!(lines[2].ends_with('█'), "{}", lines[2]);
    }
}
