use clap::Args;
use rsm_proto::v1;

use super::drain::{drained_by, drained_parts, is_same};
use super::waiting;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;

/// Uses drained parts again, and waits until the routes do
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl undrain spine-02")]
pub(crate) struct UndrainArguments {
    /// The parts
    #[arg(add = of_nodes(), required = true, value_name = "NODE|NODE:PORT")]
    parts: Vec<String>,
}

pub(crate) async fn run(arguments: UndrainArguments, session: &mut Session) -> Result<(), Failure> {
    let before = drained_parts(session).await?;
    let request = v1::UndrainRequest {
        parts: arguments.parts,
    };
    let mut client = session.maintenance();
    let answer = waiting::for_answer(session, client.undrain(request)).await?;
    let answer = answer.into_inner();
    let now = drained_parts(session)
        .await
        .unwrap_or_else(|_| before.clone());
    for part in ended_drains(&before, &now) {
        let by = drained_by(part);
        session.output.note(&format!("{}{by}", part.name))?;
    }
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    let mut rows = Rows::new(&[">USED AGAIN"]);
    rows.add([answer.undrained.to_string()]);
    session.output.table(rows)
}

/// The parts that were drained `before` and are not `now`.
fn ended_drains<'a>(
    before: &'a [v1::DrainedPart],
    now: &[v1::DrainedPart],
) -> impl Iterator<Item = &'a v1::DrainedPart> {
    before
        .iter()
        .filter(move |part| !now.iter().any(|still| is_same(still, part)))
}
