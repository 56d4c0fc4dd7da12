//! Tests of judgements on the fabric, each with one story: faults or innocent causes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rsm_api::v1::{self, BlameBearing, BlameVerdict};
use rsm_api::{Subnet, limits};
use rsm_config::{Symptom, SymptomLimits};
use rsm_core::Event;
use rsm_ids::{Guid, LinkSpeed, LinkWidth, PortKey, PortNum};
use rsm_mad::wire::perf::Counter;
use rsm_monitor::health::PortErrors;
use rsm_routing::generate::generate;
use rsm_routing::netlist::NodeKind;

use super::partitions::{all_limited, divided, one_apart, second_apart};
use super::world::*;
use crate::publish::blame::{Moved, Past, PortMoves, Question, judge};

/// Bytes per second of every port, and the share of its link.
const TRAFFIC: (f64, f64) = (5e9, 0.2);

/// Counters of ports. A story changes some of them; all other ports have traffic only.
#[derive(Clone, Default)]
pub(super) struct Counted {
    ports: BTreeMap<PortKey, PortMoves>,
}

impl Counted {
    fn port(&mut self, port: PortKey) -> &mut PortMoves {
        self.ports.entry(port).or_insert_with(busy)
    }

    /// Adds errors of a port at a time.
    pub(super) fn errors(&mut self, port: PortKey, counter: Counter, count: u64, at_unix_ms: u64) {
        let moved = Moved {
            counter,
            count,
            per_hour: count as f64 * 6.0,
            from_unix_ms: at_unix_ms,
            is_new: true,
        };
        self.port(port).errors.push(moved);
    }

    /// Makes data wait at a port for a share of time, at a share of its link's rate.
    pub(super) fn waits(&mut self, port: PortKey, wait_share: f64, use_share: f64) {
        let moves = self.port(port);
        (moves.wait_share, moves.use_share) = (Some(wait_share), Some(use_share));
    }

    /// Removes the traffic of a port.
    pub(super) fn idle(&mut self, port: PortKey) {
        let moves = self.port(port);
        (moves.bytes_per_s, moves.use_share) = (Some(0.0), Some(0.0));
    }
}

fn busy() -> PortMoves {
    PortMoves {
        errors: Vec::new(),
        wait_share: Some(0.01),
        use_share: Some(TRAFFIC.1),
        bytes_per_s: Some(TRAFFIC.0),
    }
}

impl Past for Counted {
    fn moves(&self, port: PortKey, since_unix_ms: u64) -> Option<PortMoves> {
        let mut moves = self.ports.get(&port).cloned().unwrap_or_else(busy);
        moves
            .errors
            .retain(|moved| moved.from_unix_ms >= since_unix_ms);
        Some(moves)
    }
}

/// The judgement for a job since a time.
pub(super) fn ask(
    world: &World,
    names: &[String],
    since_unix_ms: u64,
    past: &dyn Past,
) -> v1::Judgement {
    let events = world.view.events(0, usize::MAX);
    let events: Vec<v1::Event> = events.iter().map(|event| v1::Event::clone(event)).collect();
    judge(&Question {
        published: &world.view.published(),
        names,
        since_unix_ms,
        now_unix_ms: world.view.unix_ms(),
        past,
        is_collecting: true,
        counters_from_unix_ms: BEGIN_UNIX_MS,
        events: &events,
        events_from_unix_ms: BEGIN_UNIX_MS,
        limits: SymptomLimits::default(),
    })
}

/// A world that has been up for an hour, a job on all its hosts, and the start of the questioned
/// time, two minutes before the judgement.
struct Story {
    world: World,
    counted: Counted,
    job: Vec<String>,
    since_unix_ms: u64,
}

impl Story {
    fn begin() -> Story {
        Story::of(World::up())
    }

    fn of(mut world: World) -> Story {
        world.run(Duration::from_secs(3600));
        let since_unix_ms = world.view.unix_ms();
        Story {
            world,
            counted: Counted::default(),
            job: ["host-1", "host-2", "twin"].map(str::to_owned).to_vec(),
            since_unix_ms,
        }
    }

    fn pass(&mut self) {
        self.world.run(Duration::from_secs(120));
    }

    /// The judgement two minutes later.
    fn end(mut self) -> v1::Judgement {
        self.pass();
        ask(&self.world, &self.job, self.since_unix_ms, &self.counted)
    }

    /// The port by which packets from the first host to the third leave their leaf, and the other
    /// end of its cable.
    fn uplink(&self) -> (PortKey, PortKey) {
        let (from, to) = (named(&HOSTS[0].to_string()), named(&HOSTS[2].to_string()));
        let route = self.world.view.route(&from, &to).unwrap().route.unwrap();
        let key = |hop: &v1::Hop, port: Option<u32>| {
            PortKey::new(hop.node_guid.parse().unwrap(), PortNum(port.unwrap() as u8))
        };
        (
            key(&route.hops[1], route.hops[1].out_port),
            key(&route.hops[2], route.hops[2].in_port),
        )
    }
}

fn first(judgement: &v1::Judgement) -> &v1::BlameEvidence {
    judgement
        .evidence
        .first()
        .unwrap_or_else(|| panic!("no evidence: {judgement:?}"))
}

#[track_caller]
fn assert_likely(judgement: &v1::Judgement, kind: &str, place: &str) {
    assert_eq!(judgement.verdict(), BlameVerdict::Likely, "{judgement:#?}");
    let first = first(judgement);
    assert_eq!(
        (first.kind.as_str(), first.place.as_str()),
        (kind, place),
        "{judgement:#?}"
    );
    assert!(judgement.summary.contains(place), "{judgement:#?}");
    assert!(!first.remedy.is_empty(), "{judgement:#?}");
}

#[track_caller]
fn assert_no(judgement: &v1::Judgement) {
    assert_eq!(judgement.verdict(), BlameVerdict::No, "{judgement:#?}");
    let against = judgement.evidence.iter().filter(|one| one.weight >= 20);
    assert_eq!(against.count(), 0, "{judgement:#?}");
}

#[test]
fn healthy_fabric_is_not_blamed_and_the_answer_points_to_the_hosts() {
    let judgement = Story::begin().end();
    assert_no(&judgement);
    assert_eq!((judgement.hosts, judgement.ports), (3, 4));
    assert!(judgement.links > 4 && judgement.links <= 8, "{judgement:?}");
    let links = judgement.links;
    assert_eq!(
        judgement.summary,
        format!("nothing on these {links} links moved")
    );
    assert_eq!(judgement.missing, [""; 0]);
    assert!(judgement.next[0].contains("nvidia-smi"), "{judgement:?}");
}

#[test]
fn a_host_without_traffic_is_named_and_is_no_evidence_against_the_fabric() {
    let mut story = Story::begin();
    story.counted.idle(PortKey::new(LEAF_1, PortNum(2)));
    let judgement = story.end();
    assert_no(&judgement);
    let idle = first(&judgement);
    assert_eq!(
        (idle.kind.as_str(), idle.place.as_str()),
        ("idle", "host-2")
    );
}

#[test]
fn paused_host_is_the_culprit_of_all_ports_that_wait_for_it() {
    let mut story = Story::begin();
    story
        .counted
        .waits(PortKey::new(LEAF_1, PortNum(2)), 0.95, 0.02);
    for spine in [SPINE_A, SPINE_B] {
        story
            .counted
            .waits(PortKey::new(spine, PortNum(1)), 0.6, 0.1);
    }
    story
        .counted
        .waits(PortKey::new(HOSTS[2], PortNum(1)), 0.5, 0.1);
    for up in [3, 4] {
        story
            .counted
            .waits(PortKey::new(LEAF_2, PortNum(up)), 0.6, 0.1);
    }
    story.counted.errors(
        PortKey::new(LEAF_1, PortNum(2)),
        Counter::XmitDiscards,
        500,
        story.since_unix_ms + 1000,
    );
    let judgement = story.end();
    assert_no(&judgement);
    let cause = first(&judgement);
    assert_eq!(
        (cause.kind.as_str(), cause.bearing()),
        ("slow-receiver", BlameBearing::Host)
    );
    assert!(
        judgement.summary.contains("host-2 of the job takes less"),
        "{judgement:#?}"
    );
}

#[test]
fn hosts_without_a_common_partition_are_blamed_on_configuration() {
    let judgement = Story::of(divided()).end();
    assert_eq!(judgement.verdict(), BlameVerdict::No, "{judgement:#?}");
    assert!(
        judgement
            .summary
            .starts_with("not a broken fabric, but configuration"),
        "{judgement:#?}"
    );
    let cause = judgement
        .evidence
        .iter()
        .find(|one| one.kind == "no-partition");
    assert_eq!(cause.unwrap().bearing(), BlameBearing::Configuration);
}

#[test]
fn of_two_hosts_without_a_common_partition_the_one_that_reaches_nobody_is_named() {
    for job in [["host-2", "twin"], ["twin", "host-2"]] {
        let mut story = Story::of(second_apart());
        story.job = job.map(str::to_owned).to_vec();
        let judgement = story.end();
        let cause = judgement
            .evidence
            .iter()
            .find(|one| one.kind == "no-partition");
        assert_eq!(cause.unwrap().place, "host-2", "{judgement:#?}");
    }
}

#[test]
fn decisive_evidence_is_shown_beside_any_number_of_heavier_pieces() {
    let mut story = Story::of(divided());
    let at = story.since_unix_ms + 1;
    let fabric = story.world.snapshot().fabric.clone();
    let ports = fabric.nodes().flat_map(|node| {
        let numbers = (1..node.ports.len()).map(|number| PortNum(number as u8));
        numbers.map(|number| PortKey::new(node.guid, number))
    });
    for port in ports {
        for counter in Symptom::ALL.into_iter().filter_map(Symptom::counter) {
            story.counted.errors(port, counter, 1, at);
        }
    }
    let judgement = story.end();
    assert!(judgement.more > 0, "{judgement:#?}");
    assert_eq!(judgement.evidence.len(), 20);
    let kinds = judgement.evidence.iter().map(|one| one.kind.as_str());
    assert_eq!(kinds.filter(|&kind| kind == "no-partition").count(), 1);
}

/// The judgement of a story in which a cable of the job flapped.
fn judged_after_a_flap(mut story: Story) -> v1::Judgement {
    let (here, _) = story.uplink();
    story.pass();
    story.world.sim.unlink(here.node, here.port).unwrap();
    story.world.run(Duration::from_secs(5));
    story.world.sim.relink(here.node, here.port).unwrap();
    story.end()
}

#[test]
fn partitions_that_part_half_of_a_job_come_before_a_flapped_cable() {
    let judgement = judged_after_a_flap(Story::of(all_limited()));
    assert_eq!(judgement.verdict(), BlameVerdict::No, "{judgement:#?}");
    let summary = &judgement.summary;
    assert!(
        summary.starts_with("not a broken fabric, but configuration")
            && summary.contains("; besides, ")
            && summary.contains("went down 1 time"),
        "{judgement:#?}"
    );
}

#[test]
fn flapped_cable_comes_before_partitions_that_part_few_hosts_of_a_job() {
    let judgement = judged_after_a_flap(Story::of(one_apart()));
    assert_eq!(judgement.verdict(), BlameVerdict::Likely, "{judgement:#?}");
    let summary = &judgement.summary;
    assert!(
        summary.contains("went down 1 time") && summary.contains("share no partition"),
        "{judgement:#?}"
    );
}

#[test]
fn flapped_cable_is_blamed_after_routes_have_left_it() {
    let mut story = Story::begin();
    let (here, there) = story.uplink();
    story.pass();
    story.world.sim.unlink(here.node, here.port).unwrap();
    story.world.run(Duration::from_secs(5));
    story.world.sim.relink(here.node, here.port).unwrap();
    let since = story.since_unix_ms;
    let place = place(&story, here, there);
    let judgement = story.end();
    assert_likely(&judgement, "link-flapped", &place);
    let flap = first(&judgement);
    assert!(flap.from_unix_ms >= since + 120_000, "{flap:?}");
    assert!(
        flap.text.contains("went down 1 time and is up again"),
        "{flap:?}"
    );
}

#[test]
fn cable_on_a_path_that_stays_down_is_blamed() {
    let mut story = Story::begin();
    let (here, there) = story.uplink();
    story.world.sim.unlink(here.node, here.port).unwrap();
    let place = place(&story, here, there);
    let judgement = story.end();
    assert_likely(&judgement, "link-flapped", &place);
    assert!(first(&judgement).text.contains("is down"), "{judgement:?}");
}

/// A story on a fabric of four spines with six cables each, with a job on all hosts, and a spine.
fn story_of_spines() -> (Story, Guid) {
    let netlist = generate("pgft:2;4,6;1,4;1,1").unwrap();
    let hosts = netlist.nodes().iter();
    let hosts = hosts.filter(|node| node.kind == NodeKind::Ca);
    let hosts: Vec<(Guid, String)> = hosts
        .map(|node| {
            let text = String::from_utf8_lossy(&node.description).into_owned();
            (node.guid, text.split(' ').next().unwrap().to_owned())
        })
        .collect();
    let mut world = World::of(&netlist, hosts[0].0);
    world.run(Duration::from_secs(60));
    let fabric = world.snapshot().fabric;
    let spine = fabric.switches().map(|(_, node)| node).find(|node| {
        let mut peers = node.cables().map(|(_, peer)| peer.node);
        peers.all(|peer| fabric.node_of(peer).is_some_and(|peer| peer.is_switch()))
    });
    let spine = spine.unwrap().guid;
    let mut story = Story::of(world);
    story.job = hosts.into_iter().map(|(_, name)| name).collect();
    (story, spine)
}

#[test]
fn a_spine_that_reboots_or_dies_is_one_piece_of_evidence() {
    for dies in [false, true] {
        let (mut story, spine) = story_of_spines();
        let name = story.world.snapshot().fabric.name(spine);
        story.pass();
        match dies {
            true => story.world.sim.power_off(spine).unwrap(),
            false => story.world.sim.reboot(spine).unwrap(),
        }
        let judgement = story.end();
        let flaps = judgement.evidence.iter();
        let flaps: Vec<_> = flaps.filter(|one| one.kind == "link-flapped").collect();
        let [flap] = flaps[..] else {
            panic!("{flaps:#?}");
        };
        assert_eq!(flap.place, name);
        let now = if dies { "are down" } else { "are up again" };
        assert!(
            flap.text.contains("at once with it") && flap.text.contains(now),
            "{flap:?}"
        );
        assert!(!flap.remedy.contains("replace"), "{flap:?}");
    }
}

/// The name of a cable, beginning with the end by which a command names it.
fn place(story: &Story, one: PortKey, other: PortKey) -> String {
    let fabric = story.world.snapshot().fabric;
    let (a, b) = (one.min(other), one.max(other));
    let name = |key: PortKey| format!("{}:{}", fabric.name(key.node), key.port);
    format!("{} - {}", name(a), name(b))
}

#[test]
fn errors_at_the_receiving_end_of_a_used_direction_are_blamed_with_their_number() {
    let mut story = Story::begin();
    let (here, there) = story.uplink();
    let at = story.since_unix_ms + 30_000;
    story.counted.errors(there, Counter::SymbolError, 1300, at);
    let place = place(&story, here, there);
    let judgement = story.end();
    assert_likely(&judgement, "link-errors", &place);
    let errors = first(&judgement);
    assert!(
        errors
            .text
            .starts_with("1,300 symbol errors (7,800 an hour, limit 120)"),
        "{errors:?}"
    );
    assert_eq!(errors.from_unix_ms, at);
    assert!(
        errors.ports_behind > 0 && judgement.summary.contains("of 4 ports"),
        "{judgement:?}"
    );
}

#[test]
fn errors_off_the_paths_and_from_before_the_time_are_no_evidence() {
    let mut story = Story::begin();
    let (_, there) = story.uplink();
    let before = story.since_unix_ms - 60_000;
    story
        .counted
        .errors(there, Counter::SymbolError, 5000, before);
    let now = story.since_unix_ms + 60_000;
    // The job is within the first leaf.
    let mut within = Story::begin();
    within.job.truncate(2);
    for spine in [SPINE_A, SPINE_B] {
        for port in [1, 2] {
            within.counted.errors(
                PortKey::new(spine, PortNum(port)),
                Counter::SymbolError,
                5000,
                now,
            );
        }
    }
    assert_no(&story.end());
    let judgement = within.end();
    assert_no(&judgement);
    assert_eq!(judgement.links, 2);
}

#[test]
fn finding_of_link_errors_is_evidence_only_if_raised_in_the_questioned_time() {
    let errors = |story: &mut Story| {
        let (_, there) = story.uplink();
        let mut found = PortErrors::default();
        found.per_hour[0] = 500.0;
        found.total = 5000;
        let all = BTreeMap::from([(there, found)]);
        story
            .world
            .handle(Event::PortErrors(std::sync::Arc::new(all)));
        story.world.run(Duration::from_secs(5));
    };
    let mut old = Story::begin();
    errors(&mut old);
    old.since_unix_ms = old.world.view.unix_ms() + 1;
    let old = old.end();
    assert_eq!(old.verdict(), BlameVerdict::No, "{old:#?}");
    let mut new = Story::begin();
    errors(&mut new);
    let new = new.end();
    assert_eq!(new.verdict(), BlameVerdict::Likely, "{new:#?}");
    assert_eq!(first(&new).kind, "link-errors");
}

#[test]
fn few_errors_and_few_discards_are_unlikely_to_slow_a_job() {
    let mut story = Story::begin();
    let (here, there) = story.uplink();
    let at = story.since_unix_ms + 1;
    story.counted.errors(there, Counter::RcvErrors, 2, at);
    story.counted.errors(here, Counter::XmitDiscards, 3, at);
    let judgement = story.end();
    assert_eq!(
        judgement.verdict(),
        BlameVerdict::Unlikely,
        "{judgement:#?}"
    );
}

#[test]
fn a_link_at_reduced_width_is_blamed() {
    let mut story = Story::begin();
    let leaf = PortKey::new(LEAF_1, PortNum(2));
    let sim = &mut story.world.sim;
    sim.set_cable_rate(leaf.node, leaf.port, LinkWidth::X1, LinkSpeed::Hdr)
        .unwrap();
    story.pass();
    // The retraining itself was long ago.
    story.since_unix_ms = story.world.view.unix_ms();
    let judgement = story.end();
    assert_likely(&judgement, "link-slow", "leaf-1:2 - host-2:1");
}

#[test]
fn congestion_by_another_job_is_blamed_on_the_full_link_and_not_on_its_victims() {
    let mut story = Story::begin();
    let (here, there) = story.uplink();
    story.counted.waits(here, 0.4, 0.97);
    story
        .counted
        .waits(PortKey::new(HOSTS[0], PortNum(1)), 0.3, 0.2);
    let place = place(&story, here, there);
    let judgement = story.end();
    assert_likely(&judgement, "congestion", &place);
    let congested = judgement
        .evidence
        .iter()
        .filter(|one| one.kind == "congestion");
    assert_eq!(congested.count(), 1);
    assert!(
        first(&judgement)
            .text
            .contains("at 2 of the job's ports for it"),
        "{judgement:?}"
    );
}

#[test]
fn a_slow_host_of_another_job_is_named_as_the_culprit() {
    let mut story = Story::begin();
    story.job = vec!["host-1".to_owned(), HOSTS[2].to_string()];
    let (here, _) = story.uplink();
    story.counted.waits(here, 0.4, 0.2);
    story
        .counted
        .waits(PortKey::new(LEAF_2, PortNum(2)), 0.9, 0.05);
    for spine in [SPINE_A, SPINE_B] {
        story
            .counted
            .waits(PortKey::new(spine, PortNum(2)), 0.5, 0.2);
    }
    let judgement = story.end();
    assert_eq!(judgement.verdict(), BlameVerdict::Likely, "{judgement:#?}");
    assert!(
        judgement.summary.contains("which is not of the job"),
        "{judgement:#?}"
    );
    assert!(judgement.summary.contains("leaf-2:2"), "{judgement:#?}");
}

#[test]
fn missing_host_is_reported_with_its_place() {
    let mut story = Story::begin();
    story.world.sim.power_off(HOSTS[1]).unwrap();
    let judgement = story.end();
    assert_likely(&judgement, "host-missing", "host-2");
    let lost = first(&judgement);
    assert!(
        lost.text.contains("leaf-1:2") && lost.from_unix_ms > 0,
        "{lost:?}"
    );
    assert_eq!(judgement.hosts, 2);
}

#[test]
fn dead_leaf_is_the_only_cause_instead_of_its_hosts() {
    let mut story = Story::begin();
    story.world.sim.power_off(LEAF_2).unwrap();
    let judgement = story.end();
    assert_likely(&judgement, "switch-missing", "leaf-2");
    let lost = first(&judgement);
    assert!(
        lost.text.contains("1 host of the job with it: twin"),
        "{lost:?}"
    );
    assert!(lost.from_unix_ms > 0, "{lost:?}");
    let others = judgement.evidence.iter().skip(1);
    let mut others = others.filter(|one| one.weight > 0 && one.kind != "routes-changed");
    assert_eq!(others.next(), None, "{judgement:#?}");
}

/// A past without a reading of any port.
struct Unread;
impl Past for Unread {
    fn moves(&self, _: PortKey, _: u64) -> Option<PortMoves> {
        None
    }
}

#[test]
fn verdict_is_cannot_say_with_unknown_names_no_counters_or_a_short_history() {
    let mut story = Story::begin();
    story
        .job
        .extend(["nowhere".to_owned(), "leaf-1".to_owned()]);
    let judgement = story.end();
    assert_eq!(
        judgement.verdict(),
        BlameVerdict::CannotSay,
        "{judgement:#?}"
    );
    assert!(judgement.missing[0].contains("`nowhere`"), "{judgement:#?}");
    assert!(
        judgement.missing[1].contains("`leaf-1` is a switch"),
        "{judgement:#?}"
    );

    let mut story = Story::begin();
    story
        .job
        .extend((0..65).map(|number| format!("nowhere-{number}")));
    let judgement = story.end();
    assert_eq!(
        judgement.missing[5..7],
        [
            "59 more names lead to no host",
            "names that were not searched for in descriptions: 1; at most 64 are"
        ]
    );

    let mut story = Story::begin();
    story.pass();
    let judgement = ask(&story.world, &story.job, story.since_unix_ms, &Unread);
    assert_eq!(judgement.verdict(), BlameVerdict::CannotSay);
    assert!(
        judgement.missing[0].contains("have no reading"),
        "{judgement:#?}"
    );

    let mut story = Story::begin();
    story.since_unix_ms = BEGIN_UNIX_MS - 900_000;
    let judgement = story.end();
    assert_eq!(judgement.verdict(), BlameVerdict::CannotSay);
    assert!(
        judgement.missing[0].starts_with("events are known since"),
        "{judgement:#?}"
    );
    let mut story = Story::begin();
    story.since_unix_ms += 100_000;
    let judgement = story.end();
    assert!(judgement.missing[0].contains("too short"), "{judgement:#?}");
}

#[test]
fn verdict_is_cannot_say_before_the_first_sweep() {
    let world = World::new();
    let names = ["host-1".to_owned()];
    let judgement = ask(&world, &names, BEGIN_UNIX_MS, &Counted::default());
    assert_eq!(
        judgement.verdict(),
        BlameVerdict::CannotSay,
        "{judgement:#?}"
    );
}

#[test]
fn a_host_is_found_by_its_name_in_any_case_with_or_without_a_domain_and_once() {
    let mut story = Story::begin();
    story.job = ["HOST-1.example.org", "host-2", "host-2"]
        .map(str::to_owned)
        .to_vec();
    story.job.push(HOSTS[0].to_string());
    let judgement = story.end();
    assert_eq!(judgement.ports, 2, "{judgement:#?}");
    assert_eq!(judgement.missing, [""; 0]);
}

/// Prints the time of a judgement on 10,000 hosts at 250 leaves, each with one port.
#[test]
#[ignore = "takes minutes: brings a fabric of 10,000 hosts up"]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement prints what the clock says"
)]
fn a_judgement_on_ten_thousand_hosts_takes_less_than_a_second() {
    let netlist = rsm_routing::generate::generate("pgft:2;40,250;1,40;1,1").unwrap();
    let is_host =
        |node: &&rsm_routing::netlist::Node| node.kind == rsm_routing::netlist::NodeKind::Ca;
    let host: Guid = netlist.nodes().iter().find(is_host).unwrap().guid;
    let mut world = World::of(&netlist, host);
    world.run(Duration::from_secs(600));
    assert!(world.core.is_settled());
    let hosts = netlist.nodes().iter().filter(is_host);
    let names: Vec<String> = hosts
        .map(|node| String::from_utf8_lossy(&node.description).into_owned())
        .take(limits::MAX_JOB_HOSTS)
        .collect();
    let since = world.view.unix_ms();
    world.run(Duration::from_secs(120));
    let (counted, mut best) = (Counted::default(), Duration::MAX);
    for _ in 0..3 {
        let begun = Instant::now();
        let judgement = ask(&world, &names, since, &counted);
        best = best.min(begun.elapsed());
        assert_eq!(judgement.verdict(), BlameVerdict::No, "{judgement:#?}");
        println!(
            "{} hosts, {} ports, {} links: {:?}",
            judgement.hosts,
            judgement.ports,
            judgement.links,
            begun.elapsed()
        );
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
}
