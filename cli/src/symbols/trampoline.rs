//! Functions that start other functions: seen through, so that a thread is called by what it runs.
//!
//! Invariant: a name is taken out of a symbol only where its form is known; otherwise the symbol's
//! own name stays.
//!
//! One function starts every thread of C++'s std::thread, of Rust, glib, Qt, Python and Java. For
//! the first four the argument leads to a table of functions or to the function itself (the
//! refining word); the others' threads are told by the names that they are given.

use super::names::demangle;

/// How the argument of a trampoline tells its threads apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trampoline {
    /// It points at the address of a table or of a function.
    FirstWord,
    /// It points at a word and then at the address of a table.
    SecondWord,
    /// Not at all: the threads' names do.
    Name,
}

/// Which trampoline the function with this symbol is, if it is one.
pub fn is_trampoline(symbol: &str) -> Option<Trampoline> {
    match symbol {
        "execute_native_thread_routine" | "g_thread_proxy" | "uv__thread_start" => {
            return Some(Trampoline::FirstWord);
        }
        "pythread_wrapper" | "thread_native_entry" | "java_start" => {
            return Some(Trampoline::Name);
        }
        _ => {}
    }
    // Most symbols are none of these: no demangling before a part of the name was seen.
    let known = ["thread_start", "thread_native_entry", "java_start", "thread_proxy", "QThread"];
    if !symbol.starts_with('_') || !known.iter().any(|part| symbol.contains(part)) {
        return None;
    }
    match demangle(symbol).as_str() {
        "thread_native_entry" | "java_start" => Some(Trampoline::Name),
        "QThreadPrivate::start" | "boost::(anonymous namespace)::thread_proxy" => {
            Some(Trampoline::FirstWord)
        }
        name if name.starts_with("std::sys") || name.starts_with("<std::sys") => {
            name.ends_with("::thread_start").then_some(Trampoline::SecondWord)
        }
        _ => None,
    }
}

/// What a library's stripped trampolines are, by the library's name: a start function that it
/// gives to pthread_create itself.
pub fn of_library(file_name: &str) -> Option<Trampoline> {
    let is = |stem: &str| {
        let rest = file_name.strip_prefix(stem);
        rest.is_some_and(|rest| rest.starts_with(".so") || rest.is_empty())
    };
    if is("libstdc++") {
        return Some(Trampoline::FirstWord);
    }
    let python = file_name.starts_with("libpython3") || file_name.starts_with("python3");
    (is("libjvm") || python).then_some(Trampoline::Name)
}

/// What people call the threads of a trampoline of which nothing better is known.
pub fn threads_of(symbol: &str) -> Option<&'static str> {
    match is_trampoline(symbol)? {
        Trampoline::SecondWord => Some("Rust thread"),
        Trampoline::FirstWord => match symbol {
            "execute_native_thread_routine" => Some("std::thread"),
            "g_thread_proxy" => Some("glib thread"),
            _ => None,
        },
        Trampoline::Name if symbol == "pythread_wrapper" => Some("Python thread"),
        Trampoline::Name => Some("Java thread"),
    }
}

/// What people call the threads of a library whose start functions have no names.
pub fn species(file_name: &str) -> Option<&'static str> {
    match of_library(file_name)? {
        Trampoline::Name if file_name.starts_with("libjvm") => Some("Java thread"),
        Trampoline::Name => Some("Python thread"),
        _ => Some("std::thread"),
    }
}

/// What runs, by the demangled name of the symbol that the refining word leads to.
pub fn callable(name: &str) -> String {
    let class = class_of(name);
    // std::async wraps what it was given a second time.
    let tuple = |it| first_argument(it, "std::tuple<");
    let inner = tuple(class).filter(|_| class.contains("_State_impl"));
    let inner = inner.map(|it| tuple(it).filter(|_| it.contains("_Async_state")).unwrap_or(it));
    let inner = inner.or_else(|| first_argument(class, "boost::detail::thread_data<"));
    let inner = inner.or_else(|| closure_of(class));
    inner.unwrap_or(class).trim().to_owned()
}

/// The class that a table or a type's name belongs to, in any demangler's words.
fn class_of(name: &str) -> &str {
    let plain = ["vtable for ", "typeinfo name for "].iter().find_map(|it| name.strip_prefix(it));
    let inner = || {
        let braced = name.strip_prefix('{')?.strip_suffix(")}")?;
        Some(braced.split_once('(')?.1)
    };
    plain.or_else(inner).unwrap_or(name)
}

/// Which function of a template proxy the threads of libc++ run.
pub fn proxied(name: &str) -> Option<&str> {
    let tuple = &name[name.find("__thread_proxy")?..];
    let arguments = &tuple[tuple.find("tuple<")? + "tuple<".len()..];
    let first = argument_end(arguments);
    let second = arguments.get(first + 1..)?;
    Some(second[..argument_end(second)].trim())
}

/// The closure that std was asked to run, in a name that holds std's own closure around it.
fn closure_of(name: &str) -> Option<&str> {
    let at = name.find("spawn_unchecked")?;
    let rest = name[at + "spawn_unchecked".len()..].trim_start_matches('_');
    let arguments = rest.strip_prefix("::").unwrap_or(rest).strip_prefix('<')?;
    Some(&arguments[..argument_end(arguments)])
}

/// What stands first between the brackets that `before` opens.
fn first_argument<'a>(name: &'a str, before: &str) -> Option<&'a str> {
    let arguments = &name[name.find(before)? + before.len()..];
    Some(&arguments[..argument_end(arguments)])
}

/// Where the first of several arguments ends: at a comma or bracket that belongs to none within.
fn argument_end(arguments: &str) -> usize {
    let mut depth = 0usize;
    let mut before = ' ';
    for (index, c) in arguments.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' if before == '-' => {}
            ',' | '>' | ')' if depth == 0 => return index,
            '>' | ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    arguments.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_ones_are_known() {
        assert_eq!(is_trampoline("execute_native_thread_routine"), Some(Trampoline::FirstWord));
        assert_eq!(is_trampoline("_ZL19thread_native_entryP6Thread"), Some(Trampoline::Name));
        let rust =
            "_RNvNvMs0_NtNtNtCsjrHSEGnQ3l9_3std3sys6thread4unixNtB7_6Thread3new12thread_start";
        assert_eq!(is_trampoline(rust), Some(Trampoline::SecondWord));
        assert_eq!(is_trampoline("worker"), None);
        assert_eq!(is_trampoline("my_thread_start"), None);
    }

    #[test]
    fn libraries_are_known_by_name() {
        assert_eq!(of_library("libstdc++.so.6.0.30"), Some(Trampoline::FirstWord));
        assert_eq!(of_library("libjvm.so"), Some(Trampoline::Name));
        assert_eq!(of_library("python3.11"), Some(Trampoline::Name));
        assert_eq!(of_library("libstdc++fs.so"), None);
    }

    #[test]
    fn what_runs_is_found_in_the_name() {
        let state = |inner: &str| {
            callable(&format!(
                "vtable for std::thread::_State_impl<std::thread::_Invoker<std::tuple<{inner}> > >"
            ))
        };
        assert_eq!(state("main::{lambda()#1}"), "main::{lambda()#1}");
        assert_eq!(state("void (*)(int), int"), "void (*)(int)");
        assert_eq!(state("void (Job::*)(int, long), Job*, int"), "void (Job::*)(int, long)");
        assert_eq!(state("std::function<void (int, int)>"), "std::function<void (int, int)>");
        let invoker = "std::thread::_Invoker<std::tuple<main::{lambda()#1}> >";
        let inner =
            format!("void (std::__future_base::_Async_state_impl<{invoker}, int>::*)(), X*");
        assert_eq!(state(&inner), "main::{lambda()#1}");
        let drop = "core::ptr::drop_in_place<std::thread::lifecycle::spawn_unchecked<\
                    a::main::{{closure}},()>::{{closure}}>";
        assert_eq!(callable(drop), "a::main::{{closure}}");
        let new = "core::ptr::drop_in_place::<<std::thread::Builder>::spawn_unchecked_::<\
                   a::run<u8, ()>::{closure#0}, u32>::{closure#1}>";
        assert_eq!(callable(new), "a::run<u8, ()>::{closure#0}");
        assert_eq!(callable("vtable for Reader"), "Reader");
        assert_eq!(callable("{vtable(node::Worker)}"), "node::Worker");
        assert_eq!(callable("on_idle"), "on_idle");
    }

    #[test]
    fn a_proxy_names_its_function() {
        let name = "void* std::__1::__thread_proxy<std::__1::tuple<std::__1::unique_ptr<A, B<A> >, \
                    main::$_0> >";
        assert_eq!(proxied(name), Some("main::$_0"));
        assert_eq!(proxied("worker"), None);
    }
}
