//! Resolves the name of a host for a command that expects a port.

use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{count, host_of as host_of_adapter};

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
            session.output.note(&format!(
                "{name}: taken as {description}; the host has {others}"
            ))?;
            Ok(first.guid)
        }
    }
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
