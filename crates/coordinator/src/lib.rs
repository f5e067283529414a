//! The coordinator: the loop, effects, HTTP. (being written)

use std::net::SocketAddr;
use std::sync::Arc;

use steadfast_engine::Settings;
use steadfast_store::Store;

/// How a coordinator is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens. Loopback only, as long as there is no authentication.
    pub listen: SocketAddr,
    /// The base URLs of all coordinators, its own first.
    pub urls: Vec<String>,
    /// The engine's settings.
    pub settings: Settings,
}

/// Leads and serves until `shutdown` completes.
///
/// # Errors
/// When the address cannot be bound, or the store refuses to be led or loaded for good.
pub async fn run(
    store: Arc<dyn Store>,
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let _ = (store, config);
    shutdown.await;
    Ok(())
}
