//! Every key there is: [`Config`], reading, the sample and the messages are all made from this
//! table.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use rsm_ids::{Guid, Lmc};
use rsm_mad::client::ClientConfig;
use rsm_routing::engine::{EngineKind, EngineOptions};

use super::field::{ConfigKey, Kind, Place, Takes};
use super::opensm_conf::Convert;
use super::{Enforcement, Takeover};

/// An hour: longer intervals are a slip of the unit.
const HOUR_MS: u64 = 3_600_000;
/// A minute: a longer wait for one answer would hold up a sweep for ever.
const MINUTE_MS: u64 = 60_000;

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const fn hexadecimal(min: u64, max: u64) -> Kind {
    Kind::Hexadecimal { min, max }
}

/// The kind of a key: its own, or that of its type.
macro_rules! kind {
    ($type:ty) => {
        <$type as Takes>::KIND
    };
    ($type:ty, $kind:expr) => {
        $kind
    };
}

/// OpenSM's name for a key, if it has one.
macro_rules! opensm {
    () => {
        None
    };
    ($theirs:literal, $convert:expr) => {
        Some(($theirs, $convert))
    };
}

/// Declares the sections, and of each its keys: text for the operator and for readers of the code,
/// name, type and default; then, where the key needs them, its range of numbers, an example for a
/// key that is not set by default, and OpenSM's name for it with the conversion of its values.
/// Fields under `without a key` are in the section, and not in files.
macro_rules! sections {
    ($(
        #[doc = $about:literal]
        $section:ident: $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $type:ty = $default:expr
                    $(, takes $kind:expr)?
                    $(, example $example:literal)?
                    $(, opensm $theirs:literal as $convert:ident $(($all:literal))?)?;
            )+
        } $(without a key {
            $(#[doc = $unwritten_doc:literal])+
            $unwritten:ident: $unwritten_type:ty = $unwritten_default:expr;
        })?
    )+) => {
        /// All settings of an operator. The meaning of a field, its range and its unit are also in
        /// [`Config::sample`], which is made from the same table that reads a file.
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct Config {
            $(#[doc = $about] pub $section: $Section,)+
        }

        $(
            #[doc = concat!("Section `", stringify!($section), "`.", $about)]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $Section {
                $($(#[doc = $doc])+ pub $key: $type,)+
                $($(#[doc = $unwritten_doc])+ pub $unwritten: $unwritten_type,)?
            }

            impl Default for $Section {
                fn default() -> $Section {
                    $Section {
                        $($key: $default,)+
                        $($unwritten: $unwritten_default,)?
                    }
                }
            }
        )+

        /// The sections, each with its subject.
        pub(super) const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), $about)),+];

        const KEYS: &[ConfigKey] = &[$($(ConfigKey {
            section: stringify!($section),
            key: stringify!($key),
            doc: &[$($doc),+],
            kind: kind!($type $(, $kind)?),
            example: concat!($($example)?),
            opensm: opensm!($($theirs, Convert::$convert $(($all))?)?),
            place: Place::Key(|config| &mut config.$section.$key),
        }),+),+];
    };
}

sections! {
    /// The identity of this subnet manager on the wire.
    sm: SmConfig {
        /// Of several subnet managers the one with the highest priority is master.
        // SMInfo.Priority (IBA 14.4.1).
        priority: u8 = 0, takes number(0, 15), opensm "sm_priority" as Number;

        /// GUID of the local port to run on. Not set: the first active one.
        guid: Option<Guid> = None, example "\"0x0002c90300001234\"", opensm "guid" as Guid;

        /// The upper half of every GID of the subnet.
        subnet_prefix: u64 = 0xfe80_0000_0000_0000, takes hexadecimal(0, u64::MAX), opensm "subnet_prefix" as Number;

        /// Key that later settings of a port must show. Zero: none.
        // IBA 14.2.4.
        m_key: u64 = 0, takes hexadecimal(0, u64::MAX), opensm "m_key" as Number;

        /// What a port does without the key: 0 answers with the key in it, 1 answers without it,
        /// 2 and 3 do not answer.
        // PortInfo.M_KeyProtectBits (IBA 14.2.4.1).
        m_key_protection_level: u8 = 0, takes number(0, 3), opensm "m_key_protection_level" as Number;

        /// Seconds after which a port gives up a key that no manager showed again. Zero: never.
        // PortInfo.M_KeyLeasePeriod.
        m_key_lease_period_s: u16 = 0, takes number(0, 65_535), opensm "m_key_lease_period" as Number;

        /// Key by which subnet managers know each other.
        // SMInfo.SM_Key (IBA 14.4.5).
        sm_key: u64 = 1, takes hexadecimal(0, u64::MAX), opensm "sm_key" as Number;

        /// Service level on which nodes reach the subnet manager.
        sm_sl: u8 = 0, takes number(0, 15), opensm "sm_sl" as Number;

        /// Whose forwarding tables are written anew although they read back right, and whose
        /// adaptive routing is turned off: `auto`: switches that another manager left routing
        /// adaptively; `rewrite`: also all whose last manager was another; `trust`: none.
        takeover: Takeover = Takeover::Auto;
    }

    /// How the fabric is asked. Durations are in milliseconds.
    sweep: SweepConfig {
        /// Time between two light sweeps, which ask each switch whether a port changed. Zero: none.
        light_interval_ms: u32 = 10_000, takes number(0, 24 * HOUR_MS), opensm "sweep_interval" as Seconds;

        /// The shortest wait for an answer; otherwise it follows the measured round trip.
        timeout_floor_ms: u32 = 25, takes number(1, MINUTE_MS);

        /// The wait for the first answers, before any round trip was measured.
        timeout_initial_ms: u32 = 100, takes number(1, MINUTE_MS);

        /// The longest wait for an answer.
        timeout_ceiling_ms: u32 = 1_000, takes number(1, MINUTE_MS);

        /// The most requests on the way at once; fewer while the fabric does not keep up. More than
        /// 96 do not fit into the queue that Linux has for management.
        // ibsim stops for good at some 160.
        window: u32 = 96, takes number(4, ClientConfig::UMAD_WINDOW as u64);

        /// The most requests on the way to one node: management has no flow control.
        per_target: u16 = 2, takes number(1, 16);

        /// How often a request is repeated, each time on another path if there is one.
        retries: u8 = 6, takes number(0, 30), opensm "transaction_retries" as Number;
    }

    /// How LIDs are given out.
    lids: LidConfig {
        /// Each end port gets 2^lmc LIDs, with different paths where there are any.
        lmc: Lmc = Lmc::ZERO, takes number(0, 7), opensm "lmc" as Number;

        /// Whether enhanced ports 0 of switches do, too.
        lmc_esp0: bool = false, opensm "lmc_esp0" as Flag;
    }

    /// What every port is set to (PortInfo, IBA 14.2.5.6).
    links: LinkConfig {
        /// Time a packet may take through the subnet: 4.096 us * 2^n.
        // PortInfo.SubnetTimeOut.
        subnet_timeout: u8 = 18, takes number(0, 31), opensm "subnet_timeout" as Number;

        /// Time a packet may wait at the head of a queue between switches: 4.096 us * 2^n,
        /// without limit above 0x13.
        // PortInfo.HOQLife.
        hoq_life: u8 = 0x12, takes hexadecimal(0, 31), opensm "head_of_queue_lifetime" as Number;

        /// The same for switch ports that lead to a channel adapter or router.
        leaf_hoq_life: u8 = 0x10, takes hexadecimal(0, 31), opensm "leaf_head_of_queue_lifetime" as Number;

        /// So many packets dropped in a row stall a virtual lane.
        // PortInfo.VLStallCount.
        vl_stall_count: u8 = 7, takes number(1, 7), opensm "vl_stall_count" as Number;

        /// The same for switch ports that lead to a channel adapter or router.
        leaf_vl_stall_count: u8 = 7, takes number(1, 7), opensm "leaf_vl_stall_count" as Number;

        /// The most data lanes in use: 1, 2, 3, 4, 5 for 1, 2, 4, 8, 15.
        // PortInfo.OperationalVLs.
        max_op_vls: u8 = 5, takes number(1, 5), opensm "max_op_vls" as Number;

        /// Symbol errors that cause trap 129.
        // PortInfo.LocalPhyErrors.
        phy_error_threshold: u8 = 8, takes number(0, 15), opensm "local_phy_errors_threshold" as Number;

        /// Buffer overruns that cause trap 130.
        // PortInfo.OverrunErrors.
        overrun_error_threshold: u8 = 8, takes number(0, 15), opensm "overrun_errors_threshold" as Number;

        /// Time a packet may stay in a switch: 4.096 us * 2^n, without limit above 0x13.
        // SwitchInfo.LifeTimeValue.
        packet_life_time: u8 = 0x12, takes hexadecimal(0, 31), opensm "packet_life_time" as Number;

        /// Widths enabled on switch ports, the sum of 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16 (2x).
        /// Not set: left as it is.
        // PortInfo.LinkWidthEnabled.
        force_width: Option<u8> = None, takes number(1, 31), example "2", opensm "force_link_width" as Mask(255);

        /// Speeds enabled on switch ports, the sum of 1 (2.5 Gb/s), 2 (5), 4 (10); 15: all that are
        /// supported. Not set: left as it is.
        // PortInfo.LinkSpeedEnabled.
        force_speed: Option<u8> = None, takes number(1, 15), example "15", opensm "force_link_speed" as Mask(15);

        /// Extended speeds enabled on switch ports, the sum of 1 (FDR), 2 (EDR), 4 (HDR), 8 (NDR);
        /// 30: none; 31: all that are supported. Not set: left as it is.
        // PortInfo.LinkSpeedExtEnabled.
        force_speed_ext: Option<u8> = None, takes number(1, 31), example "31", opensm "force_link_speed_ext" as Mask(31);

        /// Whether an active link whose MTU or number of VLs is not as planned is taken down and up
        /// again, one link at a time and each once: they only change while a link is down.
        /// Otherwise that is a finding.
        bounce: bool = false;
    }

    /// How routes are computed.
    routing: RoutingConfig {
        /// What computes the routes. `auto` picks, and says why.
        engine: EngineKind = EngineKind::default(), opensm "routing_engine" as Engines;

        /// The switches at the top, a GUID on each line. Not set: found from the graph.
        root_guid_file: Option<PathBuf> = None, example "\"/etc/rsm/roots\"", opensm "root_guid_file" as Path;

        /// The tables that the engine `file` takes: OpenSM's dump, or what ibroute and dump_fts
        /// print.
        tables_file: Option<PathBuf> = None, example "\"/var/log/opensm-lfts.dump\"", opensm "lfts_file" as Path;

        /// The purposes of ports: on each line a port GUID and compute, storage or management. Each
        /// kind is spread on its own (fabric-tree). Others are for computing, unless GPU hosts tell
        /// otherwise.
        categories_file: Option<PathBuf> = None, example "\"/etc/rsm/categories\"";

        /// Whether the ports of hosts that have several are spread in the order of hosts and rails,
        /// so that rings, trees and shifts meet on no link (fabric-tree). Found from names and
        /// cables where GPU hosts told nothing.
        rails: bool = true;

        /// When a fault has stayed for so long without another change, load is taken off the links
        /// that it made the fullest, in small steps; when it is mended all goes back (fabric-tree).
        /// Zero: never.
        rebalance_after_ms: u32 = 30_000, takes number(0, HOUR_MS);

        /// How many blocks of forwarding tables, each an SMP, one such step may write.
        rebalance_blocks: u32 = 256, takes number(1, 1_000_000);
    } without a key {
        /// The options that the engines declare, each a key of this section; see
        /// [`Engine::options`](rsm_routing::engine::Engine::options).
        engine_options: EngineOptions = EngineOptions::default();
    }

    /// Partitions: which ports may talk to each other.
    partitions: PartitionConfig {
        /// The file that defines them, in OpenSM's format. Not set: every port is a full member of
        /// the default partition.
        file: Option<PathBuf> = None, example "\"/etc/rsm/partitions.conf\"", opensm "partition_config_file" as Path;

        /// Where switches drop what has another P_Key than the CA or router at the port: what comes
        /// `in`, what goes `out`, or `both`.
        enforcement: Enforcement = Enforcement::Both, opensm "part_enforce" as Text;

        /// Whether a port can hold the full and the limited key of one partition. Otherwise a
        /// membership of `both` in the file counts as full.
        allow_both: bool = false, opensm "allow_both_pkeys" as Flag;
    } without a key {
        /// Whether the file may be missing: OpenSM writes the name of one into every configuration.
        file_may_be_missing: bool = false;
    }

    /// When a link that comes and goes is left alone.
    flap: FlapConfig {
        /// So many changes of one link within `window_ms` damp it. Zero: never.
        threshold: u32 = 6, takes number(0, 1000);

        /// How far back changes count.
        window_ms: u32 = 60_000, takes number(1, HOUR_MS);

        /// A damped link is used again after so long without a change.
        hold_ms: u32 = 30_000, takes number(1, HOUR_MS);
    }

    /// How this daemon is asked.
    api: ApiConfig {
        /// Where reading is served over TCP. Empty: nowhere.
        listen: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 50_051))), example "\"127.0.0.1:50051\"";

        /// The Unix socket that serves everything. Not set: rsm.sock in the folder of --state-dir,
        /// or where that is not given in the first of the places where rsmctl looks that can be
        /// written to: /run/rsm, $XDG_RUNTIME_DIR/rsm, /var/lib/rsm and so on.
        socket: Option<PathBuf> = None, example "\"/run/rsm/rsm.sock\"";

        /// Whether `listen` serves everything, too, to any client that can reach it.
        insecure_admin: bool = false;
    }

    /// What is written after each convergence.
    dump: DumpConfig {
        /// Directory of the files in OpenSM's formats. Not set: none are written.
        dir: Option<PathBuf> = None, example "\"/var/log/rsm\"", opensm "dump_files_dir" as Path;
    }

    /// What survives a restart.
    state: StateConfig {
        /// Directory of what is kept. Each daemon needs its own.
        dir: PathBuf = PathBuf::from("/var/lib/rsm");
    }
}

/// The section that has the options of the routing engines among its keys.
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
        place: Place::EngineOption(option),
    });
    KEYS.iter().cloned().chain(options).collect()
});

/// Every key, those of the engines after those of all sections.
pub(super) fn fields() -> &'static [ConfigKey] {
    &FIELDS
}

/// The field of that name.
pub(super) fn field(section: &str, key: &str) -> Option<&'static ConfigKey> {
    let mut fields = fields().iter();
    fields.find(|field| field.section == section && field.key == key)
}
