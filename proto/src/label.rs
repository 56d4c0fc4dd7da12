//! Short names of enumeration values, for people and for JSON.

use serde::{Serialize, Serializer};

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

include!(concat!(env!("OUT_DIR"), "/labels.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{JoinState, LinkWidth, MulticastMember, Node, NodeKind, PhysicalState};

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
