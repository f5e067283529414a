//! A network namespace with one way out, which can become a black hole.
//!
//! ```text
//! host: coordinator at 198.18.N.1 ── veth ── 198.18.N.2 :namespace
//!       and at     198.18.N.3 what the namespace can be cut off from alone
//! ```
//! 198.18.0.0/15 is set aside for tests (RFC 2544). The way is cut by giving the namespace a wrong hardware
//! address for its neighbour: packets leave and nobody takes them, as with a cable that is pulled
//! somewhere in between. Nobody gets to hear of it, which a route that is taken away would tell at once.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Process, is_root};

/// The namespace; it goes with this value, when the last process in it has ended.
#[derive(Debug)]
pub struct Network {
    name: String,
    /// The host's end.
    link: String,
    net: [u8; 3],
}

impl Network {
    /// Makes one. Without root there is none, and the test that wanted it says so.
    ///
    /// # Panics
    /// When root is not allowed to, or `ip` is missing.
    #[track_caller]
    pub fn make() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !is_root() {
            eprintln!(
                "not root: no network namespace, so nothing can be cut off and nothing is shown"
            );
            return None;
        }
        let own = std::process::id();
        let number = own.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
        let [.., high, low] = number.to_be_bytes();
        let (name, link) = (format!("steadfast-e2e-{number}"), format!("sfe2e{number}"));
        let network = Self { name, link, net: [198, 18 + (high & 1), low] };
        let (name, link) = (network.name.as_str(), network.link.as_str());
        let [outside, inside, other] = [1, 2, 3].map(|host| format!("{}/29", network.host(host)));
        ip(&["netns", "add", name]);
        ip(&["link", "add", link, "type", "veth", "peer", "name", "way-out", "netns", name]);
        ip(&["address", "add", &outside, "dev", link]);
        ip(&["address", "add", &other, "dev", link]);
        ip(&["link", "set", link, "up"]);
        ip(&["-n", name, "address", "add", &inside, "dev", "way-out"]);
        ip(&["-n", name, "link", "set", "way-out", "up"]);
        Some(network)
    }

    /// Where a coordinator listens that both sides can reach.
    pub fn address(&self) -> Ipv4Addr {
        self.host(1)
    }

    /// Another address of the host's, whose way can be cut while the other one is open.
    pub fn other_address(&self) -> Ipv4Addr {
        self.host(3)
    }

    /// Where somebody listens who is inside.
    pub fn inside(&self) -> Ipv4Addr {
        self.host(2)
    }

    /// From now on nothing arrives that is sent from inside to [`Network::address`].
    #[track_caller]
    pub fn cut(&self) {
        self.cut_from(self.address());
    }

    /// From now on nothing arrives that is sent from inside to this address of the host's.
    #[track_caller]
    pub fn cut_from(&self, address: Ipv4Addr) {
        let nobody = "02:00:00:00:00:01";
        self.neighbour(&["replace"], address, &["lladdr", nobody, "nud", "permanent"]);
    }

    /// And now it does again.
    #[track_caller]
    pub fn heal(&self) {
        self.heal_to(self.address());
    }

    /// And now it does again.
    #[track_caller]
    pub fn heal_to(&self, address: Ipv4Addr) {
        self.neighbour(&["del"], address, &[]);
    }

    /// Where a program finds it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// The namespace of a process, as the kernel names it.
    ///
    /// # Panics
    /// When the process is gone.
    #[track_caller]
    pub fn of(&self, process: Process) -> PathBuf {
        fs::read_link(format!("/proc/{}/ns/net", process.pid)).expect("it lives")
    }

    #[track_caller]
    fn neighbour(&self, what: &[&str], address: Ipv4Addr, how: &[&str]) {
        let address = address.to_string();
        let who = [address.as_str(), "dev", "way-out"];
        ip(&[&["-n", self.name.as_str(), "neighbour"], what, &who, how].concat());
    }

    const fn host(&self, host: u8) -> Ipv4Addr {
        let [first, second, third] = self.net;
        Ipv4Addr::new(first, second, third, host)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for arguments in [["link", "delete", &self.link], ["netns", "delete", &self.name]] {
            // A panic in a drop hides the first one.
            let _ = Command::new("ip").args(arguments).output();
        }
    }
}

#[track_caller]
fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output();
    let done = done.expect("`ip` is needed to cut a container off (Debian: iproute2)");
    assert!(done.status.success(), "ip {arguments:?}: {done:?}");
}
