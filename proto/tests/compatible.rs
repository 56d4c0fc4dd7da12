//! Clients of earlier versions can read and write every field that they know: `fields.txt` has all
//! fields, values and methods of rsm.v1, and none of them goes or changes.
//!
//! `RSM_UPDATE_GOLDEN=1` adds what is new to the file. It removes nothing: an element that must go
//! is removed from the file by hand, for a new version of the package.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MethodDescriptorProto,
};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fields.txt")
}

/// A line for each field, value of an enumeration, and method.
fn elements() -> BTreeSet<String> {
    let descriptors = FileDescriptorSet::decode(rsm_proto::FILE_DESCRIPTOR_SET).unwrap();
    descriptors.file.iter().flat_map(elements_of).collect()
}

fn elements_of(file: &FileDescriptorProto) -> Vec<String> {
    let mut lines = Vec::new();
    for message in &file.message_type {
        add_message(&mut lines, message.name(), message);
    }
    for enumeration in &file.enum_type {
        add_enumeration(&mut lines, enumeration.name(), enumeration);
    }
    for service in &file.service {
        let methods = service.method.iter();
        lines.extend(methods.map(|method| of_method(service.name(), method)));
    }
    lines
}

fn add_message(lines: &mut Vec<String>, name: &str, message: &DescriptorProto) {
    let fields = message.field.iter();
    lines.extend(fields.map(|field| of_field(name, message, field)));
    for nested in &message.nested_type {
        add_message(lines, &format!("{name}.{}", nested.name()), nested);
    }
    for nested in &message.enum_type {
        add_enumeration(lines, &format!("{name}.{}", nested.name()), nested);
    }
}

fn add_enumeration(lines: &mut Vec<String>, name: &str, enumeration: &EnumDescriptorProto) {
    let values = enumeration.value.iter();
    lines.extend(values.map(|value| format!("{name}.{} = {}", value.name(), value.number())));
}

/// `Port.lid = 3 uint32`, with `repeated`, `optional` or the name of its oneof before the type.
fn of_field(owner: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        scalar => {
            let name = scalar.as_str_name().trim_start_matches("TYPE_");
            name.to_ascii_lowercase()
        }
    };
    let group = match (field.label(), field.proto3_optional(), field.oneof_index) {
        (Label::Repeated, ..) => "repeated ".to_owned(),
        (_, true, _) => "optional ".to_owned(),
        (_, _, Some(index)) => {
            let oneof = usize::try_from(index).ok();
            let oneof = oneof.and_then(|index| message.oneof_decl.get(index));
            format!("oneof {} ", oneof.map_or("", |oneof| oneof.name()))
        }
        _ => String::new(),
    };
    format!(
        "{owner}.{} = {} {group}{kind}",
        field.name(),
        field.number()
    )
}

fn of_method(service: &str, method: &MethodDescriptorProto) -> String {
    let stream = |streams| if streams { "stream " } else { "" };
    format!(
        "{service}.{}({}{}) -> {}{}",
        method.name(),
        stream(method.client_streaming()),
        method.input_type().trim_start_matches('.'),
        stream(method.server_streaming()),
        method.output_type().trim_start_matches('.'),
    )
}

#[test]
fn every_known_field_value_and_method_stays_as_it_is() {
    let path = golden();
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut known: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let present = elements();
    assert!(present.len() > 500, "{} elements", present.len());
    if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
        known.extend(present.iter().cloned());
        let lines: Vec<&str> = known.iter().map(String::as_str).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    let gone: Vec<&String> = known.difference(&present).collect();
    assert!(gone.is_empty(), "earlier clients need: {gone:#?}");
    let new: Vec<&String> = present.difference(&known).collect();
    assert!(new.is_empty(), "RSM_UPDATE_GOLDEN=1 adds: {new:#?}");
}
