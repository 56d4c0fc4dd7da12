use rsm_proto::v1;

use super::{gbps, messages};
use crate::model::{
    AdministrationAnswers, AdministrationCounters, AdministrationRequests, Latencies,
    LatencyBucket, Path, Paths,
};

impl From<AdministrationRequests> for v1::AdministrationRequests {
    fn from(requests: AdministrationRequests) -> Self {
        v1::AdministrationRequests {
            attribute_id: requests.attribute_id.into(),
            attribute: requests.attribute,
            method_id: requests.method_id.into(),
            method: requests.method,
            count: requests.count,
        }
    }
}

impl From<AdministrationAnswers> for v1::AdministrationAnswers {
    fn from(answers: AdministrationAnswers) -> Self {
        v1::AdministrationAnswers {
            status_id: answers.status_id.into(),
            status: answers.status,
            count: answers.count,
        }
    }
}

impl From<LatencyBucket> for v1::LatencyBucket {
    fn from(bucket: LatencyBucket) -> Self {
        v1::LatencyBucket {
            below_ns: bucket.below_ns.unwrap_or(0),
            count: bucket.count,
        }
    }
}

impl From<Latencies> for v1::Latencies {
    fn from(latencies: Latencies) -> Self {
        v1::Latencies {
            count: latencies.count,
            sum_ns: latencies.sum_ns,
            buckets: messages(latencies.buckets),
        }
    }
}

impl From<AdministrationCounters> for v1::AdministrationCounters {
    fn from(counters: AdministrationCounters) -> Self {
        v1::AdministrationCounters {
            requests: messages(counters.requests),
            answers: messages(counters.answers),
            latencies: Some(counters.latencies.into()),
            busy: counters.busy,
            dropped: counters.dropped,
            failed: counters.failed,
            ignored: counters.ignored,
            wrong_keys: counters.wrong_keys,
            unknown_issuers: counters.unknown_issuers,
            unserved: counters.unserved,
        }
    }
}

impl From<Path> for v1::Path {
    fn from(path: Path) -> Self {
        v1::Path {
            source_gid: path.source_gid.to_string(),
            destination_gid: path.destination_gid.to_string(),
            source_lid: path.source_lid.0.into(),
            destination_lid: path.destination_lid.0.into(),
            p_key: path.p_key.into(),
            service_level: path.service_level.into(),
            mtu_bytes: path.mtu_bytes.into(),
            rate_gbps: gbps(path.rate_tenth_gbps),
            packet_life_time: path.packet_life_time.into(),
            reversible: path.reversible,
            preference: path.preference.into(),
            hops: messages(path.hops),
        }
    }
}

impl From<Paths> for v1::Paths {
    fn from(paths: Paths) -> Self {
        let (found, reason) = match paths.paths {
            Ok(found) => (found, String::new()),
            Err(reason) => (Vec::new(), reason),
        };
        v1::Paths {
            source: Some(paths.source.into()),
            destination: Some(paths.destination.into()),
            paths: messages(found),
            reason,
        }
    }
}
