use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{count, port_of};

/// How well the routes in force spread traffic
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl quality --format json | jq .worst_links")]
pub(crate) struct QualityArguments {
    /// The seed of random traffic: the same seed gives the same answer
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
}

pub(crate) async fn run(arguments: QualityArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetRoutingQualityRequest {
        seed: arguments.seed,
    };
    let answer = session.routing().get_routing_quality(request).await?;
    let quality = answer.into_inner().quality.unwrap_or_default();
    if session.output.is_json() {
        return session.output.json(&quality);
    }
    session.output.table(summary(&quality))?;
    session.output.line("")?;
    let mut rows = Rows::new(&["FROM", "TO", ">PATHS", ">SOURCES", ">DESTINATIONS"]);
    for link in &quality.worst_links {
        rows.add([
            port_of(&link.description, link.port.as_ref()),
            port_of(&link.peer_description, link.peer.as_ref()),
            link.paths.to_string(),
            link.sources.to_string(),
            link.destinations.to_string(),
        ]);
    }
    session.output.table(rows)
}

fn summary(quality: &v1::RoutingQuality) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    row("Verdict", quality.verdict.clone());
    // Of equally full links the first one, which is the fullest for its rate.
    let links = quality.worst_links.iter().rev();
    if let Some(link) = links.max_by_key(|link| link.paths) {
        row("Fullest link", fullest(link));
    }
    row("Engine", quality.engine.clone());
    row(
        "Hosts",
        format!("{} ports, {} links", quality.hosts, quality.links),
    );
    if quality.lost_pairs > 0 {
        row(
            "Lost",
            format!("{} pairs, which count in nothing else", quality.lost_pairs),
        );
    }
    let paths = quality.paths.unwrap_or_default();
    row(
        "Paths",
        format!(
            "{} on the fullest link, {:.1} on the mean one; by rate {:.2} times the mean",
            paths.max, paths.mean, paths.rate_max_over_mean
        ),
    );
    row("All-to-all risk", quality.all_to_all.to_string());
    let patterns = [
        ("Shift", quality.shift),
        ("Random", quality.random),
        ("Ring", quality.ring),
        ("Doubling", quality.recursive_doubling),
        ("Two trees", quality.double_tree),
        ("Rail all-to-all", quality.rail_all_to_all),
    ];
    for (name, pattern) in patterns {
        if let Some(found) = pattern {
            row(name, contention(&found));
        }
    }
    let half = quality.bisection.unwrap_or_default();
    row(
        "Bisection",
        format!(
            "{:.0} % on average, {:.0} % at worst",
            half.mean * 100.0,
            half.min * 100.0
        ),
    );
    rows
}

/// The text `leaf-212:15 -> spine-207:8: 3804 paths, 12 sources x 317 destinations`.
fn fullest(link: &v1::LinkUse) -> String {
    format!(
        "{} -> {}: {} paths, {} x {}",
        port_of(&link.description, link.port.as_ref()),
        port_of(&link.peer_description, link.peer.as_ref()),
        link.paths,
        count(u64::from(link.sources), "source", "sources"),
        count(u64::from(link.destinations), "destination", "destinations")
    )
}

/// The text `12 flows by rate at most, 3.40 on average, 10 of 20 phases`.
fn contention(found: &v1::Contention) -> String {
    let tried = if found.phases == found.of {
        format!("{} phases", found.phases)
    } else {
        format!("{} of {} phases", found.phases, found.of)
    };
    format!(
        "{} flows by rate at most, {:.2} on average, {tried}",
        found.max, found.mean
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_link_follows_the_verdict_with_sources_and_destinations() {
        let link = |leaf: &str, paths, sources, destinations| v1::LinkUse {
            description: leaf.to_owned(),
            port: Some(v1::PortKey {
                node_guid: leaf.to_owned(),
                number: 15,
            }),
            peer_description: "spine-207".to_owned(),
            peer: Some(v1::PortKey {
                node_guid: "spine-207".to_owned(),
                number: 8,
            }),
            paths,
            sources,
            destinations,
        };
        let quality = v1::RoutingQuality {
            verdict: "balanced".to_owned(),
            worst_links: vec![
                link("leaf-099", 984, 12, 82),
                link("leaf-212", 3804, 12, 317),
                link("leaf-213", 3804, 12, 317),
            ],
            ..v1::RoutingQuality::default()
        };
        let lines = summary(&quality).laid_out(200).lines;
        assert!(lines[0].starts_with("Verdict"), "{lines:?}");
        let fullest = "leaf-212:15 -> spine-207:8: 3804 paths, 12 sources x 317 destinations";
        assert!(lines[1].ends_with(fullest), "{lines:?}");
    }
}
