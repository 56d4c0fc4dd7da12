use rsm_api::{BoxFuture, Judge, RoutingError, v1};

use super::{Fake, GENERATION};

impl Judge for Fake {
    fn judge(
        &self,
        hosts: Vec<String>,
        since_unix_ms: u64,
    ) -> BoxFuture<'_, Result<v1::Judgement, RoutingError>> {
        let unknown = hosts.iter().filter(|host| host.starts_with("nowhere"));
        let missing: Vec<String> = unknown.map(|host| format!("`{host}` is unknown")).collect();
        let errors = v1::BlameEvidence {
            kind: "link-errors".to_owned(),
            bearing: v1::BlameBearing::Fabric.into(),
            weight: 85,
            place: "leaf-1:3 - MF0;spine-1:MQM8790/U1:2".to_owned(),
            text: "1,300 symbol errors (7,800 an hour, limit 120) at spine-1:2".to_owned(),
            from_unix_ms: 1_700_000_000_000,
            remedy: "`rsmctl drain leaf-1:3`, clean or replace that cable".to_owned(),
            ports_behind: 2,
            port: None,
        };
        let (verdict, summary, evidence) = match (&missing[..], self.findings.is_empty()) {
            ([], true) => (
                v1::BlameVerdict::No,
                "nothing on these 5 links moved",
                Vec::new(),
            ),
            ([], false) => (
                v1::BlameVerdict::Likely,
                "leaf-1:3 - spine-1:2: errors",
                vec![errors],
            ),
            _ => (
                v1::BlameVerdict::CannotSay,
                "nothing found, but a name is unknown",
                Vec::new(),
            ),
        };
        let next = match verdict {
            v1::BlameVerdict::No => vec!["GPUs that run slower than others".to_owned()],
            _ => Vec::new(),
        };
        let judgement = v1::Judgement {
            verdict: verdict.into(),
            summary: summary.to_owned(),
            evidence,
            more: 0,
            missing,
            next,
            hosts: hosts.len() as u64,
            ports: hosts.len() as u64,
            links: 5,
            since_unix_ms,
            at_unix_ms: 1_700_000_000_000,
            generation: GENERATION,
        };
        Box::pin(async { Ok(judgement) })
    }
}
