//! The table of all keys, from which [`Config`], the parser, the sample and the messages are made.
//!
//! A change of a key marked `at start` takes effect only at the next start. A reload compares the
//! configuration with that of the start, so that reverting a change also ends its finding.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the texts are also for operators, and name sections as the file does"
)]

mod congestion;
mod key;
mod qos;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;

use rsm_ids::{Guid, Lmc};
use rsm_mad::client::ClientConfig;
use rsm_model::findings::Severity;
use rsm_routing::engine::{EngineKind, EngineOptions};

use self::congestion::CONGESTION_KEYS;
pub use self::congestion::CongestionKeys;
pub use self::key::Applies;
pub(super) use self::key::ConfigKey;
use self::key::Place;
use self::qos::QOS_KEYS;
pub use self::qos::QosKeys;
use super::convert::Convert;
use super::value::{Kind, Takes};
use super::{
    AdaptiveRouting, AggregationNodes, Enforcement, EventKinds, Fdr10, HostileHosts, HttpUrl,
    Isolate, MKeyMode, SlToVl, SmLid, StoreBackend, Symptom, SyslogAddress, SyslogFacility,
    Takeover, TrustMode, Virtualization, VlWeights,
};

/// One hour in milliseconds: longer intervals are a mistake in the unit.
const HOUR_MS: u64 = 3_600_000;
/// One minute in milliseconds: a longer wait for one answer would stall a sweep.
const MINUTE_MS: u64 = 60_000;

pub(super) const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const fn hexadecimal(min: u64, max: u64) -> Kind {
    Kind::Hexadecimal { min, max }
}

sections! {
    /// The identity of this subnet manager on the wire.
    sm: SmConfig {
        /// Priority of this subnet manager: of several managers, the one with the highest priority
        /// is master.
        // SMInfo.Priority (IBA 14.4.1).
        priority: u8 = 0, takes number(0, 15), opensm "sm_priority" as Number;

        /// Priority that rsm shows while it is master, if higher than `priority`: rsm then stays
        /// master when a manager with a higher `priority` arrives. Not set: 14 with [store] etcd,
        /// otherwise `priority`.
        master_priority: Option<u8> = None, takes number(0, 15), example "14", opensm "master_sm_priority" as Number;

        /// Port GUIDs of the managers that rsm accepts, separated by commas. rsm reports any other
        /// manager, never hands the subnet to it, follows no order of it, and does not stand by for
        /// it. Not set: all managers with the same `sm_key`.
        allowed_sm_guids: Vec<Guid> = Vec::new(), example "\"0x0002c90300001234,0x0002c90300005678\"", opensm "allowed_sm_guids" as Text;

        /// LID of a manager after a takeover through the shared [store]. `floating`: the former
        /// master's LID; the two ports swap LIDs, so no host notices. `port`: its own LID,
        /// announced to every port. `auto`: `floating` with [store] etcd.
        lid: SmLid = SmLid::Auto;

        /// GUID of the local port that rsm uses. Not set: the first port with a link.
        guid: Option<Guid> = None, example "\"0x0002c90300001234\"", opensm "guid" as Guid, at start;

        /// The upper half of every GID of the subnet.
        subnet_prefix: u64 = 0xfe80_0000_0000_0000, takes hexadecimal(0, u64::MAX), opensm "subnet_prefix" as Number;

        /// M_Key that rsm gives to ports; a port then accepts Sets only with this key. Zero: no
        /// key.
        // IBA 14.2.4.
        m_key: u64 = 0, takes hexadecimal(0, u64::MAX), opensm "m_key" as Number;

        /// `one`: all ports have `m_key`. `per-port`: each port's key is derived from
        /// `m_key_secret_file`; one leaked key opens one port. Ports still holding `m_key` are
        /// converted.
        m_keys: MKeyMode = MKeyMode::One;

        /// File with the secret from which the keys of ports are derived, for its owner only (mode
        /// 0600): 64 hexadecimal digits on the first line, then up to three earlier secrets.
        m_key_secret_file: Option<PathBuf> = None, example "\"/etc/rsm/m-key-secret\"";

        /// OpenSM's `guid2mkey`: M_Keys that ports may still hold from another manager.
        m_key_table_file: Option<PathBuf> = None, example "\"/var/cache/opensm/guid2mkey\"";

        /// OpenSM's `neighbors`: the cables by which rsm finds the ports of that table that answer
        /// no Get without their key.
        m_key_neighbors_file: Option<PathBuf> = None, example "\"/var/cache/opensm/neighbors\"";

        /// How a port treats a Get without its M_Key: 0 answers and shows the key, 1 answers and
        /// hides the key, 2 and 3 do not answer.
        // PortInfo.M_KeyProtectBits (IBA 14.2.4.1).
        m_key_protection_level: u8 = 0, takes number(0, 3), opensm "m_key_protection_level" as Number;

        /// Seconds after which a port gives up the M_Key of a manager that is gone. Zero: never.
        // PortInfo.M_KeyLeasePeriod.
        m_key_lease_period_s: u16 = 0, takes number(0, 65_535), opensm "m_key_lease_period" as Number;

        /// SM_Key of all managers of the subnet. A manager with another SM_Key is foreign: rsm
        /// never hands the subnet to it, follows no order of it, and does not stand by for it.
        /// SMInfo shows the SM_Key to any host unless ports have M_Keys.
        // SMInfo.SM_Key (IBA 14.4.5).
        sm_key: u64 = 1, takes hexadecimal(0, u64::MAX), opensm "sm_key" as Number, at start;

        /// File with the key of requests that the SA trusts, for its owner only (mode 0600). Only
        /// trusted requests see keys and the records for managers, and change registrations of
        /// other hosts. Not set, and no `sa_key`: `sa.key` in the folder of this file; without that
        /// file, the SA trusts no request.
        // SA header, SM_Key (IBA 15.2.1.1).
        sa_key_file: Option<PathBuf> = None, example "\"/etc/rsm/sa.key\"", at start;

        /// The same key in this file, as in OpenSM's. With zero, with the publicly known 1, and
        /// with `sm_key`, which SMInfo shows, the SA trusts no request.
        sa_key: Option<u64> = None, takes hexadecimal(0, u64::MAX), example "\"0x0123456789abcdef\"", opensm "sa_key" as SaKey, at start;

        /// Whether rsm starts inactive: it manages nothing until another subnet manager orders
        /// it to stand by.
        // SMInfo.SMState NOT-ACTIVE (IBA 14.4.1).
        inactive: bool = false, opensm "sm_inactive" as Flag, at start;

        /// Whether rsm ignores other subnet managers: it neither stands by nor hands the subnet
        /// over, and follows no order of them. Two masters undo each other's work: set this only if
        /// a manager cannot be ended otherwise.
        ignore_others: bool = false, opensm "ignore_other_sm" as Flag;

        /// Milliseconds between two polls of the master by a standby.
        poll_interval_ms: u32 = 2_000, takes number(10, HOUR_MS), opensm "sminfo_polling_timeout" as NumberUnless(10_000);

        /// Number of polls in a row without an answer after which a standby takes the subnet over.
        /// rsm repeats a poll `sweep.retries` times before the poll counts.
        poll_limit: u32 = 1, takes number(1, 1000), opensm "polling_retry_number" as NumberUnless(4);

        /// Whether rsm asks hosts to register anew with the SA after a change of the master and
        /// after a loss of their registrations. If not, a host that does not register anew by
        /// itself is then in no multicast group.
        // PortInfo.ClientReregister (IBA 14.4.11).
        client_reregister: bool = true, opensm "no_clients_rereg" as NotFlag;

        /// Service level of packets from nodes to the subnet manager.
        sm_sl: u8 = 0, takes number(0, 15), opensm "sm_sl" as Number;

        /// Switches whose adaptive routing rsm turns off at a takeover, and whose forwarding tables
        /// it writes anew even if they read back right. `auto`: switches that another manager left
        /// routing adaptively; `rewrite`: also all switches that another manager managed last;
        /// `trust`: none.
        takeover: Takeover = Takeover::Auto;

        /// Whether rsm brings up virtual ports of NVIDIA's adapters (SR-IOV): `off` leaves them as
        /// they are, `on` gives them LIDs and P_Keys and makes them Active. Tested with simulated
        /// devices only.
        virtualization: Virtualization = Virtualization::Off, opensm "virt_enabled" as Virtualization;

        /// Whether rsm enables (`on`) or disables (`off`) the aggregation nodes of NVIDIA's
        /// switches (SHARP), or leaves them as they are (`keep`). Tested with simulated devices
        /// only.
        aggregation_nodes: AggregationNodes = AggregationNodes::Keep, opensm "sharp_enabled" as AggregationNodes;
    }

    /// How rsm reads the fabric. Times are in milliseconds.
    sweep: SweepConfig {
        /// Time between two light sweeps, in which rsm asks each switch whether a port has changed.
        /// Zero: no light sweeps.
        light_interval_ms: u32 = 10_000, takes number(0, 24 * HOUR_MS), opensm "sweep_interval" as Seconds;

        /// Whether rsm reads a switch or host again when it reports a change (traps 128, 144 and
        /// 145). If not, the next light sweep finds what has changed at switches.
        on_trap: bool = true, opensm "sweep_on_trap" as Flag;

        /// Whether rsm asks one device of each of NVIDIA's types for its capabilities
        /// (GeneralInfo), and uses the capabilities that it knows: tables of port states, FDR10,
        /// aggregation nodes. Tested with simulated devices only.
        capabilities: bool = false;

        /// Whether rsm reads the error correction of links (PortInfoExtended) from ports that
        /// support it: one more request for each port whose link comes up.
        error_correction: bool = false;

        /// The shortest time-out of a request; rsm derives time-outs from measured round trips.
        timeout_floor_ms: u32 = 25, takes number(1, MINUTE_MS), at start;

        /// The time-out of the first requests, before rsm has measured a round trip.
        timeout_initial_ms: u32 = 100, takes number(1, MINUTE_MS), opensm "transaction_timeout" as TimeoutUnless(200), at start;

        /// The longest time-out of a request.
        timeout_ceiling_ms: u32 = 1_000, takes number(1, MINUTE_MS), at start;

        /// Maximum number of requests in flight; rsm sends fewer while the fabric does not keep up.
        /// More than 96 do not fit into Linux's queue for management datagrams.
        // ibsim stops for good at some 160.
        window: u32 = 96, takes number(*Config::WINDOW.start() as u64, *Config::WINDOW.end() as u64), opensm "max_wire_smps" as WindowUnless(4), at start;

        /// Maximum number of requests in flight to one node: management datagrams have no flow
        /// control.
        per_target: u16 = 2, takes number(1, 16), at start;

        /// Number of times that rsm repeats a request, each time on another path if there is one.
        retries: u8 = 6, takes number(0, 30), opensm "transaction_retries" as NumberUnless(3), at start;
    }

    /// The rules of the SA for requests of hosts.
    sa: SaRulesConfig {
        /// Whether a host that joins a multicast group must agree with the group's parameters. The
        /// P_Key must agree in any case, and the port must be able to carry the group's packets.
        validate_joins: bool = true, opensm "mcgroup_join_validation" as Flag, at start;

        /// Whether a new multicast group of IP over InfiniBand must agree with the broadcast group
        /// of its partition.
        // RFC 4391, 5.
        validate_ipoib: bool = true, opensm "ipoib_mcgroup_creation_validation" as Flag, at start;

        /// The file of the routers to other subnets: on each line a subnet prefix and the GUID of a
        /// router's port in this subnet; * stands for any prefix or port. The SA then answers a
        /// query for a path to another subnet with the path to the router. Not set: there is no
        /// such path.
        // IBA 15.2.5.16, 19.2.4.
        prefix_routes_file: Option<PathBuf> = None, example "\"/etc/rsm/prefix-routes\"", opensm "prefix_routes_file" as PathIfThere("/opensm/prefix-routes.conf");

        /// Whether the solicited-node groups of IPv6 in a partition share one multicast LID.
        /// Switches then need fewer entries, and hosts drop the packets for other hosts.
        consolidate_ipv6_snm: bool = false, opensm "consolidate_ipv6_snm_req" as Flag, at start;

        /// Whether answers with all nodes or all ports (NodeRecord, PortInfoRecord, GUIDInfoRecord,
        /// P_KeyTableRecord) include the virtual ports with a LID of their own. A query about such
        /// a LID or GUID is answered in any case.
        virtual_port_records: bool = false, opensm "enable_virt_rec_ext" as Flag, at start;

        /// Treatment of a request in which a host joins or leaves a multicast group, or registers
        /// services or alias GUIDs, for a port that is not its own, or shows the GID of another
        /// port. `off`: the SA obeys, as IBA permits. `report`: the SA obeys, and finding sa-trust
        /// counts the requests. `enforce`: the SA refuses and counts them. Requests with the key of
        /// the SA are always obeyed. All ports and virtual ports of one adapter count as one.
        trust_mode: TrustMode = TrustMode::Report, opensm "sa_enhanced_trust_model" as TrustMode, at start;

        /// Port GUIDs, separated by commas, from which hosts may make such requests without the
        /// key of the SA: the ports of managers of virtual machines or of storage.
        trust_proxies: Vec<Guid> = Vec::new(), example "\"0x0002c90300001234\"", at start;
    }

    /// How rsm assigns LIDs.
    lids: LidConfig {
        /// LID mask control: each end port gets 2^lmc LIDs, with different paths if the fabric has
        /// any.
        lmc: Lmc = Lmc::ZERO, takes number(0, 7), opensm "lmc" as Number;

        /// Whether an enhanced port 0 of a switch gets 2^lmc LIDs, too. If not, it gets one.
        lmc_esp0: bool = false, opensm "lmc_esp0" as Flag;

        /// Whether rsm gives every port a new LID, once: with its first plan after this start, as
        /// on a fabric without LIDs. Hosts lose their connections. Remove the key after that start,
        /// because the next start would change all LIDs again. A manager that has stood by never
        /// does.
        reassign: bool = false, opensm "reassign_lids" as Flag, at start;
    }

    /// The settings that rsm gives to every port (PortInfo, IBA 14.2.5.6).
    links: LinkConfig {
        /// Time that a packet may take through the subnet: 4.096 us * 2^n.
        // PortInfo.SubnetTimeOut.
        subnet_timeout: u8 = 18, takes number(0, 31), opensm "subnet_timeout" as Number;

        /// Time that a packet to another switch may wait at the head of its queue: 4.096 us * 2^n;
        /// no limit above 0x13.
        // PortInfo.HOQLife.
        hoq_life: u8 = 0x12, takes hexadecimal(0, 31), opensm "head_of_queue_lifetime" as Number;

        /// Value of `hoq_life` for switch ports that lead to a channel adapter or router.
        leaf_hoq_life: u8 = 0x10, takes hexadecimal(0, 31), opensm "leaf_head_of_queue_lifetime" as Number;

        /// Number of packets dropped in a row after which a switch port stalls the virtual lane.
        // PortInfo.VLStallCount.
        vl_stall_count: u8 = 7, takes number(1, 7), opensm "vl_stall_count" as Number;

        /// Value of `vl_stall_count` for switch ports that lead to a channel adapter or router.
        leaf_vl_stall_count: u8 = 7, takes number(1, 7), opensm "leaf_vl_stall_count" as Number;

        /// Maximum number of data VLs of a link, coded: 1 for 1 VL, 2 for 2, 3 for 4, 4 for 8, 5
        /// for 15.
        // PortInfo.OperationalVLs.
        max_op_vls: u8 = 5, takes number(1, 5), opensm "max_op_vls" as Number;

        /// Number of symbol errors at which a port causes trap 129.
        // PortInfo.LocalPhyErrors.
        phy_error_threshold: u8 = 8, takes number(0, 15), opensm "local_phy_errors_threshold" as Number;

        /// Number of buffer overruns at which a port causes trap 130.
        // PortInfo.OverrunErrors.
        overrun_error_threshold: u8 = 8, takes number(0, 15), opensm "overrun_errors_threshold" as Number;

        /// Time that a packet may stay in a switch: 4.096 us * 2^n; no limit above 0x13.
        // SwitchInfo.LifeTimeValue.
        packet_life_time: u8 = 0x12, takes hexadecimal(0, 31), opensm "packet_life_time" as Number;

        /// Widths that rsm enables on switch ports, the sum of 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16
        /// (2x). Not set: rsm leaves them as they are.
        // PortInfo.LinkWidthEnabled.
        force_width: Option<u8> = None, takes number(1, 31), example "2", opensm "force_link_width" as Mask(255);

        /// Speeds that rsm enables on switch ports, the sum of 1 (2.5 Gb/s), 2 (5), 4 (10); 15: all
        /// that the port supports. Not set: rsm leaves them as they are.
        // PortInfo.LinkSpeedEnabled.
        force_speed: Option<u8> = None, takes number(1, 15), example "15", opensm "force_link_speed" as Mask(15);

        /// Extended speeds that rsm enables on switch ports, the sum of 1 (FDR), 2 (EDR), 4 (HDR),
        /// 8 (NDR); 30: none; 31: all that the port supports. Not set: rsm leaves them as they are.
        // PortInfo.LinkSpeedExtEnabled.
        force_speed_ext: Option<u8> = None, takes number(1, 31), example "31", opensm "force_link_speed_ext" as Mask(31);

        /// Whether links of NVIDIA's devices may train to FDR10 (ExtendedPortInfo): `on`, `off`, or
        /// `as-is`, which keeps the devices' setting. As with forced speeds, a change takes effect
        /// when a link next trains. Tested with simulated devices only.
        fdr10: Fdr10 = Fdr10::AsIs, opensm "fdr10" as Fdr10;

        /// Whether rsm takes an Active link down and up again if its MTU or number of VLs is not as
        /// planned, one link at a time and each link once: both change only while the link is down.
        /// If not, rsm reports such links (finding link-mismatch).
        bounce: bool = false;
    }

    /// How rsm computes routes.
    routing: RoutingConfig {
        /// The engine that computes the routes. With `auto` rsm chooses it, and `rsmctl status`
        /// names it.
        engine: EngineKind = EngineKind::default(), opensm "routing_engine" as Engines;

        /// The engines that rsm tries next, in this order and separated by commas, if the routes of
        /// `engine` do not fit the fabric or cannot be proved.
        fallback_engines: Vec<EngineKind> = Vec::new(), example "\"updn,dfsssp\"";

        /// The file of the root switches, a GUID on each line. Not set: rsm finds the roots from
        /// the cables.
        root_guid_file: Option<PathBuf> = None, example "\"/etc/rsm/roots\"", opensm "root_guid_file" as Path;

        /// The file of forwarding tables for the engine `file`: OpenSM's dump, or the output of
        /// ibroute or dump_fts.
        tables_file: Option<PathBuf> = None, example "\"/var/log/opensm-lfts.dump\"", opensm "lfts_file" as Path;

        /// The file of the purposes of ports: on each line a port GUID and compute, storage or
        /// management. fabric-tree spreads routes to each purpose on its own. A port without a line
        /// is for computing, unless the inventory of a GPU host gives it another purpose.
        categories_file: Option<PathBuf> = None, example "\"/etc/rsm/categories\"";

        /// The file of the ports for storage, a port GUID on each line: each has the category
        /// storage, unless categories_file gives it another.
        storage_guid_file: Option<PathBuf> = None, example "\"/etc/rsm/storage\"", opensm "io_guid_file" as Path;

        /// The file of the ports for computing, a port GUID on each line. Ports of hosts without a
        /// line are then for management, unless storage_guid_file, categories_file or the inventory
        /// of a GPU host gives them another category. Not set: they are for computing.
        compute_guid_file: Option<PathBuf> = None, example "\"/etc/rsm/compute\"", opensm "cn_guid_file" as Path;

        /// The file of the order in which routes to ports of hosts are spread, a port GUID on each
        /// line: routes to neighbors in the file take different links. Ports without a line follow.
        port_order_file: Option<PathBuf> = None, example "\"/etc/rsm/port-order\"", opensm "guid_routing_order_file" as Path;

        /// The file of the weights of hops: on each line the GUID of a switch, a port, and the
        /// number of hops that a hop out of the port counts as, 1 to 40. The lowest weight applies
        /// to all parallel cables between two switches.
        hop_weights_file: Option<PathBuf> = None, example "\"/etc/rsm/hop-weights\"", opensm "hop_weights_file" as Path;

        /// The file of the ports whose load does not count when routes are spread: on each line the
        /// GUID of a switch and a port.
        uncounted_ports_file: Option<PathBuf> = None, example "\"/etc/rsm/uncounted-ports\"", opensm "port_prof_ignore_file" as Path;

        /// The file of the numbers by which up*/down* orders switches of one level, instead of by
        /// GUID: on each line the GUID of a switch and a number. A lower number is nearer to the
        /// root.
        switch_ids_file: Option<PathBuf> = None, example "\"/etc/rsm/switch-ids\"", opensm "ids_guid_file" as Path;

        /// The file of the layout of a torus or mesh, in OpenSM's format (torus-2QoS.conf): the
        /// order in which packets take its dimensions, their directions, and where the datelines
        /// lie. Not set: rsm finds the dimensions from the cables, and chooses the rest.
        torus_file: Option<PathBuf> = None, example "\"/etc/rsm/torus.conf\"", opensm "torus_config" as PathIfThere("/opensm/torus-2QoS.conf");

        /// Whether fabric-tree spreads routes to hosts with several ports in the order of hosts and
        /// rails, so that the flows of rings, trees and shifts share no link. Without GPU
        /// inventories rsm finds this order from names and cables.
        rails: bool = true;

        /// Whether fabric-tree also connects the ports 0 of two switches without hosts, such as two
        /// roots of a tree. All other pairs always have a path, and `updn` and `dnup` always
        /// connect roots.
        connect_roots: bool = false, opensm "connect_roots" as Flag;

        /// Whether rsm routes multicast. If not, the multicast tables of switches stay as they are,
        /// but the SA still accepts joins.
        multicast: bool = true, opensm "disable_multicast" as NotFlag;

        /// Whether NVIDIA's switches send packets to any port of a group (adaptive routing): `off`;
        /// `on`; or `fast-recovery`, with which a switch that loses a port also uses another port
        /// of the group at once. rsm then asks devices for their capabilities, as with
        /// sweep.capabilities. Tested with simulated switches only.
        adaptive: AdaptiveRouting = AdaptiveRouting::Off;

        /// The DeviceIDs of the switches that may route adaptively, separated by commas. Not set:
        /// none. Some encodings are not public: docs/limits.md says how to confirm them before a
        /// type of switch is named here.
        adaptive_devices: Vec<u16> = Vec::new(), example "\"0xd2f0,0xd2f2\"";

        /// The service levels of the packets that are routed adaptively, as a mask: SL 0 is bit 0.
        /// Packets of other service levels follow the forwarding tables.
        adaptive_sls: u16 = 0xFFFF, takes hexadecimal(0x1, 0xFFFF);

        /// Time without another change after which fabric-tree relieves the links with the highest
        /// load after a fault, in small steps. The repair restores the routes of before the fault.
        /// Zero: never.
        rebalance_after_ms: u32 = 30_000, takes number(0, HOUR_MS);

        /// Maximum number of blocks of forwarding tables, an SMP each, that one such step writes.
        rebalance_blocks: u32 = 256, takes number(1, 1_000_000);
    } without a key {
        /// The options that the engines declare, each a key of this section; see
        /// [`Engine::options`](rsm_routing::engine::Engine::options).
        engine_options: EngineOptions = EngineOptions::default();
    }

    /// Partitions: which ports may communicate with each other.
    partitions: PartitionConfig {
        /// The file that defines the partitions, in OpenSM's format. Not set: every port is a full
        /// member of the default partition.
        file: Option<PathBuf> = None, example "\"/etc/rsm/partitions.conf\"", opensm "partition_config_file" as Path;

        /// Direction in which a switch port at a channel adapter or router drops packets with a
        /// P_Key that the adapter or router does not hold: `in` to the switch, `out` of it, or
        /// `both`.
        enforcement: Enforcement = Enforcement::Both, opensm "part_enforce" as Text;

        /// Whether a port can hold the full and the limited key of one partition. If not, a
        /// membership of `both` in the file counts as full.
        allow_both: bool = false, opensm "allow_both_pkeys" as Flag;
    } without a key {
        /// Whether the file may be missing: OpenSM writes its default name into every
        /// configuration.
        file_may_be_missing: bool = false;
    }

    /// Quality of service: how the service levels (SLs) of packets share links.
    qos: QosConfig {
        /// Whether rsm sets the tables of this section at every port. If not, rsm sets only the
        /// tables that the engine needs, and devices keep the contents of all other tables.
        enabled: bool = false, opensm "qos" as Flag;

        /// The file of the policy that gives paths service levels and other limits by rules about
        /// the queries of hosts, in OpenSM's format. Not set: paths have the service level of their
        /// partition, or the service level that the engine needs.
        policy_file: Option<PathBuf> = None, example "\"/etc/rsm/qos-policy.conf\"", opensm "qos_policy_file" as Path;

        /// The file of the limits of rates by service level, of ports of NVIDIA's adapters and of
        /// their virtual ports, in the format of `enhanced_qos_policy_file` of NVIDIA's manager.
        /// Not set: adapters keep the limits that they hold. Tested with simulated devices only.
        rate_limits_file: Option<PathBuf> = None, example "\"/etc/rsm/rate-limits.conf\"", opensm "enhanced_qos_policy_file" as Path;

        /// Whether rsm sets the SLtoVLMappingTables from all inputs to an output of a switch by one
        /// request, if the switch supports that. rsm does not read such tables back.
        // SwitchInfo.OptimizedSLtoVLMappingProgramming (IBA 14.2.5.4).
        optimized_sl2vl: bool = true, opensm "use_optimized_slvl" as FlagUnless(false);

        /// Maximum number of data VLs of a port, 1 to 15, rounded down to 1, 2, 4, 8 or 15. Not
        /// set: as many as both ends of its link have, up to links.max_op_vls. This key and the
        /// next four apply to every port, unless a key for the kind of the port is set.
        // PortInfo.OperationalVLs. OpenSM reads `qos_max_vls` and limits no VLs by it.
        max_vls: Option<u8> = None, takes number(1, 15), example "8";

        /// Units of 4096 bytes that a port sends by the high-priority table before it sends a
        /// packet by the low-priority table; 255: no limit, 0: one packet. Not set: 0.
        // PortInfo.VLHighLimit (IBA 7.6.9.2).
        high_limit: Option<u8> = None, takes number(0, 255), example "0", opensm "qos_high_limit" as Limit;

        /// The high-priority table: VLs and their weights in units of 64 bytes.
        vlarb_high: Option<VlWeights> = None, example "\"0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0\"", opensm "qos_vlarb_high" as Text;

        /// The low-priority table: VLs and their weights in units of 64 bytes.
        vlarb_low: Option<VlWeights> = None, example "\"0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4\"", opensm "qos_vlarb_low" as Text;

        /// The VL of each SL. A port with fewer VLs uses the remainder of the VL divided by the
        /// number of its VLs, a power of two; VL 15 drops packets.
        sl2vl: Option<SlToVl> = None, example "\"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\"", opensm "qos_sl2vl" as SlToVl;
    } without a key {
        /// The keys of ports of channel adapters.
        ca: QosKeys = QosKeys::default();
        /// The keys of enhanced ports 0 of switches.
        sw0: QosKeys = QosKeys::default();
        /// The keys of external ports of switches.
        swe: QosKeys = QosKeys::default();
        /// The keys of external ports of switches that lead to a switch.
        sw2sw: QosKeys = QosKeys::default();
        /// The keys of ports of routers.
        rtr: QosKeys = QosKeys::default();
        /// Whether the file of the policy may be missing: OpenSM writes its default name into every
        /// configuration.
        policy_may_be_missing: bool = false;
    }

    /// When rsm damps a link that comes and goes: routes avoid a damped link.
    flap: FlapConfig {
        /// Number of times that a link goes down, or trains anew, within `window_ms` before rsm
        /// damps the link. Zero: never.
        threshold: u32 = 6, takes number(0, 1000);

        /// Time within which rsm counts how often a link goes down.
        window_ms: u32 = 60_000, takes number(1, HOUR_MS);

        /// Time for which a damped link must stay as it is before routes use it again.
        hold_ms: u32 = 30_000, takes number(1, HOUR_MS);
    }

    /// When links are unhealthy: limits in errors in an hour, zero for never; and the consequence.
    health: HealthConfig {
        /// The treatment of unhealthy cables between switches: `off`, findings name them;
        /// `suggest`, findings also have the command that keeps routes off them; `on`, routes avoid
        /// them as far as all ports stay reachable, up to 10 cables or half a percent of all
        /// cables.
        isolate: Isolate = Isolate::Suggest;

        /// Whether rsm disables the link of a host whose port sends traps without pause (finding
        /// babbling-port): the host is cut off until an operator enables the port of the switch
        /// again. rsm never disables its own host's link or a cable between switches.
        disable_babbling: bool = false, opensm "babbling_port_policy" as Flag;

        /// The treatment of a host that forges notices and traps, repeatedly sends Sets with wrong
        /// M_Keys to switches, orders this manager to stop, runs a manager that is not allowed, or
        /// sends traps without pause. `report`: findings name the host. `isolate`: rsm also
        /// disables the switch port at the host's cable, until an operator enables it
        /// (`rsmctl port enable`); never a port to a switch, a router or this host. `isolate`
        /// requires an M_Key per port, because a host could otherwise take the LID of another host.
        hostile_hosts: HostileHosts = HostileHosts::Report;

        /// Limit of SymbolErrorCounter.
        symbol_errors: u32 = Symptom::SymbolErrors.usual_limit(), takes number(0, 1_000_000_000);

        /// Limit of LinkErrorRecoveryCounter.
        link_recoveries: u32 = Symptom::LinkRecoveries.usual_limit(), takes number(0, 1_000_000_000);

        /// Limit of LinkDownedCounter.
        link_downs: u32 = Symptom::LinkDowns.usual_limit(), takes number(0, 1_000_000_000);

        /// Limit of PortRcvErrors.
        receive_errors: u32 = Symptom::ReceiveErrors.usual_limit(), takes number(0, 1_000_000_000);

        /// Limit of LocalLinkIntegrityErrors.
        integrity_errors: u32 = Symptom::IntegrityErrors.usual_limit(), takes number(0, 1_000_000_000);

        /// Limit of ExcessiveBufferOverrunErrors.
        overruns: u32 = Symptom::Overruns.usual_limit(), takes number(0, 1_000_000_000);

        /// Limit of reports of a port (traps 129 to 131) in the last hour.
        reports: u32 = Symptom::Reports.usual_limit(), takes number(0, 10_000);

        /// Seconds without another error over a limit after which a link is healthy again. The time
        /// doubles whenever the link becomes unhealthy again within a day, up to 16 times.
        quiet_s: u32 = 3_600, takes number(1, 604_800);
    }

    /// Where rsm serves rsmctl and other clients.
    api: ApiConfig {
        /// TCP address at which rsm serves requests. A request that changes something requires a
        /// client whose identity has a role for it. Empty: none.
        listen: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 50_051))), example "\"127.0.0.1:50051\"", at start;

        /// The Unix socket at which rsm serves all requests; --socket takes precedence. Not set:
        /// rsm.sock in the folder of --state-dir. Without that option: in the first folder that
        /// rsmctl searches and rsm can write to, of /run/rsm, $XDG_RUNTIME_DIR/rsm, /var/lib/rsm
        /// and so on.
        socket: Option<PathBuf> = None, example "\"/run/rsm/rsm.sock\"", at start;

        /// Whether rsm serves all requests, also changes, at the address `listen` to any client
        /// that reaches it.
        insecure_admin: bool = false, at start;

        /// Whether clients at the address `listen` may read without an identity.
        anonymous_reading: bool = true;

        /// The file of roles: on each line uid, gid, san, cn or jwt, a name, and one or more of the
        /// roles read, report, operate, tenant:P_KEYS, admin and secrets. Not set: each process
        /// that may open the socket has all roles except secrets.
        roles_file: Option<PathBuf> = None, example "\"/etc/rsm/roles\"";

        /// The certificate of the address `listen` with the certificates of intermediate CAs, in
        /// PEM: rsm then serves only TLS there. SIGHUP reads the files of TLS again.
        tls_certificate: Option<PathBuf> = None, example "\"/etc/rsm/tls.crt\"", at start;

        /// The private key of `tls_certificate`, in PEM.
        tls_key: Option<PathBuf> = None, example "\"/etc/rsm/tls.key\"", at start;

        /// The CAs of client certificates, in PEM. Not set: rsm asks for no client certificate.
        tls_client_ca: Option<PathBuf> = None, example "\"/etc/rsm/client-ca.crt\"", at start;

        /// The lists of revoked client certificates (CRL), in PEM, one for each CA of
        /// `tls_client_ca`: a certificate of a CA without a list is refused. Not set: no
        /// certificate is revoked.
        tls_client_crl: Option<PathBuf> = None, example "\"/etc/rsm/client-ca.crl\"", at start;

        /// The public keys of bearer tokens (JWT), a JSON Web Key Set. Not set: rsm accepts no
        /// token.
        jwks_file: Option<PathBuf> = None, example "\"/etc/rsm/jwks.json\"";

        /// The claim `iss` that a token must have.
        jwt_issuer: String = String::new();

        /// The value that the claim `aud` of a token must have.
        jwt_audience: String = String::new();

        /// The claim of a token whose names get roles from the lines `jwt` of roles_file.
        jwt_roles_claim: String = "roles".to_owned();

        /// Maximum number of reading requests of one identity per second; four seconds' worth may
        /// come at once. Zero: no limit.
        reads_per_s: u32 = 1_000, takes number(0, 1_000_000);

        /// The same limit for requests that may change something.
        changes_per_s: u32 = 50, takes number(0, 1_000_000);

        /// The same limit for inventories of GPU hosts: the agents of a site can have one identity.
        reports_per_s: u32 = 200, takes number(0, 1_000_000);

        /// Size in megabytes at which rsm begins a new audit log audit.jsonl in the folder of
        /// [state]; four older files stay.
        audit_max_mb: u32 = 16, takes number(1, 1_000), at start;
    }

    /// The web page, its data as JSON and metrics, all read-only; and UFM's REST interface.
    http: HttpConfig {
        /// TCP address at which rsm serves HTTP, to any client that reaches it. Empty: none.
        listen: Option<SocketAddr> = None, example "\"127.0.0.1:9316\"", at start;

        /// Whether rsm serves only TLS at that address, with the files `tls_certificate`, `tls_key`
        /// and `tls_client_ca` of section [api].
        tls: bool = false, at start;

        /// The addresses, separated by commas, of proxies that authenticate users and name them in
        /// X-Forwarded-User and X-Forwarded-Groups: only identities with the role read then see the
        /// page, its data and metrics. `user` and `group` lines of roles_file in section [api] give
        /// roles. Not set: any client that reaches the address `listen` sees them.
        proxies: Vec<IpAddr> = Vec::new(), example "\"10.0.0.5\"", at start;

        /// Whether rsm serves the paths /ufmRest, /ufmRestV2 and /ufmRestV3 as UFM does, to clients
        /// with an identity: a token, or a client certificate over TLS.
        ufm: bool = false, at start;

        /// The file of tokens of these paths, as `rsmctl token new` writes it: on each line a name,
        /// an end, a digest and roles. SIGHUP reads it again.
        ufm_tokens_file: Option<PathBuf> = None, example "\"/etc/rsm/ufm-tokens\"";

        /// Whether a partition of these paths stays when its last member leaves. UFM deletes it.
        ufm_keeps_empty: bool = false, at start;
    }

    /// The performance counters of all ports, which rsm reads while it is master and never resets.
    counters: CountersConfig {
        /// Whether rsm reads the counters.
        enabled: bool = false, opensm "perfmgr" as Flag;

        /// Seconds between two readings of the sums of a switch's counters. If a sum of errors has
        /// changed, rsm soon reads the switch's ports. No port is read more often than this.
        interval_s: u32 = 5, takes number(1, 3_600);

        /// Seconds between two readings of each port of a switch.
        ports_interval_s: u32 = 30, takes number(1, 65_535), opensm "perfmgr_sweep_time_s" as NumberUnless(180);

        /// Whether rsm reads the ports of channel adapters and routers, too.
        adapters: bool = true, opensm "perfmgr_ignore_cas" as NotFlag;

        /// Seconds between two readings of each port of a channel adapter or router.
        adapters_interval_s: u32 = 300, takes number(1, 86_400);

        /// Days for which rsm keeps, in the folder of [state], the counts of ports in steps of 15
        /// minutes; steps of a minute stay for a day, and of ten seconds for an hour. Zero: none.
        past_days: u32 = 30, takes number(0, 400), at start;

        /// Maximum size of these steps in megabytes; beyond it rsm removes the oldest steps.
        past_max_mb: u32 = 4_096, takes number(64, 1_000_000), at start;
    }

    /// Congestion control of switches and adapters (IBA annex A10).
    congestion: CongestionConfig {
        /// Whether rsm writes the settings below to switches and adapters that have congestion
        /// control. If not, devices keep their settings. Tested with simulated devices only.
        enabled: bool = false, opensm "congestion_control" as Flag;
    } without a key {
        /// The settings.
        keys: CongestionKeys = CongestionKeys::default();
    }

    /// Inventories of GPU hosts.
    gpu: GpuConfig {
        /// Seconds without a report of a host after which its inventory is stale (finding
        /// stale-inventory). Zero: never.
        max_age_s: u32 = 604_800, takes number(0, 31_536_000), at start;
    }

    /// The names of nodes in reports, findings and files.
    names: NamesConfig {
        /// The file of the names: on each line a node GUID and a name in double quotes, the format
        /// of OpenSM and infiniband-diags. A node without a line has its NodeDescription as name.
        // The SA always answers with NodeDescription.
        file: Option<PathBuf> = None, example "\"/etc/opensm/ib-node-name-map\"", opensm "node_name_map_name" as Path;
    }

    /// The intended cabling.
    design: DesignConfig {
        /// The design file: the intended cables, as comma-separated values with the columns
        /// StartDevice, StartPort, EndDevice and EndPort, or with the column names of UFM or the
        /// cable validation tool. `rsmctl design export` writes a design of the present fabric.
        /// Cables that differ are findings, and `rsmctl design` lists the moves that correct them.
        /// Not set: rsm compares with the cables that it saw earlier.
        file: Option<PathBuf> = None, example "\"/etc/rsm/design.csv\"";
    }

    /// The files that rsm writes after each convergence.
    dump: DumpConfig {
        /// Folder of these files, which have OpenSM's formats. Not set: rsm writes none.
        dir: Option<PathBuf> = None, example "\"/var/log/rsm\"", opensm "dump_files_dir" as PathUnless("/var/log/"), at start;
    }

    /// The log of the daemon; rsm reads these keys at its start.
    log: LogConfig {
        /// The file that rsm writes its log to. Not set: standard error.
        file: Option<PathBuf> = None, example "\"/var/log/rsm.log\"", opensm "log_file" as PathUnless("/var/log/opensm.log"), at start;

        /// Size in megabytes at which rsm appends .1 to the name of the file and begins a new file.
        /// Zero: never.
        max_size_mb: u32 = 0, takes number(0, 1_000_000), opensm "log_max_size" as Number, at start;

        /// Whether rsm appends to the file of an earlier run. If not, it empties the file at its
        /// start.
        append: bool = true, opensm "accum_log_file" as Flag, at start;
    }

    /// Systems to which rsm sends events while it is master; a simulated fabric sends to none.
    notify: NotifyConfig {
        /// Address to which rsm posts events as JSON. Not set: none. Messages and findings omit the
        /// path, because it may be a secret.
        webhook_url: Option<HttpUrl> = None, example "\"https://alerts.example.com/hooks/rsm\"";

        /// The least severity of events that go there: `info`, `warning` or `error`. The end of a
        /// finding and the return of a missing part go to every receiver that got the beginning.
        webhook_min_severity: Severity = Severity::Info;

        /// Kinds of events that go there, separated by commas, as for `rsmctl events --kind`.
        webhook_kinds: EventKinds = EventKinds::default();

        /// File of headers for each request, for its owner only (mode 0600): on each line a name, a
        /// colon and a value, such as `Authorization: Bearer SECRET`.
        webhook_header_file: Option<PathBuf> = None, example "\"/etc/rsm/webhook-headers\"";

        /// Certificates of the CAs that sign the receiver's certificate, in PEM. Not set: the CAs
        /// that the system trusts.
        webhook_ca_file: Option<PathBuf> = None, example "\"/etc/rsm/webhook-ca.pem\"";

        /// Address of the syslog daemon: `udp://HOST:PORT`, `tcp://HOST:PORT` or `unix:/dev/log`.
        /// Not set: none.
        syslog: Option<SyslogAddress> = None, example "\"udp://loghost:514\"";

        /// Facility of these messages.
        syslog_facility: SyslogFacility = SyslogFacility::Daemon;

        /// Least severity of events that go to syslog, as `webhook_min_severity`.
        syslog_min_severity: Severity = Severity::Info;

        /// Kinds of events that go to syslog, as `webhook_kinds`.
        syslog_kinds: EventKinds = EventKinds::default();

        /// Address of an OpenTelemetry collector that accepts logs over gRPC (OTLP). Not set: none.
        otlp_endpoint: Option<HttpUrl> = None, example "\"http://127.0.0.1:4317\"";

        /// Least severity of events that go to the collector, as `webhook_min_severity`.
        otlp_min_severity: Severity = Severity::Info;

        /// Kinds of events that go to the collector, as `webhook_kinds`.
        otlp_kinds: EventKinds = EventKinds::default();

        /// File of headers for the collector, as `webhook_header_file`.
        otlp_header_file: Option<PathBuf> = None, example "\"/etc/rsm/otlp-headers\"";

        /// Certificates of the CAs that sign the collector's certificate, as `webhook_ca_file`.
        otlp_ca_file: Option<PathBuf> = None, example "\"/etc/rsm/otlp-ca.pem\"";

        /// Maximum size in megabytes of the events that wait on the disk for one receiver, in the
        /// folder notify of state.dir; beyond it rsm drops the oldest events.
        queue_max_mb: u32 = 16, takes number(1, 10_000);
    }

    /// The history on the disk, in the folder history of state.dir.
    history: HistoryConfig {
        /// Days that rsm keeps events, findings, convergences and requests of operators.
        days: u32 = 30, takes number(1, 3_650), at start;

        /// Maximum size of the history in megabytes; beyond it rsm removes the oldest entries.
        max_mb: u32 = 256, takes number(16, 1_000_000), at start;
    }

    /// The data that survive a restart: LIDs, registrations of hosts, known cables.
    state: StateConfig {
        /// Folder of these data. Each daemon needs a folder of its own.
        dir: PathBuf = PathBuf::from("/var/lib/rsm"), at start;
    }

    /// A copy of these data, without the history, that several managers of one subnet share.
    store: StoreConfig {
        /// `sled`: the data are on this machine only. `etcd`: they are also in etcd, and a manager
        /// on another machine takes over with them.
        backend: StoreBackend = StoreBackend::Sled, at start;

        /// Addresses of the members of etcd, separated by commas. With http, anyone on the network
        /// path can read and change the data.
        endpoints: Vec<String> = Vec::new(), takes Kind::Form("a string of http://HOST:PORT or https://HOST:PORT, separated by commas"), example "\"https://10.0.0.1:2379,https://10.0.0.2:2379,https://10.0.0.3:2379\"", at start;

        /// The prefix of all keys; rsm adds a slash and the 16 digits of sm.subnet_prefix. Two
        /// subnets with the same subnet prefix need different key prefixes.
        prefix: String = "/rsm".to_owned(), at start;

        /// Certificates of the CAs that sign etcd's certificate, in PEM.
        ca_file: Option<PathBuf> = None, example "\"/etc/rsm/etcd-ca.pem\"", at start;

        /// The certificate that this manager presents to etcd, in PEM. Not set: none.
        cert_file: Option<PathBuf> = None, example "\"/etc/rsm/etcd-client.pem\"", at start;

        /// The private key of `cert_file`, in PEM.
        key_file: Option<PathBuf> = None, example "\"/etc/rsm/etcd-client.key\"", at start;

        /// The user name for etcd, if etcd requires one. Empty: none.
        user: String = String::new(), at start;

        /// The file of this user's password; line ends at the end of the file are ignored.
        password_file: Option<PathBuf> = None, example "\"/etc/rsm/etcd-password\"", at start;
    }
}

impl Config {
    /// Limits of `sweep.window`: Linux queues at most this number of datagrams of a port.
    pub(super) const WINDOW: RangeInclusive<u32> = 4..=ClientConfig::UMAD_WINDOW;
}

/// The section that contains the options of the routing engines.
const ROUTING: &str = "routing";

static FIELDS: LazyLock<Vec<ConfigKey>> = LazyLock::new(|| {
    let engines = EngineKind::ALL.into_iter();
    let options = engines.flat_map(|kind| kind.engine().options());
    let options = options.map(|option| ConfigKey {
        section: ROUTING,
        key: option.name,
        doc: option.doc,
        kind: number(u64::from(option.min), u64::from(option.max)),
        example: "",
        opensm: option.opensm.map(|theirs| (theirs, Convert::Number)),
        applies: Applies::OnReload,
        place: Place::EngineOption(option),
    });
    let keys = [KEYS, QOS_KEYS, CONGESTION_KEYS]
        .into_iter()
        .flatten()
        .cloned();
    keys.chain(options).collect()
});

/// Every key; the keys of the engines follow those of all sections.
pub(super) fn fields() -> &'static [ConfigKey] {
    &FIELDS
}

/// The key with this section and name; `None` if there is none.
pub(super) fn field(section: &str, key: &str) -> Option<&'static ConfigKey> {
    let mut fields = fields().iter();
    fields.find(|field| field.section == section && field.key == key)
}
