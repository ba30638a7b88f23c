//! What Ice itself costs per request, without the kernel: requests from memory, answers to memory.
//!
//! `cargo run --release -p heddle-ice --example request_cost`

use std::time::Instant;

use heddle_ice::fuzzing::Target;

const REQUESTS: usize = 1000;
const ROUNDS: usize = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("ice-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("index.html"), vec![b'x'; 612])?;
    let target = Target::new(&folder)?;
    let browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101\r\n\
        Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
        Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
        Connection: keep-alive\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n";
    for (name, lines) in [("bare", ""), ("browser", browser)] {
        for path in ["/index.html", "/missing"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
            let pieces = vec![request.as_bytes(); REQUESTS];
            let best = (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    let answers = target.answers(&pieces);
                    assert!(answers.len() > REQUESTS * 100);
                    start.elapsed().as_nanos() / REQUESTS as u128
                })
                .min()
                .unwrap_or(0);
            println!("{name:8} {path:12} {best:6} ns");
        }
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
