//! Every refusal has an ErrorInfo, whatever is wrong with the request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _};
use http::uri::PathAndQuery;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto};
use rsm_api::Reason;
use rsm_api::access::{AccessPolicy, Anonymous, Gate, NoAudit, RateSettings, calls};
use rsm_api::limits::{ERROR_DOMAIN, MAX_REQUEST_BYTES};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

use crate::fake::Fake;
use crate::roles;
use crate::served::{Served, Wanted};

/// The reason of a refusal, checked to have the domain of rsm and the code of the reason.
pub(crate) fn reason(refusal: &Status) -> Reason {
    let info = refusal.get_details_error_info();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {refusal:?}"));
    assert_eq!(info.domain, ERROR_DOMAIN, "{refusal}");
    let known = Reason::ALL.iter().find(|known| known.name() == info.reason);
    let known = *known.unwrap_or_else(|| panic!("unknown reason {}", info.reason));
    assert_eq!(refusal.code(), known.code(), "{refusal}");
    known
}

/// Encodes messages that are bytes already, and reads answers as nothing.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Bytes;
    type Decoder = Bytes;

    fn encoder(&mut self) -> Bytes {
        Bytes
    }

    fn decoder(&mut self) -> Bytes {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        buf.advance(buf.remaining());
        Ok(Some(()))
    }
}

/// Sends one message to the call at `path`, with a header; returns the reason if it is refused.
async fn sent(
    channel: Channel,
    path: &str,
    message: Vec<u8>,
    header: Option<(&'static str, &'static str)>,
) -> Option<Reason> {
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let mut request = Request::new(message);
    if let Some((name, value)) = header {
        request.metadata_mut().insert(name, value.parse().unwrap());
    }
    let path: PathAndQuery = path.parse().unwrap();
    // This form serves unary calls as well, and does not wait for the end of a stream.
    let answer = client.server_streaming(request, path.clone(), Bytes).await;
    answer.err().map(|refusal| {
        let has_info = refusal.get_details_error_info().is_some();
        assert!(has_info, "{path}: {refusal:?}");
        reason(&refusal)
    })
}

/// The paths of the calls of rsm.v1, each with the message of its request.
fn requests() -> BTreeMap<String, DescriptorProto> {
    let files = roles::files();
    let messages: BTreeMap<String, &DescriptorProto> = files
        .iter()
        .flat_map(|file| {
            let package = file.package();
            let messages = file.message_type.iter();
            messages.map(move |message| (format!(".{package}.{}", message.name()), message))
        })
        .collect();
    let mut requests = BTreeMap::new();
    for file in files.iter().filter(|file| file.package() == "rsm.v1") {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/rsm.v1.{}/{}", service.name(), method.name());
                requests.insert(path, messages[method.input_type()].clone());
            }
        }
    }
    requests
}

/// Appends an integer of base 128.
fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// A message with the given value, which few fields permit, in one field.
fn with_field(field: &FieldDescriptorProto, text: &str, number: u64) -> Vec<u8> {
    let mut message = Vec::new();
    let key = |wire_type: u64| {
        let mut key = Vec::new();
        put_varint(&mut key, (field.number() as u64) << 3 | wire_type);
        key
    };
    match field.r#type() {
        Type::Double => {
            message.extend(key(1));
            message.extend(f64::NAN.to_le_bytes());
        }
        Type::Float => {
            message.extend(key(5));
            message.extend(f32::NAN.to_le_bytes());
        }
        Type::String | Type::Bytes | Type::Message => {
            message.extend(key(2));
            put_varint(&mut message, text.len() as u64);
            message.extend(text.bytes());
        }
        Type::Bool => {
            message.extend(key(0));
            message.push(1);
        }
        _ if field.label() == Label::Repeated => {
            let mut packed = Vec::new();
            put_varint(&mut packed, number);
            message.extend(key(2));
            put_varint(&mut message, packed.len() as u64);
            message.extend(packed);
        }
        _ => {
            message.extend(key(0));
            put_varint(&mut message, number);
        }
    }
    message
}

#[test]
fn each_field_with_a_wrong_value_is_refused_with_a_reason() {
    let unlimited = || {
        let mut policy = AccessPolicy::without_files(Anonymous::Everything);
        policy.rates = RateSettings {
            reads_per_s: 0,
            changes_per_s: 0,
            reports_per_s: 0,
        };
        Wanted {
            gate: Some(Arc::new(Gate::new(policy, Arc::new(NoAudit)))),
            ..Wanted::default()
        }
    };
    let bare = Wanted {
        hardware: true,
        unmanaged: true,
        ..unlimited()
    };
    let long = "x".repeat(300);
    let mut refused: BTreeSet<Reason> = BTreeSet::new();
    let mut served_calls = 0;
    for wanted in [unlimited(), bare] {
        let served = Served::start_as(Fake::tree(2, 2), wanted);
        let channel = served.unix();
        for (path, request) in requests() {
            served_calls += 1;
            let mut messages = vec![Vec::new(), vec![0xff; 12]];
            for field in &request.field {
                for (text, number) in [("nosuch", 99), (&long, u64::from(u32::MAX))] {
                    messages.push(with_field(field, text, number));
                }
            }
            for message in messages {
                let sent = sent(channel.clone(), &path, message, None);
                refused.extend(served.block_on(sent));
            }
        }
    }
    assert!(served_calls > 130, "{served_calls}");
    for expected in [
        Reason::InvalidField,
        Reason::InvalidPageToken,
        Reason::MalformedName,
        Reason::MalformedMessage,
        Reason::NoSuchName,
        Reason::NoSubnet,
        Reason::NotSimulated,
        Reason::HistoryNotKept,
        Reason::NoSuchGpuHost,
    ] {
        assert!(refused.contains(&expected), "{expected:?}: {refused:?}");
    }
}

#[test]
fn refusals_of_the_protocol_layer_and_the_guard_have_a_reason() {
    let served = Served::start(Fake::tree(1, 1));
    let status = "/rsm.v1.FabricService/GetStatus";
    let large = vec![0; MAX_REQUEST_BYTES + 1];
    for (path, message, header, expected) in [
        (status, large, None, Reason::MessageTooLarge),
        (
            status,
            Vec::new(),
            Some(("grpc-encoding", "gzip")),
            Reason::UnsupportedEncoding,
        ),
        (
            "/rsm.v1.FabricService/Explode",
            Vec::new(),
            None,
            Reason::NoSuchCall,
        ),
        (
            "/rsm.v9.FabricService/GetStatus",
            Vec::new(),
            None,
            Reason::NoSuchCall,
        ),
        (
            status,
            Vec::new(),
            Some(("authorization", "Bearer nonsense")),
            Reason::InvalidProof,
        ),
    ] {
        let sent = sent(served.unix(), path, message, header);
        assert_eq!(served.block_on(sent), Some(expected), "{path}");
    }
}

#[test]
fn every_call_without_its_role_is_refused_with_a_reason() {
    let paths = || calls::paths().filter(|path| path.starts_with("/rsm.v1."));
    let reading = Served::start(Fake::tree(1, 1));
    let policy = AccessPolicy::without_files(Anonymous::Nothing);
    let wanted = Wanted {
        gate: Some(Arc::new(Gate::new(policy, Arc::new(NoAudit)))),
        ..Wanted::default()
    };
    let closed = Served::start_as(Fake::tree(1, 1), wanted);
    let (to_reading, to_closed) = (reading.tcp(), closed.tcp());
    for path in paths() {
        let sent_to_closed = sent(to_closed.clone(), &path, Vec::new(), None);
        let refused = closed.block_on(sent_to_closed);
        assert_eq!(refused, Some(Reason::NoIdentity), "{path}");
        if calls::need(&path).unwrap().changes() {
            let sent_to_reading = sent(to_reading.clone(), &path, Vec::new(), None);
            let refused = reading.block_on(sent_to_reading);
            assert_eq!(refused, Some(Reason::RoleLacking), "{path}");
        }
    }
}
