use std::time::Duration;

use rsm_proto::v1;

use crate::model::{Activity, Convergence, SmpCounts, Stage, Timing};

/// Milliseconds to the microsecond: more digits would be noise.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl From<Timing> for v1::Timing {
    fn from(timing: Timing) -> Self {
        v1::Timing {
            discover: milliseconds(timing.discover),
            plan: milliseconds(timing.plan),
            push: milliseconds(timing.push),
            total: milliseconds(timing.total),
        }
    }
}

impl From<SmpCounts> for v1::SmpCounts {
    fn from(smps: SmpCounts) -> Self {
        v1::SmpCounts {
            get: smps.get,
            set: smps.set,
            retries: smps.retries,
            timeouts: smps.timeouts,
        }
    }
}

impl From<Convergence> for v1::Convergence {
    fn from(convergence: Convergence) -> Self {
        v1::Convergence {
            sequence: convergence.sequence,
            generation: convergence.generation,
            cause: convergence.cause,
            finished_unix_ms: convergence.finished_unix_ms,
            timing_ms: Some(convergence.timing.into()),
            smps: Some(convergence.smps.into()),
            lft_blocks: convergence.lft_blocks,
            ports_activated: convergence.ports_activated,
            complete: convergence.complete,
            mft_blocks: convergence.mft_blocks,
            whole: convergence.whole,
        }
    }
}

impl From<Stage> for v1::Stage {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Idle => v1::Stage::Idle,
            Stage::Sweeping => v1::Stage::Sweeping,
            Stage::Planning => v1::Stage::Planning,
            Stage::Pushing => v1::Stage::Pushing,
        }
    }
}

impl From<Activity> for v1::Activity {
    fn from(activity: Activity) -> Self {
        v1::Activity {
            stage: v1::Stage::from(activity.stage).into(),
            cause: activity.cause,
            running_ms: u64::try_from(activity.running.as_millis()).unwrap_or(u64::MAX),
            nodes: activity.nodes,
            outstanding: activity.outstanding,
            sets_acknowledged: activity.sets_acknowledged,
            next: activity.next,
            callers: activity.callers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_to_the_microsecond() {
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.235);
        assert_eq!(milliseconds(Duration::from_secs(2)), 2000.0);
        assert_eq!(milliseconds(Duration::ZERO), 0.0);
    }
}
