//! The coordinator under measurement: this program once more, as a child process.
//!
//! Parent and child talk in lines over the child's standard input and output; the child ends when its
//! input does.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::{Failure, Figure, quantile};

/// The file of ids and secrets that the child writes into its folder.
pub const CREDENTIALS: &str = "credentials";
const BEGIN: &str = "come and go";
const END: &str = "enough";

/// What the child says once it serves.
#[derive(Serialize, Deserialize)]
pub struct Ready {
    pub port: u16,
    pub threads: usize,
    /// By how much its memory grew while the containers were registered.
    pub index_bytes: u64,
}

/// What containers that come and go cost, each in nanoseconds per container, one value per batch.
#[derive(Default, Serialize, Deserialize)]
struct Churn {
    register_ns: Vec<u64>,
    remove_ns: Vec<u64>,
    insert_bare_ns: Vec<u64>,
    remove_bare_ns: Vec<u64>,
}

pub struct Server {
    child: Child,
    orders: ChildStdin,
    told: BufReader<ChildStdout>,
    pub ready: Ready,
    churn: Churn,
}

impl Server {
    /// Starts it on a port, 0 for any, and waits until it serves.
    pub fn start(folder: &Path, port: u16, registered: u64) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(folder)
            .args([port.to_string(), registered.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().ok_or("no standard input")?;
        let mut told = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let ready = hear(&mut told)?;
        Ok(Self { child, orders, told, ready, churn: Churn::default() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From now on containers come and go, until [`Server::end_churn`].
    pub fn begin_churn(&mut self) -> Result<(), Failure> {
        Ok(writeln!(self.orders, "{BEGIN}")?)
    }

    pub fn end_churn(&mut self) -> Result<(), Failure> {
        writeln!(self.orders, "{END}")?;
        let Churn { register_ns, remove_ns, insert_bare_ns, remove_bare_ns } =
            hear(&mut self.told)?;
        self.churn.register_ns.extend(register_ns);
        self.churn.remove_ns.extend(remove_ns);
        self.churn.insert_bare_ns.extend(insert_bare_ns);
        self.churn.remove_bare_ns.extend(remove_bare_ns);
        Ok(())
    }

    pub fn churn_figures(&mut self, registered: u64) -> Result<(), Failure> {
        let Churn { register_ns, remove_ns, insert_bare_ns, remove_bare_ns } = &mut self.churn;
        for (what, ours, bare) in
            [("registering", register_ns, insert_bare_ns), ("removing", remove_ns, remove_bare_ns)]
        {
            let (value, bare) = (quantile(ours, 0.5), quantile(bare, 0.5));
            Figure {
                figure: &format!("{what} one under load, {registered} registered"),
                value,
                unit: "ns",
                yardstick: Some("a bare map of the size"),
                ratio: Some(value / bare),
                bound: None,
            }
            .print()?;
        }
        Ok(())
    }

    /// `kill -9`, as a crash ends it.
    pub fn kill(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

fn hear<T: for<'a> Deserialize<'a>>(told: &mut impl BufRead) -> Result<T, Failure> {
    let mut line = String::new();
    told.read_line(&mut line)?;
    Ok(serde_json::from_str(&line).map_err(|error| format!("{error}: {line:?}"))?)
}

/// The child's side.
pub mod child {
    use std::collections::HashMap;
    use std::hint::black_box;
    use std::io::{BufRead, BufWriter, Write};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, TryRecvError, channel};
    use std::time::{Duration, Instant};

    use steadfast_coordinator::bench::ValidityServer;
    use steadfast_model::ExecutionId;
    use steadfast_store::Embedded;
    use tokio::net::TcpSocket;

    use super::{BEGIN, CREDENTIALS, Churn, Ready};
    use crate::Failure;
    use crate::process::{allow_all_files, resident_bytes};

    /// Enough to find nothing in the caches by chance, and not all of a million.
    const CREDENTIALS_AT_MOST: u64 = 100_000;
    const BATCH: u64 = 20;
    const BETWEEN_BATCHES: Duration = Duration::from_millis(2);

    /// Serves until the standard input ends, with as many threads as the product takes.
    pub fn serve(folder: &Path, port: u16, registered: u64) -> Result<(), Failure> {
        allow_all_files()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = Arc::new(Embedded::open(folder.join("store"))?);
            let server = ValidityServer::lead(store, format!("http://127.0.0.1:{port}")).await;
            let before = resident_bytes()?;
            (0..registered).for_each(|n| server.register(n));
            let index_bytes = resident_bytes()?.saturating_sub(before);
            write_credentials(&server, folder, registered)?;
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(([127, 0, 0, 1], port).into())?;
            let listener = socket.listen(1_024)?;
            let port = listener.local_addr()?.port();
            let server = Arc::new(server);
            let serving = Arc::clone(&server);
            tokio::spawn(async move { serving.serve(listener).await });
            let threads = std::thread::available_parallelism()?.get();
            say(&Ready { port, threads, index_bytes })?;
            tokio::task::spawn_blocking(move || obey(&server, registered)).await?
        })
    }

    fn say(what: &impl serde::Serialize) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        writeln!(out, "{}", serde_json::to_string(what)?)?;
        Ok(out.flush()?)
    }

    fn write_credentials(
        server: &ValidityServer,
        folder: &Path,
        registered: u64,
    ) -> Result<(), Failure> {
        let mut file = BufWriter::new(std::fs::File::create(folder.join(CREDENTIALS))?);
        let told = registered.min(CREDENTIALS_AT_MOST);
        for n in (0..told).map(|place| place * (registered / told)) {
            writeln!(file, "{} {}", ValidityServer::id(n), server.secret(n))?;
        }
        Ok(file.flush()?)
    }

    /// The lines of the standard input; they end with it.
    fn orders() -> Receiver<String> {
        let (order, orders) = channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if order.send(line).is_err() {
                    return;
                }
            }
        });
        orders
    }

    fn obey(server: &ValidityServer, registered: u64) -> Result<(), Failure> {
        let orders = orders();
        // As large as an entry, as many as are registered: made at the first need, after the memory of
        // the index has been told.
        let mut bare: HashMap<ExecutionId, [u64; 9]> = HashMap::new();
        let mut next = registered;
        while let Ok(order) = orders.recv() {
            if order != BEGIN {
                continue;
            }
            if bare.is_empty() {
                bare.extend((0..registered).map(|n| (ValidityServer::id(n), [n; 9])));
            }
            let mut churn = Churn::default();
            while let Err(TryRecvError::Empty) = orders.try_recv() {
                one_batch(server, &mut bare, next, &mut churn);
                next += BATCH;
                std::thread::sleep(BETWEEN_BATCHES); // paces
            }
            say(&churn)?;
        }
        Ok(())
    }

    fn one_batch(
        server: &ValidityServer,
        bare: &mut HashMap<ExecutionId, [u64; 9]>,
        first: u64,
        churn: &mut Churn,
    ) {
        let batch = || first..first + BATCH;
        let per_container =
            |start: Instant| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) / BATCH;
        let start = Instant::now();
        batch().for_each(|n| server.register(n));
        churn.register_ns.push(per_container(start));
        let start = Instant::now();
        batch().for_each(|n| server.remove(n));
        churn.remove_ns.push(per_container(start));
        let start = Instant::now();
        batch().for_each(|n| {
            black_box(bare.insert(ValidityServer::id(n), [n; 9]));
        });
        churn.insert_bare_ns.push(per_container(start));
        let start = Instant::now();
        batch().for_each(|n| {
            black_box(bare.remove(&ValidityServer::id(n)));
        });
        churn.remove_bare_ns.push(per_container(start));
    }
}
