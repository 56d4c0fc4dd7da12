//! The properties of the simulated hardware.

use std::time::Duration;

use crate::error::SimError;
use crate::personality::Devices;
use crate::specification::split_key;

/// The properties of the simulated hardware. The defaults describe a current fabric (HDR to NDR);
/// all times are virtual.
#[derive(Debug, Clone, PartialEq)]
pub struct SimConfig {
    /// The personalities of the nodes; by default no node has a habit.
    pub devices: Devices,
    /// The time from one end of a cable to the far side of the next switch's crossbar: 300 ns, for
    /// 20 m of fibre and one switch.
    pub hop_latency: Duration,
    /// The time that a host needs to pass one datagram to its adapter, and so the minimum time
    /// between two datagrams: 1 µs, for a system call and a doorbell.
    pub host_send_interval: Duration,
    /// The time from the arrival of a datagram at an adapter until the host's program has it: 2 µs,
    /// for an interrupt and a copy.
    pub host_receive_latency: Duration,
    /// The time for which an agent is busy when it forwards a directed-route SMP: 400 ns, because
    /// switches do it in firmware.
    pub forward_time: Duration,
    /// The time for which a switch's agent is busy with an answer: 5 µs, as for the fastest switch
    /// processors.
    pub switch_service_time: Duration,
    /// The time for which the agent of a channel adapter or a router is busy with an answer: 3 µs.
    pub ca_service_time: Duration,
    /// The maximum number of SMPs that wait at one agent, including SMPs on the wire towards the
    /// agent:
    /// 64. VL15 has no flow control (IBA 7.6.4), so further SMPs are lost.
    pub agent_buffer: u16,
    /// The time from when both ends of a link can train until the link is up in Init: 20 ms, as for
    /// copper at HDR. Long optical cables need seconds.
    pub link_training: Duration,
    /// The time for which a rebooting node is off before its links train again: 2 s. Real switches
    /// need a minute, too long for a simulation.
    pub reboot_time: Duration,
    /// The time that an agent waits for TrapRepress before it sends a trap again: 4.096 µs · 2^18 =
    /// 1.07 s, the interval of the usual SubnetTimeOut of 18 (IBA 14.2.5.6, 14.4.5).
    pub trap_interval: Duration,
    /// The number of times that an unrepressed trap is sent again: 20. Real agents repeat a trap
    /// without end; the bound lets a simulation come to rest.
    pub trap_repeats: u16,
    /// The maximum delay of a late answer (uniform from 0): 1 s, longer than any sensible time-out.
    pub late_by: Duration,
    /// The maximum number of packets in flight: 2^20, 300 MB. Further packets are dropped and
    /// counted as [`DropReason::FabricFull`](crate::DropReason::FabricFull).
    pub max_in_flight: usize,
    /// The maximum number of outputs that wait to be polled: 2^16. Further outputs are dropped and
    /// counted as [`DropReason::ClientFull`](crate::DropReason::ClientFull).
    pub max_output: usize,
    /// LinearFDBCap of every switch: 49152 entries, one for every unicast LID.
    pub linear_fdb_cap: u16,
    /// MulticastFDBCap of every switch: 4096 multicast LIDs.
    pub multicast_fdb_cap: u16,
    /// PartitionCap of channel adapters, routers and switch port 0: 128 P_Keys.
    pub partition_cap: u16,
    /// PartitionEnforcementCap, the number of P_Keys of a switch's external port: 32.
    pub partition_enforcement_cap: u16,
    /// GUIDCap of end ports: 8 GUIDs, one block.
    pub guid_cap: u8,
    /// The number of virtual ports of each port of a channel adapter or router, the physical
    /// function with index 0 included; 0 by default.
    pub vports: u16,
    /// The virtual ports that have LIDs of their own.
    pub vport_lids: VPortLids,
    /// VPortCap of ports with virtual ports: 127, as on many adapters.
    pub vport_cap: u16,
    /// GUIDCap of virtual ports: 1, only the GUID of the virtual port itself.
    pub vport_guid_cap: u8,
    /// VLCap of all ports, in the code of the specification: 4, which means VL0 to VL7.
    pub vl_cap: u8,
    /// VLArbitrationLowCap and VLArbitrationHighCap of all ports: 8 entries.
    pub vl_arb_cap: u8,
    /// MTUCap of all ports, in the code of the specification: 5, which means 4096 bytes.
    pub mtu_cap: u8,
    /// Whether switches accept one SLtoVLMappingTable for all ports at once
    /// (OptimizedSLtoVLMappingProgramming).
    pub optimized_sl_to_vl: bool,
    /// Whether ports begin with the LIDs and LMCs of the netlist, as in a fabric that another
    /// manager left running; if false, ports begin as after power-on.
    pub keep_lids: bool,
    /// Whether an agent refuses a Set of PortState while the port at the other end of the cable is
    /// more than one state behind. The specification considers only the port itself (false);
    /// another well-known simulator considers both.
    pub check_peer_state: bool,
}

/// The LIDs of virtual ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VPortLids {
    /// Each virtual port needs a separate LID.
    Own,
    /// Each virtual port with an even index needs a separate LID, and the virtual port with the
    /// next index shares that LID.
    ByIndex,
    /// All virtual ports use the LID of the port.
    #[default]
    Base,
}

impl VPortLids {
    /// All variants with their names.
    const NAMES: [(&'static str, VPortLids); 3] = [
        ("own", VPortLids::Own),
        ("by-index", VPortLids::ByIndex),
        ("base", VPortLids::Base),
    ];
}

/// The value of `vports=` is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`vports={text}`: expected the number of virtual ports of each host port, 1 to 1024, \
     optionally with + and \
     their kind of LIDs: own, by-index or base (vports=16, vports=16+own)"
)]
pub struct VPortsError {
    /// The value.
    text: String,
}

/// The maximum number of virtual ports of a port that `vports=` accepts: the number of the largest
/// adapters.
const VPORTS_MAX: u16 = 1024;

impl SimConfig {
    /// Removes `vports=…` from the specification of a fabric, which is a generator or the name of a
    /// file (`ring:6,vports=16`, `fabric.topo,vports=4+own`), and sets the virtual ports
    /// accordingly. Returns the specification without `vports=…`.
    ///
    /// # Errors
    /// The value of `vports=` is not valid.
    pub fn split_vports(&mut self, spec: &str) -> Result<String, VPortsError> {
        let Some((rest, value)) = split_key(spec, "vports=") else {
            return Ok(spec.to_owned());
        };
        let wrong = || VPortsError {
            text: value.to_owned(),
        };
        let (count, lids) = value.split_once('+').unwrap_or((value, "base"));
        let count: u16 = count.parse().map_err(|_| wrong())?;
        let lids = VPortLids::NAMES.iter().find(|(name, _)| *name == lids);
        let &(_, lids) = lids.ok_or_else(wrong)?;
        if !(1..=VPORTS_MAX).contains(&count) {
            return Err(wrong());
        }
        (self.vports, self.vport_lids) = (count, lids);
        self.vport_cap = self.vport_cap.max(count);
        Ok(rest)
    }
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            devices: Devices::default(),
            hop_latency: Duration::from_nanos(300),
            host_send_interval: Duration::from_micros(1),
            host_receive_latency: Duration::from_micros(2),
            forward_time: Duration::from_nanos(400),
            switch_service_time: Duration::from_micros(5),
            ca_service_time: Duration::from_micros(3),
            agent_buffer: 64,
            link_training: Duration::from_millis(20),
            reboot_time: Duration::from_secs(2),
            trap_interval: Duration::from_nanos(4_096 << 18),
            trap_repeats: 20,
            late_by: Duration::from_secs(1),
            max_in_flight: 1 << 20,
            max_output: 1 << 16,
            linear_fdb_cap: 0xC000,
            multicast_fdb_cap: 4096,
            partition_cap: 128,
            partition_enforcement_cap: 32,
            guid_cap: 8,
            vports: 0,
            vport_lids: VPortLids::Base,
            vport_cap: 127,
            vport_guid_cap: 1,
            vl_cap: 4,
            vl_arb_cap: 8,
            mtu_cap: 5,
            optimized_sl_to_vl: true,
            keep_lids: false,
            check_peer_state: false,
        }
    }
}

impl SimConfig {
    /// Checks that every value fits its attribute.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        let checks = [
            (
                "linear_fdb_cap",
                u64::from(self.linear_fdb_cap),
                (1..=0xC000).contains(&self.linear_fdb_cap),
                "1 to 49152",
            ),
            (
                "vl_cap",
                u64::from(self.vl_cap),
                (1..=5).contains(&self.vl_cap),
                "1 to 5",
            ),
            (
                "vl_arb_cap",
                u64::from(self.vl_arb_cap),
                self.vl_arb_cap <= 64,
                "0 to 64",
            ),
            (
                "mtu_cap",
                u64::from(self.mtu_cap),
                (1..=5).contains(&self.mtu_cap),
                "1 to 5",
            ),
            (
                "agent_buffer",
                u64::from(self.agent_buffer),
                self.agent_buffer > 0,
                "at least 1",
            ),
            (
                "max_in_flight",
                self.max_in_flight as u64,
                self.max_in_flight < u32::MAX as usize,
                "less than 2^32 - 1",
            ),
        ];
        match checks.into_iter().find(|&(_, _, fits, _)| !fits) {
            None => Ok(()),
            Some((field, value, _, expected)) => Err(SimError::Config {
                field,
                value,
                expected,
            }),
        }
    }
}
