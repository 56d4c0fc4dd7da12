use clap::Args;
use rsm_proto::v1;

use super::{history, waiting};
use crate::failure::Failure;
use crate::session::Session;

/// Starts a sweep, and waits for its convergence
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl sweep --full")]
pub(crate) struct SweepArguments {
    /// Read everything anew, rather than only the parts that may have changed
    #[arg(long)]
    full: bool,
    /// Also write every forwarding table anew, even where switches hold it, and turn off adaptive
    /// routing that another subnet manager left on
    #[arg(long)]
    rewrite: bool,
}

pub(crate) async fn run(arguments: SweepArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::ResweepRequest {
        full: arguments.full,
        rewrite: arguments.rewrite,
    };
    let mut client = session.convergence();
    let answer = waiting::for_answer(session, client.resweep(request)).await?;
    let convergence = answer.into_inner().convergence.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&convergence);
    }
    session.output.table(history::rows(vec![convergence]))
}
