//! The path between two GPUs.

use std::fmt;

use rsm_ids::{Guid, Lid, PortNum};

use super::Analysis;
use super::fabric::FabricPort;
use super::hints::{ForwardingPath, RouteError};

/// The path between two GPUs, cheapest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PairClass {
    /// One GPU and itself.
    SameGpu,
    /// In one host, over NVLink.
    NvLink,
    /// In one host, over PCIe.
    SameHost,
    /// In two hosts of one NVLink domain.
    NvLinkDomain,
    /// Their ports are cabled to one switch.
    SameLeaf,
    /// In one scalable unit, on different rails: PXN, relaying through the GPU on the peer's rail,
    /// stays under a leaf.
    SameUnit,
    /// In different units, on one rail.
    AcrossUnitsSameRail,
    /// In different units, on different rails.
    AcrossUnits,
    /// In two hosts without a better class.
    Apart,
}

impl PairClass {
    /// The class in lower case.
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
    /// The place of the port in its host's inventory.
    pub port: usize,
    /// The device and, where it is not the first, the port.
    pub device: String,
    /// The port's GUID.
    pub guid: Guid,
    /// The base LID.
    pub lid: Lid,
    /// The leaf.
    pub leaf: Guid,
    /// The leaf's port.
    pub leaf_port: PortNum,
    /// The rail.
    pub rail: Option<u16>,
}

/// One of the ways to a port: a DLID, and its route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathHint {
    /// The path bits: the offset from the base LID.
    pub path_bits: u8,
    /// The destination LID.
    pub dlid: Lid,
    /// The switches on the way, as programmed now; `None` without tables.
    pub route: Option<Result<ForwardingPath, RouteError>>,
}

/// The hint for two GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairHint {
    /// The class of their path.
    pub class: PairClass,
    /// Where both have ports in the fabric: the ports to use.
    pub ends: Option<(PairEnd, PairEnd)>,
    /// The DLIDs of the destination, base LID first.
    pub paths: Vec<PathHint>,
    /// The service level for the queue pair.
    pub sl: u8,
    /// The MTU in bytes that both ports have.
    pub mtu: u16,
    /// The rate in tenths of Gb/s that both ports have.
    pub rate_tenth_gbps: u16,
    /// Whether a relay through the GPU on the peer's rail (PXN) keeps the traffic under one leaf:
    /// the source's GPU on that rail, by its place.
    pub relay: Option<usize>,
    /// The state of the fabric that the hint is for.
    pub generation: u64,
}

/// A pair without a hint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PairError {
    /// No such host.
    #[error("nothing is known of host `{0}`")]
    UnknownHost(String),
    /// No such GPU.
    #[error("host `{host}` has no GPU {gpu}")]
    UnknownGpu {
        /// The host.
        host: String,
        /// The index given.
        gpu: u16,
    },
}

impl Analysis {
    /// The hint for two GPUs, each by host and index.
    ///
    /// # Errors
    /// An unknown host or GPU.
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
        // As many as an LMC of 7 allows.
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

    fn find(&self, (host, gpu): (&str, u16)) -> Result<(usize, usize), PairError> {
        let place = self
            .place(host)
            .ok_or_else(|| PairError::UnknownHost(host.to_owned()))?;
        let at = self.hosts[place].inventory.gpu_at(gpu);
        let at = at.ok_or_else(|| PairError::UnknownGpu {
            host: host.to_owned(),
            gpu,
        })?;
        Ok((place, at))
    }

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
