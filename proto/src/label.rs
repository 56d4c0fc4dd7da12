//! Short names of enumeration values, for people and for JSON.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

/// An enumeration whose values have short names: `PORT_STATE_ACTIVE` reads `active`.
pub trait Label {
    /// Every value but the unspecified one, with its name.
    const LABELS: &'static [(i32, &'static str)];

    /// The name of a value as it is on the wire; none for the unspecified one and unknown ones of a
    /// newer server.
    fn label(value: i32) -> Option<&'static str> {
        Self::LABELS
            .iter()
            .find(|&&(number, _)| number == value)
            .map(|&(_, label)| label)
    }

    /// The value with this name.
    fn number(label: &str) -> Option<i32> {
        Self::LABELS
            .iter()
            .find(|&&(_, known)| known == label)
            .map(|&(number, _)| number)
    }
}

/// Serializes a value by its name, and one without a name as null.
pub(crate) fn serialize<E: Label, S: Serializer>(
    value: &i32,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    E::label(*value).serialize(serializer)
}

/// Serializes values by their names, each without a name as null.
pub(crate) fn serialize_all<E: Label, S: Serializer>(
    values: &[i32],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|&value| E::label(value)))
}

/// Reads the name of a value; an empty name is the unspecified value.
pub(crate) fn deserialize<'de, E: Label, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<i32, D::Error> {
    let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    if name.is_empty() {
        return Ok(0);
    }
    E::number(&name).ok_or_else(|| {
        let names: Vec<&str> = E::LABELS.iter().map(|&(_, label)| label).collect();
        D::Error::custom(format!(
            "`{name}` is unknown, expected {}",
            names.join(", ")
        ))
    })
}

include!(concat!(env!("OUT_DIR"), "/labels.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{
        JoinState, LinkWidth, ListPortsRequest, MulticastMember, Node, NodeKind, PhysicalState,
        PortState,
    };

    #[test]
    fn names_lose_their_prefix() {
        assert_eq!(NodeKind::label(NodeKind::Switch as i32), Some("switch"));
        assert_eq!(
            PhysicalState::number("link-up"),
            Some(PhysicalState::LinkUp as i32)
        );
        assert_eq!(LinkWidth::LABELS[2], (3, "4x"));
        assert_eq!(NodeKind::label(0), None);
        assert_eq!(NodeKind::label(99), None);
        assert_eq!(NodeKind::number("unspecified"), None);
    }

    #[test]
    fn json_has_names_for_enumerations_and_null_for_what_is_absent() {
        let node = Node {
            kind: NodeKind::Router as i32,
            ..Node::default()
        };
        let json = serde_json::to_value(&node).unwrap();
        assert_eq!(json["kind"], "router");
        assert_eq!(json["rank"], serde_json::Value::Null);
        let json = serde_json::to_value(Node::default()).unwrap();
        assert_eq!(json["kind"], serde_json::Value::Null);
    }

    #[test]
    fn a_request_is_read_by_names_and_refuses_unknown_ones() {
        let read = |text: &str| serde_json::from_str::<ListPortsRequest>(text);
        let request = read(r#"{"state": "active", "node": "leaf-1"}"#).unwrap();
        assert_eq!(request.state(), PortState::Active);
        assert_eq!((request.node.as_str(), request.page_size), ("leaf-1", 0));
        let unknown = read(r#"{"state": "up"}"#).unwrap_err().to_string();
        assert!(
            unknown.contains("expected down, init, armed, active"),
            "{unknown}"
        );
        assert!(read(r#"{"stat": "active"}"#).is_err());
    }

    #[test]
    fn json_has_a_list_of_names_where_there_are_several() {
        let member = MulticastMember {
            join_states: vec![
                JoinState::FullMember.into(),
                JoinState::SendOnlyNonMember.into(),
                99,
            ],
            ..MulticastMember::default()
        };
        let json = serde_json::to_value(&member).unwrap();
        let names = serde_json::json!(["full-member", "send-only-non-member", null]);
        assert_eq!(json["join_states"], names);
    }
}
