//! The page that shows what is in a folder.
//!
//! Invariant: every name is escaped twice over, as a path in the link and as text in the page,
//! whatever bytes it has; hidden files and everything that is not a file or folder are left out.

use std::fs::File;
use std::io::Write;

use rustix::fs::{AtFlags, Dir, FileType, StatxFlags};
use rustix::io::Errno;

use crate::date;
use crate::path;

/// More names than this are not listed; the page says so.
const NAMES_MAX: usize = 10_000;

const OPENING: &str = "<!doctype html><html lang=en><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width,initial-scale=1\">\
<meta name=color-scheme content=\"light dark\"><style>\
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;\
color:CanvasText;background:Canvas}h1{font-size:1.25rem;font-weight:600;word-break:break-word}\
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}\
td{padding:.35rem .5rem;border-top:1px solid color-mix(in srgb,CanvasText 12%,transparent)}\
td:nth-child(n+2){text-align:right;white-space:nowrap;opacity:.7}td:first-child{word-break:\
break-word}a{color:LinkText;text-decoration:none}a:hover{text-decoration:underline}\
@media(max-width:34rem){td:nth-child(3){display:none}}</style>";

struct Item {
    name: Vec<u8>,
    folder: bool,
    size: u64,
    modified: u64,
}

/// Writes the page of an open directory.
pub fn page(dir: &File, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let (mut items, complete) = read(dir)?;
    items.sort_by(|a, b| b.folder.cmp(&a.folder).then_with(|| a.name.cmp(&b.name)));
    let mut out = Vec::with_capacity(2048 + items.len() * 160);
    let mut title = vec![b'/'];
    title.extend_from_slice(path);
    out.extend_from_slice(OPENING.as_bytes());
    out.extend_from_slice(b"<title>");
    escape(&title, &mut out);
    out.extend_from_slice(b"</title><h1>");
    escape(&title, &mut out);
    out.extend_from_slice(b"</h1><table>");
    if !path.is_empty() {
        out.extend_from_slice(b"<tr><td><a href=\"../\">../</a><td><td>");
    }
    items.iter().for_each(|item| row(item, &mut out));
    out.extend_from_slice(b"</table>");
    if !complete {
        out.extend_from_slice(b"<p>There are more names than this page shows.");
    }
    Ok(out)
}

fn read(dir: &File) -> Result<(Vec<Item>, bool), Errno> {
    let mut items = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        if items.len() == NAMES_MAX {
            return Ok((items, false));
        }
        // Symlinks are not followed here: where they lead is found out when they are opened.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let Ok(stat) = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS) else {
            continue;
        };
        let kind = FileType::from_raw_mode(stat.stx_mode.into());
        if kind.is_file() || kind.is_dir() || kind.is_symlink() {
            items.push(Item {
                name: name.to_bytes().to_vec(),
                folder: kind.is_dir(),
                size: stat.stx_size,
                modified: stat.stx_mtime.tv_sec.max(0) as u64,
            });
        }
    }
    Ok((items, true))
}

fn row(item: &Item, out: &mut Vec<u8>) {
    // `./` keeps a name like `a:b` from being read as a scheme.
    out.extend_from_slice(b"<tr><td><a href=\"./");
    path::encode(&item.name, out);
    let slash: &[u8] = if item.folder { b"/" } else { b"" };
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    escape(&item.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"</a><td>");
    if !item.folder {
        size(item.size, out);
    }
    out.extend_from_slice(b"<td>");
    out.extend_from_slice(&date::format_short(item.modified));
}

fn size(bytes: u64, out: &mut Vec<u8>) {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // Writing to a Vec cannot fail.
    let _ = match bytes {
        0..1024 => write!(out, "{bytes} B"),
        _ => write!(out, "{value:.1} {}", UNITS[unit]),
    };
}

/// Escapes bytes as HTML text; what is not UTF-8 is replaced.
pub fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in String::from_utf8_lossy(text).bytes() {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let name = b"<script>\"'&\xff".to_vec();
        let mut out = Vec::new();
        row(&Item { name, folder: false, size: 1536, modified: 0 }, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("./%3Cscript%3E%22%27%26%FF\""), "{text}");
        assert!(text.contains("&lt;script&gt;&quot;&#39;&amp;\u{fffd}"), "{text}");
        assert!(text.contains("1.5 KiB"), "{text}");
    }
}
