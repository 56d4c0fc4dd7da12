//! Takes a link between two switches down, and measures the time and the SMPs until the tables are
//! correct.
//!
//! `cargo bench -p rsm-tests --bench link_down [-- [--net FILE | --spec SPEC] [--rounds N] [--only
//! NAME]]`. Each contender runs resident on a fresh ibsim of its own, behind the tap. Each round
//! takes another link down, and brings it back afterwards. The tap costs both contenders the same.

mod options;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rsm_tests::Error;
use rsm_tests::ibsim::{Ibsim, SimNode, SimNodeKind};
use rsm_tests::measure::{Comparison, milliseconds};
use rsm_tests::sm::{OpenSm, Rsm};
use rsm_tests::tap::{Packet, Reaction, Tap};

use options::Options;

/// The fabric of the comparison: 3,456 hosts and 720 switches.
const DEFAULT_SPEC: &str = "fat-tree:k=24,levels=3";

/// The time limit for a contender to bring the subnet up, and to react.
const LIMIT: Duration = Duration::from_secs(300);

/// The time without packets after which a reaction counts as complete.
const QUIET: Duration = Duration::from_millis(1500);

/// A resident subnet manager.
enum Resident {
    Rsm(Rsm),
    OpenSm(OpenSm),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments(5)?;
    let directory = tempfile::tempdir()?;
    let net = options.net(DEFAULT_SPEC, directory.path())?;
    let mut out = std::io::stdout();
    let mut comparison = Comparison::default();
    for name in ["rsm", "opensm", "opensm -n 64"] {
        if !options.takes_part(name) {
            continue;
        }
        for reaction in reactions(name, &net, options.rounds(), directory.path())? {
            let lft_ms = milliseconds(reaction.to_last_lft_block);
            let figures = comparison.of(name);
            figures.add("to_last_lft_block_ms", lft_ms);
            figures.add("to_last_set_ms", milliseconds(reaction.to_last_set));
            figures.add("smps", reaction.requests.total() as f64);
            writeln!(out, "{name}: {lft_ms:.2} ms, {}", reaction.requests)?;
        }
    }
    writeln!(out, "\n{}", comparison.table())?;
    writeln!(out, "{}", comparison.json("link_down", "rsm"))?;
    Ok(())
}

/// The reactions of the contender `name`, one for each round.
fn reactions(
    name: &str,
    net: &Path,
    rounds: usize,
    directory: &Path,
) -> Result<Vec<Reaction>, Error> {
    let ibsim = Ibsim::start(net)?;
    let tap = Tap::open(&ibsim)?;
    let host = ibsim.hosts()[0];
    // Contenders do not sweep periodically, because such SMPs are not part of a reaction.
    let mut resident = match name {
        "rsm" => {
            let (state, config) = (directory.join("state"), directory.join("rsm.toml"));
            std::fs::write(&config, "[sweep]\nlight_interval_ms = 0\n").map_err(|source| {
                Error::Write {
                    path: config.clone(),
                    source,
                }
            })?;
            let arguments = ["--config", &config.to_string_lossy()];
            Resident::Rsm(Rsm::start_with(
                &ibsim,
                Some(&tap),
                host,
                &state,
                &arguments,
                LIMIT,
            )?)
        }
        "opensm" => Resident::OpenSm(OpenSm::start(
            &ibsim,
            Some(&tap),
            host,
            &["-s", "0"],
            LIMIT,
        )?),
        _ => {
            let arguments = ["-s", "0", "-n", "64"];
            Resident::OpenSm(OpenSm::start(&ibsim, Some(&tap), host, &arguments, LIMIT)?)
        }
    };
    let links = links_between_switches(ibsim.nodes());
    (0..rounds)
        .map(|round| {
            // The links are spread over the file, and thereby over the levels of a tree.
            let (switch, port) = &links[(2 * round + 1) * links.len() / (2 * rounds)];
            resident.change_and_wait(&tap, || ibsim.unlink(switch, *port).map(drop))?;
            let reaction = Reaction::of(&tap.packets()).ok_or_else(|| Error::Output {
                program: name.into(),
                detail: format!("the contender did not react to Unlink \"{switch}\"[{port}]"),
            })?;
            resident.change_and_wait(&tap, || ibsim.relink(switch, *port).map(drop))?;
            Ok(reaction)
        })
        .collect()
}

impl Resident {
    /// Makes a change, and waits until the wire is quiet and the subnet manager reports a new
    /// convergence.
    ///
    /// The query follows only after the wire is quiet, because it takes processor time from the
    /// reaction.
    fn change_and_wait(
        &mut self,
        tap: &Tap,
        change: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = self.convergences()?;
        let _ = tap.wait_quiet(QUIET, LIMIT);
        tap.clear();
        change()?;
        let has_trap = tap.wait_packet(LIMIT, Packet::is_trap);
        let _ = tap.wait_quiet(QUIET, LIMIT);
        let has_converged = match self {
            Self::Rsm(rsm) => rsm.wait_history(before + 1, LIMIT)?,
            Self::OpenSm(opensm) => opensm.wait_subnet_up(before + 1, LIMIT),
        };
        let _ = tap.wait_quiet(QUIET, LIMIT);
        if has_trap && has_converged {
            return Ok(());
        }
        Err(Error::Output {
            program: "subnet manager".into(),
            detail: "did not react to the change".into(),
        })
    }

    /// The number of completed convergences that the manager reports.
    fn convergences(&self) -> Result<usize, Error> {
        match self {
            Self::Rsm(rsm) => Ok(rsm.history()?.len()),
            Self::OpenSm(opensm) => Ok(opensm.sweeps()),
        }
    }
}

/// The links between two switches, each once: a switch and its port.
fn links_between_switches(nodes: &[SimNode]) -> Vec<(String, u8)> {
    let switches: std::collections::BTreeSet<&str> = nodes
        .iter()
        .filter(|node| node.kind == SimNodeKind::Switch)
        .map(|node| node.id.as_str())
        .collect();
    nodes
        .iter()
        .filter(|node| node.kind == SimNodeKind::Switch)
        .flat_map(|node| {
            node.cables
                .iter()
                .map(move |(port, peer)| (node, *port, peer))
        })
        .filter(|(node, port, (peer, far_port))| {
            switches.contains(peer.as_str())
                && (node.id.as_str(), *port) < (peer.as_str(), *far_port)
        })
        .map(|(node, port, _)| (node.id.clone(), port))
        .collect()
}
