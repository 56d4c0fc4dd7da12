//! One file per subcommand.

pub(crate) mod aliases;
pub(crate) mod completions;
pub(crate) mod engine;
pub(crate) mod events;
pub(crate) mod expect;
pub(crate) mod findings;
pub(crate) mod gpu;
pub(crate) mod history;
pub(crate) mod lft;
pub(crate) mod links;
pub(crate) mod multicast;
pub(crate) mod nodes;
pub(crate) mod partitions;
pub(crate) mod path;
pub(crate) mod ports;
pub(crate) mod quality;
pub(crate) mod route;
pub(crate) mod sa;
pub(crate) mod services;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod subscriptions;
pub(crate) mod sweep;
mod waiting;
pub(crate) mod watch;
pub(crate) mod whatif;

use crate::arguments::{Arguments, Command, Global, Question};
use crate::failure::Failure;
use crate::session::Session;

/// Does what the command line asks.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Ask(question) => ask(question, arguments.global).await,
        Command::Gpu(command) => gpu::run(command, arguments.global).await,
        Command::Completions(shell) => completions::run(&shell, arguments.global.format),
    }
}

async fn ask(question: Question, global: Global) -> Result<(), Failure> {
    let mut session = Session::open(global).await?;
    let outcome = match question {
        Question::Status(arguments) => status::run(arguments, &mut session).await,
        Question::Nodes(arguments) => nodes::run(arguments, &mut session).await,
        Question::Ports(arguments) => ports::run(arguments, &mut session).await,
        Question::Links(arguments) => links::run(arguments, &mut session).await,
        Question::Lft(arguments) => lft::run(arguments, &mut session).await,
        Question::Route(arguments) => route::run(arguments, &mut session).await,
        Question::Path(arguments) => path::run(arguments, &mut session).await,
        Question::Partitions(arguments) => partitions::run(arguments, &mut session).await,
        Question::Multicast(arguments) => multicast::run(arguments, &mut session).await,
        Question::Sa(arguments) => sa::run(arguments, &mut session).await,
        Question::Services(arguments) => services::run(arguments, &mut session).await,
        Question::Subscriptions(arguments) => subscriptions::run(arguments, &mut session).await,
        Question::Aliases(arguments) => aliases::run(arguments, &mut session).await,
        Question::Findings(arguments) => findings::run(arguments, &mut session).await,
        Question::Expect(arguments) => expect::run(arguments, &mut session).await,
        Question::History(arguments) => history::run(arguments, &mut session).await,
        Question::Events(arguments) => events::run(arguments, &mut session).await,
        Question::Watch(arguments) => watch::run(arguments, &mut session).await,
        Question::Sweep(arguments) => sweep::run(arguments, &mut session).await,
        Question::Engine(command) => engine::run(command, &mut session).await,
        Question::Quality(arguments) => quality::run(arguments, &mut session).await,
        Question::Whatif(arguments) => whatif::run(arguments, &mut session).await,
        Question::Sim(command) => sim::run(command, &mut session).await,
    };
    // What a command printed before it failed is shown before the failure.
    let flushed = session.output.flush();
    outcome.and(flushed)
}
