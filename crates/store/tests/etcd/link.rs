//! A network that does as it is told: a TCP proxy before one node, which passes what it gets, keeps it back
//! to hand it over later, or loses it. What a paused node does to a request by luck, this does every time.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::task::JoinHandle;

use crate::wait::until;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Pass,
    /// Kept until [`Link::deliver`], from the first piece of this size on.
    Hold(usize),
    Lose,
}

pub struct Link {
    pub url: String,
    state: Arc<Mutex<State>>,
    listen: JoinHandle<()>,
}

struct State {
    requests: Flow,
    answers: Flow,
    connections: Vec<Arc<Connection>>,
    tasks: Vec<JoinHandle<()>>,
}

/// The way to the node. It stays open when the client has gone, as a request does that is on its way.
struct Connection {
    to_node: tokio::sync::Mutex<tcp::OwnedWriteHalf>,
    held: Mutex<Vec<u8>>,
}

impl Link {
    pub async fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (connections, tasks) = (Vec::new(), Vec::new());
        let state = State { requests: Flow::Pass, answers: Flow::Pass, connections, tasks };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let listen = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                connect(client, node, &shared).await;
            }
        });
        Self { url, state, listen }
    }

    /// Keeps back the next request that is so large, and all that is sent after it. Smaller ones before it
    /// (a look at the rows, a lease) pass.
    pub fn hold_requests_from(&self, bytes: usize) {
        self.state.lock().unwrap().requests = Flow::Hold(bytes);
    }

    /// Waits until so much has been sent and kept back.
    pub async fn held(&self, at_least: usize) {
        until("a request is on its way", async || {
            let state = self.state.lock().unwrap();
            let held = state.connections.iter().map(|one| one.held.lock().unwrap().len());
            (held.sum::<usize>() >= at_least).then_some(())
        })
        .await;
    }

    /// What is sent from now on is lost: also that a request is no longer wanted.
    pub fn lose_requests(&self) {
        self.state.lock().unwrap().requests = Flow::Lose;
    }

    /// Answers are lost from now on.
    pub fn lose_answers(&self) {
        self.state.lock().unwrap().answers = Flow::Lose;
    }

    /// Neither requests nor answers.
    pub fn cut(&self) {
        self.lose_requests();
        self.lose_answers();
    }

    /// New connections are served again. Those over which something was lost are closed: nobody could
    /// understand what follows.
    pub fn mend(&self) {
        let mut state = self.state.lock().unwrap();
        (state.requests, state.answers) = (Flow::Pass, Flow::Pass);
        state.connections.clear();
        state.tasks.drain(..).for_each(|task| task.abort());
    }

    /// Hands over what was kept back.
    pub async fn deliver(&self) {
        let connections = self.state.lock().unwrap().connections.clone();
        for connection in connections {
            let held = std::mem::take(&mut *connection.held.lock().unwrap());
            connection.to_node.lock().await.write_all(&held).await.expect("the node listens");
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listen.abort();
        self.state.lock().unwrap().tasks.drain(..).for_each(|task| task.abort());
    }
}

async fn connect(client: TcpStream, node: SocketAddr, state: &Arc<Mutex<State>>) {
    let Ok(node) = TcpStream::connect(node).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_node, to_node) = node.into_split();
    let to_node = tokio::sync::Mutex::new(to_node);
    let connection = Arc::new(Connection { to_node, held: Mutex::default() });
    let (way, shared) = (connection.clone(), state.clone());
    let requests = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            let flow = {
                let mut state = shared.lock().unwrap();
                if matches!(state.requests, Flow::Hold(bytes) if length >= bytes) {
                    state.requests = Flow::Hold(0);
                }
                state.requests
            };
            match flow {
                Flow::Pass | Flow::Hold(1..) => {
                    if way.to_node.lock().await.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                }
                Flow::Hold(0) => way.held.lock().unwrap().extend_from_slice(&buffer[..length]),
                Flow::Lose => {}
            }
        }
    });
    let shared = state.clone();
    let answers = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_node.read(&mut buffer).await {
            if shared.lock().unwrap().answers == Flow::Pass {
                // A client that has gone does not want it.
                let _ = to_client.write_all(&buffer[..length]).await;
            }
        }
    });
    let mut state = state.lock().unwrap();
    state.connections.push(connection);
    state.tasks.extend([requests, answers]);
}
