//! Finds ports whose corrected errors grow, and will exceed the rate that the code can correct.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_monitor::correction::{CorrectionTrend, HOLD_TIME, Hour, WINDOW};
use rsm_monitor::counters::CountersSnapshot;
use rsm_past::{CorrectedStep, PastReader, Span};
use rsm_store::StoreError;

/// Time between two examinations in milliseconds, which is also the time between two readings of
/// error correction.
const INTERVAL_MS: u64 = 3_600_000;

/// Time from the first readings to the first examination in milliseconds: long enough to read all
/// ports of a fabric.
const FIRST_AFTER_MS: u64 = 10_000;

/// Maximum number of ports that are examined: the ports that correct most. A port that gets worse
/// is among them before its errors exceed the rate that the code can correct.
const MAX_PORTS: usize = 4096;

/// Maximum number of ports with findings of their own: the ports that will lose packets first. One
/// more finding counts the others.
const MAX_NAMED: usize = 64;

/// Factor by which the time until packets are lost must change before a finding's text is updated.
const UPDATE_FACTOR: f64 = 1.5;

/// Error correction of a port, as last read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Watched {
    port: PortKey,
    /// Symbols per second that the code can correct.
    mendable_per_s: f64,
    /// Corrected symbols as a share of `mendable_per_s`; 0 if unknown.
    share: f64,
    /// Whether the counter of corrected symbols has reached its maximum and stays there.
    is_full: bool,
}

/// A trend that a finding reports.
#[derive(Clone, PartialEq, Debug)]
struct ReportedTrend {
    /// The trend when the text was written.
    rise: CorrectionTrend,
    /// See [`Watched::is_full`].
    is_full: bool,
    /// Text of the finding.
    text: String,
    /// Time at which the trend was last seen, in milliseconds since the Unix epoch.
    seen_unix_ms: u64,
}

/// Ports whose errors grow.
#[derive(Default, Debug)]
pub(super) struct Rises {
    reported: BTreeMap<PortKey, ReportedTrend>,
    /// Time of the next examination, in milliseconds since the Unix epoch; `None` before the first
    /// readings.
    due_unix_ms: Option<u64>,
}

impl Rises {
    /// Whether an examination is due: an hour after the last examination, or [`FIRST_AFTER_MS`]
    /// after the first call.
    pub(super) fn is_due(&mut self, now_unix_ms: u64) -> bool {
        let due = *self.due_unix_ms.get_or_insert(now_unix_ms + FIRST_AFTER_MS);
        // A clock that was set back does not delay the next examination.
        now_unix_ms >= due || due - now_unix_ms > INTERVAL_MS
    }

    /// Examines the past of `ports`. Returns the findings in force.
    ///
    /// # Errors
    /// The past cannot be read.
    pub(super) fn examine(
        &mut self,
        ports: &[Watched],
        past: &PastReader,
        fabric: &Fabric,
        now_unix_ms: u64,
    ) -> Result<Vec<Finding>, StoreError> {
        self.due_unix_ms = Some(now_unix_ms + INTERVAL_MS);
        let keys: BTreeSet<PortKey> = ports.iter().map(|watched| watched.port).collect();
        let window_ms = WINDOW.as_millis() as u64;
        let span = Span {
            since_unix_ms: now_unix_ms.saturating_sub(window_ms),
            until_unix_ms: now_unix_ms.saturating_add(1),
        };
        let corrected = past.corrected(&keys, span, INTERVAL_MS)?;
        let none = BTreeMap::new();
        for watched in ports {
            let steps = corrected.get(&watched.port).unwrap_or(&none);
            self.update_trend(watched, steps, fabric, now_unix_ms);
        }
        self.reported.retain(|port, _| keys.contains(port));
        Ok(self.findings())
    }

    /// Adds, updates or withdraws the trend of a port. `steps` are the port's corrections in the
    /// past, by the start of the hour in milliseconds since the Unix epoch.
    fn update_trend(
        &mut self,
        watched: &Watched,
        steps: &BTreeMap<u64, CorrectedStep>,
        fabric: &Fabric,
        now_unix_ms: u64,
    ) {
        let hours = steps.iter().map(|(&start_unix_ms, step)| Hour {
            start_unix_ms,
            symbols: step.symbols,
            went_down: step.link_downs > 0,
        });
        let hours: Vec<Hour> = hours.collect();
        let &Watched {
            port,
            mendable_per_s,
            is_full,
            ..
        } = watched;
        let Some(rise) = CorrectionTrend::of(&hours, mendable_per_s, now_unix_ms, is_full) else {
            let lasts_ms = HOLD_TIME.as_millis() as u64;
            let down = hours.iter().rfind(|hour| hour.went_down);
            let down_unix_ms = down.map_or(0, |hour| hour.start_unix_ms + INTERVAL_MS);
            if let Some(reported) = self.reported.get(&port)
                && (reported.seen_unix_ms + lasts_ms < now_unix_ms
                    || reported.seen_unix_ms < down_unix_ms)
            {
                self.reported.remove(&port);
            }
            return;
        };
        let before = self.reported.get_mut(&port);
        if let Some(reported) = before
            && reported.is_full == is_full
            && are_close(reported.rise.reaches, rise.reaches)
        {
            reported.seen_unix_ms = now_unix_ms;
            return;
        }
        let reported = ReportedTrend {
            rise,
            is_full,
            text: text(fabric, watched, &rise),
            seen_unix_ms: now_unix_ms,
        };
        self.reported.insert(port, reported);
    }

    /// The findings of all reported trends, most urgent first.
    fn findings(&self) -> Vec<Finding> {
        let mut reported: Vec<(&PortKey, &ReportedTrend)> = self.reported.iter().collect();
        reported.sort_by_key(|&(&port, reported)| (reported.rise.reaches, port));
        let named = reported.iter().take(MAX_NAMED).map(|&(&port, reported)| {
            let (kind, subject) = (FindingKind::ErrorCorrection, Subject::Port(port));
            Finding::new(kind, subject, Severity::Warning, reported.text.clone())
        });
        let mut findings: Vec<Finding> = named.collect();
        if let Some(more @ 1..) = reported.len().checked_sub(MAX_NAMED) {
            let text = format!(
                "{more} more ports correct ever more errors of their links: `rsmctl counters --wide` shows what each corrects"
            );
            let kind = FindingKind::ErrorCorrection;
            findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
        }
        findings
    }
}

/// Whether two times are so close that a finding need not be updated.
fn are_close(one: Duration, other: Duration) -> bool {
    let (short, long) = (one.min(other).as_secs_f64(), one.max(other).as_secs_f64());
    long <= short * UPDATE_FACTOR
}

/// Ports that correct many errors or whose counter is full, at most [`MAX_PORTS`].
pub(super) fn watched(counters: &CountersSnapshot, now: Time) -> Vec<Watched> {
    let mut ports: Vec<Watched> = Vec::new();
    for port in counters.ports(None) {
        let Some(corrected) = port.reading.corrected() else {
            continue;
        };
        let is_relevant = corrected.is_watched() || corrected.is_full();
        if is_relevant && corrected.mendable_per_s > 0.0 && !counters.is_stale(&port, now) {
            ports.push(Watched {
                port: port.key,
                mendable_per_s: corrected.mendable_per_s.into(),
                share: corrected.share().unwrap_or(0.0),
                is_full: corrected.is_full(),
            });
        }
    }
    if ports.len() > MAX_PORTS {
        ports.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.port.cmp(&b.port)));
        ports.truncate(MAX_PORTS);
    }
    ports
}

/// Text of the finding about a port.
fn text(fabric: &Fabric, watched: &Watched, rise: &CorrectionTrend) -> String {
    let port = fabric.port_name(watched.port);
    let at = fabric.find_port(watched.port);
    let peer = at.and_then(|at| fabric.port(at).peer);
    let cabled = peer.map_or_else(
        || "without a cable now".to_owned(),
        |peer| format!("cabled to {}", fabric.port_name(peer)),
    );
    let share = percent(rise.share);
    let per_s = rise.share * watched.mendable_per_s;
    let tenfold = in_words(rise.tenfold);
    let reaches = match rise.reaches {
        Duration::ZERO => "it has reached that, and packets get lost".to_owned(),
        reaches => format!(
            "at this rate it reaches that in {}, and packets get lost from then on",
            in_words(reaches)
        ),
    };
    let full = match watched.is_full {
        true => " (so it was before its counter came to its end)",
        false => "",
    };
    format!(
        "{port}, {cabled}, has ever more errors of its link: error correction mends {per_s:.0} symbols a second, \
         {share} of what it can, and ten times as many every {tenfold}{full}; {reaches}; clean or replace the cable"
    )
}

/// The text `0.03 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent {
        1.0.. => 0,
        0.1.. => 1,
        0.01.. => 2,
        _ => 3,
    };
    format!("{percent:.digits$} %")
}

/// A time in hours, or in days from two days on.
fn in_words(time: Duration) -> String {
    let hours = (time.as_secs_f64() / 3600.0).round().max(1.0);
    match hours {
        ..1.5 => "an hour".to_owned(),
        ..48.0 => format!("{hours:.0} hours"),
        _ => format!("{:.0} days", hours / 24.0),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rsm_ids::{Guid, PortNum};
    use rsm_past::{Bounds, Counts, Past, Quantity, Reading};
    use rsm_store::io::Disk;

    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOON: u64 = 1_800_000_000_000 / HOUR * HOUR;
    const MENDABLE: f64 = 1e8;
    const PORT: PortKey = PortKey::new(Guid(7), PortNum(3));

    fn past(dir: &Path) -> Past {
        let bounds = Bounds {
            days: 30,
            bytes: 1 << 30,
        };
        Past::open(dir, Disk::new(), bounds).unwrap()
    }

    /// Writes a reading of one hour. The port corrects 10 to the power of `decades` of the errors
    /// that the code can correct, and its link goes down `downs` times.
    fn write(past: &mut Past, port: PortKey, hour: u64, decades: f64, downs: u64) {
        let mut counts = Counts::default();
        counts[Quantity::FecCorrectedSymbols] = (10f64.powf(decades) * MENDABLE * 3600.0) as u64;
        counts[Quantity::LinkDowned] = downs;
        let at_unix_ms = NOON + hour * HOUR + HOUR / 2;
        let reading = Reading {
            port,
            is_switch: true,
            since_unix_ms: Some(at_unix_ms - HOUR),
            at_unix_ms,
            counts,
        };
        past.add(&mut [reading]).unwrap();
    }

    fn watched(port: PortKey) -> Watched {
        Watched {
            port,
            mendable_per_s: MENDABLE,
            share: 1e-3,
            is_full: false,
        }
    }

    /// Examines the ports at the end of an hour.
    fn examine(rises: &mut Rises, past: &mut Past, ports: &[Watched], hour: u64) -> Vec<Finding> {
        past.flush().unwrap();
        let now = NOON + (hour + 1) * HOUR;
        let fabric = Fabric::default();
        rises.examine(ports, &past.reader(), &fabric, now).unwrap()
    }

    #[test]
    fn port_whose_errors_grow_has_a_finding_days_before_it_loses_packets() {
        let dir = tempfile::tempdir().unwrap();
        let (mut past, mut rises) = (past(dir.path()), Rises::default());
        let flat = PortKey::new(Guid(7), PortNum(4));
        let mut reported = None;
        for hour in 0..120 {
            write(&mut past, PORT, hour, -5.0 + hour as f64 / 30.0, 0);
            write(&mut past, flat, hour, -1.5, 0);
            let ports = [watched(PORT), watched(flat)];
            let findings = examine(&mut rises, &mut past, &ports, hour);
            if let (None, [finding]) = (&reported, &findings[..]) {
                reported = Some((hour, finding.clone()));
            }
            assert!(
                findings
                    .iter()
                    .all(|one| one.subject == Subject::Port(PORT))
            );
        }
        let (hour, finding) = reported.expect("a finding");
        assert!(hour < 36, "{hour}");
        assert_eq!(finding.kind, FindingKind::ErrorCorrection);
        assert!(
            finding
                .text
                .contains("at this rate it reaches that in 6 days"),
            "{}",
            finding.text
        );
        assert!(
            finding.text.contains("ten times as many every 30 hours"),
            "{}",
            finding.text
        );
        // The text was updated when the time until packets are lost had changed much.
        assert!(
            rises.reported[&PORT].text.contains("in 2 days")
                || rises.reported[&PORT].text.contains("hours,")
        );
    }

    #[test]
    fn finding_stays_while_the_counter_is_full_and_goes_after_the_cable_was_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (mut past, mut rises) = (past(dir.path()), Rises::default());
        for hour in 0..48 {
            write(&mut past, PORT, hour, -5.0 + hour as f64 / 24.0, 0);
        }
        assert_eq!(
            examine(&mut rises, &mut past, &[watched(PORT)], 47).len(),
            1
        );
        let full = Watched {
            is_full: true,
            share: 0.0,
            ..watched(PORT)
        };
        for hour in 48..60 {
            let findings = examine(&mut rises, &mut past, &[full], hour);
            assert!(
                findings[0]
                    .text
                    .contains("before its counter came to its end")
            );
        }
        write(&mut past, PORT, 60, -2.0, 1);
        assert_eq!(examine(&mut rises, &mut past, &[watched(PORT)], 60), []);
    }

    #[test]
    fn ended_trend_is_withdrawn_after_a_day_and_the_trend_of_an_absent_port_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut past, mut rises) = (past(dir.path()), Rises::default());
        for hour in 0..48 {
            write(&mut past, PORT, hour, -5.0 + hour as f64 / 24.0, 0);
        }
        let begun = examine(&mut rises, &mut past, &[watched(PORT)], 47);
        assert_eq!(begun.len(), 1);
        let mut ended = 0;
        for hour in 48..120 {
            write(&mut past, PORT, hour, -3.0, 0);
            if examine(&mut rises, &mut past, &[watched(PORT)], hour).is_empty() {
                ended = hour;
                break;
            }
        }
        assert!((70..100).contains(&ended), "{ended}");
        let mut rises = Rises::default();
        examine(&mut rises, &mut past, &[watched(PORT)], 47);
        assert_eq!(examine(&mut rises, &mut past, &[], 48), []);
    }

    #[test]
    fn first_examination_waits_until_the_ports_of_a_fabric_are_read() {
        let mut rises = Rises::default();
        assert!(!rises.is_due(NOON) && !rises.is_due(NOON + FIRST_AFTER_MS - 1));
        assert!(rises.is_due(NOON + FIRST_AFTER_MS));
    }

    #[test]
    fn examinations_are_an_hour_apart_even_after_the_clock_was_set_back() {
        let mut rises = Rises {
            due_unix_ms: Some(NOON),
            ..Rises::default()
        };
        assert!(rises.is_due(NOON) && !rises.is_due(NOON - 1));
        assert!(rises.is_due(NOON - 2 * HOUR));
    }

    #[test]
    fn ports_beyond_the_maximum_are_counted_in_one_more_finding() {
        let dir = tempfile::tempdir().unwrap();
        let (mut past, mut rises) = (past(dir.path()), Rises::default());
        let ports: Vec<PortKey> = (1..=70)
            .map(|one| PortKey::new(Guid(one), PortNum(1)))
            .collect();
        for hour in 0..48 {
            for &port in &ports {
                write(&mut past, port, hour, -5.0 + hour as f64 / 24.0, 0);
            }
        }
        let watched: Vec<Watched> = ports.iter().map(|&port| watched(port)).collect();
        let findings = examine(&mut rises, &mut past, &watched, 47);
        assert_eq!(findings.len(), MAX_NAMED + 1);
        assert!(findings[MAX_NAMED].text.starts_with("6 more ports"));
    }
}
