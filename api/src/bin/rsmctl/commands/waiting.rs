//! Waits for the subnet manager, with progress on standard error.

use std::time::Duration;

use rsm_proto::v1;
use rsm_proto::v1::Stage;
use tonic::{Response, Status};

use crate::output::progress;
use crate::session::Session;
use crate::text::printable;

/// The time that an answer may take before the first line of progress.
const SILENT_TIME: Duration = Duration::from_millis(500);

/// The interval between two calls of GetActivity.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits for `answer`. Meanwhile, standard error gets a line for each change of the activity.
/// Ctrl-C cancels the request, because the connection closes with the process.
pub(super) async fn for_answer<T>(
    session: &Session,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Response<T>, Status> {
    tokio::pin!(answer);
    let mut pause = SILENT_TIME;
    let mut printed = String::new();
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            () = tokio::time::sleep(pause) => {}
        }
        pause = POLL_INTERVAL;
        let mut client = session.convergence();
        let request = v1::GetActivityRequest {};
        let activity = tokio::select! {
            answer = &mut answer => return answer,
            activity = client.get_activity(request) => activity,
        };
        // A server without GetActivity still answers the call for which the caller waits.
        let Some(activity) = activity
            .ok()
            .and_then(|answer| answer.into_inner().activity)
        else {
            continue;
        };
        let line = progress_line(&activity);
        if line != printed {
            progress(&printable(&line));
            printed = line;
        }
    }
}

/// The text `waiting: computing and proving routes (light sweep); then: requested`.
fn progress_line(activity: &v1::Activity) -> String {
    let mut line = format!("waiting: {}", under_way(activity));
    if !activity.next.is_empty() {
        line.push_str(&format!("; then: {}", activity.next));
    }
    line
}

/// The text `writing, 40 of about 400 Sets acknowledged (10 %), 14 unanswered (start)`.
pub(super) fn under_way(activity: &v1::Activity) -> String {
    let mut text = match Stage::try_from(activity.stage) {
        Ok(Stage::Sweeping) => format!(
            "sweeping, {} nodes found, {} of {} questions answered so far, {} requests under way",
            activity.nodes,
            activity.questions_settled,
            activity.questions_settled + activity.questions_open,
            activity.outstanding
        ),
        Ok(Stage::Planning) => "computing and proving routes".to_owned(),
        Ok(Stage::Pushing) => format!(
            "writing, {} of about {} Sets acknowledged ({} %), {} unanswered",
            activity.sets_acknowledged,
            activity.sets_expected,
            percent(activity.sets_acknowledged, activity.sets_expected),
            activity.outstanding
        ),
        Ok(Stage::Idle | Stage::Unspecified) | Err(_) => "nothing under way".to_owned(),
    };
    if !activity.cause.is_empty() {
        text.push_str(&format!(" ({})", activity.cause));
    }
    text
}

/// The percentage, rounded down: 100 only if everything is done.
fn percent(done: u64, all: u64) -> u64 {
    (u128::from(done) * 100)
        .checked_div(all.into())
        .map_or(0, |percent| percent as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_stage_its_cause_and_what_comes_next() {
        let mut activity = v1::Activity {
            stage: Stage::Sweeping.into(),
            cause: "light sweep".to_owned(),
            nodes: 312,
            outstanding: 14,
            questions_settled: 900,
            questions_open: 100,
            next: "requested".to_owned(),
            ..v1::Activity::default()
        };
        let expected = "waiting: sweeping, 312 nodes found, 900 of 1000 questions answered so far, \
                        14 requests under way (light sweep); then: requested";
        assert_eq!(progress_line(&activity), expected);
        activity.stage = Stage::Pushing.into();
        activity.sets_acknowledged = 40;
        activity.sets_expected = 399;
        activity.next.clear();
        let expected = "waiting: writing, 40 of about 399 Sets acknowledged (10 %), 14 unanswered \
                        (light sweep)";
        assert_eq!(progress_line(&activity), expected);
        let nothing = v1::Activity::default();
        assert_eq!(progress_line(&nothing), "waiting: nothing under way");
    }
}
