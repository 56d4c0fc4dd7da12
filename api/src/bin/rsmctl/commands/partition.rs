use clap::{Args, Subcommand, ValueEnum};
use rsm_proto::v1;

use super::confirm::{self, Confirmation};
use super::{partitions, waiting};
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, hex, label, p_key, port_of};

/// Makes, changes and deletes partitions, and waits until the hardware holds the change
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples: rsmctl partition create 0x10 --name blue --ipoib host-01 host-02\n          \
                  rsmctl partition add 0x10 0x0002c90300001234 --membership limited\n          \
                  rsmctl partition default limited"
)]
pub(crate) enum PartitionCommand {
    /// Lists all partitions and where each is defined
    List,
    /// Lists the ports that were made members of a partition, present or not
    Show(KeyArguments),
    /// Makes a partition; if it is there with the same settings, adds the members
    Create(CreateArguments),
    /// Adds members, or changes the membership of those that are there
    Add(MembersArguments),
    /// Removes members
    Remove(NamesArguments),
    /// Makes these ports the members, and no others
    Set(SetArguments),
    /// Gives a partition other settings: those that are not named are the usual ones
    Configure(ConfigureArguments),
    /// Gives a partition names of its own: what is not named is taken back
    Protect(ProtectArguments),
    /// Deletes a partition with all its members
    Delete(DeleteArguments),
    /// Sets the membership of hosts in the default partition
    Default(DefaultArguments),
}

#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    /// The partition's P_Key, in hexadecimal with 0x
    #[arg(value_name = "P_KEY", value_parser = p_key)]
    p_key: u16,
}

#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// Its name, instead of its P_Key
    #[arg(long, default_value = "", value_name = "TEXT")]
    name: String,
    /// Have the broadcast group of IP over InfiniBand
    #[arg(long)]
    ipoib: bool,
    /// Service level of its packets, 0 to 15
    #[arg(long, default_value_t = 0, value_name = "SL")]
    sl: u32,
    /// MTU of that group in bytes
    #[arg(long, default_value_t = 2048, value_name = "BYTES")]
    mtu: u32,
    /// Rate of that group in Gb/s
    #[arg(long, default_value_t = 10.0, value_name = "GBPS")]
    rate: f64,
}

/// A membership, for all members that a command names.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Wanted {
    /// Talk to all members
    Full,
    /// Talk to full members
    Limited,
    /// Hold the keys of both
    Both,
}

#[derive(Debug, Args)]
pub(crate) struct MembershipArguments {
    /// Their membership
    #[arg(long, value_enum, default_value = "full")]
    membership: Wanted,
    /// Put the key at index 0 of their P_Key tables
    #[arg(long)]
    index0: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    #[command(flatten)]
    key: KeyArguments,
    /// Members: port GUIDs, present or not; names of hosts, for all their ports; NODE:PORT
    #[arg(value_name = "GUID|NODE|NODE:PORT")]
    members: Vec<String>,
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    membership: MembershipArguments,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(crate) struct MembersArguments {
    #[command(flatten)]
    key: KeyArguments,
    /// Members: port GUIDs, present or not; names of hosts, for all their ports; NODE:PORT
    #[arg(required = true, value_name = "GUID|NODE|NODE:PORT")]
    members: Vec<String>,
    #[command(flatten)]
    membership: MembershipArguments,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    #[command(flatten)]
    key: KeyArguments,
    /// Members: port GUIDs, present or not; names of hosts, for all their ports; NODE:PORT
    #[arg(value_name = "GUID|NODE|NODE:PORT")]
    members: Vec<String>,
    #[command(flatten)]
    membership: MembershipArguments,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(crate) struct NamesArguments {
    #[command(flatten)]
    key: KeyArguments,
    /// Members: port GUIDs, present or not; names of hosts, for all their ports; NODE:PORT
    #[arg(required = true, value_name = "GUID|NODE|NODE:PORT")]
    members: Vec<String>,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigureArguments {
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    settings: SettingsArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ProtectArguments {
    #[command(flatten)]
    key: KeyArguments,
    /// MGIDs of its groups, by their first bits, such as ff12:a01d:10::/48
    #[arg(long, value_name = "MGID/BITS", value_delimiter = ',')]
    mgids: Vec<String>,
    /// Alias GUIDs of its ports, by their first bits, such as 0x0252000000100000/44
    #[arg(long, value_name = "GUID/BITS", value_delimiter = ',')]
    guids: Vec<String>,
    /// Treatment of requests in the name of its ports, or for its names, from others
    #[arg(long, value_enum)]
    trust: Option<Trust>,
}

/// A treatment of requests.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Trust {
    /// Obeyed as IBA permits
    Off,
    /// The same, and counted in a finding
    Report,
    /// Refused, and counted in a finding
    Enforce,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(crate) struct DefaultArguments {
    /// Limited members; or the membership that the file gives them, full without a file
    #[arg(value_enum)]
    membership: DefaultMembership,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// The membership of hosts in the default partition.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DefaultMembership {
    /// Hosts are limited members
    Limited,
    /// Hosts have the membership that the file gives them
    File,
}

impl SettingsArguments {
    fn message(self) -> Option<v1::PartitionSettings> {
        Some(v1::PartitionSettings {
            name: self.name,
            ipoib: self.ipoib,
            service_level: self.sl,
            mtu_bytes: self.mtu,
            rate_gbps: self.rate,
        })
    }
}

impl MembershipArguments {
    fn wanted(&self, ports: Vec<String>) -> Vec<v1::WantedMember> {
        let membership = match self.membership {
            Wanted::Full => v1::Membership::Full,
            Wanted::Limited => v1::Membership::Limited,
            Wanted::Both => v1::Membership::Both,
        };
        let wanted = ports.into_iter().map(|port| v1::WantedMember {
            port,
            membership: membership.into(),
            index0: self.index0,
        });
        wanted.collect()
    }
}

pub(crate) async fn run(command: PartitionCommand, session: &mut Session) -> Result<(), Failure> {
    let report = match command {
        PartitionCommand::List => return partitions::partitions(session).await,
        PartitionCommand::Show(arguments) => return show(arguments.p_key, session).await,
        PartitionCommand::Configure(arguments) => configure(arguments, session).await?,
        PartitionCommand::Protect(arguments) => protect(arguments, session).await?,
        PartitionCommand::Create(arguments) => create(arguments, session).await?,
        PartitionCommand::Add(arguments) => add(arguments, session).await?,
        PartitionCommand::Remove(arguments) => remove(arguments, session).await?,
        PartitionCommand::Set(arguments) => set(arguments, session).await?,
        PartitionCommand::Delete(arguments) => delete(arguments, session).await?,
        PartitionCommand::Default(arguments) => default(arguments, session).await?,
    };
    report.show(session)
}

async fn configure(arguments: ConfigureArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let request = v1::ConfigurePartitionRequest {
        p_key: p_key.into(),
        settings: arguments.settings.message(),
    };
    let mut client = session.partitions();
    waiting::for_answer(session, client.configure_partition(request)).await?;
    Ok(Report::new(p_key, 0, None))
}

async fn protect(arguments: ProtectArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let trust = match arguments.trust {
        None => v1::TrustMode::Unspecified,
        Some(Trust::Off) => v1::TrustMode::Off,
        Some(Trust::Report) => v1::TrustMode::Report,
        Some(Trust::Enforce) => v1::TrustMode::Enforce,
    };
    let protection = v1::PartitionProtection {
        trust: trust.into(),
        mgids: arguments.mgids,
        guids: arguments.guids,
    };
    let request = v1::ProtectPartitionRequest {
        p_key: p_key.into(),
        protection: Some(protection),
    };
    let mut client = session.partitions();
    waiting::for_answer(session, client.protect_partition(request)).await?;
    Ok(Report::new(p_key, 0, None))
}

async fn create(arguments: CreateArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let mut request = v1::CreatePartitionRequest {
        p_key: p_key.into(),
        settings: arguments.settings.message(),
        members: arguments.membership.wanted(arguments.members),
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.create_partition(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn add(arguments: MembersArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let mut request = v1::AddPartitionMembersRequest {
        p_key: p_key.into(),
        members: arguments.membership.wanted(arguments.members),
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.add_partition_members(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn remove(arguments: NamesArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let mut request = v1::RemovePartitionMembersRequest {
        p_key: p_key.into(),
        ports: arguments.members,
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.remove_partition_members(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn set(arguments: SetArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let mut request = v1::SetPartitionMembersRequest {
        p_key: p_key.into(),
        members: arguments.membership.wanted(arguments.members),
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.set_partition_members(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn delete(arguments: DeleteArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key;
    let mut request = v1::DeletePartitionRequest {
        p_key: p_key.into(),
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.delete_partition(request).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn default(arguments: DefaultArguments, session: &Session) -> Result<Report, Failure> {
    let mut client = session.partitions();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        let request = v1::SetDefaultMembershipRequest {
            limited: matches!(arguments.membership, DefaultMembership::Limited),
            accept_cut_off,
        };
        client.set_default_membership(request).await
    });
    let answer = answer.await?;
    Ok(Report::new(DEFAULT, answer.changed, answer.cut_off))
}

/// The P_Key of the default partition.
const DEFAULT: u16 = 0x7fff;

/// The answer to a change, which is in force in the hardware.
#[derive(serde::Serialize)]
struct Report {
    p_key: u16,
    changed: u64,
    /// The ports that the change cut off, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off: Option<v1::PartitionCutOff>,
}

impl Report {
    fn new(p_key: u16, changed: u64, cut_off: Option<v1::PartitionCutOff>) -> Report {
        Report {
            p_key: p_key & 0x7fff,
            changed,
            cut_off,
        }
    }

    fn show(self, session: &mut Session) -> Result<(), Failure> {
        if session.output.is_json() {
            return session.output.json(&self);
        }
        let mut rows = Rows::plain(2);
        let memberships = count(self.changed, "membership", "memberships");
        let cut_off = match &self.cut_off {
            None => String::new(),
            Some(cut_off) => format!(
                "; {} cut off from others in it, {} of them from every host",
                count(cut_off.ports, "port", "ports"),
                cut_off.isolated_ports
            ),
        };
        rows.add([
            hex(self.p_key.into()),
            format!("in force: {memberships} changed{cut_off}"),
        ]);
        session.output.table(rows)
    }
}

async fn show(p_key: u16, session: &mut Session) -> Result<(), Failure> {
    let request = v1::ListPartitionGuidsRequest {
        p_key: p_key.into(),
        ..Default::default()
    };
    let guids = all_pages(request, async |request| {
        session.partitions().list_partition_guids(request).await
    })
    .await?;
    let columns = ["GUID", "MEMBERSHIP", "INDEX0", "PORT"];
    session.output.list(guids, columns, |member| {
        let port = match &member.port {
            Some(port) => port_of(&member.description, Some(port)),
            None => "not present".to_owned(),
        };
        [
            member.guid,
            label::<v1::Membership>(member.membership),
            if member.index0 { "index 0" } else { "" }.to_owned(),
            port,
        ]
    })
}
