//! The coordinator: the loop, effects, HTTP. A thin shell around the engine.
//!
//! ```text
//! agents ─────▶ http/agents   ─┐
//! containers ─▶ http/validity ─┼▶ inbox ▶ Engine::step ▶ commit ▶ index ▶ effects ──▶ agents
//! users ──────▶ http/jobs     ─┘    ▲                                │
//!                   └──── view ◀────┴────────────────────────────────┘
//! ```

#[cfg(feature = "bench")]
pub mod bench;
mod candidacy;
mod changes;
mod clock;
mod commit;
mod convert;
mod coordinators;
mod credentials;
mod events;
mod explain;
mod http;
mod index;
mod launch;
mod leader;
mod metrics;
mod outputs;
mod pace;
mod progress;
mod restores;
mod secrets;
mod shared;
mod stalled;
mod stalls;
mod store_health;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use steadfast_model::Timestamp;
use steadfast_store::{LeaderInfo, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{info, warn};

pub use steadfast_engine::Settings;

pub use crate::credentials::{Credentials, Entry, Role};

use crate::leader::{TermEnd, run_term};
use crate::shared::Shared;

/// The pause between two terms of one process.
const BETWEEN_TERMS: Duration = Duration::from_millis(200);

/// How a coordinator is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens: a loopback address, unless there are credentials.
    pub listen: SocketAddr,
    /// The base URLs of all coordinators, its own first.
    pub urls: Vec<String>,
    /// Who may call; `None`: everybody who reaches the loopback address.
    pub credentials: Option<Credentials>,
    /// The engine's settings.
    pub settings: Settings,
}

/// Serves until `shutdown` completes, and leads or stands by.
///
/// # Errors
/// When the address cannot be used (see [`check_address`]) or bound, or the store cannot be led or loaded for a
/// reason that waiting does not mend.
pub async fn run(
    store: Arc<dyn Store>,
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let Config { listen, urls, credentials, settings } = config;
    check_address(listen, credentials.is_some())?;
    let listener = bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    let url = urls.first().cloned().unwrap_or_else(|| format!("http://{listen}"));
    let me = LeaderInfo::of_this_process(url, Timestamp::default());
    let shared = Arc::new(Shared::new(store, urls, credentials));
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        shutdown.await;
        // Nobody listens any more only when everything has ended already.
        let _ = stop.send(true);
    });
    let http = tokio::spawn(http::serve(listener, Arc::clone(&shared), stopped.clone()));
    let listing = tokio::spawn(list_coordinators(Arc::clone(&shared)));
    let outcome = lead(&shared, &settings, &me, stopped).await;
    listing.abort();
    http.abort();
    outcome
}

/// Whether a coordinator may listen there.
///
/// # Errors
/// An address that others could reach, without credentials; one that nobody could be told.
pub fn check_address(listen: SocketAddr, has_credentials: bool) -> anyhow::Result<()> {
    let (ip, port) = (listen.ip(), listen.port());
    anyhow::ensure!(
        ip.is_loopback() || has_credentials,
        "{listen} is not a loopback address: without --auth FILE a coordinator listens on loopback \
         only, for example 127.0.0.1:{port}"
    );
    anyhow::ensure!(
        !ip.is_unspecified(),
        "{ip} is every address of this machine, and members and containers have to be told one; \
         name the address under which they reach it"
    );
    if !ip.is_loopback() {
        warn!(
            %listen,
            "there is no TLS yet: whoever reads along on this network reads the tokens; use one that \
             is private"
        );
    }
    Ok(())
}

/// Says that this coordinator is there, and takes in which others are.
async fn list_coordinators(shared: Arc<Shared>) {
    let Some(mut announced) = shared.store.announce(shared.coordinators.own_url()) else { return };
    while announced.changed().await.is_ok() {
        let urls = announced.borrow_and_update().clone();
        info!(?urls, "coordinators");
        shared.coordinators.note_announced(urls);
    }
}

/// One term after the other, until the process is asked to go: the loop never dies of one error.
async fn lead(
    shared: &Shared,
    settings: &Settings,
    me: &LeaderInfo,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    while !*stopped.borrow() {
        match run_term(shared, settings, me.clone(), stopped.clone()).await {
            Ok(TermEnd::Shutdown) => return Ok(()),
            Ok(TermEnd::Lost(why)) => warn!(why, "the term is over: loading again"),
            Err(error) => {
                shared.store_health.note_error(error).context("the store cannot be used")?;
            }
        }
        tokio::time::sleep(BETWEEN_TERMS).await;
    }
    info!("stopped");
    Ok(())
}

/// A listener on an address that an earlier process may have left a moment ago.
fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match listen {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(1_024)
}
