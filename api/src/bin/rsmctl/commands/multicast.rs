use clap::Args;
use rsm_api::model::GroupSelector;
use rsm_proto::v1;
use serde::Serialize;

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{hex, label, p_key, port_or_gone};

/// Multicast groups, or the members and the tree of one
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl multicast\n  rsmctl multicast --port gpu-0001:1\n  rsmctl multicast ff12:401b:ffff::ffff:ffff\n  rsmctl multicast 0xc000"
)]
pub(crate) struct MulticastArguments {
    /// Show the members and the tree of this group, by MGID or multicast LID
    #[arg(conflicts_with_all = ["pkey", "port"])]
    group: Option<GroupSelector>,
    /// Only groups of the partition with this P_Key
    #[arg(long, value_name = "P_KEY", value_parser = p_key)]
    pkey: Option<u16>,
    /// Only groups that this port takes part in
    #[arg(long)]
    port: Option<String>,
}

pub(crate) async fn run(
    arguments: MulticastArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    match arguments.group {
        Some(group) => show_group(&group.to_string(), session).await,
        None => list_groups(arguments, session).await,
    }
}

async fn list_groups(arguments: MulticastArguments, session: &mut Session) -> Result<(), Failure> {
    let groups = all_pages(
        v1::ListMulticastGroupsRequest {
            p_key: arguments.pkey.unwrap_or_default().into(),
            port: arguments.port.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.multicast().list_multicast_groups(request).await,
    )
    .await?;
    session.output.list(
        groups,
        [
            "MGID",
            "MLID",
            "P_KEY",
            "+>MTU",
            "+>GB/S",
            ">SL",
            ">MEMBERS",
            ">FULL",
            ">SWITCHES",
            "KEPT",
        ],
        |group| {
            [
                group.mgid,
                hex(group.mlid),
                hex(group.p_key),
                group.mtu_bytes.to_string(),
                group.rate_gbps.to_string(),
                group.service_level.to_string(),
                group.members.to_string(),
                group.full_members.to_string(),
                group.switches.to_string(),
                if group.well_known { "always" } else { "" }.to_owned(),
            ]
        },
    )
}

/// A group with its members and switches.
#[derive(Serialize)]
struct GroupDetails {
    group: v1::MulticastGroup,
    members: Vec<v1::MulticastMember>,
    switches: Vec<v1::MulticastSwitch>,
}

async fn show_group(name: &str, session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetMulticastGroupRequest {
        group: name.to_owned(),
    };
    let answer = session.multicast().get_multicast_group(request).await?;
    let group = answer.into_inner().group.unwrap_or_default();
    // Members and switches are fetched by MGID: another group may get the multicast LID meanwhile.
    let whole = GroupDetails {
        members: members(&group.mgid, session).await?,
        switches: switches(&group.mgid, session).await?,
        group,
    };
    if session.output.is_json() {
        return session.output.json(&whole);
    }
    for line in heading(&whole.group) {
        session.output.line(&line)?;
    }
    let mut rows = Rows::new(&["PORT", "GID", "JOIN STATE", "SERVED", "+JOINED BY"]);
    for member in whole.members {
        let states: Vec<String> = member
            .join_states
            .iter()
            .map(|&state| label::<v1::JoinState>(state))
            .collect();
        let port = port_or_gone(&member.description, member.port.as_ref(), &member.port_guid);
        rows.add([
            port,
            member.gid,
            states.join(" "),
            if member.served { "yes" } else { "NO" }.to_owned(),
            if member.proxy { "another" } else { "itself" }.to_owned(),
        ]);
    }
    session.output.table(rows)?;
    let mut rows = Rows::new(&["SWITCH", "GUID", "PORTS"]);
    for switch in whole.switches {
        let ports: Vec<String> = switch.ports.iter().map(u32::to_string).collect();
        rows.add([switch.description, switch.guid, ports.join(" ")]);
    }
    session.output.line("")?;
    session.output.table(rows)
}

fn heading(group: &v1::MulticastGroup) -> [String; 2] {
    [
        format!(
            "{}, MLID {}, P_Key {}, Q_Key {:#010x}, {}",
            group.mgid,
            hex(group.mlid),
            hex(group.p_key),
            group.q_key,
            if group.well_known {
                "always there"
            } else {
                "there while it has full members"
            }
        ),
        format!(
            "MTU {}, {} Gb/s, SL {}, packet life time {}, TClass {}, FlowLabel {}, HopLimit {}, scope {}",
            group.mtu_bytes,
            group.rate_gbps,
            group.service_level,
            group.packet_life_time,
            group.traffic_class,
            group.flow_label,
            group.hop_limit,
            group.scope
        ),
    ]
}

async fn members(group: &str, session: &Session) -> Result<Vec<v1::MulticastMember>, Failure> {
    all_pages(
        v1::ListMulticastMembersRequest {
            group: group.to_owned(),
            ..Default::default()
        },
        async |request| session.multicast().list_multicast_members(request).await,
    )
    .await
}

async fn switches(group: &str, session: &Session) -> Result<Vec<v1::MulticastSwitch>, Failure> {
    all_pages(
        v1::ListMulticastSwitchesRequest {
            group: group.to_owned(),
            ..Default::default()
        },
        async |request| session.multicast().list_multicast_switches(request).await,
    )
    .await
}
