//! Protocol buffers of `rsm.v1` and the gRPC stubs made from them.
//!
//! Messages serialize to JSON by their field names as the `.proto` files give them, enumerations by
//! their [`Label`].

pub mod codec;
mod label;
mod list;
mod missing;
mod text;

pub use codec::Codec;
pub use label::Label;
pub use list::{List, Paged};
pub use text::{AGGREGATION_NODE, plain_names, printable, thousands, with_causes};

/// Messages, clients and servers of package `rsm.v1`.
pub mod v1 {
    #![allow(
        missing_docs,
        reason = "generated: the comments of the .proto files cover what is not glue"
    )]
    #![allow(
        clippy::large_enum_variant,
        reason = "a stream of events is a stream of its largest message"
    )]
    tonic::include_proto!("rsm.v1");
}

/// Messages and clients of etcd's API, version 3, as far as the store calls it.
pub mod etcd {
    #![allow(
        missing_docs,
        reason = "generated: the comments of the .proto file cover what is not glue"
    )]
    tonic::include_proto!("etcdserverpb");
}

/// The encoded file descriptor set of all files, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
