//! Ice: a static web server, one user-level thread per connection.
//!
//! It is the web server of the uThread paper (section 3.3): ordinary blocking code on a threading
//! library, to show that a thread per connection costs what an event costs. The same source runs
//! on user-level threads and on kernel threads.
//!
//! ```no_run
//! let config = heddle_ice::Config::new("/srv/www");
//! let server = heddle_ice::Server::bind(config)?;
//! println!("http://{}/", server.local_addr());
//! server.run()?;
//! # Ok::<(), heddle_ice::Error>(())
//! ```
//!
//! Invariant of the crate: no `unsafe`, no raw system calls, and nothing that blocks other than
//! through `rt`.
//!
//! What it deliberately does not do: run programs, rewrite requests, compress, speak HTTP/2.

#![forbid(unsafe_code)]

mod answer;
mod bell;
mod body;
mod cache;
mod clock;
mod coding;
mod conditional;
mod config;
mod conns;
mod date;
mod entry;
mod error;
mod fields;
mod figures;
#[doc(hidden)]
pub mod fuzzing;
mod listing;
mod live;
mod log;
mod path;
mod range;
mod request;
mod root;
mod rt;
mod server;
mod session;
mod stats;
mod status;
mod tls;
mod transport;

pub use config::{AccessLog, Config, TlsFiles};
pub use error::Error;
pub use server::{Handle, Server};
