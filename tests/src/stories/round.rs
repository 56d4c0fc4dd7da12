//! Tells stories in rounds.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::judge::{Told, judge};
use super::kind::Kind;
use super::plot::{Act, Plot, Scene, Truth, draw};
use super::site::{Paths, Port, Site, Tables};
use crate::clock::{Stopwatch, unix_ms};
use crate::virtual_time::Dice;

/// The maximum number of stories in a round.
const STORIES: usize = 12;

/// The number of draws before a story waits for the next round.
const DRAWS: usize = 20;

/// The number of stories without room in a round after which the round begins.
const REFUSED: usize = 8;

/// The number of rounds in which a story can be drawn before the run fails.
const ROUNDS: usize = 12;

/// The time for which what happens before T lasts.
const BEFORE: Duration = Duration::from_secs(6);

/// The time without events before T: the past of counters has steps of ten seconds.
const GAP: Duration = Duration::from_secs(13);

/// The time after T at which things begin to happen.
const PEACE: Duration = Duration::from_secs(2);

/// The time after T at which the operator asks: `blame` says nothing about less than a minute.
const ASKED: Duration = Duration::from_secs(64);

/// The numbers of hosts of jobs.
const SIZES: [usize; 12] = [2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 24, 64];

/// The time in which rsm routes around a change.
const REROUTED: Duration = Duration::from_millis(500);

/// The maximum number of stories of a round in which links go down: rsm knows the last four tables.
const CHANGES: usize = 3;

/// The number of pieces of evidence of a failed story that the table shows.
const SHOWN: usize = 8;

/// A story of a round.
struct Cast {
    kind: Kind,
    /// The number of rounds in which the story was drawn before.
    rounds: usize,
    job: Vec<usize>,
    plot: Plot,
    /// The paths of the job since T.
    paths: Paths,
    touched: BTreeSet<Port>,
}

/// Tells stories of these kinds; returns them with their answers.
pub(super) fn tell_all(site: &Site, kinds: Vec<Kind>, mut dice: Dice) -> Vec<Told> {
    let mut waiting: VecDeque<(Kind, usize)> = kinds.into_iter().map(|kind| (kind, 0)).collect();
    let mut told = Vec::new();
    while !waiting.is_empty() {
        site.wait_all_active();
        let mut round = cast(site, &mut waiting, &mut dice);
        let since = play(site, &mut round);
        for (number, cast) in round.iter().enumerate() {
            let is_void = round.iter().enumerate().any(|(other, another)| {
                other != number && cast.paths.cross(&site.topology, &another.touched)
            });
            let is_elsewhere = !cast.paths.cross(&site.topology, &cast.touched);
            let misses = match cast.plot.truth {
                Truth::Cable(_) | Truth::Node(_) => is_elsewhere,
                Truth::NotFabric | Truth::Partition => cast.plot.is_elsewhere && !is_elsewhere,
            };
            match is_void || misses {
                // Routes moved, so that the truth is another one than the one drawn.
                true => waiting.push_back((cast.kind, cast.rounds + 1)),
                false => told.push(ask(site, cast, since, dice.one_in(2))),
            }
        }
        for act in round
            .iter()
            .flat_map(|cast| cast.plot.lasting.iter().chain(&cast.plot.during))
        {
            act.undo(site);
        }
    }
    told
}

/// Draws the stories of a round from those that wait.
fn cast(site: &Site, waiting: &mut VecDeque<(Kind, usize)>, dice: &mut Dice) -> Vec<Cast> {
    let tables = site.tables();
    let mut round: Vec<Cast> = Vec::new();
    let mut refused = 0;
    for _ in 0..waiting.len() {
        if round.len() == STORIES || refused == REFUSED {
            break;
        }
        let Some((kind, rounds)) = waiting.pop_front() else {
            break;
        };
        match (0..DRAWS).find_map(|_| draw_cast(site, kind, &tables, &round, dice)) {
            Some(cast) => round.push(Cast { rounds, ..cast }),
            None => {
                // A story that has no room beside others is no failure.
                let rounds = rounds + usize::from(round.is_empty());
                assert!(
                    rounds < ROUNDS,
                    "{}: no story of {kind:?} can be drawn",
                    site.fabric
                );
                refused += 1;
                waiting.push_back((kind, rounds));
            }
        }
    }
    round
}

/// Draws a story beside those of a round; `None` if it would share a fault with one of them.
fn draw_cast(
    site: &Site,
    kind: Kind,
    tables: &Tables,
    round: &[Cast],
    dice: &mut Dice,
) -> Option<Cast> {
    let topology = &site.topology;
    let job = draw_job(site, kind, round, dice)?;
    let paths = tables.paths(topology, &job);
    let scene = Scene {
        site,
        job: &job,
        paths: &paths,
    };
    let plot = draw(kind, &scene, dice)?;
    let touched = plot.touches(topology);
    let shares = round.iter().any(|other| {
        other.paths.cross(topology, &touched) || paths.cross(topology, &other.touched)
    });
    let meets = plot.is_elsewhere && paths.cross(topology, &touched);
    let changes = round
        .iter()
        .filter(|other| other.plot.changes_links())
        .count();
    let is_full = plot.changes_links() && changes >= CHANGES;
    (!shares && !meets && !is_full).then_some(Cast {
        kind,
        rounds: 0,
        job,
        plot,
        paths,
        touched,
    })
}

/// Draws the hosts of a job: hosts near each other, or anywhere, that no other job of the round
/// uses. Some of a job with the wrong partition are guests.
fn draw_job(site: &Site, kind: Kind, round: &[Cast], dice: &mut Dice) -> Option<Vec<usize>> {
    let topology = &site.topology;
    let used: BTreeSet<usize> = round
        .iter()
        .flat_map(|cast| cast.job.iter().copied())
        .collect();
    let free = |from: usize, to: usize| {
        let free: Vec<usize> = (from..to).filter(|host| !used.contains(host)).collect();
        free
    };
    // rsm runs at the first host, which has no job.
    let mut hosts = free(1, topology.first_guest());
    let size = dice.pick(&SIZES);
    let span = dice.pick(&[size, 2 * size, hosts.len()]);
    if hosts.len() < size {
        return None;
    }
    let span = span.clamp(size, hosts.len());
    let first = dice.below(hosts.len() - span + 1);
    hosts = hosts[first..first + span].to_vec();
    while hosts.len() > size {
        hosts.swap_remove(dice.below(hosts.len()));
    }
    if kind == Kind::WrongPartition {
        let guests = free(topology.first_guest(), topology.hosts.len());
        let wrong = (1 + dice.below(size - 1)).min(guests.len());
        if wrong == 0 {
            return None;
        }
        hosts.splice(..wrong, guests.into_iter().take(wrong));
    }
    hosts.sort_unstable();
    Some(hosts)
}

/// Lets everything of a round happen, and adds to the paths of the jobs where routes moved. Returns
/// T.
fn play(site: &Site, round: &mut [Cast]) -> u64 {
    for act in round.iter().flat_map(|cast| &cast.plot.lasting) {
        act.run(site);
    }
    let before: Vec<Act> = round
        .iter()
        .flat_map(|cast| cast.plot.before.clone())
        .collect();
    for act in &before {
        act.run(site);
    }
    if !before.is_empty() {
        sleep(BEFORE);
    }
    for act in &before {
        act.undo(site);
    }
    sleep(GAP);
    site.wait_all_active();
    let (since, time) = (unix_ms(), Stopwatch::start());
    let tables = site.tables();
    for cast in &mut *round {
        cast.paths = tables.paths(&site.topology, &cast.job);
    }
    sleep(PEACE);
    let acts: Vec<Act> = round
        .iter()
        .flat_map(|cast| cast.plot.during.clone())
        .collect();
    let (changes, counts): (Vec<&Act>, Vec<&Act>) = acts.iter().partition(|act| act.is_change());
    for act in counts {
        act.run(site);
    }
    for act in changes {
        act.run(site);
        sleep(REROUTED);
        add_paths(site, round);
    }
    sleep(ASKED.saturating_sub(time.elapsed()));
    add_paths(site, round);
    since
}

/// Adds the paths of the jobs by the tables now.
fn add_paths(site: &Site, round: &mut [Cast]) {
    let tables = site.tables();
    for cast in round {
        cast.paths.extend(tables.paths(&site.topology, &cast.job));
    }
}

/// Asks `rsmctl blame` about the job of a story, by its hosts or by a host file.
fn ask(site: &Site, cast: &Cast, since: u64, by_file: bool) -> Told {
    let since = rsm_api::timestamp(since);
    let names = cast
        .job
        .iter()
        .map(|&host| site.topology.hosts[host].name.as_str());
    let names: Vec<&str> = names.collect();
    let mut arguments = vec!["blame", "--since", &since, "--format", "json"];
    let file = site.directory.join("hosts.txt");
    let file_name = file.display().to_string();
    match by_file {
        true => {
            fs::write(&file, names.join("\n") + "\n").expect("there is room");
            arguments.extend(["--job", &file_name]);
        }
        false => arguments.extend(&names),
    }
    let finished = site.rsmctl(&arguments);
    let answer: Value = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", finished.stderr));
    let exit_code = match answer["verdict"].as_str() {
        Some("likely") => 5,
        Some("cannot-say") => 4,
        _ => 0,
    };
    assert_eq!(finished.status.code(), Some(exit_code), "{answer}");
    let (outcome, blames_good_part) = judge(site, &cast.plot.truth, &answer);
    let label = |port: Port| site.topology.label(port);
    let truth = match cast.plot.truth {
        Truth::Cable(port) => format!("{} - {}", label(port), label(site.topology.peers[&port])),
        Truth::Node(node) => site.topology.names[&node].clone(),
        Truth::NotFabric => "not the fabric".to_owned(),
        Truth::Partition => "no common partition".to_owned(),
    };
    let acts = cast
        .plot
        .lasting
        .iter()
        .chain(&cast.plot.before)
        .chain(&cast.plot.during);
    let acts: Vec<String> = acts.take(6).map(|act| act.text(site)).collect();
    Told {
        fabric: site.fabric,
        kind: cast.kind,
        outcome,
        blames_good_part,
        took: finished.wall,
        text: format!(
            "{} on {}, {} hosts ({}); truth: {truth}; done: {acts:?}\nanswer: {}",
            cast.kind,
            site.fabric,
            names.len(),
            names.join(" "),
            summary(&answer)
        ),
    }
}

/// An answer in a few lines.
fn summary(answer: &Value) -> String {
    let evidence = answer["evidence"].as_array().into_iter().flatten();
    let lines = evidence.map(|one| {
        format!(
            "\n  {} {} {}: {}: {}",
            one["bearing"], one["weight"], one["kind"], one["place"], one["text"]
        )
    });
    let lines: String = lines.take(SHOWN).collect();
    format!(
        "{}: {}; missing {}{lines}",
        answer["verdict"], answer["summary"], answer["missing"]
    )
}
