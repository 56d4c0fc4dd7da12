//! Stores unhealthy ports, one row for each port.

use std::time::Duration;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_monitor::health::{MAX_PORTS, SavedHealth, SavedIllness};
use rsm_store::{ChangeSet, Persisted};
use rsm_view::publish::UnixClock;

use super::table::{self, Rows};

/// Table of unhealthy ports. A key consists of a node GUID and a port.
const UNHEALTHY: &str = "unhealthy";

/// Largest size of a stored text, in bytes.
const TEXT_MAX: usize = 1024;

/// Decoded row.
struct Row {
    port: PortKey,
    /// Checksum of the limits.
    limits: u64,
    is_isolated: bool,
    illness: SavedIllness,
}

/// Unhealthy ports in the store that have not recovered by now. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted, clock: &dyn UnixClock) -> SavedHealth {
    let now = clock.now();
    let mut health = SavedHealth::default();
    let rows = table::read(persisted, UNHEALTHY, |key, value| {
        decode(key, value, now, clock.unix_ms(now))
    });
    for row in rows.into_iter().take(MAX_PORTS) {
        if row.illness.ends <= now {
            continue;
        }
        health.limits = row.limits;
        if row.is_isolated {
            health.isolated.insert(row.port);
        }
        health.ill.insert(row.port, row.illness);
    }
    health
}

/// Adds the changes after which `persisted` holds these unhealthy ports.
pub(super) fn changes(
    persisted: &Persisted,
    health: &SavedHealth,
    clock: &dyn UnixClock,
    changes: &mut ChangeSet,
) {
    let row = |(&port, illness): (&PortKey, &SavedIllness)| {
        let is_isolated = health.isolated.contains(&port);
        (
            key(port),
            encode(health.limits, is_isolated, illness, clock),
        )
    };
    let rows: Rows = health.ill.iter().map(row).collect();
    table::replace(persisted, UNHEALTHY, &rows, changes);
}

/// Key of a port.
fn key(port: PortKey) -> Vec<u8> {
    [&port.node.0.to_be_bytes()[..], &[port.port.0]].concat()
}

/// Encodes the time at which the port is healthy again (8 bytes, seconds since the Unix epoch), the
/// time for which it must be quiet (8, seconds), the checksum of the limits (8), the excess (8),
/// symptoms (4), number of times (4), isolated (1), and the text; big-endian.
fn encode(
    limits: u64,
    is_isolated: bool,
    illness: &SavedIllness,
    clock: &dyn UnixClock,
) -> Vec<u8> {
    // The end is stored in seconds, so that a restart does not rewrite rows for fractions of a
    // second.
    let ends = clock.unix_ms(illness.ends) / 1000;
    let mut value = ends.to_be_bytes().to_vec();
    value.extend(illness.quiet.as_secs().to_be_bytes());
    value.extend(limits.to_be_bytes());
    value.extend(illness.excess.to_bits().to_be_bytes());
    value.extend(illness.symptoms.to_be_bytes());
    value.extend(illness.times.to_be_bytes());
    value.push(u8::from(is_isolated));
    value.extend(table::cut(&illness.text, TEXT_MAX).as_bytes());
    value
}

/// Decodes a row; `None` if the row is invalid. `now_ms` is the time `now` since the Unix epoch.
fn decode(key: &[u8], value: &[u8], now: Time, now_ms: u64) -> Option<Row> {
    let (guid, port) = key.split_first_chunk()?;
    let &[port] = port else { return None };
    let port = PortKey::new(Guid(u64::from_be_bytes(*guid)), PortNum(port));
    let (ends, value) = value.split_first_chunk()?;
    let (quiet, value) = value.split_first_chunk()?;
    let (limits, value) = value.split_first_chunk()?;
    let (excess, value) = value.split_first_chunk()?;
    let (symptoms, value) = value.split_first_chunk()?;
    let (times, value) = value.split_first_chunk()?;
    let (&is_isolated, text) = value.split_first()?;
    let excess = f64::from_bits(u64::from_be_bytes(*excess));
    if !excess.is_finite() || text.len() > TEXT_MAX {
        return None;
    }
    let quiet = Duration::from_secs(u64::from_be_bytes(*quiet));
    let ends_ms = u64::from_be_bytes(*ends).checked_mul(1000)?;
    // After a clock was set back, a port must not stay ill for longer than after an error that
    // occurs now.
    let left = Duration::from_millis(ends_ms.saturating_sub(now_ms)).min(quiet);
    Some(Row {
        port,
        limits: u64::from_be_bytes(*limits),
        is_isolated: is_isolated != 0,
        illness: SavedIllness {
            text: String::from_utf8(text.to_vec()).ok()?,
            excess,
            symptoms: u32::from_be_bytes(*symptoms),
            times: u32::from_be_bytes(*times),
            quiet,
            ends: now + left,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rsm_store::Namespace;

    use super::*;

    /// Run that began this number of milliseconds after 1970.
    struct Run(u64);

    impl UnixClock for Run {
        fn now(&self) -> Time {
            Time::ZERO
        }

        fn unix_ms(&self, at: Time) -> u64 {
            self.0 + at.as_nanos() / 1_000_000
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn saved() -> SavedHealth {
        let illness = |text: &str, seconds| SavedIllness {
            text: text.to_owned(),
            excess: 1.5,
            symptoms: 3,
            times: 2,
            quiet: Duration::from_secs(1200),
            ends: at(seconds),
        };
        let port = |number| PortKey::new(Guid(7), PortNum(number));
        SavedHealth {
            limits: 99,
            ill: BTreeMap::from([
                (port(1), illness("", 600)),
                (port(2), illness("200 Fehler über dem Limit", 1200)),
            ]),
            isolated: BTreeSet::from([port(2)]),
        }
    }

    fn change(persisted: &Persisted, health: &SavedHealth, clock: &Run) -> ChangeSet {
        let mut changed = ChangeSet::new();
        changes(persisted, health, clock, &mut changed);
        changed
    }

    #[test]
    fn stored_ports_stay_unhealthy_as_long_as_without_the_restart() {
        let before = Run(1_800_000_000_000);
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &saved(), &before));
        assert!(change(&persisted, &saved(), &before).is_empty());
        // Ten minutes and a second later, only the second port is still ill.
        let after = restored(&persisted, &Run(before.0 + 601_000));
        let mut expected = saved();
        expected.ill.pop_first();
        expected
            .ill
            .values_mut()
            .for_each(|illness| illness.ends = at(599));
        assert_eq!(after, expected);
        // A clock that was set back by a year does not extend the time.
        let after = restored(&persisted, &Run(before.0 - 31_536_000_000));
        let longest = after.ill.values().map(|illness| illness.ends).max();
        assert_eq!(longest, Some(at(1200)));
        let later = restored(&persisted, &Run(before.0 + 86_400_000));
        assert_eq!(later, SavedHealth::default());
        persisted.apply(&change(&persisted, &SavedHealth::default(), &before));
        assert_eq!(persisted.len(), 0);
    }

    #[test]
    fn broken_rows_are_left_out() {
        let clock = Run(1_800_000_000_000);
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &saved(), &clock));
        let namespace = Namespace::new(UNHEALTHY).expect("a name");
        let mut broken = ChangeSet::new();
        let good = encode(
            99,
            true,
            &saved().ill[&PortKey::new(Guid(7), PortNum(1))],
            &clock,
        );
        let no_text = [&good[..41], &[0xff]].concat();
        let no_number = [&good[..24], &f64::NAN.to_bits().to_be_bytes(), &good[32..]].concat();
        let endless = [&[0xff; 8], &good[8..]].concat();
        let values: [&[u8]; 5] = [b"", &good[..40], &no_text, &no_number, &endless];
        for (number, value) in (10..).zip(values) {
            let key = key(PortKey::new(Guid(7), PortNum(number)));
            broken.set_record(&namespace, &key, value).expect("room");
        }
        broken
            .set_record(&namespace, b"short", &good)
            .expect("room");
        persisted.apply(&broken);
        assert_eq!(restored(&persisted, &clock), saved());
    }
}
