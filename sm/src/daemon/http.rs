//! Runs the HTTP listener beside the core.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use rsm_api::Backend;
use rsm_api::access::tls::ServerTls;
use rsm_config::{Config, MKeyMode};
use rsm_web::{HttpServer, SignOn, SmConf, UfmSettings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::access::Access;
use super::addresses::Unbound;
use super::findings::{DaemonFindings, DaemonPart};

/// Running listener.
pub(super) struct ServingHttp {
    /// Ends the listener when it is dropped.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Serves `backend` over HTTP; `None` if the configuration does not enable the listener. An address
/// that cannot be bound is a finding, and is tried again.
pub(super) async fn serve(
    config: &Config,
    access: &Access,
    backend: &Backend,
    findings: &DaemonFindings,
) -> anyhow::Result<Option<ServingHttp>> {
    let http = &config.http;
    let Some(address) = http.listen else {
        return Ok(None);
    };
    let settings = PageSettings::of(config, access)?;
    let (stop, mut stopped) = oneshot::channel::<()>();
    let bound: Pin<Box<dyn Future<Output = HttpServer> + Send>> =
        match HttpServer::bind(address, names()).await {
            Ok(server) => Box::pin(ready(settings.applied_to(server))),
            Err(error) => {
                let unbound = Unbound::report(DaemonPart::Page, findings, &error);
                Box::pin(async move {
                    let bound = unbound.bind(|| HttpServer::bind(address, names())).await;
                    settings.applied_to(bound)
                })
            }
        };
    let backend = backend.clone();
    let task = tokio::spawn(async move {
        // The stop of an unbound server, too, is the end of `stopped`.
        let server = tokio::select! {
            server = bound => server,
            _ = &mut stopped => return,
        };
        let until = async move {
            // An error means that the sender was dropped, which also stops the server.
            let _ = stopped.await;
        };
        server.run(backend, until).await;
    });
    Ok(Some(ServingHttp { stop, task }))
}

/// Settings of the listener.
struct PageSettings {
    tls: Option<Arc<ServerTls>>,
    ufm: Option<UfmSettings>,
    sign_on: Option<SignOn>,
}

impl PageSettings {
    fn of(config: &Config, access: &Access) -> anyhow::Result<PageSettings> {
        let http = &config.http;
        let tls = match http.tls {
            true => {
                let tls = access.tls();
                Some(tls.context("http.tls needs api.tls_certificate and api.tls_key")?)
            }
            false => None,
        };
        Ok(PageSettings {
            tls,
            ufm: http.ufm.then(|| UfmSettings {
                gate: access.gate(),
                keeps_empty: http.ufm_keeps_empty,
                conf: sm_conf(config),
            }),
            sign_on: (!http.proxies.is_empty()).then(|| SignOn {
                gate: access.gate(),
                proxies: http.proxies.clone(),
            }),
        })
    }

    /// Configures a listener that is bound, and logs its address.
    fn applied_to(self, mut server: HttpServer) -> HttpServer {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        if let Some(tls) = self.tls {
            server = server.with_tls(tls);
        }
        if let Some(ufm) = self.ufm {
            server = server.with_ufm(ufm);
        }
        if let Some(sign_on) = self.sign_on {
            server = server.with_sign_on(sign_on);
        }
        tracing::info!(
            "serving the web page and metrics at {scheme}://{}",
            server.address()
        );
        server
    }
}

/// Part of the configuration that clients of the REST interface read.
fn sm_conf(config: &Config) -> SmConf {
    let sm = &config.sm;
    let per_port = sm.m_keys == MKeyMode::PerPort;
    SmConf {
        subnet_prefix: sm.subnet_prefix,
        has_m_key: sm.m_key != 0 || per_port,
        m_key_per_port: per_port,
        has_own_sm_key: sm.sm_key != 1,
        has_own_sa_key: sm.names_sa_key(),
    }
}

/// Host name of a machine that has none.
const UNSET: &str = "(none)";

/// Host names of this machine; empty if the system states none, so that clients must use the
/// address.
pub(super) fn names() -> Vec<String> {
    // The file system /proc of a hardened service has no names of the system.
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().trim().to_owned();
    let is_set = !name.is_empty() && name != UNSET;
    is_set.then_some(name).into_iter().collect()
}

impl ServingHttp {
    /// Stops the listener after the requests under way.
    pub(super) async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the listener of the web page panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_this_machine_is_the_one_of_the_kernel() {
        let file = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let expected: Vec<&str> = [file.trim()]
            .into_iter()
            .filter(|name| !name.is_empty() && *name != UNSET)
            .collect();
        assert_eq!(names(), expected);
    }
}
