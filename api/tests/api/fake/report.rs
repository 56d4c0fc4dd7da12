use rsm_api::{BoxFuture, Reports, v1};

use super::{Fake, GENERATION};

fn check(name: &str, verdict: v1::Verdict, summary: &str, worst: &[&str]) -> v1::Check {
    v1::Check {
        name: name.to_owned(),
        verdict: verdict.into(),
        summary: summary.to_owned(),
        worst: worst.iter().map(|&part| part.to_owned()).collect(),
        more: 0,
        command: format!("rsmctl {name}"),
    }
}

impl Reports for Fake {
    fn report(&self) -> BoxFuture<'_, v1::Report> {
        let leaf = "MF0;leaf-1:MQM8790/U1 does not answer";
        let checks = match self.findings.is_empty() {
            true => vec![check(
                "nodes",
                v1::Verdict::Pass,
                "3 switches and 2 hosts answer",
                &[],
            )],
            false => vec![
                v1::Check {
                    more: 4,
                    ..check(
                        "nodes",
                        v1::Verdict::Fail,
                        "2 switches and 2 hosts answer",
                        &[leaf],
                    )
                },
                check(
                    "links",
                    v1::Verdict::Warn,
                    "1 of 5 links below full rate",
                    &[],
                ),
                check(
                    "firmware",
                    v1::Verdict::NotKnown,
                    "rsm does not read it",
                    &[],
                ),
                check("store", v1::Verdict::Pass, "kept in /var/lib/rsm", &[]),
            ],
        };
        let made = checks.iter().map(v1::Check::verdict);
        let verdict = made.filter(|&one| one != v1::Verdict::NotKnown).max();
        let report = v1::Report {
            verdict: verdict.unwrap().into(),
            checks,
            fabric: "sim:fake".to_owned(),
            version: "1.2.3".to_owned(),
            at_unix_ms: 1_700_000_000_000,
            generation: GENERATION,
        };
        Box::pin(async { report })
    }
}
