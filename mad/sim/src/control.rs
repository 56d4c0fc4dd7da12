//! Operations on the hardware, such as cables and power, and faults.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{CapabilityMask, LocalChanges, NodeDescription, Notice, NoticeType};
use rsm_mad::wire::attr::{PortThreshold, Trap};
use rsm_mad::wire::header::AttrId;
use rsm_mad::wire::vendor::FirmwareVersion;
use rsm_routing::netlist::{self, LinkSpeed, LinkWidth, MAX_DESCRIPTION, Netlist};

use crate::error::SimError;
use crate::fabric::{NONE, Silence, USUAL, rate_up_to};
use crate::notice;
use crate::personality::Personality;
use crate::queue::Event;
use crate::rng::Probability;
use crate::sim::{AttachId, Sim};

/// Converts a probability; fails unless it is from 0 to 1.
fn to_probability(value: f64) -> Result<Probability, SimError> {
    Probability::new(value).ok_or(SimError::NotAProbability { value })
}

/// The GUIDs that a node reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportedGuids {
    /// The NodeGUID of NodeInfo.
    pub node: Guid,
    /// The SystemImageGUID of NodeInfo.
    pub system_image: Guid,
    /// The GUID that each port of the node reports.
    pub port: Guid,
}

impl ReportedGuids {
    /// One GUID for the node, the system image and the ports.
    #[must_use]
    pub fn all(guid: Guid) -> ReportedGuids {
        ReportedGuids {
            node: guid,
            system_image: guid,
            port: guid,
        }
    }
}

impl Sim {
    /// Unplugs the cable in a port. Both ends go down immediately.
    ///
    /// # Errors
    /// There is no such port, or there is no cable in it.
    pub fn unlink(&mut self, node: Guid, port: PortNum) -> Result<(), SimError> {
        let index = self.fabric.find_cabled(node, port)?;
        for end in [index, self.fabric.port(index).peer] {
            self.fabric.port_mut(end).is_unplugged = true;
        }
        self.take_down(index, None);
        Ok(())
    }

    /// Plugs an unplugged cable into its port again. The link trains.
    ///
    /// # Errors
    /// There is no such port, or there never was a cable in it.
    pub fn relink(&mut self, node: Guid, port: PortNum) -> Result<(), SimError> {
        let index = self.fabric.find_cabled(node, port)?;
        for end in [index, self.fabric.port(index).peer] {
            self.fabric.port_mut(end).is_unplugged = false;
        }
        self.train(index);
        Ok(())
    }

    /// Exchanges the cables in two ports, as a cabling mistake: each port is then connected to the
    /// other one's former peer. The links train. Nothing happens if the ports are the ends of one
    /// cable.
    ///
    /// # Errors
    /// There is no such port, or one of the ports has no cable.
    pub fn swap_cables(&mut self, a: (Guid, PortNum), b: (Guid, PortNum)) -> Result<(), SimError> {
        let a = self.fabric.find_cabled(a.0, a.1)?;
        let b = self.fabric.find_cabled(b.0, b.1)?;
        let [peer_a, peer_b] = [a, b].map(|port| self.fabric.port(port).peer);
        if a == b || a == peer_b {
            return Ok(());
        }
        for port in [a, b] {
            for end in [port, self.fabric.port(port).peer] {
                self.fabric.port_mut(end).is_unplugged = true;
            }
            self.take_down(port, None);
        }
        for (port, peer) in [(a, peer_b), (b, peer_a)] {
            self.fabric.port_mut(port).peer = peer;
            self.fabric.port_mut(peer).peer = port;
            for end in [port, peer] {
                self.fabric.port_mut(end).is_unplugged = false;
            }
            self.train(port);
        }
        Ok(())
    }

    /// Reboots a node: the node forgets its tables, LIDs, keys and states, is off for
    /// [`reboot_time`](crate::SimConfig::reboot_time), and then comes up again.
    ///
    /// # Errors
    /// There is no such node.
    pub fn reboot(&mut self, node: Guid) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        self.power_down(index);
        let up = Event::PowerUp {
            node: index,
            epoch: self.fabric.node(index).epoch,
        };
        self.queue.push(self.now + self.config.reboot_time, up);
        Ok(())
    }

    /// Switches a node off. The node loses its programmed state.
    ///
    /// # Errors
    /// There is no such node.
    pub fn power_off(&mut self, node: Guid) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        self.power_down(index);
        Ok(())
    }

    /// Switches a node on. Its links train.
    ///
    /// # Errors
    /// There is no such node.
    pub fn power_on(&mut self, node: Guid) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        self.power_up(index);
        Ok(())
    }

    /// Switches a node off, takes its links down, and resets its state and counters.
    fn power_down(&mut self, index: u32) {
        self.fabric.node_mut(index).is_powered = false;
        for port in self.fabric.node(index).ports() {
            if self.fabric.port(port).peer != NONE {
                self.take_down(port, None);
            }
        }
        self.fabric.reset_node(index, &self.config);
        let ports = self.fabric.node(index).ports();
        for port in ports.clone() {
            self.congestion.remove(&port);
        }
        self.performance.forget(ports, self.now);
    }

    /// Switches a node on, and lets its links train.
    pub(crate) fn power_up(&mut self, index: u32) {
        self.fabric.node_mut(index).is_powered = true;
        for port in self.fabric.node(index).ports() {
            self.train(port);
        }
    }

    /// Adds a node that is switched on and has no cables. Its ports support all rates up to `rate`,
    /// by default 4x HDR.
    ///
    /// # Errors
    /// The node is not valid, or its GUID is taken.
    pub fn add_node(
        &mut self,
        node: &netlist::Node,
        rate: Option<(LinkWidth, LinkSpeed)>,
    ) -> Result<(), SimError> {
        // The constructor of Netlist checks that the node is valid.
        Netlist::new(vec![node.clone()], Vec::new())?;
        if self.fabric.find_node(node.guid).is_ok() {
            return Err(SimError::GuidTaken { guid: node.guid });
        }
        let (width, speed) = rate.unwrap_or(USUAL);
        self.fabric
            .add_node(node, rate_up_to(width, speed), &self.config)?;
        Ok(())
    }

    /// Puts a new cable between two ports. The link trains.
    ///
    /// # Errors
    /// There is no such port, or one of the ports already has a cable.
    pub fn add_cable(
        &mut self,
        a: (Guid, PortNum),
        b: (Guid, PortNum),
        width: LinkWidth,
        speed: LinkSpeed,
    ) -> Result<(), SimError> {
        let mut ends = [NONE; 2];
        for ((guid, port), end) in [a, b].into_iter().zip(&mut ends) {
            *end = self.fabric.find_port(guid, port)?;
            if port == PortNum::ZERO {
                return Err(SimError::NoSuchPort {
                    guid,
                    port,
                    num_ports: self.fabric.node_of(*end).num_ports,
                });
            }
            if self.fabric.port(*end).peer != NONE {
                return Err(SimError::AlreadyCabled { guid, port });
            }
        }
        self.fabric
            .connect(ends[0], ends[1], rate_up_to(width, speed));
        self.train(ends[0]);
        Ok(())
    }

    /// Limits the cable in a port to this rate, as damage would. The link trains again.
    ///
    /// # Errors
    /// There is no such port, or no cable in it.
    pub fn set_cable_rate(
        &mut self,
        node: Guid,
        port: PortNum,
        width: LinkWidth,
        speed: LinkSpeed,
    ) -> Result<(), SimError> {
        let index = self.fabric.find_cabled(node, port)?;
        for end in [index, self.fabric.port(index).peer] {
            self.fabric.port_mut(end).cable = rate_up_to(width, speed);
        }
        self.take_down(index, None);
        Ok(())
    }

    /// Sets the probability that any packet, request or answer, is lost between nodes. Packets that
    /// stay at their node are never lost.
    ///
    /// # Errors
    /// The number is not a probability.
    pub fn set_loss(&mut self, probability: f64) -> Result<(), SimError> {
        self.faults.loss = to_probability(probability)?;
        Ok(())
    }

    /// Sets the additional probability that a packet with this attribute is lost.
    ///
    /// # Errors
    /// The number is not a probability.
    pub fn set_attribute_loss(
        &mut self,
        attribute: AttrId,
        probability: f64,
    ) -> Result<(), SimError> {
        let chance = to_probability(probability)?;
        self.faults.attribute_loss.insert(attribute, chance);
        Ok(())
    }

    /// Sets the probability that a packet is lost each time it crosses the link at a port, in
    /// either direction.
    ///
    /// # Errors
    /// The number is not a probability, or there is no such port or no cable in it.
    pub fn set_link_loss(
        &mut self,
        node: Guid,
        port: PortNum,
        probability: f64,
    ) -> Result<(), SimError> {
        let chance = to_probability(probability)?;
        let index = self.fabric.find_cabled(node, port)?;
        for end in [index, self.fabric.port(index).peer] {
            self.fabric.port_mut(end).loss = chance;
        }
        Ok(())
    }

    /// Sets the probability that a packet is lost each time it reaches a node's agent, to be
    /// answered or forwarded.
    ///
    /// # Errors
    /// The number is not a probability, or there is no such node.
    pub fn set_node_loss(&mut self, node: Guid, probability: f64) -> Result<(), SimError> {
        let chance = to_probability(probability)?;
        let index = self.fabric.find_node(node)?;
        self.fabric.node_mut(index).loss = chance;
        Ok(())
    }

    /// Sets the probability that an agent's answer is sent twice.
    ///
    /// # Errors
    /// The number is not a probability.
    pub fn set_duplicates(&mut self, probability: f64) -> Result<(), SimError> {
        self.faults.duplicate = to_probability(probability)?;
        Ok(())
    }

    /// Sets the probability that an agent's answer is late, by up to
    /// [`late_by`](crate::SimConfig::late_by).
    ///
    /// # Errors
    /// The number is not a probability.
    pub fn set_late(&mut self, probability: f64) -> Result<(), SimError> {
        self.faults.late = to_probability(probability)?;
        Ok(())
    }

    /// Makes a node's agent silent, or ends the silence.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_silence(&mut self, node: Guid, silence: Silence) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        self.fabric.node_mut(index).silence = silence;
        Ok(())
    }

    /// Sets the firmware version that a node reports, as an update does.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_firmware(&mut self, node: Guid, version: FirmwareVersion) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        let guid = self.fabric.node(index).guid;
        self.firmware.insert(guid, version);
        Ok(())
    }

    /// Replaces the personality of a node by the part of `personality` that a node of its kind can
    /// have. States and programmed tables do not change; links now run at the best common rate of
    /// both ends.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_personality(
        &mut self,
        node: Guid,
        personality: Personality,
    ) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        self.fabric
            .set_personality(index, personality, &self.config);
        Ok(())
    }

    /// Sets the M_Key and the protection level of an end port (IBA 14.2.4), as an earlier manager
    /// may have left them.
    ///
    /// # Errors
    /// There is no such port.
    pub fn set_m_key(
        &mut self,
        node: Guid,
        port: PortNum,
        m_key: u64,
        protection: u8,
    ) -> Result<(), SimError> {
        let index = self.fabric.find_port(node, port)?;
        let info = &mut self.fabric.port_mut(index).info;
        info.set_m_key(m_key).set_m_key_protect_bits(protection);
        Ok(())
    }

    /// Makes a node's agent answer its next `requests` requests with BUSY.
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_busy(&mut self, node: Guid, requests: u32) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        self.fabric.node_mut(index).busy_answers = requests;
        Ok(())
    }

    /// Changes a node's description; the end ports of the node report the change to the manager
    /// with trap 144.
    ///
    /// # Errors
    /// There is no such node, or the description has more than 64 bytes.
    pub fn set_description(&mut self, node: Guid, description: &[u8]) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        if description.len() > MAX_DESCRIPTION {
            return Err(SimError::DescriptionTooLong {
                len: description.len(),
            });
        }
        let node = self.fabric.node_mut(index);
        node.description = NodeDescription::new(description);
        let first = *node.ports().start();
        let end_ports = if node.is_switch() {
            first..=first
        } else {
            node.ports()
        };
        for port in end_ports {
            let notice = notice::local_change(&self.fabric, port, LocalChanges::NODE_DESCRIPTION);
            self.raise(port, notice);
        }
        Ok(())
    }

    /// Makes a node report other GUIDs than its own, as clones and unprogrammed hardware do.
    /// Operations on the model use the node's own GUID. The links do not change; to reset them, as
    /// a device that changes its GUID does, see [`Sim::power_off`] and [`Sim::power_on`].
    ///
    /// # Errors
    /// There is no such node.
    pub fn set_reported_guids(&mut self, node: Guid, guids: ReportedGuids) -> Result<(), SimError> {
        let index = self.fabric.find_node(node)?;
        let node = self.fabric.node_mut(index);
        node.info
            .set_node_guid(guids.node)
            .set_system_image_guid(guids.system_image);
        for port in node.ports() {
            self.fabric.port_mut(port).guid = guids.port;
        }
        Ok(())
    }

    /// The GUIDs that a node reports, or its own GUIDs by default.
    ///
    /// # Errors
    /// There is no such node.
    pub fn reported_guids(&self, node: Guid) -> Result<ReportedGuids, SimError> {
        let node = self.fabric.node(self.fabric.find_node(node)?);
        Ok(ReportedGuids {
            node: node.info.node_guid(),
            system_image: node.info.system_image_guid(),
            port: self.fabric.port(*node.ports().start()).guid,
        })
    }

    /// Sets or clears IsSM in the CapabilityMask of a client's port, which reports a change with
    /// trap 144.
    pub fn set_is_sm(&mut self, client: AttachId, on: bool) {
        let Some(port) = self.client_port(client) else {
            return;
        };
        let info = &mut self.fabric.port_mut(port).info;
        let before = info.capability_mask();
        let after = if on {
            before | CapabilityMask::IS_SM
        } else {
            before.without(CapabilityMask::IS_SM)
        };
        info.set_capability_mask(after);
        if after != before {
            let notice = notice::local_change(&self.fabric, port, LocalChanges::NONE);
            self.raise(port, notice);
        }
    }

    /// Makes the agent at an end port send a trap until it is repressed. A port without a LID or
    /// without a manager's LID sends nothing.
    ///
    /// # Errors
    /// There is no such port, or it has no address.
    pub fn inject_notice(
        &mut self,
        node: Guid,
        port: PortNum,
        notice: Notice,
    ) -> Result<(), SimError> {
        let index = self.fabric.find_end_port(node, port)?;
        self.raise(index, notice);
        Ok(())
    }

    /// Makes a node send trap 129, 130 or 131 about one of its ports.
    ///
    /// # Errors
    /// There is no such port.
    pub fn inject_threshold(
        &mut self,
        node: Guid,
        port: PortNum,
        trap: Trap,
    ) -> Result<(), SimError> {
        let index = self.fabric.find_port(node, port)?;
        let address = self.fabric.address_port(index);
        let mut details = PortThreshold::default();
        details
            .set_lid(self.fabric.port(address).info.lid())
            .set_port_num(port);
        let notice = notice::notice_of(&self.fabric, address, NoticeType::Urgent, trap, &details);
        self.raise(address, notice);
        Ok(())
    }
}
