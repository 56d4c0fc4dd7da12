//! Tests of the totals, rates and error windows of one port.

use super::*;

#[test]
fn readings_of_a_port_take_at_most_144_bytes() {
    assert!(
        size_of::<PortReading>() <= 144,
        "{}",
        size_of::<PortReading>()
    );
    assert!(
        size_of::<ErrorState>() <= 336,
        "{}",
        size_of::<ErrorState>()
    );
}

#[test]
fn each_counter_counts_either_traffic_or_errors() {
    for counter in Counter::ALL {
        assert_ne!(
            traffic_index(counter).is_some(),
            error_index(counter).is_some(),
            "{counter}"
        );
    }
    assert_eq!(ERROR_INDICES.iter().flatten().max(), Some(&(ERRORS - 1)));
}

const MINUTE: Duration = Duration::from_secs(60);

/// A sample with these values and zero for all other counters, as a device with narrow (32-bit) or
/// wide counters answers.
fn sample(values: &[(Counter, u64)], is_narrow: bool) -> Sample {
    let mut sample = Sample::default();
    for counter in Counter::ALL {
        if !is_narrow || counter.narrow_max().is_some() {
            sample.present.set(counter, true);
            sample.narrow.set(counter, is_narrow);
        }
    }
    for &(counter, value) in values {
        sample.values[counter] = value;
    }
    sample
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

#[test]
fn first_reading_gives_neither_rates_nor_error_rates() {
    let mut port = PortReading::default();
    port.set_link(1e10, 0.0);
    let first = sample(
        &[(Counter::XmitData, 1000), (Counter::SymbolError, 70)],
        false,
    );
    port.record(&first, NarrowEnd::Unknown, at(10));
    assert_eq!(port.rates(), None);
    assert_eq!(port.total(Counter::SymbolError), Some(70));
    assert_eq!(port.errors().map(|rates| rates.sum()), Some(0.0));
    let second = sample(
        &[
            (Counter::XmitData, 2500),
            (Counter::SymbolError, 70),
            (Counter::XmitWait, 5_000_000_000),
        ],
        false,
    );
    port.record(&second, NarrowEnd::Unknown, at(20));
    let rates = port.rates().unwrap();
    assert_eq!(rates.xmit_bytes, 600.0);
    assert_eq!(rates.wait_share, Some(0.2));
    assert_eq!(port.errors().map(|rates| rates.sum()), Some(0.0));
    assert_eq!(port.xmit_bytes(), Some(10_000));
}

#[test]
fn counter_that_decreases_gives_no_rate_and_keeps_its_total() {
    let mut port = PortReading::default();
    let record = |port: &mut PortReading, data, packets, errors, now| {
        let values = [
            (Counter::RcvData, data),
            (Counter::RcvPkts, packets),
            (Counter::RcvErrors, errors),
        ];
        port.record(&sample(&values, false), NarrowEnd::Unknown, at(now))
    };
    record(&mut port, 5_000, 50, 9, 0);
    assert!(record(&mut port, 100, 1, 2, 60).reset);
    assert_eq!(port.rates(), None);
    assert!(port.was_reset());
    assert_eq!(port.total(Counter::RcvData), Some(5_100));
    assert_eq!(port.total(Counter::RcvErrors), Some(11));
    assert!(!record(&mut port, 700, 3, 2, 120).reset);
    assert_eq!(port.rates().unwrap().rcv_bytes, 40.0);
    assert_eq!(port.total(Counter::RcvData), Some(5_700));
    assert_eq!(port.total(Counter::RcvErrors), Some(11));
}

#[test]
fn narrow_data_counter_that_wraps_continues_its_total() {
    let mut port = PortReading::default();
    port.set_link(1e6, 0.0);
    let near_maximum = NARROW_SPAN - 100;
    let values = |data, packets| {
        let values = [(Counter::XmitData, data), (Counter::XmitPkts, packets)];
        sample(&values, true)
    };
    port.record(&values(near_maximum, 10), NarrowEnd::Unknown, at(0));
    let result = port.record(&values(50, 20), NarrowEnd::Unknown, at(10));
    assert_eq!(result.narrow_end, Some(NarrowEnd::Wraps));
    assert!(!result.reset);
    assert_eq!(port.total(Counter::XmitData), Some(NARROW_SPAN + 50));
    assert_eq!(port.rates().unwrap().xmit_bytes, 60.0);
    // If all counters are lower, that is a reset, even if one was near its maximum.
    port.record(&values(near_maximum, 30), NarrowEnd::Wraps, at(20));
    let result = port.record(&values(5, 1), NarrowEnd::Wraps, at(30));
    assert!(result.reset && port.rates().is_none());
}

#[test]
fn narrow_counter_at_its_maximum_has_no_rate_until_it_is_reset() {
    let mut port = PortReading::default();
    port.set_link(1e6, 0.0);
    let values = |data, packets| {
        let values = [(Counter::XmitData, data), (Counter::XmitPkts, packets)];
        sample(&values, true)
    };
    let maximum = NARROW_SPAN - 1;
    port.record(&values(7, 1), NarrowEnd::Unknown, at(0));
    port.record(&values(maximum, 5), NarrowEnd::Unknown, at(10));
    assert!(port.is_full(Counter::XmitData) && port.rates().is_none());
    let result = port.record(&values(maximum, 9), NarrowEnd::Unknown, at(20));
    assert_eq!(result.narrow_end, Some(NarrowEnd::Stays));
    assert!(port.is_full(Counter::XmitData) && port.rates().is_none());
    assert!(port.record(&values(100, 2), NarrowEnd::Stays, at(30)).reset);
    port.record(&values(200, 3), NarrowEnd::Stays, at(40));
    assert!(!port.is_full(Counter::XmitData));
    assert_eq!(port.rates().unwrap().xmit_bytes, 40.0);
    assert_eq!(port.total(Counter::XmitData), Some(maximum + 200));
}

#[test]
fn narrow_data_counters_of_a_fast_link_give_no_rate_unless_they_stop_at_their_maximum() {
    let mut port = PortReading::default();
    // At 400 Gb/s, a narrow data counter wraps every third of a second.
    port.set_link(5e10, 0.0);
    let values = |data| sample(&[(Counter::XmitData, data)], true);
    port.record(&values(7), NarrowEnd::Unknown, at(0));
    port.record(&values(9), NarrowEnd::Unknown, at(30));
    assert_eq!(port.rates(), None);
    // Counters that stop at their maximum show whether they have reached it.
    port.record(&values(11), NarrowEnd::Stays, at(60));
    assert!(port.rates().is_some());
}

#[test]
fn error_rate_is_zero_after_two_windows_without_errors() {
    let mut port = PortReading::default();
    let values = |errors| sample(&[(Counter::SymbolError, errors)], false);
    port.record(&values(0), NarrowEnd::Unknown, at(0));
    port.record(&values(1), NarrowEnd::Unknown, at(5));
    let one = port.errors().unwrap().cautious(Counter::SymbolError);
    assert_eq!(one, 12.0, "one error in five minutes");
    let mut now = at(5);
    for minute in 1..=10 {
        now += MINUTE;
        port.record(&values(1 + 60 * minute), NarrowEnd::Unknown, now);
    }
    let busy = port.errors().unwrap().per_hour(Counter::SymbolError);
    assert!((3500.0..=3700.0).contains(&busy), "{busy}");
    for _ in 0..21 {
        now += MINUTE;
        port.record(&values(601), NarrowEnd::Unknown, now);
    }
    assert_eq!(port.errors().unwrap().sum(), 0.0);
    assert_eq!(port.total(Counter::SymbolError), Some(601));
}

#[test]
fn first_error_rates_refer_to_the_time_observed() {
    let mut port = PortReading::default();
    let values = |errors| sample(&[(Counter::SymbolError, errors)], false);
    port.record(&values(0), NarrowEnd::Unknown, at(0));
    assert_eq!(port.errors(), None);
    for second in (10..=900).step_by(10) {
        // Five errors a second.
        port.record(&values(5 * second), NarrowEnd::Unknown, at(second));
        let rates = port.errors().unwrap();
        assert_eq!(rates.per_hour(Counter::SymbolError), 18_000.0, "{second}");
        assert_eq!(rates.observed(), Duration::from_secs(second));
    }
    let mut with_new_cable = port.clone();
    with_new_cable.forget_former_cable();
    let rates = with_new_cable.errors().unwrap();
    assert_eq!((rates.sum(), rates.observed()), (0.0, Duration::ZERO));
}

#[test]
fn errors_since_a_time_are_counted_from_a_window_that_began_later_if_there_is_one() {
    let mut port = PortReading::default();
    let values = |errors| sample(&[(Counter::SymbolError, errors)], false);
    port.record(&values(5), NarrowEnd::Unknown, at(0));
    assert_eq!(
        port.errors_since(at(0))
            .unwrap()
            .count(Counter::SymbolError),
        0
    );
    port.record(&values(55), NarrowEnd::Unknown, at(600));
    port.record(&values(62), NarrowEnd::Unknown, at(700));
    let recent = port.errors_since(at(300)).unwrap();
    assert_eq!(
        (recent.from, recent.count(Counter::SymbolError)),
        (at(600), 7)
    );
    // Without errors in the later window, the count is that of the earlier window.
    port.record(&values(62), NarrowEnd::Unknown, at(1300));
    let recent = port.errors_since(at(1200)).unwrap();
    assert_eq!(
        (recent.from, recent.count(Counter::SymbolError)),
        (at(600), 7)
    );
}

#[test]
fn error_rate_is_zero_after_the_cable_is_replaced() {
    let mut port = PortReading::default();
    let values = |errors| sample(&[(Counter::LinkDowned, errors)], false);
    port.record(&values(0), NarrowEnd::Unknown, at(0));
    port.record(&values(9), NarrowEnd::Unknown, at(60));
    assert!(port.errors().unwrap().sum() > 0.0);
    port.forget_former_cable();
    assert_eq!(port.errors().unwrap().sum(), 0.0);
    assert_eq!(port.total(Counter::LinkDowned), Some(9));
}

#[test]
fn counters_that_a_device_lacks_are_none() {
    let mut port = PortReading::default();
    assert_eq!(port.total(Counter::XmitData), None);
    port.record(&sample(&[], true), NarrowEnd::Unknown, at(0));
    assert_eq!(port.total(Counter::XmitData), Some(0));
    assert_eq!(port.total(Counter::UnicastXmitPkts), None);
}
