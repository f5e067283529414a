//! Coordinators in processes of their own: this program once more, with the product's library.
//!
//! One ends when its standard input does, so none outlives the bench.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use steadfast_coordinator::Config;
use steadfast_store::{EtcdLocation, EtcdStore};

use crate::Failure;

/// The first argument of a child.
pub const SERVE: &str = "serve";

/// One of them, and how to start it again.
pub struct Coordinator {
    pub port: u16,
    store: String,
    child: Child,
}

impl Coordinator {
    /// Starts one at this store, on a free port, and waits for nothing.
    pub fn start(store: &str) -> Result<Self, Failure> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(Self { port, store: store.to_owned(), child: spawn(store, port)? })
    }

    pub fn url(&self) -> String {
        url(self.port)
    }

    /// `kill -9`, as a crash ends it.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Once it was killed: again at the same address.
    pub fn start_again(&mut self) -> Result<(), Failure> {
        self.child = spawn(&self.store, self.port)?;
        Ok(())
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.kill();
    }
}

fn spawn(store: &str, port: u16) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([SERVE, store, &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::null());
    Ok(command.spawn()?)
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The child's side, with as many threads as the product takes.
pub fn serve(store: &str, port: u16) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let location: EtcdLocation = store.parse()?;
        let config = Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            urls: vec![url(port)],
            credentials: None,
            settings: Default::default(),
        };
        let orphaned = async {
            let input_ends = || std::io::stdin().lock().read_to_end(&mut Vec::new());
            // However it ends, nobody is there any more.
            let _ = tokio::task::spawn_blocking(input_ends).await;
        };
        let store = Arc::new(EtcdStore::open(&location)?);
        Ok(steadfast_coordinator::run(store, config, orphaned).await?)
    })
}
