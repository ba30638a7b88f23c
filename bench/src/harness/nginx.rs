//! nginx's configuration for a run: no logs, keep-alive without end, everything in one folder.

use std::path::{Path, PathBuf};

/// Writes the configuration and returns nginx's arguments.
pub fn configure(
    folder: &Path,
    name: &str,
    port: u16,
    workers: usize,
    root: &Path,
) -> Result<Vec<String>, String> {
    let home = folder.join(format!("{name}-{port}"));
    let write = || -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(&home)?;
        let file = home.join("nginx.conf");
        std::fs::write(&file, text(&home, port, workers, root, name == "nginx_cached"))?;
        Ok(file)
    };
    let file = write().map_err(|e| format!("cannot write nginx's configuration: {e}"))?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    Ok(vec!["-p".into(), path(&home), "-c".into(), path(&file), "-e".into(), "stderr".into()])
}

fn text(home: &Path, port: u16, workers: usize, root: &Path, cached: bool) -> String {
    let (home, root) = (home.display(), root.display());
    // Whoever starts the run can read the folder; nginx's own user perhaps cannot.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let cache = if cached { "open_file_cache max=1000; open_file_cache_valid 60s;" } else { "" };
    format!(
        "{user}
daemon off;
worker_processes {workers};
worker_rlimit_nofile 20000;
pid {home}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 16384; use epoll; }}
http {{
    access_log off;
    default_type text/html;
    sendfile on;
    tcp_nodelay on;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    {cache}
    server {{ listen 127.0.0.1:{port} backlog=16384 reuseport; root {root}; }}
}}
"
    )
}
