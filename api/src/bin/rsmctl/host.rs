//! Resolves the name of a host for a command that expects a port.

use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{count, host_of as host_of_adapter, plain_names};
use crate::time::minute;

/// The ports that two names stand for. The name of a host with several adapters stands for its
/// first adapter, and a note says so; any other name stays unchanged.
pub(crate) async fn first_adapters(
    session: &mut Session,
    names: [String; 2],
) -> Result<[String; 2], Failure> {
    let [source, destination] = names;
    let source = first_adapter(session, source).await?;
    Ok([source, first_adapter(session, destination).await?])
}

async fn first_adapter(session: &mut Session, name: String) -> Result<String, Failure> {
    let request = v1::ListNodesRequest {
        description_contains: name.clone(),
        ..v1::ListNodesRequest::default()
    };
    let nodes = all_pages(request, async |request| {
        session.fabric().list_nodes(request).await
    })
    .await?;
    match of_host(&name, nodes) {
        None => Ok(name),
        Some((first, adapters)) => {
            let others = count(adapters - 1, "other adapter", "other adapters");
            let description = &first.description;
            let gone = missing_adapters(&name, &missing(session).await?);
            session.output.note(&format!(
                "{name}: taken as {description}; the host has {others}{gone}"
            ))?;
            Ok(first.guid)
        }
    }
}

/// The missing nodes and cables, each by itself.
async fn missing(session: &Session) -> Result<Vec<v1::Missing>, Failure> {
    let request = v1::ListMissingRequest {
        each: true,
        ..v1::ListMissingRequest::default()
    };
    all_pages(request, async |request| {
        session.fabric().list_missing(request).await
    })
    .await
}

/// The end of a sentence about a host, with its adapters that are gone: where each was, since when
/// it is gone, and what is seen there; empty if none is gone.
fn missing_adapters(host: &str, missing: &[v1::Missing]) -> String {
    let own = missing.iter().filter(|one| {
        one.kind() == v1::MissingKind::Host && host_of_adapter(&one.name) == Some(host)
    });
    let own = own.map(|one| {
        let since = one.lost_unix_ms.map_or_else(
            || "before rsm started".to_owned(),
            |lost| format!("since {}", minute(lost)),
        );
        let place = plain_names(&one.place);
        format!(
            "; {} is gone {since}, was at {place}: {}",
            one.name, one.seen
        )
    });
    own.collect()
}

/// The first adapter by its description, and the number of adapters, of the host with this name;
/// `None` unless there are several.
fn of_host(name: &str, nodes: Vec<v1::Node>) -> Option<(v1::Node, u64)> {
    let is_adapter = |node: &v1::Node| {
        host_of_adapter(&node.description) == Some(name) && node.kind() == v1::NodeKind::Ca
    };
    let adapters: Vec<v1::Node> = nodes.into_iter().filter(is_adapter).collect();
    let number = adapters.len() as u64;
    let first = adapters
        .into_iter()
        .min_by(|one, other| one.description.cmp(&other.description));
    first.filter(|_| number > 1).map(|first| (first, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adapters_of_a_host_that_are_gone_are_named_with_place_and_time() {
        let lost = |name: &str, lost_unix_ms| v1::Missing {
            kind: v1::MissingKind::Host.into(),
            name: name.to_owned(),
            place: "MF0;leaf-01:MQM9700/U1:29".to_owned(),
            seen: "no signal".to_owned(),
            lost_unix_ms,
            ..v1::Missing::default()
        };
        let missing = [
            lost("host-29 mlx5_0", Some(60_000)),
            lost("host-2 mlx5_0", None),
        ];
        assert_eq!(
            missing_adapters("host-29", &missing),
            "; host-29 mlx5_0 is gone since 1970-01-01T00:01Z, was at leaf-01:29: no signal"
        );
        let early = missing_adapters("host-2", &missing);
        assert!(early.contains("gone before rsm started, was at"), "{early}");
        assert_eq!(missing_adapters("host-3", &missing), "");
    }

    #[test]
    fn a_host_stands_for_its_first_adapter() {
        let node = |description: &str, kind: v1::NodeKind| v1::Node {
            description: description.to_owned(),
            guid: description.to_owned(),
            kind: kind.into(),
            ..v1::Node::default()
        };
        let nodes = || {
            vec![
                node("host-1 mlx5_1", v1::NodeKind::Ca),
                node("host-1 mlx5_0", v1::NodeKind::Ca),
                node("host-12 mlx5_0", v1::NodeKind::Ca),
                node("host-1", v1::NodeKind::Switch),
                node("single mlx5_0", v1::NodeKind::Ca),
            ]
        };
        let (first, adapters) = of_host("host-1", nodes()).unwrap();
        assert_eq!((first.description.as_str(), adapters), ("host-1 mlx5_0", 2));
        for other in ["host-1 mlx5_0", "host", "single", "host-2"] {
            assert_eq!(of_host(other, nodes()), None, "{other}");
        }
    }
}
