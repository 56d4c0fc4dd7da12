//! Style rules of every file of the package, checked on the served descriptors.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

fn files() -> Vec<FileDescriptorProto> {
    let descriptors = FileDescriptorSet::decode(rsm_proto::FILE_DESCRIPTOR_SET).unwrap();
    assert!(!descriptors.file.is_empty());
    descriptors.file
}

#[test]
fn enumerations_begin_with_unspecified() {
    for enumeration in files().iter().flat_map(|file| &file.enum_type) {
        let first = &enumeration.value[0];
        assert_eq!(first.number(), 0, "{}", enumeration.name());
        assert!(first.name().ends_with("_UNSPECIFIED"), "{}", first.name());
    }
}

#[test]
fn every_method_has_a_request_and_a_response_of_its_own() {
    let mut seen = BTreeSet::new();
    for service in files().iter().flat_map(|file| &file.service) {
        for method in &service.method {
            let name = method.name();
            let request = format!(".rsm.v1.{name}Request");
            assert_eq!(method.input_type(), request);
            assert_eq!(method.output_type(), format!(".rsm.v1.{name}Response"));
            assert!(seen.insert(request), "{name}");
        }
    }
    assert!(seen.len() > 15);
}

/// The order that `buf format` gives them.
#[test]
fn imports_are_sorted() {
    for file in files() {
        assert!(file.dependency.is_sorted(), "{}", file.name());
    }
}

#[test]
fn lists_are_paged() {
    for file in files() {
        for message in &file.message_type {
            let has = |field: &str| message.field.iter().any(|one| one.name() == field);
            let Some(list) = message.name().strip_prefix("List") else {
                continue;
            };
            if list.ends_with("Request") {
                assert!(has("page_size") && has("page_token"), "{}", message.name());
            } else {
                assert!(has("next_page_token"), "{}", message.name());
            }
        }
    }
}

/// Numbers of fields in FileDescriptorProto and below, the parts of a comment's path.
mod place {
    pub(super) const MESSAGE: i32 = 4;
    pub(super) const ENUM: i32 = 5;
    pub(super) const SERVICE: i32 = 6;
    /// Fields of a message, values of an enumeration, methods of a service.
    pub(super) const MEMBER: i32 = 2;
}

#[test]
fn everything_has_a_comment() {
    for file in files() {
        let comments: BTreeSet<Vec<i32>> = file
            .source_code_info
            .iter()
            .flat_map(|info| &info.location)
            .filter(|location| !location.leading_comments().trim().is_empty())
            .map(|location| location.path.clone())
            .collect();
        let check = |kind: i32, names: Vec<(&str, Vec<&str>)>| {
            for (index, (name, members)) in (0..).zip(names) {
                assert!(comments.contains(&vec![kind, index]), "{name}");
                for (member_index, member) in (0..).zip(members) {
                    let path = vec![kind, index, place::MEMBER, member_index];
                    assert!(comments.contains(&path), "{name}.{member}");
                }
            }
        };
        let messages = file.message_type.iter();
        check(
            place::MESSAGE,
            messages
                .map(|one| {
                    (
                        one.name(),
                        one.field.iter().map(|field| field.name()).collect(),
                    )
                })
                .collect(),
        );
        let enums = file.enum_type.iter();
        check(
            place::ENUM,
            enums
                .map(|one| {
                    (
                        one.name(),
                        one.value.iter().map(|value| value.name()).collect(),
                    )
                })
                .collect(),
        );
        let services = file.service.iter();
        check(
            place::SERVICE,
            services
                .map(|one| {
                    (
                        one.name(),
                        one.method.iter().map(|method| method.name()).collect(),
                    )
                })
                .collect(),
        );
    }
}
