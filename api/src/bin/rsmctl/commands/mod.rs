//! One file per subcommand, and a line of [`Question`] for each that asks a server.

mod aliases;
mod completions;
mod engine;
mod events;
mod expect;
mod findings;
mod gpu;
mod history;
mod lft;
mod links;
mod multicast;
mod nodes;
mod partitions;
mod path;
mod ports;
mod quality;
mod route;
mod sa;
mod services;
mod sim;
mod status;
mod subscriptions;
mod sweep;
mod waiting;
mod watch;
mod whatif;

use clap::Subcommand;

use crate::arguments::{Arguments, Global};
use crate::failure::Failure;
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Ask(Question),
    /// GPU hosts: what they have, which port each GPU should use, what is wrong
    #[command(subcommand)]
    Gpu(gpu::GpuCommand),
    /// Prints a completion script for a shell
    Completions(completions::CompletionsArguments),
}

macro_rules! questions {
    ($($(#[$attribute:meta])+ $name:ident($module:ident::$arguments:ident);)+) => {
        /// What to do with a server.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Question {
            $($(#[$attribute])+ $name($module::$arguments),)+
        }

        async fn answer(question: Question, session: &mut Session) -> Result<(), Failure> {
            match question {
                $(Question::$name(arguments) => $module::run(arguments, session).await,)+
            }
        }
    };
}

questions! {
    /// The subnet and its manager at one glance
    Status(status::StatusArguments);
    /// Switches, channel adapters and routers
    Nodes(nodes::NodesArguments);
    /// Ports with their state, LID and neighbour
    Ports(ports::PortsArguments);
    /// Cables with both their ends
    Links(links::LinksArguments);
    /// The linear forwarding table of a switch
    Lft(lft::LftArguments);
    /// The way from one port to another, hop by hop
    Route(route::RouteArguments);
    /// The paths that a host is told of when it asks the SA for one
    Path(path::PathArguments);
    /// Who may talk to whom
    Partitions(partitions::PartitionsArguments);
    /// Multicast groups, or the members and the tree of one
    Multicast(multicast::MulticastArguments);
    /// What hosts asked the SA, and how long answers took
    Sa(sa::SaArguments);
    /// Services that ports offer
    Services(services::ServicesArguments);
    /// What hosts asked to be told of
    Subscriptions(subscriptions::SubscriptionsArguments);
    /// Names that ports have beside their own: alias GUIDs
    Aliases(aliases::AliasesArguments);
    /// What is wrong with the fabric now
    Findings(findings::FindingsArguments);
    /// List nodes and cables that the subnet manager misses, or tell it that they are gone for good
    Expect(expect::ExpectArguments);
    /// The latest convergences: cause, time of each stage, packets
    History(history::HistoryArguments);
    /// What happened lately
    Events(events::EventsArguments);
    /// What happens, until interrupted
    Watch(watch::WatchArguments);
    /// Has the subnet manager sweep again, and waits for what comes of it
    Sweep(sweep::SweepArguments);
    /// Routing engines: what there is, what routes, and having another one route
    #[command(subcommand)]
    Engine(engine::EngineCommand);
    /// How well the routes in force spread traffic
    Quality(quality::QualityArguments);
    /// What would follow if a cable or a node went; nothing is sent to the fabric
    Whatif(whatif::WhatifArguments);
    /// Acts on a simulated fabric
    #[command(subcommand)]
    Sim(sim::SimCommand);
}

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
    let outcome = answer(question, &mut session).await;
    // What a command printed before it failed is shown before the failure.
    let flushed = session.output.flush();
    outcome.and(flushed)
}
