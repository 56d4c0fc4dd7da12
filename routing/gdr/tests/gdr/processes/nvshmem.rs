//! Compares, for each GPU of every sample, the adapter that NVSHMEM takes with our settings, the
//! adapter that it takes without settings, and the best one.
//!
//! The rules are those of NVSHMEM 3.5 with GPU-initiated communication, as DeepEP has it
//! (`ibgda.cpp`, `transport.cpp`, `topo.cpp`): ports in the order of verbs, of devices whose names
//! contain `NVSHMEM_HCA_PREFIX`, that are Active and named by `NVSHMEM_HCA_LIST`; of these one by
//! the process's number, or by distance.

use std::fmt::Write as _;

use rsm_gdr::inventory::{Gpu, HcaPort, HostInventory, InventorySource, LinkLayer, NvLink, Tier};
use rsm_gdr::render::{RenderError, nvshmem_script};
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{Analysis, Host};

use super::{NoChoice, after_all, alone, machine};
use crate::samples::{every_sample, samples};

/// The variables that NVSHMEM reads.
const VARIABLES: [&str; 3] = [
    "NVSHMEM_HCA_LIST",
    "NVSHMEM_HCA_PREFIX",
    "NVSHMEM_ENABLE_NIC_PE_MAPPING",
];

/// The variable with which an operator lets each process use several ports.
const MULTI_PORT: (&str, &str) = ("NVSHMEM_IBGDA_ENABLE_MULTI_PORT", "1");

/// The settings of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Settings {
    list: String,
    prefix: String,
    /// Whether processes take ports in turn, rather than by distance.
    in_turn: bool,
    multi_port: bool,
}

impl Settings {
    /// No settings: NVSHMEM chooses by itself.
    fn none() -> Settings {
        Settings::read(["", "", ""], false)
    }

    /// The settings from the values of NVSHMEM's variables; an empty value means its default.
    fn read([list, prefix, in_turn]: [&str; 3], multi_port: bool) -> Settings {
        let prefix = if prefix.is_empty() { "mlx5" } else { prefix };
        Settings {
            list: list.to_owned(),
            prefix: prefix.to_owned(),
            in_turn: !in_turn.is_empty() && !in_turn.starts_with(['0', 'N', 'n', 'F', 'f']),
            multi_port,
        }
    }

    /// The settings of the process that uses the GPU with this index.
    fn of_process(script: &str, index: u16, multi_port: bool) -> Settings {
        let index = index.to_string();
        let mut launcher = vec![("LOCAL_RANK", index.as_str())];
        launcher.extend(multi_port.then_some(MULTI_PORT));
        let values = after_all(script, &VARIABLES, &launcher);
        Settings::read([0, 1, 2].map(|at| values[at].as_str()), multi_port)
    }

    /// Whether `NVSHMEM_HCA_LIST` keeps a port: names must be equal, and `^` excludes the listed
    /// ports.
    fn keeps(&self, port: &HcaPort) -> bool {
        if self.list.is_empty() {
            return true;
        }
        let not = self.list.starts_with('^');
        let fits = |entry: &str| {
            let mut parts = entry.split(':');
            let name = parts.next().unwrap_or_default();
            let number = parts.next().and_then(|number| number.parse::<u8>().ok());
            port.device.as_deref() == Some(name) && number.is_none_or(|number| number == port.port)
        };
        self.list.trim_start_matches('^').split(',').any(fits) != not
    }

    /// The ports that a process opens, in the order of verbs; Ethernet ports are opened, too.
    fn opens(&self, host: &HostInventory, verbs: &[usize]) -> Vec<usize> {
        let opens = |&port: &usize| {
            let port = &host.hca_ports[port];
            let named = port
                .device
                .as_deref()
                .is_some_and(|name| name.contains(&self.prefix));
            named && self.keeps(port) && port.active != Some(false)
        };
        verbs.iter().copied().filter(opens).collect()
    }
}

/// NVSHMEM's distance from a GPU to a port: 0 to 4 for PIX, PXB, PHB, NODE and SYS.
fn distance(host: &HostInventory, gpu: usize, port: usize) -> usize {
    match host.tier(gpu, port) {
        Some(Tier::Pix) => 0,
        Some(Tier::Pxb) => 1,
        Some(Tier::Phb) => 2,
        Some(Tier::Node) => 3,
        Some(Tier::Sys) | None => 4,
    }
}

/// The worth that NVSHMEM gives to each distance: one switch and several switches are equal.
const WORTH: [u8; 5] = [4, 4, 3, 2, 1];

/// The ports of each process, at most `each`; process k uses GPU k. An entry is `None` if no port
/// is left that is as near as the first one.
fn by_distance(host: &HostInventory, ports: &[usize], each: usize) -> Vec<Vec<Option<usize>>> {
    let gpus = host.gpus.len();
    let mut pairs: Vec<(usize, usize, usize)> = (0..gpus)
        .flat_map(|gpu| (0..ports.len()).map(move |port| (gpu, port)))
        .map(|(gpu, port)| (distance(host, gpu, ports[port]), gpu, port))
        .collect();
    pairs.sort_by_key(|pair| pair.0);
    // For each GPU, the distance of each of its ports, and the port as an index of `ports`.
    let mut taken: Vec<Vec<Option<(usize, usize)>>> = vec![Vec::new(); gpus];
    let mut used = vec![0i64; ports.len()];
    for &(far, gpu, port) in &pairs {
        let mine = &mut taken[gpu];
        let first = mine.first().copied().flatten();
        if mine.len() == each {
            continue;
        }
        if first.is_some_and(|(best, _)| WORTH[far] < WORTH[best]) {
            mine.resize(each, None);
        } else {
            mine.push(Some((far, port)));
            used[port] += 1;
        }
    }
    for (gpu, mine) in taken.iter_mut().enumerate() {
        for place in mine {
            let Some((far, port)) = *place else {
                continue;
            };
            let mut crowd = used[port];
            if crowd < 2 {
                continue;
            }
            let mut at = (far, port);
            for &(other, _, free) in pairs.iter().filter(|pair| pair.1 == gpu) {
                if WORTH[other] < WORTH[at.0] {
                    break;
                }
                if crowd - used[free] >= 2 {
                    used[at.1] -= 1;
                    used[free] += 1;
                    crowd = used[free];
                    at = (other, free);
                    if crowd < 2 {
                        break;
                    }
                }
            }
            *place = Some(at);
        }
    }
    let port = |taken: Option<(usize, usize)>| taken.map(|(_, port)| ports[port]);
    taken
        .into_iter()
        .map(|mine| mine.into_iter().map(port).collect())
        .collect()
}

/// The ports that the `process`-th process of a host uses; empty if NVSHMEM finds no device.
fn takes(host: &HostInventory, verbs: &[usize], settings: &Settings, process: usize) -> Vec<usize> {
    let ports = settings.opens(host, verbs);
    let each = (ports.len() / host.gpus.len()).max(1);
    let mut selected = match ports.len() {
        0 | 1 => ports,
        count if settings.in_turn => vec![ports[process % count]],
        _ => by_distance(host, &ports, each)[process]
            .iter()
            .flatten()
            .copied()
            .collect(),
    };
    if !settings.multi_port {
        selected.truncate(1);
    }
    selected
}

/// The worth of a choice to a GPU, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Worth {
    /// A compute port at this [`distance`].
    Compute(usize),
    /// A port for storage or of Ethernet, or a virtual function.
    OffNetwork(usize),
    /// The process gets no port.
    NoDevice,
}

/// The worth of a process's first port to its GPU.
fn worth(host: &Host, gpu: usize, ports: &[usize]) -> Worth {
    let Some(&port) = ports.first() else {
        return Worth::NoDevice;
    };
    let far = distance(&host.inventory, gpu, port);
    match host.roles[port].0 {
        TrafficRole::Compute => Worth::Compute(far),
        _ => Worth::OffNetwork(far),
    }
}

/// Orders in which verbs may list the ports of a host.
fn orders(host: &HostInventory) -> [Vec<usize>; 3] {
    let listed: Vec<usize> = (0..host.hca_ports.len()).collect();
    let reversed = listed.iter().rev().copied().collect();
    let mut scrambled = listed.clone();
    scrambled.sort_by_key(|&port| {
        let name = host.hca_ports[port].device.as_deref().unwrap_or_default();
        name.bytes().rev().collect::<Vec<u8>>()
    });
    [listed, reversed, scrambled]
}

/// The number of GPUs with each worth, and the largest number of GPUs that share a port, as text.
fn summary(choices: &[(Worth, Option<usize>)]) -> String {
    let names = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    let mut count = std::collections::BTreeMap::new();
    for (worth, _) in choices {
        *count.entry(*worth).or_insert(0) += 1;
    }
    let text = |(worth, count): (&Worth, &i32)| match worth {
        Worth::Compute(far) => format!("{count} {}", names[*far]),
        Worth::OffNetwork(far) => format!("{count} {} off the network", names[*far]),
        Worth::NoDevice => format!("{count} without a device"),
    };
    let parts: Vec<String> = count.iter().map(text).collect();
    format!(
        "{}; at most {} GPUs a port",
        parts.join(", "),
        max_gpus_of_a_port(choices)
    )
}

/// The largest number of GPUs that share a port.
fn max_gpus_of_a_port(choices: &[(Worth, Option<usize>)]) -> usize {
    let sharing = |port: usize| {
        choices
            .iter()
            .filter(|choice| choice.1 == Some(port))
            .count()
    };
    choices
        .iter()
        .filter_map(|choice| choice.1)
        .map(sharing)
        .max()
        .unwrap_or(0)
}

/// For each GPU, the worth of its choice and its first port, if it has one.
type Choices = Vec<(Worth, Option<usize>)>;

/// The choices with our settings, and those without settings, if verbs lists ports in the order
/// `verbs`. Asserts that ours are the best ones.
fn choices(name: &str, host: &Host, script: &str, verbs: &[usize]) -> (Choices, Choices) {
    let inventory = &host.inventory;
    let live: Vec<usize> = host
        .compute_ports()
        .into_iter()
        .filter(|&port| host.works(port, false))
        .collect();
    let choice = |gpu: usize, settings: &Settings| {
        let taken = takes(inventory, verbs, settings, gpu);
        (worth(host, gpu, &taken), taken.first().copied())
    };
    let (mut ours, mut without) = (Choices::new(), Choices::new());
    for (gpu, entry) in inventory.gpus.iter().enumerate() {
        let settings = Settings::of_process(script, entry.index, false);
        let best = live.iter().map(|&port| worth(host, gpu, &[port])).min();
        let (mine, bare) = (choice(gpu, &settings), choice(gpu, &Settings::none()));
        let context = format!(
            "{name}, GPU{}: {mine:?}, without {bare:?}: {settings:?}",
            entry.index
        );
        assert_eq!(Some(mine.0), best, "{context}");
        assert!(mine.0 <= bare.0, "{context}");
        ours.push(mine);
        without.push(bare);
    }
    let share = inventory.gpus.len().div_ceil(live.len().max(1));
    assert!(
        max_gpus_of_a_port(&ours) <= max_gpus_of_a_port(&without).max(share),
        "{name}: {ours:?}"
    );
    (ours, without)
}

/// A copy of a host whose devices udev has named by their slots.
fn renamed(host: &HostInventory) -> HostInventory {
    let mut host = host.clone();
    for (place, port) in (16..).zip(&mut host.hca_ports) {
        port.device = Some(format!("ibp{place}s0"));
    }
    host
}

#[test]
fn with_our_settings_nvshmem_takes_the_best_port_for_each_gpu_of_every_sample() {
    let Some(data) = samples() else { return };
    let (mut table, mut gpus) = (String::new(), 0);
    for (name, host) in every_sample(&data) {
        let (host, no_choice) = (machine(host.clone()), NoChoice::of(&host));
        for (host, is_renamed) in [(renamed(&host), true), (host, false)] {
            let analysis = alone(host);
            let script = match nvshmem_script(&analysis, "host") {
                Ok(script) => script,
                Err(RenderError::NoPort(_)) => {
                    assert_eq!(no_choice, Some(NoChoice::NoAdapter), "{name}");
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let host = &analysis.hosts[0];
            for (number, verbs) in orders(&host.inventory).iter().enumerate() {
                let (ours, without) = choices(name, host, &script, verbs);
                let is_without = no_choice == Some(NoChoice::NoGpu);
                assert_eq!(ours.is_empty(), is_without, "{name}: {no_choice:?}");
                if is_renamed {
                    // Without settings, NVSHMEM takes only names that contain mlx5.
                    assert!(
                        without.iter().all(|choice| choice.0 == Worth::NoDevice),
                        "{name}"
                    );
                } else if number == 0 && !ours.is_empty() {
                    gpus += ours.len();
                    let _ = writeln!(table, "{name}\n  ours     {}", summary(&ours));
                    let _ = writeln!(table, "  without  {}", summary(&without));
                }
            }
        }
    }
    assert!(gpus > 100, "{gpus} GPUs");
    crate::render::golden("nvshmem-choices.txt", &table);
}

/// Four GPUs with two adapters each under their switch, listed in an order that mixes them.
fn two_each() -> Analysis {
    let mut host = HostInventory::empty(InventorySource::Generated);
    host.gpus = (0..4)
        .map(|index| Gpu {
            index,
            ..Gpu::default()
        })
        .collect();
    let devices = [5, 2, 7, 0, 3, 6, 1, 4];
    host.hca_ports = devices
        .iter()
        .map(|number| {
            let mut port = HcaPort::new(Some(format!("ibp{number}s0")));
            (port.link_layer, port.gbps) = (Some(LinkLayer::InfiniBand), Some(400));
            port
        })
        .collect();
    let tier = |gpu: usize, device: usize| match device / 2 == gpu {
        true => Tier::Pix,
        false => Tier::Sys,
    };
    host.tiers = (0..4)
        .flat_map(|gpu| devices.map(|device| Some(tier(gpu, device))))
        .collect();
    let pairs = (0..4).flat_map(|a| (a + 1..4).map(move |b| NvLink { a, b, links: 18 }));
    host.nvlinks = pairs.collect();
    host.nvlinks_known = true;
    alone(host)
}

#[test]
fn a_gpu_with_two_adapters_uses_one_and_with_multi_port_both() {
    let analysis = two_each();
    let script = nvshmem_script(&analysis, "host").expect("names are known");
    let host = &analysis.hosts[0].inventory;
    for verbs in orders(host) {
        for gpu in 0..4 {
            let devices = |multi_port: bool| {
                let settings = Settings::of_process(&script, gpu, multi_port);
                let taken = takes(host, &verbs, &settings, usize::from(gpu));
                let mut names: Vec<&str> = taken
                    .iter()
                    .filter_map(|&port| host.hca_ports[port].device.as_deref())
                    .collect();
                names.sort_unstable();
                names
            };
            let both = [format!("ibp{}s0", 2 * gpu), format!("ibp{}s0", 2 * gpu + 1)];
            assert_eq!(devices(true), both);
            let one = devices(false);
            assert!(
                one.len() == 1 && both.contains(&one[0].to_owned()),
                "{one:?}"
            );
        }
    }
}

#[test]
fn a_list_for_the_whole_host_taken_in_turn_gives_gpu_0_the_adapter_of_gpu_2() {
    // The order of verbs decides, not the order of the list.
    let analysis = two_each();
    let host = &analysis.hosts[0].inventory;
    let list = "ibp0s0:1,ibp2s0:1,ibp4s0:1,ibp6s0:1";
    let settings = Settings::read([list, "ibp", "1"], false);
    let taken = takes(host, &orders(host)[1], &settings, 0);
    assert_eq!(host.hca_ports[taken[0]].device.as_deref(), Some("ibp4s0"));
}
