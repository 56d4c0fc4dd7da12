use std::collections::BTreeMap;

use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::event::Change;
use serde::Serialize;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{count, label, link_remarks, port_of, timestamp};
use crate::time;

/// Links that went down, the most frequent ones first
#[derive(Debug, Args)]
#[command(
    after_help = "Counts come from the history on the disk. A link counts each time that it goes, and each time\nthat it trains anew without going.\n\nExamples:\n  rsmctl flaps\n  rsmctl flaps --since 22:00 --node leaf-03"
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
}

/// A link that went down.
#[derive(Serialize)]
struct Flaps {
    /// The ends of the link, as in the latest event.
    link: v1::Link,
    /// The number of times that it went down.
    times: u64,
    first_unix_ms: u64,
    last_unix_ms: u64,
    /// Whether it was up at the latest event.
    is_there: bool,
}

pub(crate) async fn run(arguments: FlapsArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::ListEventsRequest {
        since_unix_ms: time::parse(&arguments.since).map_err(Failure::Usage)?,
        until_unix_ms: time::parse_optional(arguments.until.as_deref())?,
        ..v1::ListEventsRequest::default()
    };
    let of_links = v1::ListEventsRequest {
        node: arguments.node.unwrap_or_default(),
        kind: v1::EventKind::Link.into(),
        ..request.clone()
    };
    let events = all_pages(of_links, async |request| {
        session.watch().list_events(request).await
    })
    .await?;
    let gaps = v1::ListEventsRequest {
        kind: v1::EventKind::Gap.into(),
        ..request
    };
    let gaps = all_pages(gaps, async |request| {
        session.watch().list_events(request).await
    })
    .await?;
    let flaps = counted(events);
    if session.output.is_json() {
        return session.output.json_list(flaps);
    }
    if !gaps.is_empty() {
        session.output.line(&format!(
            "{} in the history: the counts may be too low (`rsmctl events --kind gap`)",
            count(gaps.len() as u64, "gap", "gaps")
        ))?;
    }
    if flaps.is_empty() {
        let since = &arguments.since;
        return session
            .output
            .line(&format!("No link went down since {since}."));
    }
    let headings = [">TIMES", "LINK", "+FIRST", "LAST", "STATE"];
    session.output.list(flaps, headings, |flaps| {
        let end = |end: Option<v1::LinkEnd>| {
            let end = end.unwrap_or_default();
            port_of(&end.description, end.port.as_ref())
        };
        let Flaps { link, .. } = flaps;
        let state = match flaps.is_there {
            true => label::<v1::PortState>(link.state),
            false => "gone".to_owned(),
        };
        let remarks = link_remarks(&link);
        let state = [state, remarks];
        let state = state.into_iter().filter(|part| !part.is_empty());
        [
            flaps.times.to_string(),
            format!("{} - {}", end(link.a), end(link.b)),
            timestamp(flaps.first_unix_ms),
            timestamp(flaps.last_unix_ms),
            state.collect::<Vec<_>>().join(", "),
        ]
    })
}

/// The ends of a link.
type Ends = [Option<(String, u32)>; 2];

fn ends(link: &v1::Link) -> Ends {
    [&link.a, &link.b].map(|end| {
        let port = end.as_ref()?.port.as_ref()?;
        Some((port.node_guid.clone(), port.number))
    })
}

/// The links that went down at least once; the most frequent ones first, and then the latest.
fn counted(events: Vec<v1::Event>) -> Vec<Flaps> {
    let mut found: BTreeMap<Ends, Flaps> = BTreeMap::new();
    for event in events {
        let at = event.at_unix_ms;
        let (link, is_there, went_down) = match event.change {
            Some(Change::LinkVanished(link)) => (link, false, true),
            Some(Change::LinkAppeared(link)) => (link, true, false),
            Some(Change::LinkChanged(link)) => {
                let retrained = link.state() == v1::PortState::Init;
                (link, true, retrained)
            }
            _ => continue,
        };
        let known = found.entry(ends(&link)).or_insert_with(|| Flaps {
            link: v1::Link::default(),
            times: 0,
            first_unix_ms: at,
            last_unix_ms: at,
            is_there,
        });
        if went_down {
            if known.times == 0 {
                known.first_unix_ms = at;
            }
            known.times += 1;
            known.last_unix_ms = at;
        }
        (known.link, known.is_there) = (link, is_there);
    }
    let mut flaps: Vec<Flaps> = found.into_values().filter(|one| one.times > 0).collect();
    flaps.sort_by_key(|one| std::cmp::Reverse((one.times, one.last_unix_ms)));
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
    fn links_are_counted_each_time_that_they_go_or_train_anew() {
        let (up, init) = (v1::PortState::Active, v1::PortState::Init);
        let flaps = counted(vec![
            event(1, Change::LinkAppeared(link("new", up))),
            event(2, Change::LinkVanished(link("once", up))),
            event(3, Change::LinkVanished(link("often", up))),
            event(4, Change::LinkAppeared(link("often", init))),
            event(5, Change::LinkChanged(link("often", up))),
            event(6, Change::LinkChanged(link("often", init))),
        ]);
        let found: Vec<_> = flaps
            .iter()
            .map(|one| (one.times, one.first_unix_ms, one.last_unix_ms, one.is_there))
            .collect();
        assert_eq!(found, [(2, 3, 6, true), (1, 2, 2, false)]);
    }
}
