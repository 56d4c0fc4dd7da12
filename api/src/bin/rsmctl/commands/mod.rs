//! The subcommands: one file each, and a line of [`Question`] for each that queries a server.

mod aliases;
mod arguments;
mod blame;
mod completions;
mod confirm;
mod congestion;
mod counters;
mod design;
mod diff;
mod drain;
mod drained;
mod engine;
mod events;
mod expect;
mod findings;
mod firmware;
mod flaps;
mod get;
mod gpu;
mod history;
mod lft;
mod link;
mod links;
mod man_pages;
mod membership;
mod multicast;
mod nodes;
mod partition;
mod partitions;
mod path;
mod port;
mod ports;
mod qos;
mod quality;
mod report;
mod rotate_m_keys;
mod route;
mod sa;
mod series;
mod services;
mod sim;
mod slow;
mod status;
mod subscriptions;
mod sweep;
mod token;
mod top;
mod undrain;
mod vports;
mod waiting;
mod watch;
mod whatif;

use clap::Subcommand;

pub(crate) use self::arguments::Arguments;
use crate::arguments::Global;
use crate::failure::Failure;
use crate::session::Session;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Ask(Question),
    /// GPU hosts: inventories, the port for each GPU, findings
    #[command(subcommand)]
    Gpu(gpu::GpuCommand),
    /// Makes and revokes tokens of UFM's REST interface, in a file
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Prints a completion script for a shell
    Completions(completions::CompletionsArguments),
    #[command(hide = true)]
    ManPages(man_pages::ManPagesArguments),
}

macro_rules! questions {
    ($($(#[$attribute:meta])+ $name:ident($module:ident::$arguments:ident);)+) => {
        /// The subcommands that need a server.
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
    /// One page about the subnet and its manager: named checks that pass, warn or fail
    Report(report::ReportArguments);
    /// Is the fabric at fault for a slow job? A verdict with evidence
    Blame(blame::BlameArguments);
    /// Switches, channel adapters and routers
    Nodes(nodes::NodesArguments);
    /// Ports with their state, LID and neighbour
    Ports(ports::PortsArguments);
    /// NodeInfo, PortInfo or SwitchInfo, field by field, as the device last answered it
    Get(get::GetArguments);
    /// Virtual ports of hosts with their state and LID
    Vports(vports::VportsArguments);
    /// Congestion control of switches and adapters: who holds the settings, and who does not
    Congestion(congestion::CongestionArguments);
    /// Cables with both their ends
    #[command(visible_alias = "cables")]
    Links(links::LinksArguments);
    /// One cable: the hosts whose paths cross it, and whether it may be unplugged
    Link(link::LinkArguments);
    /// Links that went down, the most frequent ones first
    Flaps(flaps::FlapsArguments);
    /// What is slow: links, ports where data waits, the stage of a convergence, the SA
    Slow(slow::SlowArguments);
    /// The linear forwarding table of a switch
    Lft(lft::LftArguments);
    /// The path from one port to another, hop by hop
    Route(route::RouteArguments);
    /// The paths that the SA answers to a host's query
    Path(path::PathArguments);
    /// Quality of service: tables of ports, and rules for the service levels of paths
    Qos(qos::QosArguments);
    /// Partitions, or the members of one
    Partitions(partitions::PartitionsArguments);
    /// Makes, changes and deletes partitions, and waits until the hardware holds the change
    #[command(subcommand)]
    Partition(partition::PartitionCommand);
    /// Multicast groups, or the members and the tree of one
    Multicast(multicast::MulticastArguments);
    /// Requests of hosts to the SA, and the latency of its answers
    Sa(sa::SaArguments);
    /// Performance counters of ports: traffic, and errors
    Counters(counters::CountersArguments);
    /// The busiest ports now, or those with the most errors
    Top(top::TopArguments);
    /// Which firmware is where, by type of device, and which nodes differ
    Firmware(firmware::FirmwareArguments);
    /// Services that ports offer
    Services(services::ServicesArguments);
    /// Subscriptions of hosts to notices
    Subscriptions(subscriptions::SubscriptionsArguments);
    /// Alias GUIDs of ports
    Aliases(aliases::AliasesArguments);
    /// The findings that hold now
    Findings(findings::FindingsArguments);
    /// Lists nodes and cables that the subnet manager misses, or accepts that they are gone for
    /// good
    #[command(visible_alias = "missing")]
    Expect(expect::ExpectArguments);
    /// The cables compared with the design file, and the moves that make them right
    Design(design::DesignArguments);
    /// Routes around switches, cables or hosts, and waits until they are safe to unplug
    Drain(drain::DrainArguments);
    /// Uses drained parts again, and waits until the routes do
    Undrain(undrain::UndrainArguments);
    /// Disables, enables or resets the port of a cable
    #[command(subcommand)]
    Port(port::PortSubcommand);
    /// Gives every port another M_Key, and waits until the ports that answer hold it
    RotateMKeys(rotate_m_keys::RotateMKeysArguments);
    /// Lists drained parts: time, operator, note, and whether each may be unplugged
    Drained(drained::DrainedArguments);
    /// The latest convergences: cause, time of each stage, packets
    History(history::HistoryArguments);
    /// The differences of the subnet now from an earlier time
    Diff(diff::DiffArguments);
    /// The latest events
    Events(events::EventsArguments);
    /// Events as they happen, until interrupted
    Watch(watch::WatchArguments);
    /// Starts a sweep, and waits for its convergence
    Sweep(sweep::SweepArguments);
    /// Routing engines: list them, show the engine in force, set another
    #[command(subcommand)]
    Engine(engine::EngineCommand);
    /// How well the routes in force spread traffic
    Quality(quality::QualityArguments);
    /// The consequence of losing a cable or a node; sends nothing to the fabric
    Whatif(whatif::WhatifArguments);
    /// Acts on a simulated fabric
    #[command(subcommand)]
    Sim(sim::SimCommand);
}

/// Runs the subcommand of the command line.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Ask(question) => ask(question, arguments.global).await,
        Command::Gpu(command) => gpu::run(command, arguments.global).await,
        Command::Token(command) => token::run(command, arguments.global.format),
        Command::ManPages(arguments) => man_pages::run(&arguments),
        Command::Completions(shell) => completions::run(&shell, arguments.global.format),
    }
}

impl Question {
    /// Whether the command changes something. Options of lists are then refused before the change,
    /// not after it.
    fn makes_changes(&self) -> bool {
        match self {
            Question::Drain(_)
            | Question::Undrain(_)
            | Question::Port(_)
            | Question::RotateMKeys(_)
            | Question::Sweep(_)
            | Question::Sim(_) => true,
            Question::Partition(command) => command.makes_changes(),
            Question::Engine(command) => command.makes_changes(),
            Question::Expect(arguments) => arguments.makes_changes(),
            _ => false,
        }
    }
}

async fn ask(question: Question, global: Global) -> Result<(), Failure> {
    if question.makes_changes() {
        global.refuse_list_options()?;
    }
    let mut session = Session::open(global).await?;
    let outcome = answer(question, &mut session).await;
    session.end(outcome)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::Arguments;

    /// Collects the full names of the commands below `command` that have no subcommands.
    fn leaves(name: &str, command: &clap::Command, found: &mut Vec<String>) {
        let below = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut is_leaf = true;
        for one in below.filter(|one| one.get_name() != "help") {
            is_leaf = false;
            leaves(&format!("{name} {}", one.get_name()), one, found);
        }
        if is_leaf {
            found.push(format!("`{name}`"));
        }
    }

    /// docs/guards.md has every command, with its guards or among the commands that only read.
    #[test]
    fn every_command_is_in_the_page_of_guards() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guards.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut found = Vec::new();
        leaves("rsmctl", &Arguments::command(), &mut found);
        found.retain(|command| !page.contains(command));
        assert_eq!(
            found, [""; 0],
            "docs/guards.md does not have these commands"
        );
    }
}
