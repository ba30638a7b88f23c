//! Names as people write them: demangled, and short enough for a line.
//!
//! Invariant: a name that cannot be demangled stays as it is; nothing is invented.

use cpp_demangle::DemangleOptions;

/// Mangled names longer than this take their demangler more time than they are worth.
const MANGLED_BYTES_MAX: usize = 16 << 10;

/// A symbol's name without mangling, hashes, versions and parameters.
pub fn demangle(symbol: &str) -> String {
    with_options(symbol, DemangleOptions::new().no_params().no_return_type())
}

/// As [`demangle`], with parameters.
pub fn demangle_whole(symbol: &str) -> String {
    with_options(symbol, DemangleOptions::new().no_return_type())
}

fn with_options(symbol: &str, options: DemangleOptions) -> String {
    let symbol = symbol.split_once('@').map_or(symbol, |(name, _version)| name);
    if symbol.len() > MANGLED_BYTES_MAX {
        return symbol.to_owned();
    }
    if let Ok(name) = rustc_demangle::try_demangle(symbol)
        && is_rust(symbol)
    {
        return format!("{name:#}");
    }
    if symbol.starts_with("_Z")
        && let Ok(name) = cpp_demangle::Symbol::new(symbol)
        && let Ok(name) = name.demangle_with_options(&options)
    {
        return name;
    }
    symbol.to_owned()
}

/// Rust's old scheme looks like C++ with a hash as its last part.
fn is_rust(symbol: &str) -> bool {
    let hash = || symbol.rfind("17h").is_some_and(|at| symbol.len() - at >= 3 + 16);
    symbol.starts_with("_R") || (symbol.starts_with("_ZN") && hash())
}

/// A name in at most `width` characters: namespaces without a name, then what templates are
/// applied to, then leading namespaces, and at last the middle is left out.
pub fn shorten(name: &str, width: usize) -> String {
    let fits = |name: &str| name.chars().count() <= width;
    let mut short = name
        .replace("(anonymous namespace)::", "")
        .replace("{anonymous}::", "")
        .replace("{{closure}}", "{closure}")
        .replace("std::__cxx11::", "std::")
        .replace("std::__1::", "std::");
    if !fits(&short) {
        short = without_arguments(&short);
    }
    while !fits(&short) {
        match short.split_once("::") {
            // Only a namespace: "void (a::b::*)()" is no path.
            Some((first, rest)) if !rest.is_empty() && !first.contains(['(', ' ']) => {
                short = rest.to_owned();
            }
            _ => break,
        }
    }
    if fits(&short) { short } else { cut_middle(&short, width) }
}

/// `a<b<c>>::d` as `a<..>::d`. Operators keep their brackets.
fn without_arguments(name: &str) -> String {
    let mut short = String::new();
    let mut depth = 0usize;
    for (index, c) in name.char_indices() {
        // Not of `operator<<`, `operator->` or an arrow.
        let before = &name[..index];
        let is_operator =
            ["operator", "operator<", "operator-"].iter().any(|it| before.ends_with(it));
        let is_arrow = c == '>' && before.ends_with('-');
        let is_bracket = !is_operator && !is_arrow;
        match c {
            '<' if is_bracket => {
                if depth == 0 {
                    short += "<..>";
                }
                depth += 1;
            }
            '>' if is_bracket => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short
}

fn cut_middle(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(2).filter(|room| *room > 0) else {
        return chars[..width].iter().collect();
    };
    let head = room.div_ceil(2);
    let tail = chars.len() - (room - head);
    chars[..head].iter().chain(&['.', '.']).chain(&chars[tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_mangling() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("pthread_create@@GLIBC_2.34"), "pthread_create");
        assert_eq!(demangle("_ZN4pool6Worker3runEi"), "pool::Worker::run");
        assert_eq!(demangle_whole("_ZN4pool6Worker3runEi"), "pool::Worker::run(int)");
        let legacy = "_ZN1a4main28_$u7b$$u7b$closure$u7d$$u7d$17h43157526e47e3138E";
        assert_eq!(demangle(legacy), "a::main::{{closure}}");
        assert_eq!(demangle("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
        assert_eq!(demangle("_Z"), "_Z");
    }

    #[test]
    fn long_names_keep_what_tells_them_apart() {
        assert_eq!(shorten("worker", 20), "worker");
        assert_eq!(shorten("(anonymous namespace)::loop", 20), "loop");
        assert_eq!(
            shorten("pool::Queue<std::pair<int, long>>::drain", 30),
            "pool::Queue<..>::drain"
        );
        assert_eq!(shorten("alpha::beta::gamma::delta::run", 12), "delta::run");
        let pointer = "void (very::long::name::*)(int)";
        assert_eq!(shorten(pointer, 20), "void (ver..::*)(int)");
        assert_eq!(shorten("a_name_that_has_no_end_at_all", 11), "a_nam.._all");
        assert_eq!(shorten("abc", 1), "a");
    }
}
