//! The yardstick: nginx with a constant answer, in a folder of its own, ended by its pid.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;
use crate::process::children;

pub struct Nginx {
    master: Child,
    workers: usize,
    pub port: u16,
}

impl Nginx {
    pub fn start(folder: &Path, workers: usize, body: &str) -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configuration(folder, workers, port, body))?;
        // Debian keeps it where only root's PATH looks.
        let known = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"];
        let program = known.into_iter().find(|path| Path::new(path).exists()).unwrap_or("nginx");
        let master = Command::new(program)
            .args(["-e", "stderr", "-p"])
            .arg(folder)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("nginx cannot be started ({error}): apt-get install nginx"))?;
        let mut nginx = Self { master, workers, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        while nginx.pids()?.len() <= workers
            || std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        {
            if Instant::now() > deadline || nginx.master.try_wait()?.is_some() {
                return Err("nginx does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10)); // polls
        }
        Ok(nginx)
    }

    /// Its master and its workers.
    pub fn pids(&self) -> Result<Vec<u32>, Failure> {
        let mut pids = vec![self.master.id()];
        pids.extend(children(self.master.id())?);
        debug_assert!(pids.len() <= 1 + self.workers);
        Ok(pids)
    }

    pub fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.master.try_wait()?.is_none() {
            // Not reaped yet, so the number is still its own.
            let pid = i32::try_from(self.master.id()).ok().and_then(Pid::from_raw);
            kill_process(pid.ok_or("no pid")?, Signal::TERM)?;
            self.master.wait()?;
        }
        Ok(())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Already said where it matters; here some other failure is on its way.
        let _ = self.end();
    }
}

/// Nothing is logged, and a connection is never closed for its age, as the coordinator does it.
fn configuration(folder: &Path, workers: usize, port: u16, body: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes {workers};
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 12000; }}
http {{
    access_log off;
    default_type application/json;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location = /isContainerValid {{
            add_header Cache-Control no-store;
            return 200 '{body}';
        }}
    }}
}}
"
    )
}
