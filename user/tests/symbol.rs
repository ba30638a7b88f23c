//! `src/sys/symbol.rs`, compiled into this test as it is: it finds what `dlsym` does.

#[path = "../src/sys/symbol.rs"]
mod symbol;

#[test]
fn it_finds_functions_as_dlsym_does() {
    let names = [
        c"__libc_malloc",
        c"__libc_calloc",
        c"__libc_realloc",
        c"__libc_memalign",
        c"__libc_free",
        c"gnu_get_libc_version",
        c"memfrob",
    ];
    for name in names {
        // SAFETY: a text.
        let other = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        assert!(!other.is_null(), "{name:?}");
        assert_eq!(symbol::of_c_library(name), other, "{name:?}");
    }
}

#[test]
fn it_finds_no_other_name() {
    for name in [c"no_such_function", c"", c"__libc_mallo", c"environ"] {
        assert!(symbol::of_c_library(name).is_null(), "{name:?}");
    }
}

#[test]
fn it_finds_what_is_behind_a_library() {
    let here = it_finds_no_other_name as *const () as *const core::ffi::c_void;
    for name in [c"gnu_get_libc_version", c"memfrob"] {
        assert_eq!(symbol::behind(here, name), symbol::of_c_library(name), "{name:?}");
    }
    assert!(symbol::behind(here, c"no_such_function").is_null());
    let c_library = symbol::of_c_library(c"memfrob").cast_const();
    assert!(symbol::behind(c_library, c"memfrob").is_null(), "behind the C library is nobody");
    assert!(symbol::behind(core::ptr::null(), c"memfrob").is_null());
    assert_eq!(symbol::behind_all(here, c"memfrob").cast_const(), c_library);
    assert!(symbol::behind_all(c_library, c"memfrob").is_null(), "it has no second one");
}
