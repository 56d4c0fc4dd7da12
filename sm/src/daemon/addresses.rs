//! Binds addresses that the system refuses at the start: the subnet is managed meanwhile.

use std::error::Error;
use std::time::Duration;

use rsm_api::with_causes;

use super::findings::{DaemonFindings, DaemonPart};

/// Time between two attempts to bind an address.
const AGAIN: Duration = Duration::from_secs(10);

/// Address of a server that is not bound yet: another program has it, or no interface has it so far.
pub(super) struct Unbound {
    part: DaemonPart,
    findings: DaemonFindings,
    again: Duration,
}

impl Unbound {
    /// Reports that the first attempt to bind the address of `part` has failed with `error`.
    pub(super) fn report(
        part: DaemonPart,
        findings: &DaemonFindings,
        error: &(dyn Error + 'static),
    ) -> Unbound {
        let unbound = Unbound {
            part,
            findings: findings.clone(),
            again: AGAIN,
        };
        unbound.fail(error);
        unbound
    }

    /// Calls `bind` at intervals until it succeeds. Reports each other error, and the end of all.
    pub(super) async fn bind<T, E, F>(self, mut bind: impl FnMut() -> F) -> T
    where
        E: Error + 'static,
        F: Future<Output = Result<T, E>>,
    {
        loop {
            tokio::time::sleep(self.again).await;
            match bind().await {
                Ok(bound) => {
                    self.findings.clear(self.part);
                    return bound;
                }
                Err(error) => self.fail(&error),
            }
        }
    }

    fn fail(&self, error: &(dyn Error + 'static)) {
        let text = format!(
            "{}; clients get no answer there, the subnet is managed all the same, and rsm tries again every {} seconds",
            with_causes(error),
            AGAIN.as_secs()
        );
        self.findings.fail(self.part, text);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[tokio::test]
    async fn address_in_use_is_a_finding_until_it_is_bound() {
        let findings = DaemonFindings::new();
        let error = |attempt: u32| io::Error::other(format!("in use {attempt}"));
        let mut unbound = Unbound::report(DaemonPart::Page, &findings, &error(0));
        unbound.again = Duration::from_millis(1);
        let mut seen = Vec::new();
        let bound = unbound.bind(|| {
            seen.extend(findings.all().into_iter().map(|finding| finding.text));
            let attempt = seen.len() as u32;
            std::future::ready(match attempt {
                3 => Ok("bound"),
                _ => Err(error(attempt)),
            })
        });
        assert_eq!(bound.await, "bound");
        for (attempt, text) in seen.iter().enumerate() {
            assert!(text.starts_with(&format!("in use {attempt};")), "{text}");
        }
        assert_eq!((seen.len(), findings.all()), (3, Vec::new()));
    }
}
