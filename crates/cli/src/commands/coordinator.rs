//! `steadfast coordinator`: the process that decides.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use steadfast_coordinator::{Config, Credentials, check_address};
use steadfast_store::{Embedded, Store, StoreError};

use crate::arguments::{CoordinatorArguments, StoreUrl};
use crate::options::Options;
use crate::runtime::EndRequests;
use crate::{logging, out, runtime};

/// # Errors
/// A token file or an option is not right, the store cannot be opened, or the address cannot be listened on.
pub fn run(arguments: CoordinatorArguments) -> anyhow::Result<u8> {
    logging::start()?;
    let CoordinatorArguments { store, http, auth, options } = arguments;
    let settings = Options::load(&options)?.settings;
    let credentials = credentials(&auth)?;
    check_address(http, credentials.is_some())?;
    let listen = with_port(http)?;
    runtime::server(async {
        let mut end = EndRequests::listen()?;
        let place = match &store {
            StoreUrl::Embedded(folder) => folder.display().to_string(),
            #[cfg(feature = "etcd")]
            StoreUrl::Etcd(location) => location.to_string(),
        };
        let store = open(&store).with_context(|| format!("cannot open the store {place}"))?;
        let url = format!("http://{listen}");
        out::line(&format!(
            "steadfast: coordinator at {url}, its state in {place}; members join with \
             `steadfast agent --coordinators {url} --data DIR`"
        ));
        let config = Config { listen, urls: vec![url], credentials, settings };
        steadfast_coordinator::run(store, config, async move { end.next().await }).await?;
        Ok(0)
    })
}

fn open(store: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match store {
        StoreUrl::Embedded(folder) => Arc::new(Embedded::open(folder)?),
        #[cfg(feature = "etcd")]
        StoreUrl::Etcd(location) => Arc::new(steadfast_store::EtcdStore::open(location)?),
    })
}

/// What the files of `--auth` say; `None` where there are none.
///
/// # Errors
/// A file that is not right.
pub fn credentials(files: &[PathBuf]) -> anyhow::Result<Option<Credentials>> {
    if files.is_empty() { Ok(None) } else { Credentials::load(files).map(Some) }
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
