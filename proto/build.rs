//! Compiles `rsm/v1/*.proto` with protox, so that no protoc is needed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

/// The package that all files belong to.
const PACKAGE: &str = "rsm.v1";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=rsm");
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(proto_files(Path::new("rsm/v1"))?, ["."])?;
    fs::write(out_dir.join("descriptors.bin"), descriptors.encode_to_vec())?;
    fs::write(out_dir.join("labels.rs"), labels(&descriptors))?;
    fs::write(out_dir.join("lists.rs"), lists(&descriptors))?;

    let mut builder = tonic_prost_build::configure()
        .codec_path("crate::codec::Codec")
        .type_attribute(".", "#[derive(serde::Serialize)]")
        // serde shows a oneof as a field of its message, under the name of the set member.
        .enum_attribute("Event.change", "#[serde(rename_all = \"snake_case\")]")
        .enum_attribute(
            "WatchResponse.message",
            "#[serde(rename_all = \"snake_case\")]",
        )
        // Most nodes of most fabrics have none, and messages of events hold a node each.
        .boxed("Node.capabilities")
        .field_attribute("Event.change", "#[serde(flatten)]")
        .field_attribute("WatchResponse.message", "#[serde(flatten)]");
    for request in read_requests(&descriptors) {
        builder = builder.type_attribute(
            request,
            "#[derive(serde::Deserialize)] #[serde(default, deny_unknown_fields)]",
        );
    }
    for (field, EnumerationField { of, repeated }) in enumeration_fields(&descriptors) {
        if is_request(&field) && !repeated {
            builder = builder.field_attribute(
                &field,
                format!("#[serde(deserialize_with = \"crate::label::deserialize::<{of}, _>\")]"),
            );
        }
        let serializer = if repeated {
            "serialize_all"
        } else {
            "serialize"
        };
        builder = builder.field_attribute(
            field,
            format!("#[serde(serialize_with = \"crate::label::{serializer}::<{of}, _>\")]"),
        );
    }
    builder.compile_fds(descriptors)?;
    compile_etcd()
}

/// Compiles the part of etcd's API that rsm calls: clients only.
fn compile_etcd() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=etcd");
    let descriptors = protox::compile(proto_files(Path::new("etcd"))?, ["etcd"])?;
    tonic_prost_build::configure()
        .build_server(false)
        .compile_fds(descriptors)?;
    Ok(())
}

/// All `.proto` files of a directory, in order of their names.
fn proto_files(directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Prefixes of methods that only read.
const READING: [&str; 3] = ["Get", "List", "Resolve"];

/// The requests that only read, as `.package.Message`: they can be made from a query string.
fn read_requests(descriptors: &FileDescriptorSet) -> Vec<String> {
    let messages = descriptors.file.iter().flat_map(|file| &file.message_type);
    messages
        .map(|message| format!(".{PACKAGE}.{}", message.name()))
        .filter(|message| is_request(message))
        .collect()
}

/// Whether a message, or the message of a field, is a request that only reads.
fn is_request(path: &str) -> bool {
    let message = path.trim_start_matches(&format!(".{PACKAGE}."));
    let message = message.split('.').next().unwrap_or_default();
    message.ends_with("Request") && READING.iter().any(|prefix| message.starts_with(prefix))
}

/// A field that holds an enumeration.
struct EnumerationField {
    /// The enumeration's name.
    of: String,
    /// Whether it holds any number of values.
    repeated: bool,
}

/// Every field that holds an enumeration, as `.package.Message.field`.
fn enumeration_fields(descriptors: &FileDescriptorSet) -> BTreeMap<String, EnumerationField> {
    let messages = descriptors.file.iter().flat_map(|file| &file.message_type);
    let fields = |message: &DescriptorProto| {
        let owner = message.name().to_owned();
        message
            .field
            .iter()
            .filter(|field| field.r#type() == Type::Enum)
            .map(move |field| {
                let enumeration = field.type_name().rsplit('.').next().unwrap_or_default();
                (
                    format!(".{PACKAGE}.{owner}.{}", field.name()),
                    EnumerationField {
                        of: enumeration.to_owned(),
                        repeated: field.label() == Label::Repeated,
                    },
                )
            })
            .collect::<Vec<_>>()
    };
    messages.flat_map(fields).collect()
}

/// Rust source that implements `Label` for every enumeration.
fn labels(descriptors: &FileDescriptorSet) -> String {
    let mut source = String::new();
    for enumeration in descriptors.file.iter().flat_map(|file| &file.enum_type) {
        let name = enumeration.name();
        let rows: String = enumeration
            .value
            .iter()
            .filter(|value| value.number() != 0)
            .map(|value| {
                format!(
                    "({}, {:?}), ",
                    value.number(),
                    label(enumeration, value.name())
                )
            })
            .collect();
        writeln!(
            source,
            "impl Label for crate::v1::{name} {{ const LABELS: &'static [(i32, &'static str)] = &[{rows}]; }}"
        )
        .expect(INFALLIBLE);
    }
    source
}

/// Rust source that implements `Paged` for every request with a page size and a token, and `List`
/// where the response has nothing but items beside the token and the generation.
fn lists(descriptors: &FileDescriptorSet) -> String {
    let messages = || descriptors.file.iter().flat_map(|file| &file.message_type);
    let mut source = String::new();
    for request in messages().filter(|message| has(message, "page_size")) {
        let Some(method) = request.name().strip_suffix("Request") else {
            continue;
        };
        writeln!(source, "paged!({method}, {method}Request);").expect(INFALLIBLE);
        let response = format!("{method}Response");
        let Some(response) = messages().find(|message| message.name() == response) else {
            continue;
        };
        let mut items = response
            .field
            .iter()
            .filter(|field| field.label() == Label::Repeated && field.r#type() == Type::Message);
        if let (Some(items), None) = (items.next(), items.next()) {
            let item = items.type_name().rsplit('.').next().unwrap_or_default();
            let generation = if has(response, "generation") {
                "generation"
            } else {
                ""
            };
            writeln!(
                source,
                "list!({method}Request, {method}Response, {item}, {}, {generation});",
                items.name()
            )
            .expect(INFALLIBLE);
        }
    }
    source
}

const INFALLIBLE: &str = "writing to a string does not fail";

fn has(message: &DescriptorProto, field: &str) -> bool {
    message.field.iter().any(|one| one.name() == field)
}

/// `PORT_STATE_ACTIVE` of `PortState` reads `active`.
fn label(enumeration: &EnumDescriptorProto, value: &str) -> String {
    let mut prefix = String::new();
    for c in enumeration.name().chars() {
        if c.is_uppercase() && !prefix.is_empty() {
            prefix.push('_');
        }
        prefix.push(c.to_ascii_uppercase());
    }
    prefix.push('_');
    value
        .strip_prefix(&prefix)
        .unwrap_or(value)
        .to_ascii_lowercase()
        .replace('_', "-")
}
