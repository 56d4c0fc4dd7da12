use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use clap::Args;
use rsm_api::together::{LEAST, LINK_DOWNED};
use rsm_proto::v1;
use rsm_proto::v1::event::Change;
use serde::Serialize;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, host_of, label, link_remarks, or_none, port_of};
use crate::time::{self, minute};

/// Links that went down, the most frequent ones first
#[derive(Debug, Args)]
#[command(
    after_help = "Counts come from the history on the disk. A link counts each time that it goes, and each time\nthat it trains anew without going. Four or more links of one node that went within ten seconds, as\nwhen a switch restarts or loses its power, and links of several adapters of one host within ten\nseconds, are one row behind the links: --all shows each of them.\n\nBY COUNTER is what the ports counted in that time, without the losses that such a row has. It is\nhigher than TIMES DOWN where a link was up again before rsm read it, and lower where it trained\nanew without going.\n\nExamples:\n  rsmctl flaps\n  rsmctl flaps --since 22:00 --node leaf-03"
)]
pub(crate) struct FlapsArguments {
    /// Since this time: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339
    #[arg(long, value_name = "TIME", default_value = "1d")]
    since: String,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only links of nodes with this text in their description, or this GUID; with a port's
    /// number behind a colon, of that port
    #[arg(long, add = of_nodes(), value_name = "NODE|NODE:PORT")]
    node: Option<String>,
    /// Each link by itself, also where all links of a node went with it
    #[arg(long)]
    all: bool,
}

/// The maximum time, in milliseconds, between the losses of the links of a failed switch or host:
/// a sweep reads the switches at their other ends one after the other.
const TOGETHER_MS: u64 = 10_000;

/// A link that went down.
#[derive(Serialize)]
struct Flaps {
    /// The link as it is now; if it is gone, as in the latest event.
    link: v1::Link,
    /// The number of times that the link went down or trained anew, by events.
    times: u64,
    /// The number of losses by the LinkDownedCounter of the link's ports, the higher number of the
    /// two, without the losses that count for a node or host; `None` if neither port counted a
    /// loss, or if the counters are not read.
    counted: Option<u64>,
    first_unix_ms: u64,
    last_unix_ms: u64,
    /// Whether the link is present now.
    is_there: bool,
}

/// The number of times that links went down by LinkDownedCounter of their ports.
struct Losses {
    /// Number of losses by node GUID and port number; ports without a loss are left out.
    by_port: HashMap<(String, u32), u64>,
    /// A line about ports whose counters are not known; `None` if all are known.
    doubt: Option<String>,
}

/// Links that went down together with a node or a host.
struct Together {
    /// The description of the node, or the name of the host.
    name: String,
    /// The number of times that links went down together.
    times: u64,
    first_unix_ms: u64,
    last_unix_ms: u64,
    /// The links that went down in at least one of these times.
    links: BTreeSet<Ends>,
}

/// Losses of links that are counted for a node or host rather than for each link.
#[derive(Default)]
struct Folded {
    /// The nodes and hosts, sorted by their latest losses, latest first.
    nodes: Vec<Together>,
    /// The indices of the events of these losses.
    events: HashSet<usize>,
}

pub(crate) async fn run(arguments: FlapsArguments, session: &mut Session) -> Result<(), Failure> {
    let since_unix_ms = time::parse(&arguments.since).map_err(Failure::Usage)?;
    let until_unix_ms = time::parse_optional(arguments.until.as_deref())?;
    let request = v1::ListEventsRequest {
        since_unix_ms,
        until_unix_ms,
        ..v1::ListEventsRequest::default()
    };
    let node = arguments.node.unwrap_or_default();
    let of_links = v1::ListEventsRequest {
        node: node.clone(),
        kind: v1::EventKind::Link.into(),
        ..request.clone()
    };
    let events = all_pages(of_links, async |request| {
        session.watch().list_events(request).await
    })
    .await?;
    let gaps = v1::ListEventsRequest {
        kind: v1::EventKind::Gap.into(),
        ..request.clone()
    };
    let gaps = all_pages(gaps, async |request| {
        session.watch().list_events(request).await
    })
    .await?;
    let Losses {
        by_port: counters,
        doubt,
    } = Losses::read(&request, &node, session).await;
    let present = present(&node, session).await?;
    if session.output.is_json() {
        let flaps = counted(&events, &HashSet::new(), &counters, &present);
        return session.output.json_list(flaps);
    }
    let Folded {
        nodes,
        events: of_nodes,
    } = match arguments.all {
        true => Folded::default(),
        false => Folded::of(&events),
    };
    let flaps = counted(&events, &of_nodes, &counters, &present);
    let notes: Vec<String> = [back_before_read(&flaps), unseen(&events, &counters), doubt]
        .into_iter()
        .flatten()
        .collect();
    if !gaps.is_empty() {
        session.output.line(&format!(
            "{} in the history: the counts may be too low (`rsmctl events --kind gap`)",
            count(gaps.len() as u64, "gap", "gaps")
        ))?;
    }
    let until = match until_unix_ms {
        0 => "now".to_owned(),
        until => minute(until),
    };
    let span = format!("{} to {until}", minute(since_unix_ms));
    if flaps.is_empty() && nodes.is_empty() {
        session.output.limited_by_server();
        session
            .output
            .line(&format!("No link went down, {span}."))?;
        return notes.iter().try_for_each(|line| session.output.line(line));
    }
    let whole = match nodes.len() as u64 {
        0 => String::new(),
        whole => format!(", and {} with its links", count(whole, "node", "nodes")),
    };
    session.output.line(&format!(
        "{} went down or trained anew{whole}, {span}",
        count(flaps.len() as u64, "link", "links")
    ))?;
    session.output.only_table(table(flaps, nodes, &present))?;
    notes.iter().try_for_each(|line| session.output.line(line))
}

/// The links of the subnet as they are now.
type Present = BTreeMap<Ends, v1::Link>;

/// Asks for the present links with `node`, a text in the name of a node with or without a port, at
/// an end; for all links if it is empty.
async fn present(node: &str, session: &Session) -> Result<Present, Failure> {
    let name = match node.rsplit_once(':') {
        Some((name, port)) if port.parse::<u8>().is_ok() => name,
        _ => node,
    };
    let request = v1::ListLinksRequest {
        end_contains: name.to_owned(),
        ..v1::ListLinksRequest::default()
    };
    let links = all_pages(request, async |request| {
        session.fabric().list_links(request).await
    });
    let links = links.await?.into_iter();
    Ok(links.map(|link| (ends(&link), link)).collect())
}

impl Losses {
    /// Asks for the counters of a node's ports in the span of a request; of all ports if `node` is
    /// empty.
    async fn read(request: &v1::ListEventsRequest, node: &str, session: &Session) -> Losses {
        let request = v1::GetTopPortsSinceRequest {
            order: v1::PortOrder::Errors.into(),
            limit: u32::MAX,
            part: node.to_owned(),
            since_unix_ms: request.since_unix_ms,
            until_unix_ms: request.until_unix_ms,
        };
        match session.counters().get_top_ports_since(request).await {
            Ok(answer) => Losses::of(answer.into_inner()),
            Err(status) => Losses {
                by_port: HashMap::new(),
                doubt: Some(format!("BY COUNTER is empty: {}", status.message())),
            },
        }
    }

    fn of(answer: v1::GetTopPortsSinceResponse) -> Losses {
        let read = answer.ports.len() as u64;
        let ports = answer.ports.into_iter().filter_map(|port| {
            let mut errors = port.errors.into_iter();
            let downed = errors.find(|one| one.name == LINK_DOWNED)?;
            let key = port.port?;
            Some(((key.node_guid, key.number), downed.count))
        });
        Losses {
            by_port: ports.collect(),
            doubt: (answer.total > read).then(|| {
                format!(
                    "BY COUNTER has the {read} of {} ports with most errors: ask for one node \
                     (`--node`)",
                    answer.total
                )
            }),
        }
    }
}

/// A line about links that went down more often by their ports than by events; `None` if there are
/// no such links.
fn back_before_read(flaps: &[Flaps]) -> Option<String> {
    let more = flaps.iter().filter(|one| one.counted > Some(one.times));
    let more = more.count() as u64;
    (more > 0).then(|| {
        format!(
            "BY COUNTER is right for {}: up again before rsm read it, TIMES DOWN has fewer",
            count(more, "link", "links")
        )
    })
}

/// A line about ports whose counter grew although no event is about their link; `None` if there
/// are no such ports.
fn unseen(events: &[v1::Event], counters: &HashMap<(String, u32), u64>) -> Option<String> {
    let seen = events.iter().filter_map(link_change);
    let seen: HashSet<(String, u32)> = seen.flat_map(|(link, ..)| ends(link)).flatten().collect();
    let unseen = counters.keys().filter(|port| !seen.contains(port)).count();
    (unseen > 0).then(|| {
        format!(
            "{} losses that no sweep saw, which are not in this list: `rsmctl top --errors --since TIME`",
            count(unseen as u64, "port counted", "ports counted")
        )
    })
}

fn table(flaps: Vec<Flaps>, nodes: Vec<Together>, present: &Present) -> Rows {
    let mut rows = Rows::new(&[
        ">TIMES DOWN",
        ">BY COUNTER",
        "LINK",
        "+FIRST",
        "LAST",
        "STATE NOW",
    ]);
    let cabled: HashSet<&(String, u32)> = present.keys().flatten().flatten().collect();
    for Flaps {
        link,
        times,
        counted,
        first_unix_ms,
        last_unix_ms,
        is_there,
    } in flaps
    {
        let is_cabled = ends(&link).iter().flatten().any(|end| cabled.contains(end));
        let state = match (is_there, is_cabled) {
            (true, _) => label::<v1::PortState>(link.state),
            (false, true) => "plugged elsewhere".to_owned(),
            (false, false) => "gone".to_owned(),
        };
        let state = [state, link_remarks(&link)];
        let state: Vec<String> = state.into_iter().filter(|part| !part.is_empty()).collect();
        rows.add([
            times.to_string(),
            or_none(&counted.map_or_else(String::new, |times| times.to_string())),
            link_name(link),
            minute(first_unix_ms),
            minute(last_unix_ms),
            state.join(", "),
        ]);
    }
    for node in nodes {
        let links = node.links.len();
        let up = node.links.iter();
        let up = up.filter(|link| present.contains_key(*link));
        let state = match up.count() {
            0 => "all gone".to_owned(),
            up if up == links => "all there".to_owned(),
            up => format!("{up} there"),
        };
        rows.add([
            node.times.to_string(),
            or_none(""),
            format!("{}: {links} links at once", node.name),
            minute(node.first_unix_ms),
            minute(node.last_unix_ms),
            state,
        ]);
    }
    rows
}

fn link_name(link: v1::Link) -> String {
    let end = |end: Option<v1::LinkEnd>| {
        let end = end.unwrap_or_default();
        port_of(&end.description, end.port.as_ref())
    };
    format!("{} - {}", end(link.a), end(link.b))
}

/// The ends of a link, each with node GUID and port number, in ascending order.
type Ends = [Option<(String, u32)>; 2];

fn ends(link: &v1::Link) -> Ends {
    let mut ends = [&link.a, &link.b].map(|end| {
        let port = end.as_ref()?.port.as_ref()?;
        Some((port.node_guid.clone(), port.number))
    });
    ends.sort();
    ends
}

/// The link of an event, and whether it went down or trained anew; `None` for an event that is not
/// about a link.
fn link_change(event: &v1::Event) -> Option<(&v1::Link, bool)> {
    match event.change.as_ref()? {
        Change::LinkVanished(link) => Some((link, true)),
        Change::LinkAppeared(link) => Some((link, false)),
        Change::LinkChanged(link) => {
            let retrained = link.state() == v1::PortState::Init;
            Some((link, retrained))
        }
        _ => None,
    }
}

/// A loss of a link: the index of its event, its time in milliseconds since the Unix epoch, and the
/// link.
type Loss<'a> = (usize, u64, &'a v1::Link);

impl Folded {
    /// Finds the losses of links that went down together with a node or a host.
    fn of(events: &[v1::Event]) -> Folded {
        let losses = events.iter().enumerate().filter_map(|(place, event)| {
            let (link, went_down) = link_change(event)?;
            went_down.then_some((place, event.at_unix_ms, link))
        });
        let losses: Vec<Loss<'_>> = losses.collect();
        let mut nodes: BTreeMap<String, Together> = BTreeMap::new();
        let mut folded = HashSet::new();
        let with_nodes = at_once(&losses).into_iter().map(|(guid, own)| {
            let name = name(own[0].2, &guid);
            (guid, name, own)
        });
        let with_hosts = of_hosts(&losses).into_iter();
        let with_hosts = with_hosts.map(|(host, own)| (host.clone(), host, own));
        for (key, name, own) in with_nodes.chain(with_hosts) {
            let at = own[0].1;
            if own.iter().any(|(place, ..)| folded.contains(place)) {
                continue;
            }
            let node = nodes.entry(key).or_insert_with(|| Together {
                name,
                times: 0,
                first_unix_ms: at,
                last_unix_ms: at,
                links: BTreeSet::new(),
            });
            node.times += 1;
            node.last_unix_ms = at;
            for (place, _, link) in own {
                node.links.insert(ends(link));
                folded.insert(place);
            }
        }
        let mut nodes: Vec<Together> = nodes.into_values().collect();
        nodes.sort_by_key(|node| Reverse(node.last_unix_ms));
        Folded {
            nodes,
            events: folded,
        }
    }
}

/// The losses of four or more links of one node within [`TOGETHER_MS`], each link at most once, by
/// the node's GUID, in the order of their times. A loss belongs to the node with the most losses;
/// losses of one host's adapters alone belong to no node.
fn at_once<'a>(losses: &[Loss<'a>]) -> Vec<(String, Vec<Loss<'a>>)> {
    let mut groups = BinaryHeap::new();
    let mut add = |guid: Reverse<String>, own: Vec<usize>| {
        let hosts: BTreeSet<Option<&str>> = own.iter().map(|&one| host(losses[one].2)).collect();
        let is_of_host = hosts.len() == 1 && !hosts.contains(&None);
        if own.len() >= LEAST && !is_of_host {
            groups.push((own.len(), guid, own));
        }
    };
    let mut open: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, &(_, at, link)) in losses.iter().enumerate() {
        for guid in BTreeSet::from(guids(link)) {
            let own = open.entry(guid.clone()).or_default();
            let is_next = own.iter().all(|&before| {
                let (_, before, other) = losses[before];
                at.saturating_sub(before) <= TOGETHER_MS && ends(other) != ends(link)
            });
            if !is_next {
                add(Reverse(guid), std::mem::take(own));
            }
            own.push(index);
        }
    }
    open.into_iter()
        .for_each(|(guid, own)| add(Reverse(guid), own));
    let mut taken = HashSet::new();
    let mut found = Vec::new();
    while let Some((size, guid, mut own)) = groups.pop() {
        own.retain(|one| !taken.contains(one));
        match own.len() {
            few if few < LEAST => {}
            fewer if fewer < size => groups.push((fewer, guid, own)),
            _ => {
                taken.extend(own.iter().copied());
                let own: Vec<Loss<'a>> = own.into_iter().map(|one| losses[one]).collect();
                found.push((guid.0, own));
            }
        }
    }
    found.sort_by_key(|(_, own)| own[0].1);
    found
}

/// The name of the host of a link's adapter; `None` for a link between switches, or if the
/// description of the adapter does not name its host.
fn host(link: &v1::Link) -> Option<&str> {
    let ends = [&link.a, &link.b].into_iter().flatten();
    let mut adapters = ends.filter(|end| end.kind() != v1::NodeKind::Switch);
    adapters.find_map(|end| host_of(&end.description))
}

/// The losses of links of several adapters of one host within [`TOGETHER_MS`], each link at most
/// once, by the host's name, in the order of their times.
fn of_hosts<'a>(losses: &[Loss<'a>]) -> Vec<(String, Vec<Loss<'a>>)> {
    let mut open: BTreeMap<&str, Vec<Loss<'a>>> = BTreeMap::new();
    let mut groups = Vec::new();
    for &loss in losses {
        let (_, at, link) = loss;
        let Some(host) = host(link) else {
            continue;
        };
        let own = open.entry(host).or_default();
        let is_next = own.iter().all(|&(_, before, other)| {
            at.saturating_sub(before) <= TOGETHER_MS && ends(other) != ends(link)
        });
        if !is_next {
            groups.push((host.to_owned(), std::mem::take(own)));
        }
        own.push(loss);
    }
    groups.extend(open.into_iter().map(|(host, own)| (host.to_owned(), own)));
    groups.retain(|(_, own)| own.len() > 1);
    groups.sort_by_key(|(_, own)| own[0].1);
    groups
}

/// The GUIDs of the nodes at both ends.
fn guids(link: &v1::Link) -> [String; 2] {
    [&link.a, &link.b].map(|end| {
        let port = end.as_ref().and_then(|end| end.port.clone());
        port.unwrap_or_default().node_guid
    })
}

/// The description of the node at an end of a link.
fn name(link: &v1::Link, guid: &str) -> String {
    let at = guids(link).iter().position(|own| own == guid);
    let end = match at {
        Some(0) => &link.a,
        _ => &link.b,
    };
    end.clone().unwrap_or_default().description
}

/// The links that went down at least once, without the losses in events at the indices `of_nodes`.
/// Links with the most losses come first, then links with the latest losses. `counters` are
/// numbers of losses by port; the losses in events at `of_nodes` are taken from them.
fn counted(
    events: &[v1::Event],
    of_nodes: &HashSet<usize>,
    counters: &HashMap<(String, u32), u64>,
    present: &Present,
) -> Vec<Flaps> {
    let mut found: BTreeMap<Ends, Flaps> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        let at = event.at_unix_ms;
        let Some((link, went_down)) = link_change(event) else {
            continue;
        };
        let known = found.entry(ends(link)).or_insert_with(|| Flaps {
            link: v1::Link::default(),
            times: 0,
            counted: ends(link)
                .iter()
                .flatten()
                .filter_map(|end| counters.get(end).copied())
                .max(),
            first_unix_ms: at,
            last_unix_ms: at,
            is_there: false,
        });
        if went_down && of_nodes.contains(&place) {
            known.counted = known.counted.map(|counted| counted.saturating_sub(1));
        } else if went_down {
            if known.times == 0 {
                known.first_unix_ms = at;
            }
            known.times += 1;
            known.last_unix_ms = at;
        }
        let now = present.get(&ends(link));
        known.is_there = now.is_some();
        known.link = now.unwrap_or(link).clone();
    }
    let mut flaps: Vec<Flaps> = found.into_values().filter(|one| one.times > 0).collect();
    flaps.sort_by_key(|one| Reverse((one.times.max(one.counted.unwrap_or(0)), one.last_unix_ms)));
    flaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(node: &str, state: v1::PortState) -> v1::Link {
        v1::Link {
            a: Some(v1::LinkEnd {
                port: Some(v1::PortKey {
                    node_guid: node.to_owned(),
                    number: 1,
                }),
                ..v1::LinkEnd::default()
            }),
            state: state.into(),
            ..v1::Link::default()
        }
    }

    fn event(at_unix_ms: u64, change: Change) -> v1::Event {
        v1::Event {
            at_unix_ms,
            change: Some(change),
            ..v1::Event::default()
        }
    }

    #[test]
    fn links_are_counted_each_time_that_they_go_down_or_train_anew() {
        let (up, init) = (v1::PortState::Active, v1::PortState::Init);
        let events = [
            event(1, Change::LinkAppeared(link("new", up))),
            event(2, Change::LinkVanished(link("once", up))),
            event(3, Change::LinkVanished(link("often", up))),
            event(4, Change::LinkAppeared(link("often", init))),
            event(5, Change::LinkChanged(link("often", up))),
            event(6, Change::LinkChanged(link("often", init))),
        ];
        let present = now([link("often", up), link("new", up)]);
        let flaps = counted(&events, &HashSet::new(), &HashMap::new(), &present);
        let found: Vec<_> = flaps
            .iter()
            .map(|one| (one.times, one.first_unix_ms, one.last_unix_ms, one.is_there))
            .collect();
        assert_eq!(found, [(2, 3, 6, true), (1, 2, 2, false)]);
    }

    /// The present links.
    fn now<const N: usize>(links: [v1::Link; N]) -> Present {
        links.map(|link| (ends(&link), link)).into()
    }

    #[test]
    fn the_state_is_current_even_if_no_event_reported_that_a_link_is_back() {
        let events: Vec<v1::Event> = ["l1", "l2", "l3", "l4", "l5"]
            .map(|leaf| event(7, Change::LinkVanished(cable(leaf, "spine"))))
            .into();
        let single = [event(9, Change::LinkVanished(cable("x", "y")))];
        // The links came back while no manager ran, and lead from the other end.
        let present = now([cable("y", "x"), cable("l1", "spine"), cable("l2", "spine")]);
        let flaps = counted(&single, &HashSet::new(), &HashMap::new(), &present);
        let lines = table(flaps, Folded::of(&events).nodes, &present)
            .laid_out(100)
            .lines;
        assert!(lines[1].ends_with("active"), "{lines:?}");
        assert!(lines[2].ends_with("2 there"), "{lines:?}");
    }

    fn cable(a: &str, b: &str) -> v1::Link {
        let end = |node: &str| v1::LinkEnd {
            port: Some(v1::PortKey {
                node_guid: node.to_owned(),
                number: 1,
            }),
            description: format!("name-of-{node}"),
            ..v1::LinkEnd::default()
        };
        v1::Link {
            a: Some(end(a)),
            b: Some(end(b)),
            state: v1::PortState::Active.into(),
            ..v1::Link::default()
        }
    }

    #[test]
    fn losses_between_two_sweeps_are_shown_by_the_counter_of_the_port() {
        let lost = |name| event(3, Change::LinkVanished(cable(name, "spine")));
        let events = [lost("l1"), lost("l2")];
        let counter = |node: &str, times| ((node.to_owned(), 1), times);
        let counters = HashMap::from([counter("l2", 9), counter("spine", 4), counter("l3", 2)]);
        let flaps = counted(&events, &HashSet::new(), &counters, &Present::new());
        let shown = flaps.iter().map(|one| (one.times, one.counted));
        assert_eq!(shown.collect::<Vec<_>>(), [(1, Some(9)), (1, Some(4))]);
        let lines = table(flaps, Vec::new(), &Present::new())
            .laid_out(100)
            .lines;
        assert!(
            lines[0].starts_with("TIMES DOWN  BY COUNTER  LINK"),
            "{lines:?}"
        );
        let first: Vec<&str> = lines[1].split_whitespace().take(2).collect();
        assert_eq!(first, ["1", "9"]);
        let unseen = unseen(&events, &counters).unwrap();
        assert!(unseen.starts_with("1 port counted losses"), "{unseen}");
    }

    #[test]
    fn a_line_states_ports_whose_counters_are_not_known() {
        let port = |number| v1::CountedPort {
            port: Some(v1::PortKey {
                node_guid: "leaf".to_owned(),
                number,
            }),
            errors: vec![v1::CountedErrors {
                name: LINK_DOWNED.to_owned(),
                count: 3,
                ..v1::CountedErrors::default()
            }],
            ..v1::CountedPort::default()
        };
        let answer = |total| v1::GetTopPortsSinceResponse {
            ports: vec![port(1), port(2)],
            total,
            ..v1::GetTopPortsSinceResponse::default()
        };
        let some = Losses::of(answer(7));
        let doubt = some.doubt.unwrap_or_default();
        assert!(doubt.contains("the 2 of 7 ports"), "{doubt}");
        assert_eq!(some.by_port[&("leaf".to_owned(), 2)], 3);
        assert_eq!(Losses::of(answer(2)).doubt, None);
    }

    #[test]
    fn losses_of_links_with_a_switch_are_one_row_below_single_links() {
        let leaves = ["l1", "l2", "l3", "l4", "l5"];
        let lost = |leaf| event(7, Change::LinkVanished(cable(leaf, "spine")));
        let mut events = vec![event(3, Change::LinkVanished(cable("l1", "spine")))];
        events.extend(leaves.map(lost));
        events.push(event(7, Change::LinkVanished(cable("x", "y"))));
        events.push(event(9, Change::LinkAppeared(cable("l2", "spine"))));
        let folded = Folded::of(&events);
        let present = now([cable("l2", "spine")]);
        let flaps = counted(&events, &folded.events, &HashMap::new(), &present);
        let single = flaps.iter().map(|one| (one.times, one.last_unix_ms));
        assert_eq!(single.collect::<Vec<_>>(), [(1, 7), (1, 3)]);
        let [node] = &folded.nodes[..] else {
            panic!("one node");
        };
        assert_eq!((node.name.as_str(), node.times), ("name-of-spine", 1));
        let lines = table(flaps, folded.nodes, &present).laid_out(100).lines;
        let row = lines.last().unwrap();
        assert!(row.contains("name-of-spine: 5 links at once"), "{row}");
        assert!(row.ends_with("1 there"), "{row}");
        // The row states no cause: the switch may as well have lost its neighbours.
        assert!(!row.contains("restart"), "{row}");
        // Three links are too few for a row of their node.
        assert!(Folded::of(&events[1..4]).nodes.is_empty());
    }

    #[test]
    fn links_of_a_dead_switch_are_one_row_where_seconds_lie_between_their_losses() {
        let leaves = ["l1", "l2", "l3", "l4", "l5", "l6"];
        let lost = |(at, leaf)| event(at, Change::LinkVanished(cable(leaf, "spine")));
        let times = [1_000, 1_000, 1_900, 2_100, 3_000, 9_000];
        let mut events = vec![event(500, Change::LinkVanished(cable("l1", "other")))];
        events.extend(times.into_iter().zip(leaves).map(lost));
        // A flap of its own, after the switch is back.
        events.push(lost((60_000, "l2")));
        let folded = Folded::of(&events);
        let [node] = &folded.nodes[..] else {
            panic!("{} nodes", folded.nodes.len());
        };
        assert_eq!((node.name.as_str(), node.times), ("name-of-spine", 1));
        assert_eq!(node.links.len(), 6);
        // The port counted the loss with the switch, too: it is not one of its link.
        let counters = HashMap::from([(("l2".to_owned(), 1), 2), (("other".to_owned(), 1), 3)]);
        let flaps = counted(&events, &folded.events, &counters, &Present::new());
        let shown = flaps.iter().map(|one| (one.times, one.counted));
        assert_eq!(shown.collect::<Vec<_>>(), [(1, Some(3)), (1, Some(1))]);
        let note = back_before_read(&flaps).unwrap();
        assert!(note.starts_with("BY COUNTER is right for 1 link"), "{note}");
    }

    #[test]
    fn losses_of_links_of_a_failed_host_are_one_row() {
        let adapter = |number: u64, at| {
            let mut link = cable(&format!("leaf-{number}"), &format!("hca-{number}"));
            if let Some(end) = &mut link.b {
                end.description = format!("host-9 mlx5_{number}");
            }
            event(at, Change::LinkVanished(link))
        };
        let dead = [
            adapter(0, 100),
            adapter(1, 900),
            adapter(2, 1900),
            adapter(0, 60_000),
        ];
        let folded = Folded::of(&dead);
        let [host] = &folded.nodes[..] else {
            panic!("one host");
        };
        assert_eq!((host.name.as_str(), host.links.len()), ("host-9", 3));
        let flaps = counted(&dead, &folded.events, &HashMap::new(), &Present::new());
        assert_eq!(flaps[0].times, 1, "its port flaps");
    }
}
