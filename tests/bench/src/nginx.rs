//! Runs nginx as a proxy to a member, configured for speed, and as a zero-cost member.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::wait::{SOON, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::site::CERTIFIED_NAME;
use crate::usage;
use crate::way::Upstream;

/// A running nginx.
pub(crate) struct Nginx {
    master: Child,
    folder: TempDir,
}

/// The certificate of all servers here, and its authority.
pub(crate) struct Certificates {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
}

impl Nginx {
    /// Starts an nginx with a worker for each core, and waits until it answers.
    pub(crate) fn start(certificates: &Certificates, http: &str, listen: SocketAddr) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("nginx.conf");
        let workers = std::thread::available_parallelism()?;
        let Certificates { certificate, key, ca: _ } = certificates;
        let (certificate, key) = (certificate.display(), key.display());
        fs::write(
            &config,
            format!(
                "daemon off; user root; pid nginx.pid; error_log stderr warn; worker_processes {workers};\n\
                 events {{ worker_connections 4096; }}\n\
                 http {{\n\
                 access_log off; server_tokens off; tcp_nodelay on; keepalive_requests 100000000;\n\
                 client_body_temp_path body; proxy_temp_path proxy; proxy_headers_hash_bucket_size 128;\n\
                 ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;\n\
                 ssl_session_cache shared:tls:10m;\n\
                 {http}}}\n"
            ),
        )?;
        let log = fs::File::create(folder.path().join("stderr"))?;
        let master = Command::new("nginx")
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start: nginx (tests/setup.sh --bench installs it)")?;
        let mut nginx = Self { master, folder };
        let runs = eventually("nginx answers", SOON, || {
            if nginx.master.try_wait()?.is_some() {
                return Ok(Some(false));
            }
            let ready = nginx.pids()?.len() > workers.get() && TcpStream::connect(listen).is_ok();
            Ok(ready.then_some(true))
        })?;
        ensure!(runs, "nginx did not start: {}", fs::read_to_string(nginx.folder.path().join("stderr"))?);
        Ok(nginx)
    }

    /// The master and its workers.
    pub(crate) fn pids(&self) -> Result<Vec<u32>> {
        let master = self.master.id();
        let mut pids = usage::children(master)?;
        pids.push(master);
        Ok(pids)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, so that the master ends its workers.
        if let Some(pid) = i32::try_from(self.master.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.master.wait();
        }
    }
}

/// A server that passes everything on to one member, with these headers set.
pub(crate) fn proxy(listen: SocketAddr, member: &Upstream, headers: &[(String, String)]) -> String {
    let Upstream { name, address, ca, token: _ } = member;
    // The values are tokens and names of this bench, without a quote or a dollar sign.
    let headers = headers.iter().map(|(name, value)| format!("proxy_set_header {name} \"{value}\";\n"));
    let headers: String = headers.collect();
    format!(
        "upstream {name} {{\n\
         server {address}; keepalive 256; keepalive_requests 100000000; keepalive_time 1d;\n\
         }}\n\
         map $http_upgrade $connection_{name} {{ default upgrade; '' ''; }}\n\
         server {{\n\
         listen {listen} ssl;\n\
         location / {{\n\
         proxy_pass https://{name}; proxy_http_version 1.1;\n\
         proxy_ssl_verify on; proxy_ssl_verify_depth 2; proxy_ssl_name {CERTIFIED_NAME};\n\
         proxy_ssl_trusted_certificate {ca}; proxy_ssl_session_reuse on; proxy_ssl_protocols TLSv1.3;\n\
         proxy_buffer_size 16k; proxy_buffers 8 16k; client_max_body_size 0;\n\
         proxy_read_timeout 1h; proxy_send_timeout 1h;\n\
         proxy_set_header Host {address};\n\
         proxy_set_header Connection $connection_{name};\n\
         proxy_set_header Upgrade $http_upgrade;\n\
         {headers}\
         }}\n\
         }}\n",
        ca = ca.display(),
    )
}

/// A server that answers every request with the same text and the headers of a kube-apiserver.
pub(crate) fn constant(listen: SocketAddr, answer: &str) -> String {
    format!(
        "server {{\n\
         listen {listen} ssl;\n\
         default_type application/json;\n\
         location / {{\n\
         add_header Audit-Id 2a1f0e9c-7f0b-4d4e-9a43-2f5f0c8f6a11;\n\
         add_header Cache-Control \"no-cache, private\";\n\
         add_header X-Kubernetes-Pf-Flowschema-Uid 6a4f9b0e-93a3-4a27-8f07-0f6a3a3f2b1c;\n\
         add_header X-Kubernetes-Pf-Prioritylevel-Uid 0c8f6a11-4d4e-7f0b-9a43-2f5f2a1f0e9c;\n\
         return 200 '{answer}';\n\
         }}\n\
         }}\n"
    )
}
