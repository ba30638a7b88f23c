//! Ice under measurement: `heddle-http http PORT WORKERS DIR`. HEDDLE_WORKERS gives the workers,
//! HEDDLE_BACKEND=native puts the same source on kernel threads. All else is Ice's default: no
//! access log, all limits and timeouts armed.

use heddle_bench::measure::{Failure, peer_main};
use heddle_ice::{Config, Server};

fn main() {
    peer_main(|args| {
        let Some(folder) = args.folder.filter(|_| args.metric == "http") else {
            return Err(Failure::NotOffered("only http PORT WORKERS DIR"));
        };
        let mut config = Config::new(folder);
        config.port = args.ops as u16;
        Server::bind(config)?.run()?;
        Ok(None)
    })
}
