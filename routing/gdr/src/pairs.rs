//! The class of the path between two GPUs, and the ports and LIDs for their traffic.

use std::fmt;

use rsm_ids::{Guid, Lid, PortNum};

use super::Analysis;
use super::fabric::FabricPort;
use super::hints::{ForwardingPath, RouteError};

/// The class of the path between two GPUs, cheapest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PairClass {
    /// Both ends are one GPU.
    SameGpu,
    /// Two GPUs of one host, over NVLink.
    NvLink,
    /// Two GPUs of one host, over PCIe.
    SameHost,
    /// GPUs of two hosts in one NVLink domain.
    NvLinkDomain,
    /// GPUs whose ports are cabled to one leaf switch.
    SameLeaf,
    /// GPUs of one scalable unit, on different rails. PXN, the relay through the GPU on the peer's
    /// rail, keeps the traffic under one leaf.
    SameUnit,
    /// GPUs of different scalable units, on one rail.
    AcrossUnitsSameRail,
    /// GPUs of different scalable units, on different rails.
    AcrossUnits,
    /// GPUs of two hosts to which no better class applies.
    Apart,
}

impl PairClass {
    /// The name of the class in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            PairClass::SameGpu => "same-gpu",
            PairClass::NvLink => "nvlink",
            PairClass::SameHost => "same-host",
            PairClass::NvLinkDomain => "nvlink-domain",
            PairClass::SameLeaf => "same-leaf",
            PairClass::SameUnit => "same-unit",
            PairClass::AcrossUnitsSameRail => "across-units-same-rail",
            PairClass::AcrossUnits => "across-units",
            PairClass::Apart => "apart",
        }
    }
}

impl fmt::Display for PairClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One end of a path between two ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairEnd {
    /// The position of the port in its host's inventory.
    pub port: usize,
    /// The device name, with the port number unless it is 1.
    pub device: String,
    /// The port GUID.
    pub guid: Guid,
    /// The base LID of the port.
    pub lid: Lid,
    /// The GUID of the leaf switch.
    pub leaf: Guid,
    /// The port of the leaf switch.
    pub leaf_port: PortNum,
    /// The rail of the port; `None` if unknown.
    pub rail: Option<u16>,
}

/// One path to a port: a DLID and its route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathHint {
    /// The path bits: the offset from the base LID.
    pub path_bits: u8,
    /// The destination LID.
    pub dlid: Lid,
    /// The switches on the path, as programmed now; `None` without tables.
    pub route: Option<Result<ForwardingPath, RouteError>>,
}

/// The hint for traffic between two GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairHint {
    /// The class of the path.
    pub class: PairClass,
    /// The ports to use; `None` unless both GPUs have ports in the fabric.
    pub ends: Option<(PairEnd, PairEnd)>,
    /// The DLIDs of the destination, base LID first.
    pub paths: Vec<PathHint>,
    /// The service level for the queue pair.
    pub sl: u8,
    /// The largest MTU in bytes that both ports support; 0 without [`PairHint::ends`].
    pub mtu: u16,
    /// The highest rate in tenths of Gb/s that both ports support; 0 without [`PairHint::ends`].
    pub rate_tenth_gbps: u16,
    /// The source's GPU on the peer's rail, by position, if a relay through it (PXN) keeps the
    /// traffic under one leaf.
    pub relay: Option<usize>,
    /// The generation of the fabric for which the hint was computed.
    pub generation: u64,
}

/// The reason why a pair has no hint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PairError {
    /// No host has this name.
    #[error("nothing is known of host `{0}`")]
    UnknownHost(String),
    /// The host has no GPU of this index.
    #[error("host `{host}` has no GPU {gpu}")]
    UnknownGpu {
        /// The name of the host.
        host: String,
        /// The given index.
        gpu: u16,
    },
}

impl Analysis {
    /// Computes the hint for two GPUs, each given by host and index.
    ///
    /// # Errors
    /// The host or the GPU is unknown.
    pub fn pair(&self, from: (&str, u16), to: (&str, u16)) -> Result<PairHint, PairError> {
        let ((host, gpu), (peer, peer_gpu)) = (self.find(from)?, self.find(to)?);
        let port = |host: usize, gpu: usize| -> Option<(usize, u32)> {
            let port = self.hints[host][gpu].port()?;
            Some((port, self.hosts[host].joined[port].port()?))
        };
        let ports = port(host, gpu).zip(port(peer, peer_gpu));
        let mut hint = PairHint {
            class: self.class(host, gpu, peer, peer_gpu),
            ends: None,
            paths: Vec::new(),
            sl: self.config.sl.unwrap_or_default(),
            mtu: 0,
            rate_tenth_gbps: 0,
            relay: None,
            generation: self.fabric.as_ref().map_or(0, |fabric| fabric.generation),
        };
        let (Some(fabric), Some((from, to))) = (&self.fabric, ports) else {
            return Ok(hint);
        };
        let (source, target) = (fabric.port(from.1), fabric.port(to.1));
        hint.mtu = source.mtu.min(target.mtu);
        hint.rate_tenth_gbps = source.rate_tenth_gbps.min(target.rate_tenth_gbps);
        hint.ends = Some((
            self.endpoint(host, gpu, from.0, source),
            self.endpoint(peer, peer_gpu, to.0, target),
        ));
        // An LMC of at most 7 gives at most 128 LIDs.
        for path_bits in 0..target.lmc.lids() as u8 {
            let dlid = Lid(target.lid.0 + u16::from(path_bits));
            let route = fabric
                .tables
                .as_ref()
                .map(|tables| ForwardingPath::find(&fabric.topology, tables, source.leaf, dlid));
            hint.paths.push(PathHint {
                path_bits,
                dlid,
                route,
            });
        }
        if hint.class == PairClass::SameUnit {
            let on_leaf = |&gpu: &usize| {
                let leaf = port(host, gpu).map(|(_, index)| fabric.port(index).leaf);
                leaf == Some(target.leaf)
            };
            let inventory = &self.hosts[host].inventory;
            let linked = |&relay: &usize| relay != gpu && inventory.links_between(gpu, relay) > 0;
            hint.relay = (0..inventory.gpus.len()).filter(linked).find(on_leaf);
        }
        Ok(hint)
    }

    /// The positions of a host, given by name, and of its GPU, given by index.
    fn find(&self, (host, gpu): (&str, u16)) -> Result<(usize, usize), PairError> {
        let place = self
            .place(host)
            .ok_or_else(|| PairError::UnknownHost(host.to_owned()))?;
        let at = self.hosts[place]
            .inventory
            .gpu_at(gpu)
            .ok_or_else(|| PairError::UnknownGpu {
                host: host.to_owned(),
                gpu,
            })?;
        Ok((place, at))
    }

    /// The class of a pair of GPUs, by the positions of hosts and GPUs.
    fn class(&self, host: usize, gpu: usize, peer: usize, peer_gpu: usize) -> PairClass {
        let inventory = &self.hosts[host].inventory;
        if host == peer {
            return match () {
                () if gpu == peer_gpu => PairClass::SameGpu,
                () if inventory.links_between(gpu, peer_gpu) > 0 => PairClass::NvLink,
                () => PairClass::SameHost,
            };
        }
        let domains = (&inventory.domain, &self.hosts[peer].inventory.domain);
        if let (Some(one), Some(other)) = domains
            && one == other
        {
            return PairClass::NvLinkDomain;
        }
        let leaf = |host: usize, gpu: usize| {
            let port = self.hints[host][gpu].port()?;
            Some(
                self.fabric
                    .as_ref()?
                    .port(self.hosts[host].joined[port].port()?)
                    .leaf,
            )
        };
        let (Some(one), Some(other)) = (leaf(host, gpu), leaf(peer, peer_gpu)) else {
            return PairClass::Apart;
        };
        let rails = (self.hints[host][gpu].rail, self.hints[peer][peer_gpu].rail);
        match () {
            () if one == other => PairClass::SameLeaf,
            () if self.rails.unit_of[host] == self.rails.unit_of[peer] => PairClass::SameUnit,
            () if rails.0.is_some() && rails.0 == rails.1 => PairClass::AcrossUnitsSameRail,
            () => PairClass::AcrossUnits,
        }
    }

    /// The end of a path at a host's port, which is `of_fabric` in the fabric.
    fn endpoint(&self, host: usize, gpu: usize, port: usize, of_fabric: &FabricPort) -> PairEnd {
        let leaf = self
            .fabric
            .as_ref()
            .map(|fabric| fabric.topology.switch(of_fabric.leaf).guid);
        PairEnd {
            port,
            device: self.hosts[host].inventory.hca_ports[port].label(),
            guid: of_fabric.guid,
            lid: of_fabric.lid,
            leaf: leaf.unwrap_or(Guid::ZERO),
            leaf_port: of_fabric.leaf_port,
            rail: self.hints[host][gpu].rail,
        }
    }
}
