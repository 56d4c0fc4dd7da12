use clap::{Args, Subcommand, ValueEnum};
use rsm_api::node_list;
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
    after_help = "Examples: rsmctl partition create 0x10 --name blue --ipoib host-[01-32]\n          \
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
    /// Gives a partition other settings; settings that are not named stay as they are
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
    /// The partition's P_Key, in hexadecimal with 0x, or its name
    #[arg(value_name = "P_KEY|NAME")]
    partition: String,
}

#[derive(Debug, Args)]
pub(crate) struct NewKeyArguments {
    /// The partition's P_Key, in hexadecimal with 0x
    #[arg(value_name = "P_KEY", value_parser = p_key)]
    p_key: u16,
}

impl KeyArguments {
    /// The P_Key; for a name, asks the server.
    ///
    /// # Errors
    /// The text is no P_Key and the name of no partition, or of several.
    async fn p_key(&self, session: &Session) -> Result<u16, Failure> {
        match p_key(&self.partition) {
            Ok(p_key) => Ok(p_key),
            Err(expected) => key_of_name(
                &self.partition,
                &partitions::all_partitions(session).await?,
                &expected,
            ),
        }
    }
}

/// The P_Key of the only partition with a name; `expected` is the form of a P_Key.
///
/// # Errors
/// No partition has the name, or several have it.
fn key_of_name(name: &str, partitions: &[v1::Partition], expected: &str) -> Result<u16, Failure> {
    let found = partitions.iter().filter(|one| one.name == name);
    let found: Vec<u32> = found.map(|one| one.p_key).collect();
    match found[..] {
        [] => Err(Failure::Usage(format!(
            "no partition is named `{name}`; as a P_Key, {expected}"
        ))),
        [key] => u16::try_from(key).map_err(|_| Failure::Usage(format!("P_Key {key}: {expected}"))),
        _ => {
            let keys: Vec<String> = found.into_iter().map(hex).collect();
            Err(Failure::Usage(format!(
                "several partitions are named `{name}`: use one of {}",
                keys.join(", ")
            )))
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// A name, instead of the P_Key
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Have the broadcast group of IP over InfiniBand; --ipoib=false: have none
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    ipoib: Option<bool>,
    /// Service level of its packets, 0 to 15; 0 for a new partition
    #[arg(long, value_name = "SL")]
    sl: Option<u32>,
    /// MTU of that group in bytes; 2048 for a new partition
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,
    /// Rate of that group in Gb/s; 10 for a new partition
    #[arg(long, value_name = "GBPS")]
    rate: Option<f64>,
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
    key: NewKeyArguments,
    /// Members: port GUIDs, present or not; names or lists of hosts such as host-[001-032], for all
    /// their ports; NODE:PORT
    #[arg(value_name = "GUID|HOSTS|NODE:PORT")]
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
    /// Members: port GUIDs, present or not; names or lists of hosts such as host-[001-032], for all
    /// their ports; NODE:PORT
    #[arg(required = true, value_name = "GUID|HOSTS|NODE:PORT")]
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
    /// Members: port GUIDs, present or not; names or lists of hosts such as host-[001-032], for all
    /// their ports; NODE:PORT
    #[arg(value_name = "GUID|HOSTS|NODE:PORT")]
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
    /// Members: port GUIDs, present or not; names or lists of hosts such as host-[001-032], for all
    /// their ports; NODE:PORT
    #[arg(required = true, value_name = "GUID|HOSTS|NODE:PORT")]
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
    /// Obeyed, and counted in a finding
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
    /// The settings that are given; other settings stay as in `before`. Always `Some`.
    fn message(self, before: v1::PartitionSettings) -> Option<v1::PartitionSettings> {
        Some(v1::PartitionSettings {
            name: self.name.unwrap_or(before.name),
            ipoib: self.ipoib.unwrap_or(before.ipoib),
            service_level: self.sl.unwrap_or(before.service_level),
            mtu_bytes: self.mtu.unwrap_or(before.mtu_bytes),
            rate_gbps: self.rate.unwrap_or(before.rate_gbps),
        })
    }
}

/// The settings of a new partition for which no settings are given.
const DEFAULT_SETTINGS: v1::PartitionSettings = v1::PartitionSettings {
    name: String::new(),
    ipoib: false,
    service_level: 0,
    mtu_bytes: 2048,
    rate_gbps: 10.0,
};

/// The current settings of a partition; [`DEFAULT_SETTINGS`] if it does not exist: the server then
/// refuses to configure it.
async fn settings(p_key: u16, session: &Session) -> Result<v1::PartitionSettings, Failure> {
    let partitions = partitions::all_partitions(session).await?;
    let found = partitions
        .into_iter()
        .find(|partition| partition.p_key == u32::from(p_key & 0x7fff));
    Ok(
        found.map_or(DEFAULT_SETTINGS, |partition| v1::PartitionSettings {
            // A partition without a name is shown with its P_Key, and its name stays empty.
            name: match partition.name == hex(partition.p_key) {
                true => String::new(),
                false => partition.name,
            },
            ipoib: partition.ipoib,
            service_level: partition.service_level,
            mtu_bytes: partition.mtu_bytes,
            rate_gbps: partition.rate_gbps,
        }),
    )
}

impl MembershipArguments {
    /// The requested members in the words of a command line.
    fn wanted(&self, words: &[String]) -> Result<Vec<v1::WantedMember>, Failure> {
        let membership = match self.membership {
            Wanted::Full => v1::Membership::Full,
            Wanted::Limited => v1::Membership::Limited,
            Wanted::Both => v1::Membership::Both,
        };
        let wanted = names(words)?.into_iter().map(|port| v1::WantedMember {
            port,
            membership: membership.into(),
            index0: self.index0,
        });
        Ok(wanted.collect())
    }
}

/// The names in the words of a command line, with lists of hosts expanded.
///
/// # Errors
/// A list is malformed, or the lists contain too many hosts.
fn names(words: &[String]) -> Result<Vec<String>, Failure> {
    match words.is_empty() {
        true => Ok(Vec::new()),
        false => node_list::expand(words).map_err(Failure::Usage),
    }
}

impl PartitionCommand {
    /// Whether the command changes something.
    pub(super) fn makes_changes(&self) -> bool {
        !matches!(self, PartitionCommand::List | PartitionCommand::Show(_))
    }
}

pub(crate) async fn run(command: PartitionCommand, session: &mut Session) -> Result<(), Failure> {
    let report = match command {
        PartitionCommand::List => return partitions::partitions(session).await,
        PartitionCommand::Show(arguments) => {
            let p_key = arguments.p_key(session).await?;
            return show(p_key, session).await;
        }
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
    let p_key = arguments.key.p_key(session).await?;
    let before = settings(p_key, session).await?;
    let request = v1::ConfigurePartitionRequest {
        p_key: p_key.into(),
        settings: arguments.settings.message(before),
    };
    let mut client = session.partitions();
    waiting::for_answer(session, client.configure_partition(request)).await?;
    Ok(Report::new(p_key, 0, None))
}

async fn protect(arguments: ProtectArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key(session).await?;
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
        settings: arguments.settings.message(DEFAULT_SETTINGS),
        members: arguments.membership.wanted(&arguments.members)?,
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.create_partition(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn add(arguments: MembersArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key(session).await?;
    let mut request = v1::AddPartitionMembersRequest {
        p_key: p_key.into(),
        members: arguments.membership.wanted(&arguments.members)?,
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.add_partition_members(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn remove(arguments: NamesArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key(session).await?;
    let mut request = v1::RemovePartitionMembersRequest {
        p_key: p_key.into(),
        ports: names(&arguments.members)?,
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.remove_partition_members(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn set(arguments: SetArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key(session).await?;
    let mut request = v1::SetPartitionMembersRequest {
        p_key: p_key.into(),
        members: arguments.membership.wanted(&arguments.members)?,
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.set_partition_members(request.clone()).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn delete(arguments: DeleteArguments, session: &Session) -> Result<Report, Failure> {
    let p_key = arguments.key.p_key(session).await?;
    let mut request = v1::DeletePartitionRequest {
        p_key: p_key.into(),
        accept_cut_off: false,
    };
    let mut client = session.partitions();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.delete_partition(request).await
    });
    let answer = answer.await?;
    Ok(Report::new(p_key, answer.changed, answer.cut_off))
}

async fn default(arguments: DefaultArguments, session: &Session) -> Result<Report, Failure> {
    let mut client = session.partitions();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accept_cut_off| {
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

/// The result of a change, which is in force in the hardware; also the JSON output of the command.
#[derive(serde::Serialize)]
struct Report {
    /// The P_Key of the partition, without the membership bit.
    p_key: u16,
    /// The number of memberships that have changed.
    changed: u64,
    /// The ports that the change cut off; `None` if it cut off no port.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_found_by_its_name_if_only_one_has_it() {
        let partition = |p_key, name: &str| v1::Partition {
            p_key,
            name: name.to_owned(),
            ..v1::Partition::default()
        };
        let all = [
            partition(0x10, "jobA"),
            partition(0x20, "twin"),
            partition(0x30, "twin"),
        ];
        assert_eq!(key_of_name("jobA", &all, "").unwrap(), 0x10);
        for (name, part) in [
            ("twin", "0x0020, 0x0030"),
            ("joba", "no partition is named"),
        ] {
            let text = key_of_name(name, &all, "").unwrap_err().message().unwrap();
            assert!(text.contains(part), "{text}");
        }
    }
}
