//! An echo server: one thread per connection, plain blocking code.
//!
//! Usage: `echo [ADDRESS]`, by default 127.0.0.1:7007. It writes the address and its process id.

use heddle::net::{TcpListener, TcpStream};
use std::io::{self, Read, Write};

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count])?;
    }
}

fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("{} {}", listener.local_addr()?, std::process::id());
    loop {
        let (stream, _) = listener.accept()?;
        let handler = heddle::thread::Builder::new().role("echo").stack_size(16 << 10);
        handler.spawn(move || {
            // A peer that resets its connection is its own affair.
            let _ = echo(stream);
        })?;
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7007".into());
    heddle::run(move || serve(&address))
}
