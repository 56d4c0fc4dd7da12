use clap::Args;
use rsm_proto::v1;

use super::confirm::{self, Confirmation};
use super::whatif;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::operator::operator;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{NONE, count, timestamp};

/// Routes around switches, cables or hosts, and waits until they are safe to unplug
#[derive(Debug, Args)]
#[command(
    after_help = "Examples: rsmctl drain spine-02\n          rsmctl drain host-017\n          rsmctl drain leaf-03:33 leaf-03:34 --note 'new cables'"
)]
pub(crate) struct DrainArguments {
    /// The parts, drained together or not at all
    #[arg(add = of_nodes(), required = true, value_name = "NODE|NODE:PORT")]
    parts: Vec<String>,
    /// Drain them even if ports would be cut off without them
    #[arg(long, visible_alias = "yes")]
    force: bool,
    /// A note for other operators
    #[arg(long, default_value = "", value_name = "TEXT")]
    note: String,
}

pub(crate) async fn run(arguments: DrainArguments, session: &mut Session) -> Result<(), Failure> {
    let mut request = v1::DrainRequest {
        parts: arguments.parts,
        force: false,
        by: operator(),
        note: arguments.note,
    };
    let confirmation = Confirmation {
        yes: arguments.force,
    };
    session
        .output
        .note(&effect(session, &request.parts).await)?;
    let before = drained_parts(session).await?;
    let mut client = session.maintenance();
    let answer = confirm::send_confirmed(session, confirmation, async |accept_cut_off| {
        request.force = accept_cut_off;
        client.drain(request.clone()).await
    });
    let drained = answer.await?.drained;
    if session.output.is_json() {
        session.output.json(&drained)?;
    } else {
        let mut rows = Rows::plain(2);
        for part in &drained {
            // The record of an earlier drain stays.
            let by = match before.iter().any(|earlier| is_same(earlier, part)) {
                true => drained_by(part),
                false => String::new(),
            };
            rows.add([part.name.clone(), verdict(part) + &by]);
        }
        session.output.table(rows)?;
    }
    match drained_parts(session).await {
        Ok(now) => {
            for line in no_longer_safe(&before, &now) {
                session.output.note(&line)?;
            }
        }
        Err(_) => session
            .output
            .note("whether other drained parts are still safe: see `rsmctl drained`")?,
    }
    safe_to_unplug(&drained)
}

/// All drained parts.
pub(super) async fn drained_parts(session: &Session) -> Result<Vec<v1::DrainedPart>, Failure> {
    all_pages(v1::ListDrainedRequest::default(), async |request| {
        session.maintenance().list_drained(request).await
    })
    .await
}

/// Operator, time and note of the drain of a part.
pub(super) fn drained_by(part: &v1::DrainedPart) -> String {
    let note = match part.note.as_str() {
        "" => String::new(),
        note => format!(": {note}"),
    };
    let since = timestamp(part.since_unix_ms);
    format!("; drained by {} since {since}{note}", part.by)
}

/// Whether two messages are about the same part.
pub(super) fn is_same(one: &v1::DrainedPart, other: &v1::DrainedPart) -> bool {
    (&one.node_guid, one.port) == (&other.node_guid, other.port)
}

/// A line about each part that was safe to unplug `before` and is not `now`.
fn no_longer_safe(before: &[v1::DrainedPart], now: &[v1::DrainedPart]) -> Vec<String> {
    let was_safe = |part: &&v1::DrainedPart| {
        let earlier = before.iter().find(|earlier| is_same(earlier, part));
        earlier.is_some_and(|earlier| earlier.state() == v1::DrainState::Safe)
    };
    let is_unsafe = |part: &&v1::DrainedPart| {
        matches!(
            part.state(),
            v1::DrainState::Carrying | v1::DrainState::InUse
        )
    };
    let lost = now.iter().filter(was_safe).filter(is_unsafe);
    let line = |part: &v1::DrainedPart| {
        format!(
            "{} is NO LONGER safe to unplug{}",
            part.name,
            drained_by(part)
        )
    };
    lost.map(line).collect()
}

/// The effect of a drain before it is made: the links that hosts will share, with their load. Empty
/// if no host loses links, or if the server cannot say.
async fn effect(session: &Session, parts: &[String]) -> String {
    let request = v1::ForeseeLossRequest {
        parts: parts.to_vec(),
        ..v1::ForeseeLossRequest::default()
    };
    let answer = session.routing().foresee_loss(request).await;
    let found = answer.map(|answer| answer.into_inner().consequence.unwrap_or_default());
    let found = found.ok().filter(|found| !found.drain_effect.is_empty());
    found
        .and_then(|found| whatif::load_while_drained(&found))
        .unwrap_or_default()
}

/// A failure unless every part is safe to unplug, so that a script does not continue and cut the
/// power.
pub(super) fn safe_to_unplug(drained: &[v1::DrainedPart]) -> Result<(), Failure> {
    let is = |part: &v1::DrainedPart, states: &[v1::DrainState]| states.contains(&part.state());
    let is_in_use = |part| is(part, &[v1::DrainState::Carrying, v1::DrainState::InUse]);
    let is_safe = |part| is(part, &[v1::DrainState::Safe, v1::DrainState::Away]);
    match (drained.iter().any(is_in_use), drained.iter().all(is_safe)) {
        (true, _) => Err(Failure::Checked { fails: true }),
        (false, false) => Err(Failure::Checked { fails: false }),
        (false, true) => Ok(()),
    }
}

/// Whether a part may be unplugged, with the evidence.
fn verdict(part: &v1::DrainedPart) -> String {
    let evidence = format!(
        "{} looked at in {}",
        count(part.lids_checked, "LID", "LIDs"),
        count(part.tables_checked, "table", "tables")
    );
    match v1::DrainState::try_from(part.state) {
        Ok(v1::DrainState::Safe) => {
            format!("safe to unplug: no path of another node crosses it ({evidence})")
        }
        Ok(v1::DrainState::Carrying) => format!(
            "NOT safe to unplug: paths to {} cross it ({evidence}); those ports would be cut off",
            count(part.lids_over, "LID", "LIDs")
        ),
        Ok(v1::DrainState::InUse) => {
            "NOT safe to unplug: without it ports, or this subnet manager, would be cut off"
                .to_owned()
        }
        Ok(v1::DrainState::Away) => "not there".to_owned(),
        Ok(v1::DrainState::Changing) => {
            "NOT yet safe to unplug: not all tables are written; see `rsmctl drained`".to_owned()
        }
        Ok(v1::DrainState::Unspecified) | Err(_) => NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, state: v1::DrainState) -> v1::DrainedPart {
        v1::DrainedPart {
            name: name.to_owned(),
            node_guid: name.to_owned(),
            state: state.into(),
            by: "alice".to_owned(),
            note: "fans".to_owned(),
            ..v1::DrainedPart::default()
        }
    }

    #[test]
    fn parts_that_another_drain_makes_unsafe_are_named_with_their_operator() {
        let before = [
            part("spine-01", v1::DrainState::Safe),
            part("spine-02", v1::DrainState::Safe),
        ];
        let now = [
            part("spine-01", v1::DrainState::InUse),
            part("spine-02", v1::DrainState::Away),
            part("spine-03", v1::DrainState::Carrying),
        ];
        let lines = no_longer_safe(&before, &now);
        let [line] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert!(
            line.starts_with("spine-01 is NO LONGER safe to unplug; drained by alice since"),
            "{line}"
        );
        assert!(line.ends_with(": fans"), "{line}");
        assert_eq!(no_longer_safe(&now, &now), [""; 0]);
    }
}
