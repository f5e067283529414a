//! `steadfast coordinator`: the process that decides.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use steadfast_coordinator::Config;
use steadfast_store::{Embedded, Store};

use crate::arguments::{CoordinatorArguments, StoreUrl};
use crate::runtime::EndRequests;
use crate::{logging, out, runtime};

/// # Errors
/// The store cannot be opened, or the address cannot be listened on.
pub fn run(arguments: CoordinatorArguments) -> anyhow::Result<u8> {
    logging::start()?;
    let CoordinatorArguments { store, http } = arguments;
    let StoreUrl::Embedded(folder) = store;
    let listen = with_port(http)?;
    runtime::server(async {
        let mut end = EndRequests::listen()?;
        let store: Arc<dyn Store> = Arc::new(
            Embedded::open(&folder)
                .with_context(|| format!("cannot open the store {}", folder.display()))?,
        );
        let url = format!("http://{listen}");
        out::line(&format!(
            "steadfast: coordinator at {url}, its state in {}; members join with \
             `steadfast agent --coordinators {url} --data DIR`",
            folder.display()
        ));
        let config = Config { listen, urls: vec![url], settings: Default::default() };
        steadfast_coordinator::run(store, config, async move { end.next().await }).await?;
        Ok(0)
    })
}

/// The address itself, or with a free port in the place of 0: others have to be told where to find it
/// before it listens.
///
/// # Errors
/// An address that this machine does not have.
pub fn with_port(address: SocketAddr) -> anyhow::Result<SocketAddr> {
    if address.port() != 0 {
        return Ok(address);
    }
    let free = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    free.with_context(|| format!("cannot find a free port on {}", address.ip()))
}
