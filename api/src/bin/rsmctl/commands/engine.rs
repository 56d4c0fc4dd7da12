use clap::{Args, Subcommand};
use rsm_proto::v1;

use super::confirm::{self, Confirmation};
use super::history;
use crate::completion::of_engines;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::printable;

/// Routing engines: list them, show the engine in force, set another
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples: rsmctl engine list\n          rsmctl engine set updn")]
pub(crate) enum EngineCommand {
    /// Lists every engine and its guarantee
    List,
    /// Shows the engine in force, and its reason
    Show,
    /// Routes with another engine from now on, until rsm reads its configuration again; exit code 1
    /// where the routes in force are not of it
    Set(SetArguments),
}

impl EngineCommand {
    /// Whether the command changes something.
    pub(super) fn makes_changes(&self) -> bool {
        matches!(self, EngineCommand::Set(_))
    }
}

/// The name of the engine that chooses another engine for the fabric.
const AUTO: &str = "auto";

#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// The engine's name
    #[arg(add = of_engines())]
    engine: String,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(crate) async fn run(command: EngineCommand, session: &mut Session) -> Result<(), Failure> {
    match command {
        EngineCommand::List => list(session).await,
        EngineCommand::Show => show(session).await,
        EngineCommand::Set(arguments) => set(arguments, session).await,
    }
}

async fn list(session: &mut Session) -> Result<(), Failure> {
    let engines = all_pages(v1::ListEnginesRequest::default(), async |request| {
        session.routing().list_engines(request).await
    })
    .await?;
    session
        .output
        .list(engines, ["ENGINE", "STATE", "PROMISES"], |engine| {
            let state = match (engine.configured, engine.in_force) {
                (true, true) => "configured, in force",
                (true, false) => "configured",
                (false, true) => "in force",
                (false, false) => "",
            };
            [engine.name, state.to_owned(), engine.guarantee]
        })
}

/// The engine of the plan in force, and its reason.
async fn in_force(session: &Session) -> Result<v1::EngineChoice, Failure> {
    let answer = session.fabric().get_status(v1::GetStatusRequest {}).await?;
    let status = answer.into_inner().status.unwrap_or_default();
    Ok(status.engine.unwrap_or_default())
}

async fn show(session: &mut Session) -> Result<(), Failure> {
    let engine = in_force(session).await?;
    if session.output.is_json() {
        return session.output.json(&engine);
    }
    let mut rows = Rows::plain(2);
    rows.add(["Engine".to_owned(), engine.name]);
    rows.add(["Reason".to_owned(), engine.reason]);
    session.output.table(rows)
}

async fn set(arguments: SetArguments, session: &mut Session) -> Result<(), Failure> {
    let mut client = session.routing();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
        let engine = arguments.engine.clone();
        let request = v1::SetEngineRequest {
            engine,
            accept_cut_off,
        };
        client.set_engine(request).await
    });
    let convergence = answer.await?.convergence.unwrap_or_default();
    let engine = in_force(session).await?;
    if session.output.is_json() {
        session.output.json(&convergence)?;
    } else {
        session.output.table(history::rows(vec![convergence]))?;
        let [name, reason] = [&engine.name, &engine.reason].map(|text| printable(text));
        session
            .output
            .line(&format!("engine in force: {name} ({reason})"))?;
    }
    match arguments.engine.as_str() {
        AUTO => Ok(()),
        asked if asked == engine.name => Ok(()),
        asked => Err(Failure::Refused(format!(
            "the routes in force are not of {asked}, but of {}: {}",
            engine.name, engine.reason
        ))),
    }
}
