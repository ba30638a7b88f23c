//! Serves a folder: `cargo run --release -p heddle-ice --example serve -- DIR [PORT [CERT KEY]]`.
//!
//! The smallest program around the library; `heddle serve` has all the options.

use heddle_ice::{Config, Server, TlsFiles};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = Config::new(arguments.next().unwrap_or_else(|| ".".to_owned()));
    if let Some(port) = arguments.next() {
        config.port = port.parse()?;
    }
    if let (Some(cert), Some(key)) = (arguments.next(), arguments.next()) {
        config.tls = Some(TlsFiles { cert: cert.into(), key: key.into() });
    }
    config.listing = true;
    let server = Server::bind(config)?;
    println!("http://{}/", server.local_addr());
    server.run()?;
    Ok(())
}
