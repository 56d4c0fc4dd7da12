use clap::Args;
use rsm_proto::v1;

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
    let request = v1::UndrainRequest {
        parts: arguments.parts,
    };
    let mut client = session.maintenance();
    let answer = waiting::for_answer(session, client.undrain(request)).await?;
    let answer = answer.into_inner();
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    let mut rows = Rows::new(&[">USED AGAIN"]);
    rows.add([answer.undrained.to_string()]);
    session.output.table(rows)
}
