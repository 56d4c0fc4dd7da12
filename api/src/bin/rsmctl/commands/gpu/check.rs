use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use clap::Args;
use rsm_gdr::findings::{FindingLines, subject_of};
use rsm_proto::v1;
use tonic::Code;

use crate::commands::waiting;
use crate::failure::Failure;
use crate::output::note;
use crate::session::{Session, all_pages};
use crate::text::{count, plain_names, printable, wrapped};

/// Faults of hosts and their cables; exit code 1 if there is an error, or no host to check
#[derive(Debug, Args)]
#[command(
    after_help = "The answer is what the server knows: it reads a change that switches report at once, and all else with\n\
                  its next sweep. With --sweep it sweeps first, as by `rsmctl sweep`, if a GPU host is known."
)]
pub(crate) struct CheckArguments {
    /// Have the server sweep the fabric first
    #[arg(long)]
    sweep: bool,
    /// Answer from what the server knows already, as without options
    #[arg(long, hide = true, conflicts_with = "sweep")]
    cached: bool,
    /// All hosts of a fault by name, rather than the first four
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(arguments: &CheckArguments, session: &mut Session) -> Result<(), Failure> {
    if arguments.sweep && !arguments.cached && knows_hosts(session).await? {
        sweep(session).await?;
    }
    let mut not_joined = String::new();
    let request = v1::ListGpuHostsRequest {
        only_with_findings: true,
        ..Default::default()
    };
    let hosts = all_pages(request, async |request| {
        let page = session.gpu().list_gpu_hosts(request).await?;
        not_joined.clone_from(&page.get_ref().not_joined);
        Ok(page)
    })
    .await?;
    let lost = match hosts.is_empty() {
        true => Lost::default(),
        false => Lost::read(session).await?,
    };
    let (leaves, others) = lost.by_cause(&hosts);
    let faults = Fault::of(others);
    let named: Named = match arguments.all {
        true => |hosts: &[&str]| hosts.join(", "),
        false => subject_of,
    };
    if session.output.is_json() {
        session.output.json(&hosts)?;
    } else {
        for leaf in &leaves {
            leaf.print(named, session)?;
        }
        print(&faults, &lost, named, session)?;
    }
    let severities = faults.iter().map(|one| one.finding.severity.as_str());
    let severities = severities.chain(leaves.iter().map(|leaf| leaf.severity.as_str()));
    let broken = severities.filter(|&severity| severity == ERROR).count();
    match (broken, not_joined.as_str()) {
        (0, "") if hosts.is_empty() && !session.output.is_json() => {
            session.output.line("nothing is wrong")
        }
        (0, "") => Ok(()),
        (0, reason) => Err(Failure::Refused(format!("nothing was checked: {reason}"))),
        (broken, _) => Err(Failure::Refused(count(
            broken as u64,
            "finding is an error",
            "findings are errors",
        ))),
    }
}

/// Whether the server knows a GPU host.
async fn knows_hosts(session: &Session) -> Result<bool, Failure> {
    let request = v1::GetGpuStatusRequest {};
    let known = session.gpu().get_gpu_status(request).await?.into_inner();
    Ok(known.own + known.machine_type + known.without > 0)
}

/// Missing nodes and cables of the fabric.
#[derive(Default)]
struct Lost {
    /// The former places of missing parts, such as `leaf-04:17`, by their names. An adapter's name
    /// is its description.
    places: BTreeMap<String, String>,
    /// The descriptions of missing switches.
    switches: HashSet<String>,
    /// The orders that keep the ports of missing adapters disabled, with the command that ends them,
    /// by the adapters.
    disabled: BTreeMap<String, String>,
}

/// A missing switch with the hosts whose faults it causes.
#[derive(Debug, PartialEq)]
struct LostLeaf {
    name: String,
    /// The highest severity of these faults.
    severity: String,
    hosts: BTreeSet<String>,
}

/// The severity of a finding that makes the check fail.
const ERROR: &str = "error";

/// The beginning of the command that enables a port, in the text about a part that an order keeps
/// disabled.
const ENABLE: &str = "rsmctl port enable";

/// The kinds of findings about ports that are not in the fabric.
const LOSSES: [&str; 2] = ["unjoined", ABSENT];

/// The kind of the finding about a host of which no port is left.
const ABSENT: &str = "host-absent";

impl Lost {
    async fn read(session: &Session) -> Result<Lost, Failure> {
        let request = v1::ListMissingRequest {
            each: true,
            ..v1::ListMissingRequest::default()
        };
        let missing = all_pages(request, async |request| {
            session.fabric().list_missing(request).await
        })
        .await?;
        let switches = missing.iter();
        let switches = switches.filter(|one| one.kind() == v1::MissingKind::Switch);
        Ok(Lost {
            switches: switches.map(|one| one.name.clone()).collect(),
            disabled: missing
                .iter()
                .filter(|one| one.seen.contains(ENABLE))
                .map(|one| (one.name.clone(), one.seen.clone()))
                .collect(),
            places: missing
                .into_iter()
                .map(|one| (one.name, one.place))
                .collect(),
        })
    }

    /// The missing switches that cause faults of hosts, and the findings with other causes, each
    /// with its host. A finding about ports with several causes keeps the ports whose switch is
    /// present.
    fn by_cause<'a>(
        &self,
        hosts: &'a [v1::GpuHost],
    ) -> (Vec<LostLeaf>, Vec<(&'a str, v1::GpuFinding)>) {
        let mut leaves: BTreeMap<&str, LostLeaf> = BTreeMap::new();
        let mut others = Vec::new();
        let findings = hosts.iter().flat_map(|host| {
            let findings = host.findings.iter();
            findings.map(|finding| (host.name.as_str(), finding))
        });
        for (host, finding) in findings {
            let (switches, rest) = self.causes(host, finding);
            for name in switches {
                let leaf = leaves.entry(name).or_insert_with(|| LostLeaf {
                    name: name.to_owned(),
                    severity: finding.severity.clone(),
                    hosts: BTreeSet::new(),
                });
                if finding.severity == ERROR {
                    ERROR.clone_into(&mut leaf.severity);
                }
                leaf.hosts.insert(host.to_owned());
            }
            others.extend(rest.map(|finding| (host, finding)));
        }
        (leaves.into_values().collect(), others)
    }

    /// The missing switches at which lost ports of a host were, and the rest of the finding; `None`
    /// if these switches explain all of it.
    fn causes(
        &self,
        host: &str,
        finding: &v1::GpuFinding,
    ) -> (BTreeSet<&str>, Option<v1::GpuFinding>) {
        if !LOSSES.contains(&finding.kind.as_str()) {
            return (BTreeSet::new(), Some(finding.clone()));
        }
        let ports: Vec<&str> = match finding.ports.is_empty() {
            false => finding.ports.iter().map(String::as_str).collect(),
            // The whole host is absent.
            true => self.adapters_of(host),
        };
        let mut causes = BTreeSet::new();
        let mut rest = finding.clone();
        rest.ports.clear();
        for port in &ports {
            match self.lost_switch(port) {
                Some(switch) => drop(causes.insert(switch)),
                None => rest.ports.push((*port).to_owned()),
            }
        }
        match (causes.is_empty(), rest.ports.is_empty()) {
            (true, _) => (causes, Some(finding.clone())),
            (false, true) => (causes, None),
            (false, false) => (causes, Some(rest)),
        }
    }

    /// The missing adapters of a host.
    fn adapters_of(&self, host: &str) -> Vec<&str> {
        let begin = format!("{host} ");
        let own = self.places.range(begin.clone()..);
        let own = own.take_while(|(adapter, _)| adapter.starts_with(&begin));
        own.map(|(adapter, _)| adapter.as_str()).collect()
    }

    /// The order that keeps the lost ports of a finding disabled, and the command that ends it;
    /// `None` if a lost port has another cause.
    fn disabled(&self, ports: &[String]) -> Option<&str> {
        let orders: Option<Vec<&String>> =
            ports.iter().map(|port| self.disabled.get(port)).collect();
        orders?.first().map(|order| order.as_str())
    }

    /// The missing switch at which an adapter was; `None` if its switch is present, or if the
    /// adapter is not missing.
    fn lost_switch(&self, adapter: &str) -> Option<&str> {
        let (switch, _) = self.places.get(adapter)?.rsplit_once(':')?;
        self.switches.get(switch).map(String::as_str)
    }
}

/// The form in which the hosts of a fault are named.
type Named = fn(&[&str]) -> String;

impl LostLeaf {
    fn print(&self, named: Named, session: &mut Session) -> Result<(), Failure> {
        let hosts: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        let evidence = format!(
            "the switch is gone, and ports of {} with it: {}",
            count(hosts.len() as u64, "host", "hosts"),
            named(&hosts)
        );
        let lines = FindingLines {
            severity: &self.severity,
            subject: &self.name,
            kind: "switch-missing",
            evidence: &evidence,
            effect: "no traffic goes through these ports",
            advice: "look at the power and the management port of that switch",
        };
        let mut lines = lines.lines();
        lines.try_for_each(|line| paragraph(&line, session))
    }
}

/// The number of columns before the lines of a finding that follow its first one.
const INDENT: usize = 9;

/// Prints a line of a finding within the width of the terminal.
fn paragraph(text: &str, session: &mut Session) -> Result<(), Failure> {
    let lines = wrapped(
        &plain_names(&printable(text)),
        session.output.width(),
        INDENT,
    );
    lines.iter().try_for_each(|line| session.output.line(line))
}

/// The line `adapters: mlx5_3 (was at leaf-04:17), mlx5_4` with the adapters of a finding that have
/// a known former place, or that its evidence does not name; `None` if there are none.
fn adapters(finding: &v1::GpuFinding, places: &BTreeMap<String, String>) -> Option<String> {
    let named = finding.ports.iter().filter_map(|port| {
        let device = port
            .rsplit_once(' ')
            .map_or(port.as_str(), |(_, device)| device);
        match (places.get(port), finding.evidence.contains(device)) {
            (Some(place), _) => Some(format!("{device} (was at {place})")),
            (None, true) => None,
            (None, false) => Some(device.to_owned()),
        }
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("         adapters: {}", named.join(", ")))
}

/// The number of requests that the server may refuse because its own port is down: its cable may be
/// the one that was moved.
const REFUSALS: u32 = 25;

/// The interval between a refusal and the next request.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until the server has read the changes of the fabric. If this client may not request a
/// sweep, the server answers from its last snapshot, and a note on standard error says so.
async fn sweep(session: &Session) -> Result<(), Failure> {
    let mut refusals = 0;
    loop {
        let mut client = session.convergence();
        let request = v1::ResweepRequest::default();
        let Err(status) = waiting::for_answer(session, client.resweep(request)).await else {
            return Ok(());
        };
        match status.code() {
            Code::PermissionDenied => {
                let reason = status.message();
                let text = format!("this is the last known state of the fabric: {reason}");
                note(&printable(&text));
                return Ok(());
            }
            Code::FailedPrecondition if refusals < REFUSALS => {
                refusals += 1;
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            _ => return Err(Failure::from(status)),
        }
    }
}

/// A finding, with all hosts that list it.
struct Fault<'a> {
    finding: v1::GpuFinding,
    hosts: Vec<&'a str>,
}

impl Fault<'_> {
    /// The findings of hosts without duplicates, in the order of their first hosts.
    fn of(findings: Vec<(&str, v1::GpuFinding)>) -> Vec<Fault<'_>> {
        let mut faults: Vec<Fault<'_>> = Vec::new();
        let mut known = BTreeMap::new();
        for (host, finding) in findings {
            // A server that does not state the first host lists a finding with one host.
            let first = match finding.first_host.as_str() {
                "" => host,
                first => first,
            };
            let devices = finding.ports.iter();
            let devices = devices.map(|port| port.strip_prefix(host).unwrap_or(port).to_owned());
            let key = (
                first.to_owned(),
                finding.kind.clone(),
                finding.gpus.clone(),
                devices.collect::<Vec<String>>(),
                finding.evidence.clone(),
            );
            let place = *known.entry(key).or_insert(faults.len());
            match faults.get_mut(place) {
                Some(fault) => fault.hosts.push(host),
                None => faults.push(Fault {
                    finding,
                    hosts: vec![host],
                }),
            }
        }
        // Hosts that are gone come before those that lost a port, or have a fault.
        faults.sort_by_key(|fault| fault.finding.kind != ABSENT);
        faults
    }

    /// The finding, with the missing adapters of a host of which no port is left.
    fn of_adapters(&self, lost: &Lost) -> v1::GpuFinding {
        let mut finding = self.finding.clone();
        if let ([host], true) = (&self.hosts[..], finding.ports.is_empty())
            && finding.kind == ABSENT
        {
            let own = lost.adapters_of(host).into_iter();
            finding.ports = own.map(str::to_owned).collect();
        }
        finding
    }
}

fn print(
    faults: &[Fault<'_>],
    lost: &Lost,
    named: Named,
    session: &mut Session,
) -> Result<(), Failure> {
    for fault in faults {
        let finding = &fault.of_adapters(lost);
        let disabled = match LOSSES.contains(&finding.kind.as_str()) {
            true => lost.disabled(&finding.ports),
            false => None,
        };
        let lines = FindingLines {
            severity: &finding.severity,
            subject: &named(&fault.hosts),
            kind: &finding.kind,
            evidence: &finding.evidence,
            effect: &finding.effect,
            advice: disabled.unwrap_or(&finding.advice),
        };
        let mut lines: Vec<String> = lines.lines().collect();
        // The adapters follow the evidence, which is on the first line.
        lines.splice(1..1, adapters(finding, &lost.places));
        for line in lines {
            paragraph(&line, session)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, first: &str) -> v1::GpuHost {
        let finding = v1::GpuFinding {
            kind: "hca-ethernet-mode".to_owned(),
            ports: vec![format!("{name} mlx5_1")],
            first_host: first.to_owned(),
            ..v1::GpuFinding::default()
        };
        v1::GpuHost {
            name: name.to_owned(),
            findings: vec![finding],
            ..v1::GpuHost::default()
        }
    }

    /// The findings of hosts, each with its host.
    fn listed(hosts: &[v1::GpuHost]) -> Vec<(&str, v1::GpuFinding)> {
        Lost::default().by_cause(hosts).1
    }

    #[test]
    fn a_fault_of_several_hosts_is_listed_once_with_their_names() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let hosts: Vec<v1::GpuHost> = names.iter().map(|name| host(name, "a")).collect();
        let faults = Fault::of(listed(&hosts));
        let subjects: Vec<String> = faults.iter().map(|one| subject_of(&one.hosts)).collect();
        assert_eq!(subjects, ["a, b, c, d and 2 more"]);
        // A finding with another first host, or without one, is another fault.
        let apart = [host("a", "a"), host("b", "b"), host("c", "")];
        let subjects: Vec<String> = Fault::of(listed(&apart))
            .iter()
            .map(|one| subject_of(&one.hosts))
            .collect();
        assert_eq!(subjects, ["a", "b", "c"]);
    }

    #[test]
    fn lost_adapters_are_named_with_the_port_of_their_rail() {
        let finding = v1::GpuFinding {
            evidence: "2 ports are not joined: nothing in the fabric has their names".to_owned(),
            ports: vec!["host-1 mlx5_3".to_owned(), "host-1 mlx5_4".to_owned()],
            ..v1::GpuFinding::default()
        };
        let place = ("host-1 mlx5_3".to_owned(), "leaf-04:17".to_owned());
        let text = adapters(&finding, &BTreeMap::from([place]));
        let expected = "         adapters: mlx5_3 (was at leaf-04:17), mlx5_4";
        assert_eq!(text.as_deref(), Some(expected));
        let named = v1::GpuFinding {
            evidence: "mlx5_3 and mlx5_4 are swapped".to_owned(),
            ..finding
        };
        assert_eq!(adapters(&named, &BTreeMap::new()), None);
    }

    #[test]
    fn losses_of_hosts_at_a_missing_switch_are_a_fault_of_the_switch() {
        let with = |name: &str, kind: &str, severity: &str, ports: &[&str]| {
            let mut host = host(name, name);
            let finding = &mut host.findings[0];
            kind.clone_into(&mut finding.kind);
            severity.clone_into(&mut finding.severity);
            finding.ports = ports.iter().map(|&port| port.to_owned()).collect();
            host
        };
        let hosts = [
            with("a", "unjoined", "warning", &["a mlx5_0"]),
            with("b", "host-absent", "error", &[]),
            with("c", "unjoined", "warning", &["c mlx5_0"]),
            with("d", "hca-missing", "error", &[]),
            with("e", "unjoined", "warning", &["e mlx5_0", "e mlx5_1"]),
        ];
        let place = |name: &str, place: &str| (name.to_owned(), place.to_owned());
        let lost = Lost {
            places: BTreeMap::from([
                place("a mlx5_0", "leaf-1:1"),
                place("b mlx5_0", "leaf-1:2"),
                place("c mlx5_0", "leaf-2:3"),
                place("d mlx5_0", "leaf-1:4"),
                place("e mlx5_0", "leaf-1:5"),
            ]),
            switches: HashSet::from(["leaf-1".to_owned()]),
            ..Lost::default()
        };
        let (leaves, others) = lost.by_cause(&hosts);
        let expected = LostLeaf {
            name: "leaf-1".to_owned(),
            severity: "error".to_owned(),
            hosts: ["a", "b", "e"].map(str::to_owned).into(),
        };
        assert_eq!(leaves, [expected]);
        // Other causes: a switch that is present, another kind of fault, and a port that is not
        // missing.
        let of = |one: &(&str, v1::GpuFinding)| (one.0.to_owned(), one.1.ports.join(","));
        let others: Vec<(String, String)> = others.iter().map(of).collect();
        let expected = [("c", "c mlx5_0"), ("d", ""), ("e", "e mlx5_1")];
        let expected = expected.map(|(host, ports)| (host.to_owned(), ports.to_owned()));
        assert_eq!(others, expected);
    }

    #[test]
    fn a_gone_host_comes_first_with_its_adapters_and_a_disabled_port_has_its_command() {
        let mut gone = host("b", "b");
        ABSENT.clone_into(&mut gone.findings[0].kind);
        gone.findings[0].ports.clear();
        let hosts = [host("a", "a"), gone];
        let faults = Fault::of(listed(&hosts));
        assert_eq!(faults[0].hosts, ["b"]);
        let place = |name: &str, place: &str| (name.to_owned(), place.to_owned());
        let order = "disabled by uid:0 (nightshift); rsmctl port enable 'leaf-1:2'";
        let lost = Lost {
            places: BTreeMap::from([place("b mlx5_0", "leaf-1:2")]),
            disabled: BTreeMap::from([place("b mlx5_0", order)]),
            ..Lost::default()
        };
        let finding = faults[0].of_adapters(&lost);
        assert_eq!(finding.ports, ["b mlx5_0"]);
        assert_eq!(lost.disabled(&finding.ports), Some(order));
        let other = ["b mlx5_0".to_owned(), "b mlx5_1".to_owned()];
        assert_eq!(lost.disabled(&other), None);
        assert_eq!(lost.disabled(&[]), None);
    }

    #[test]
    fn a_cable_of_the_rail_of_a_missing_switch_takes_no_host_from_the_switch() {
        // The server lists the hosts as one fault: they lost ports of equal names.
        let hosts = ["h-1", "h-2", "h-3"].map(|name| {
            let mut host = host(name, "h-1");
            host.findings[0].kind = "unjoined".to_owned();
            host
        });
        let place = |name: &str, place: &str| (format!("{name} mlx5_1"), place.to_owned());
        let lost = Lost {
            places: BTreeMap::from([
                place("h-1", "leaf-5:7"),
                place("h-2", "leaf-4:1"),
                place("h-3", "leaf-4:2"),
            ]),
            switches: HashSet::from(["leaf-4".to_owned()]),
            ..Lost::default()
        };
        let (leaves, others) = lost.by_cause(&hosts);
        let hosts: Vec<&BTreeSet<String>> = leaves.iter().map(|leaf| &leaf.hosts).collect();
        assert_eq!(hosts, [&BTreeSet::from(["h-2", "h-3"].map(str::to_owned))]);
        let faults = Fault::of(others);
        assert_eq!((faults.len(), &faults[0].hosts[..]), (1, &["h-1"][..]));
    }
}
