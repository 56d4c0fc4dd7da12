use clap::Args;
use rsm_proto::v1;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{hex, label, p_key, port_of};

/// Partitions, or the members of one
#[derive(Debug, Args)]
#[command(after_help = "Examples: rsmctl partitions\n          rsmctl partitions 0x8010")]
pub(crate) struct PartitionsArguments {
    /// List the members of this partition, by its P_Key, in hexadecimal with 0x
    #[arg(value_name = "P_KEY", value_parser = p_key)]
    p_key: Option<u16>,
}

pub(crate) async fn run(
    arguments: PartitionsArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    match arguments.p_key {
        Some(p_key) => members(p_key, session).await,
        None => partitions(session).await,
    }
}

/// All partitions.
pub(super) async fn all_partitions(session: &Session) -> Result<Vec<v1::Partition>, Failure> {
    let request = v1::ListPartitionsRequest::default();
    let all = all_pages(request, async |request| {
        session.partitions().list_partitions(request).await
    });
    all.await
}

pub(super) async fn partitions(session: &mut Session) -> Result<(), Failure> {
    let partitions = all_partitions(session).await?;
    session.output.list(
        partitions,
        [
            "P_KEY", "NAME", ">FULL", ">LIMITED", ">SL", ">GROUPS", "IPOIB", "ORIGIN", "OWN",
        ],
        |partition| {
            [
                hex(partition.p_key),
                partition.name,
                partition.full_members.to_string(),
                partition.limited_members.to_string(),
                partition.service_level.to_string(),
                partition.groups.to_string(),
                if partition.ipoib { "ipoib" } else { "" }.to_owned(),
                label::<v1::PartitionOrigin>(partition.origin),
                owned(partition.protection.unwrap_or_default()),
            ]
        },
    )
}

/// The names that belong to a partition, and the treatment of requests about it unless it is
/// unspecified; empty if there are none.
fn owned(protection: v1::PartitionProtection) -> String {
    let v1::PartitionProtection {
        trust,
        mgids,
        guids,
    } = protection;
    let trust = match trust {
        0 => None,
        trust => Some(format!("trust={}", label::<v1::TrustMode>(trust))),
    };
    let names = mgids.into_iter().chain(guids);
    names.chain(trust).collect::<Vec<_>>().join(" ")
}

async fn members(p_key: u16, session: &mut Session) -> Result<(), Failure> {
    let members = all_pages(
        v1::ListPartitionMembersRequest {
            p_key: p_key.into(),
            ..Default::default()
        },
        async |request| session.partitions().list_partition_members(request).await,
    )
    .await?;
    session
        .output
        .list(members, ["PORT", "MEMBERSHIP", ">INDEX"], |member| {
            [
                port_of(&member.description, member.port.as_ref()),
                label::<v1::Membership>(member.membership),
                member.index.to_string(),
            ]
        })
}
