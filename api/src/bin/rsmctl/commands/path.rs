use clap::Args;
use rsm_api::limits::MAX_PATHS;
use rsm_proto::v1;

use super::{membership, route};
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::host::first_adapters;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{hex, nanoseconds, number, p_key, printable, service_levels};

/// The paths that the SA answers to a host's query
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl path host-001 host-020\n  rsmctl path gpu-0001:1 gpu-0777:1\n  rsmctl path 17 fe80::2:c903:0:1234 --pkey 0x8010 --sl 1\n\nThe exit code is 1 where there is no path. `rsmctl route` follows the forwarding tables instead."
)]
pub(crate) struct PathArguments {
    /// The source port, or a host, which stands for its first adapter; for a LID, only paths from
    /// that LID
    #[arg(add = of_nodes())]
    source: String,
    /// The destination port, likewise
    #[arg(add = of_nodes())]
    destination: String,
    /// Only paths in the partition with this P_Key
    #[arg(long, value_name = "P_KEY", value_parser = p_key)]
    pkey: Option<u16>,
    /// Only paths with this service level
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=15))]
    sl: Option<u32>,
    /// The ServiceID that the host asks for, for rules of the QoS policy
    #[arg(long, value_name = "ID", value_parser = number)]
    service_id: Option<u64>,
    /// The QoSClass that the host asks for, likewise
    #[arg(long, value_name = "CLASS", value_parser = clap::value_parser!(u32).range(0..=0xfff))]
    qos_class: Option<u32>,
    /// At most N paths; all, up to 127, if not given
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PATHS)))]
    paths: Option<u32>,
}

pub(crate) async fn run(arguments: PathArguments, session: &mut Session) -> Result<(), Failure> {
    let ends = [arguments.source, arguments.destination];
    let [source, destination] = first_adapters(session, ends.clone()).await?;
    let request = v1::ResolvePathRequest {
        source,
        destination,
        p_key: arguments.pkey.unwrap_or_default().into(),
        service_level: arguments.sl,
        max_paths: arguments.paths.unwrap_or_default(),
        service_id: arguments.service_id,
        qos_class: arguments.qos_class,
    };
    let answer = session.sa().resolve_path(request).await?;
    let paths = answer.into_inner().paths.unwrap_or_default();
    if session.output.is_json() {
        session.output.json(&paths)?;
    } else {
        for (index, path) in paths.paths.iter().enumerate() {
            if index > 0 {
                session.output.line("")?;
            }
            session.output.table(summary(path))?;
            session.output.table(route::rows(&path.hops))?;
        }
    }
    if paths.paths.is_empty() {
        let order = match paths.reason.contains("partition") {
            true => membership::last_removal(&ends, session).await,
            false => String::new(),
        };
        let reason = printable(&(paths.reason + &order));
        return Err(Failure::Refused(format!("there is no path: {reason}")));
    }
    Ok(())
}

fn summary(path: &v1::Path) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    let end = |lid: u32, gid: &str| format!("LID {lid}, {gid}");
    row("From", end(path.source_lid, &path.source_gid));
    row("To", end(path.destination_lid, &path.destination_gid));
    row(
        "Packets",
        format!(
            "P_Key {}, SL {}, MTU {}, {} Gb/s, on their way for {}",
            hex(path.p_key),
            path.service_level,
            path.mtu_bytes,
            path.rate_gbps,
            life_time(path.packet_life_time),
        ),
    );
    row("Why this SL", printable(&path.service_level_reason));
    row("Adaptive", adaptive(path));
    if let Some([nccl, ucx]) = library_settings(path) {
        row("For NCCL", nccl);
        row("For UCX", ucx);
    }
    let back = if path.reversible {
        "reversible"
    } else {
        "NO WAY BACK"
    };
    row("Preference", format!("{}, {back}", path.preference));
    rows
}

/// Whether packets on the path's service level may be routed adaptively, and the service levels
/// with adaptive routing.
fn adaptive(path: &v1::Path) -> String {
    let levels = path.adaptive_service_levels;
    // A service level has 4 bits.
    let takes_part = levels >> (path.service_level & 0xF) & 1 != 0;
    match (levels, takes_part) {
        (0, _) => "no: all packets take the hops below".to_owned(),
        (_, true) => format!(
            "yes: switches pick among ports; on {}",
            service_levels(levels)
        ),
        (_, false) => format!(
            "not on this SL; switches pick among ports on {}",
            service_levels(levels)
        ),
    }
}

/// The settings with which NCCL and UCX send on a service level with adaptive routing: the path's
/// level if it has adaptive routing, otherwise the lowest such level. `None` without adaptive
/// routing.
fn library_settings(path: &v1::Path) -> Option<[String; 2]> {
    let levels = path.adaptive_service_levels & 0xFFFF;
    let own = path.service_level & 0xF;
    let level = match levels {
        0 => return None,
        _ if levels >> own & 1 != 0 => own,
        _ => levels.trailing_zeros(),
    };
    Some([
        format!("NCCL_IB_SL={level} NCCL_IB_ADAPTIVE_ROUTING=1"),
        format!("UCX_IB_SL={level} UCX_IB_AR_ENABLE=try"),
    ])
}

/// The text for a PacketLifeTime exponent, such as `1.1 s at most (18)`.
fn life_time(exponent: u32) -> String {
    /// The time for exponent 0, in nanoseconds (IBA 15.2.5.16).
    const UNIT_NS: u64 = 4096;
    let nanos = UNIT_NS
        .checked_shl(exponent)
        .filter(|nanos| nanos >> exponent == UNIT_NS);
    match nanos {
        Some(nanos) => format!("{} at most ({exponent})", nanoseconds(nanos)),
        None => format!("any time ({exponent})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_routing_is_stated_for_the_service_level_of_the_path() {
        let path = |service_level, adaptive_service_levels| v1::Path {
            service_level,
            adaptive_service_levels,
            ..v1::Path::default()
        };
        assert_eq!(adaptive(&path(1, 0)), "no: all packets take the hops below");
        assert_eq!(
            adaptive(&path(1, 0xFFFF)),
            "yes: switches pick among ports; on SLs 0-15"
        );
        assert_eq!(
            adaptive(&path(1, 0b1_0101)),
            "not on this SL; switches pick among ports on SLs 0, 2, 4"
        );
    }

    #[test]
    fn libraries_get_the_level_of_the_path_or_the_lowest_adaptive_one() {
        let path = |service_level, adaptive_service_levels| v1::Path {
            service_level,
            adaptive_service_levels,
            ..v1::Path::default()
        };
        assert_eq!(library_settings(&path(1, 0)), None);
        for (own, levels, level) in [(1, 0xFFFF, 1), (1, 0b1100, 2), (15, 0x8000, 15)] {
            let [nccl, ucx] = library_settings(&path(own, levels)).unwrap();
            assert_eq!(
                nccl,
                format!("NCCL_IB_SL={level} NCCL_IB_ADAPTIVE_ROUTING=1")
            );
            assert_eq!(ucx, format!("UCX_IB_SL={level} UCX_IB_AR_ENABLE=try"));
        }
    }

    #[test]
    fn life_times_are_powers_of_two() {
        let texts = [0, 18, 51, 52, 63].map(life_time);
        let expected = [
            "4.1 µs at most (0)",
            "1.1 s at most (18)",
            "9223372036.9 s at most (51)",
            "any time (52)",
            "any time (63)",
        ];
        assert_eq!(texts, expected);
    }
}
