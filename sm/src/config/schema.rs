//! Every key there is. Reading, the sample and the messages are all made from this table.

use rsm_mad::client::ClientConfig;

use super::field::{Field, Kind, Slot};

/// A section and what it is about.
pub(super) const SECTIONS: &[(&str, &str)] = &[
    ("sm", "Who this subnet manager is on the wire."),
    (
        "sweep",
        "How the fabric is asked. Durations are in milliseconds.",
    ),
    ("lids", "How LIDs are given out."),
    (
        "links",
        "What every port is set to (PortInfo, IBA 14.2.5.6).",
    ),
    ("routing", "How routes are computed."),
    ("partitions", "Who may talk to whom."),
    ("flap", "When a link that comes and goes is left alone."),
    ("api", "How this daemon is asked."),
    ("dump", "What is written after each convergence."),
    ("state", "What survives a restart."),
];

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const fn hexadecimal(min: u64, max: u64) -> Kind {
    Kind::Hexadecimal { min, max }
}

macro_rules! fields {
    ($($section:ident . $key:ident : $slot:ident, $kind:expr, $example:literal, [$($doc:literal),+];)+) => {
        &[$(Field {
            section: stringify!($section),
            key: stringify!($key),
            doc: &[$($doc),+],
            kind: $kind,
            example: $example,
            slot: |config| Slot::$slot(&mut config.$section.$key),
        }),+]
    };
}

/// An hour: longer intervals are a slip of the unit.
const HOUR_MS: u64 = 3_600_000;
/// A minute: a longer wait for one answer would hold up a sweep for ever.
const MINUTE_MS: u64 = 60_000;

pub(super) const FIELDS: &[Field] = fields! {
    sm.priority: U8, number(0, 15), "", [
        "Of several subnet managers the one with the highest priority is master."
    ];
    sm.guid: Guid, Kind::Guid, "\"0x0002c90300001234\"", [
        "GUID of the local port to run on. Not set: the first active one."
    ];
    sm.subnet_prefix: U64, hexadecimal(0, u64::MAX), "", [
        "The upper half of every GID of the subnet."
    ];
    sm.m_key: U64, hexadecimal(0, u64::MAX), "", [
        "Key that later settings of a port must show. Zero: none."
    ];
    sm.m_key_protection_level: U8, number(0, 3), "", [
        "What a port does without the key: 0 answers with the key in it, 1 answers without it,",
        "2 and 3 do not answer."
    ];
    sm.m_key_lease_period_s: U16, number(0, 65_535), "", [
        "Seconds after which a port gives up a key that nobody showed again. Zero: never."
    ];
    sm.sm_key: U64, hexadecimal(0, u64::MAX), "", [
        "Key by which subnet managers know each other."
    ];
    sm.sm_sl: U8, number(0, 15), "", [
        "Service level on which nodes reach the subnet manager."
    ];
    sm.takeover: Takeover, Kind::Takeover, "", [
        "Whose forwarding tables are written anew although they read back right, and whose adaptive routing",
        "is turned off: `auto`: switches that another manager left routing adaptively; `rewrite`: also all",
        "whose last manager was another; `trust`: none."
    ];

    sweep.light_interval_ms: U32, number(0, 24 * HOUR_MS), "", [
        "Time between two light sweeps, which ask each switch whether a port changed. Zero: none."
    ];
    sweep.timeout_floor_ms: U32, number(1, MINUTE_MS), "", [
        "The shortest wait for an answer; otherwise it follows the measured round trip."
    ];
    sweep.timeout_initial_ms: U32, number(1, MINUTE_MS), "", [
        "The wait for the first answers, before any round trip was measured."
    ];
    sweep.timeout_ceiling_ms: U32, number(1, MINUTE_MS), "", [
        "The longest wait for an answer."
    ];
    sweep.window: U32, number(4, ClientConfig::UMAD_WINDOW as u64), "", [
        "The most requests on the way at once; fewer while the fabric does not keep up. More than 96 do not fit",
        "into the queue that Linux has for management."
    ];
    sweep.per_target: U16, number(1, 16), "", [
        "The most requests on the way to one node: management has no flow control."
    ];
    sweep.retries: U8, number(0, 30), "", [
        "How often a request is repeated, each time on another path if there is one."
    ];

    lids.lmc: Lmc, number(0, 7), "", [
        "Each end port gets 2^lmc LIDs, with different paths where there are any."
    ];
    lids.lmc_esp0: Flag, Kind::Flag, "", [
        "Whether enhanced ports 0 of switches do, too."
    ];

    links.subnet_timeout: U8, number(0, 31), "", [
        "Time a packet may take through the subnet: 4.096 us * 2^n."
    ];
    links.hoq_life: U8, hexadecimal(0, 31), "", [
        "Time a packet may wait at the head of a queue between switches: 4.096 us * 2^n,",
        "without limit above 0x13."
    ];
    links.leaf_hoq_life: U8, hexadecimal(0, 31), "", [
        "The same for switch ports that lead to a channel adapter or router."
    ];
    links.vl_stall_count: U8, number(1, 7), "", [
        "So many packets dropped in a row stall a virtual lane."
    ];
    links.leaf_vl_stall_count: U8, number(1, 7), "", [
        "The same for switch ports that lead to a channel adapter or router."
    ];
    links.max_op_vls: U8, number(1, 5), "", [
        "The most data lanes in use: 1, 2, 3, 4, 5 for 1, 2, 4, 8, 15."
    ];
    links.phy_error_threshold: U8, number(0, 15), "", [
        "Symbol errors that cause trap 129."
    ];
    links.overrun_error_threshold: U8, number(0, 15), "", [
        "Buffer overruns that cause trap 130."
    ];
    links.packet_life_time: U8, hexadecimal(0, 31), "", [
        "Time a packet may stay in a switch: 4.096 us * 2^n, without limit above 0x13."
    ];
    links.force_width: OptionU8, number(1, 31), "2", [
        "Widths enabled on switch ports, the sum of 1 (1x), 2 (4x), 4 (8x), 8 (12x), 16 (2x).",
        "Not set: left as it is."
    ];
    links.force_speed: OptionU8, number(1, 15), "15", [
        "Speeds enabled on switch ports, the sum of 1 (2.5 Gb/s), 2 (5), 4 (10); 15: all that are",
        "supported. Not set: left as it is."
    ];
    links.force_speed_ext: OptionU8, number(1, 31), "31", [
        "Extended speeds enabled on switch ports, the sum of 1 (FDR), 2 (EDR), 4 (HDR), 8 (NDR);",
        "30: none; 31: all that are supported. Not set: left as it is."
    ];
    links.bounce: Flag, Kind::Flag, "", [
        "Whether an active link whose MTU or number of VLs is not as planned is taken down and up again, one",
        "link at a time and each once: they only change while a link is down. Otherwise that is a finding."
    ];

    routing.engine: Engine, Kind::Engine, "", [
        "What computes the routes. `auto` picks, and says why."
    ];
    routing.root_guid_file: OptionPath, Kind::Path, "\"/etc/rsm/roots\"", [
        "The switches at the top, a GUID on each line. Not set: found from the graph."
    ];
    routing.tables_file: OptionPath, Kind::Path, "\"/var/log/opensm-lfts.dump\"", [
        "The tables that the engine `file` takes: OpenSM's dump, or what ibroute and dump_fts print."
    ];
    routing.nue_vls: U8, number(1, 8), "", [
        "How many lanes `nue` spreads destinations over. With one no service level matters; more give",
        "shorter paths to programs that ask for theirs."
    ];
    routing.categories_file: OptionPath, Kind::Path, "\"/etc/rsm/categories\"", [
        "What ports are for: on each line a port GUID and compute, storage or management. Each kind is",
        "spread on its own (fabric-tree). Others are for computing, unless GPU hosts tell otherwise."
    ];
    routing.rails: Flag, Kind::Flag, "", [
        "Whether the ports of hosts that have several are spread in the order of hosts and rails, so that",
        "rings, trees and shifts meet on no link (fabric-tree). Found from names and cables where GPU",
        "hosts told nothing."
    ];
    routing.rebalance_after_ms: U32, number(0, HOUR_MS), "", [
        "When a fault has stayed for so long without another change, load is taken off the links that it",
        "made the fullest, in small steps; when it is mended all goes back (fabric-tree). Zero: never."
    ];
    routing.rebalance_blocks: U32, number(1, 1_000_000), "", [
        "How many blocks of forwarding tables, each an SMP, one such step may write."
    ];

    partitions.file: OptionPath, Kind::Path, "\"/etc/rsm/partitions.conf\"", [
        "The file that defines them, in OpenSM's format. Not set: every port is a full member of the",
        "default partition."
    ];
    partitions.enforcement: Enforcement, Kind::Enforcement, "", [
        "Where switches drop what has another P_Key than the CA or router at the port: what comes",
        "`in`, what goes `out`, or `both`."
    ];
    partitions.allow_both: Flag, Kind::Flag, "", [
        "Whether a port can hold the full and the limited key of one partition. Otherwise a",
        "membership of `both` in the file counts as full."
    ];

    flap.threshold: U32, number(0, 1000), "", [
        "So many changes of one link within `window_ms` damp it. Zero: never."
    ];
    flap.window_ms: U32, number(1, HOUR_MS), "", [
        "How far back changes count."
    ];
    flap.hold_ms: U32, number(1, HOUR_MS), "", [
        "A damped link is used again after so long without a change."
    ];

    api.listen: Address, Kind::Address, "\"127.0.0.1:50051\"", [
        "Where reading is served over TCP. Empty: nowhere."
    ];
    api.socket: OptionPath, Kind::Path, "\"/run/rsm/rsm.sock\"", [
        "The Unix socket that serves everything. Not set: rsm.sock in the folder of --state-dir, or",
        "where that is not given in the first of the places where rsmctl looks that can be written to:",
        "/run/rsm, $XDG_RUNTIME_DIR/rsm, /var/lib/rsm and so on."
    ];
    api.insecure_admin: Flag, Kind::Flag, "", [
        "Whether `listen` serves everything, too, to anybody who can reach it."
    ];

    dump.dir: OptionPath, Kind::Path, "\"/var/log/rsm\"", [
        "Directory of the files in OpenSM's formats. Not set: none are written."
    ];

    state.dir: Path, Kind::Path, "", [
        "Directory of what is kept. Each daemon needs its own."
    ];
};

/// The field of that name.
pub(super) fn field(section: &str, key: &str) -> Option<&'static Field> {
    FIELDS
        .iter()
        .find(|field| field.section == section && field.key == key)
}
