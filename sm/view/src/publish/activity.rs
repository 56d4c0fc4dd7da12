//! Progress of the pass under way, in the form of the API.

use std::time::Duration;

use rsm_api::v1;
use rsm_mad::Time;
use rsm_state::{Activity, PassProgress};

/// Converts the progress of a pass at `now`. The controller fills in the number of waiting callers.
pub(super) fn of(progress: PassProgress, now: Time) -> v1::Activity {
    let running = progress
        .since
        .map_or(Duration::ZERO, |since| now.since(since));
    let pause = progress
        .not_before
        .map(|when| when.since(now))
        .filter(|pause| !pause.is_zero());
    let next = match pause {
        Some(pause) if !progress.next.is_empty() => {
            format!("{}, in {:.1} s", progress.next, pause.as_secs_f64())
        }
        _ => progress.next,
    };
    let mut shown = v1::Activity {
        stage: v1::Stage::Idle.into(),
        cause: progress.cause,
        running_ms: u64::try_from(running.as_millis()).unwrap_or(u64::MAX),
        nodes: progress.nodes as u64,
        outstanding: progress.outstanding as u64,
        next,
        ..v1::Activity::default()
    };
    match progress.activity {
        Activity::Idle => {}
        Activity::Planning => shown.stage = v1::Stage::Planning.into(),
        Activity::Sweeping { settled, open, .. } => {
            shown.stage = v1::Stage::Sweeping.into();
            shown.questions_settled = settled as u64;
            shown.questions_open = open as u64;
        }
        Activity::Pushing { done, expected } => {
            shown.stage = v1::Stage::Pushing.into();
            shown.sets_acknowledged = done as u64;
            shown.sets_expected = expected as u64;
        }
    }
    shown
}
