//! Runs the HTTP listener beside the core.

use anyhow::Context as _;
use rsm_api::Backend;
use rsm_config::{Config, MKeyMode};
use rsm_web::{HttpServer, SignOn, SmConf, UfmSettings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::access::Access;

/// Running listener.
pub(super) struct ServingHttp {
    /// Ends the listener when it is dropped.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Serves `backend` over HTTP; `None` if the configuration does not enable the listener.
pub(super) async fn serve(
    config: &Config,
    access: &Access,
    backend: &Backend,
) -> anyhow::Result<Option<ServingHttp>> {
    let http = &config.http;
    let Some(address) = http.listen else {
        return Ok(None);
    };
    let mut server = HttpServer::bind(address, names())
        .await
        .context("cannot serve the web page")?;
    let mut scheme = "http";
    if http.tls {
        let tls = access.tls();
        let tls = tls.context("http.tls needs api.tls_certificate and api.tls_key")?;
        server = server.with_tls(tls);
        scheme = "https";
    }
    if http.ufm {
        server = server.with_ufm(UfmSettings {
            gate: access.gate(),
            keeps_empty: http.ufm_keeps_empty,
            conf: sm_conf(config),
        });
    }
    if !http.proxies.is_empty() {
        server = server.with_sign_on(SignOn {
            gate: access.gate(),
            proxies: http.proxies.clone(),
        });
    }
    tracing::info!(
        "serving the web page and metrics at {scheme}://{}",
        server.address()
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let backend = backend.clone();
    let task = tokio::spawn(server.run(backend, async move {
        // An error means that the sender was dropped, which also stops the server.
        let _ = stopped.await;
    }));
    Ok(Some(ServingHttp { stop, task }))
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

/// Host names of this machine; empty if the system states none, so that clients must use the
/// address.
pub(super) fn names() -> Vec<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.map(|name| name.trim().to_owned());
    name.into_iter().filter(|name| !name.is_empty()).collect()
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
