//! The plan's numbers and structures, for their offsets.
//!
//! Invariant: equal to `plan.h`, checked by `tests/plan.rs`.

use crate::key::BUILD_ID_MAX;

/// The bytes "HEDPLAN2"; the digit is the format's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HEDPLAN2");
/// Most bytes of a plan.
pub const BYTES_MAX: usize = 16 << 20;

/// Report a crossing of the High zone's border when it happens.
pub const FLAG_TRIPWIRE: u32 = 1;
/// `heddle run` watches the tables and sets kernel policies.
pub const FLAG_MEDIATED: u32 = 2;
/// No messages on standard error.
pub const FLAG_QUIET: u32 = 4;
/// LD_PRELOAD was set before.
pub const PROGRAM_HAD_PRELOAD: u32 = 1;

/// Of a rule: role, class, priority, group, category are to be set.
pub const RULE_ATTRIBUTES: u32 = 1;
/// Of a rule: the stack's size is to be given.
pub const RULE_STACK: u32 = 2;
/// Of a rule: it holds only for its refining word.
pub const RULE_REFINED: u32 = 4;
/// Of a rule: the start function starts others.
pub const RULE_TRAMPOLINE: u32 = 8;
/// Of a rule: the stack's size is the user's own word.
pub const RULE_FORCED: u32 = 16;

/// `struct heddle_plan`: the header.
#[repr(C)]
#[expect(missing_docs, reason = "described in plan.h")]
pub struct RawPlan {
    pub magic: u64,
    pub bytes: u32,
    pub flags: u32,
    pub run: u64,
    pub parent: i32,
    pub stacks: u8,
    pub low: u8,
    pub high: u8,
    pub unused: u8,
    pub rules: u32,
    pub rules_offset: u32,
    pub names: u32,
    pub names_offset: u32,
    pub texts_offset: u32,
    pub preload: u32,
    pub flags_program: u32,
    pub filters: u32,
    pub user: u32,
    pub workers: u32,
}

/// `struct heddle_question`: about a program that is about to start.
#[repr(C)]
#[expect(missing_docs, reason = "described in plan.h")]
pub struct RawQuestion {
    pub bytes: u32,
    pub unused: u32,
    pub device: u64,
    pub inode: u64,
    pub address_space: u64,
    pub data: u64,
    pub stack: u64,
}

/// `struct heddle_where`: a place in a module.
#[repr(C)]
#[expect(missing_docs, reason = "described in plan.h")]
pub struct RawWhere {
    pub id: [u8; BUILD_ID_MAX],
    pub id_bytes: u32,
    pub unused: u32,
    pub offset: u64,
}

/// `struct heddle_rule`: what holds for threads with a start function.
#[repr(C)]
#[expect(missing_docs, reason = "described in plan.h")]
pub struct RawRule {
    pub start: RawWhere,
    pub refine: RawWhere,
    pub flags: u32,
    pub stack_size: u32,
    pub role: u32,
    pub class: u8,
    pub priority: u8,
    pub group: u8,
    pub category: u8,
    pub trampoline: u8,
    pub unused: [u8; 15],
}

/// `struct heddle_name_rule`: what holds for threads with a name.
#[repr(C)]
#[expect(missing_docs, reason = "described in plan.h")]
pub struct RawNameRule {
    pub pattern: u32,
    pub flags: u32,
    pub role: u32,
    pub class: u8,
    pub priority: u8,
    pub group: u8,
    pub category: u8,
}

/// Bytes of the header.
pub const HEADER_SIZE: usize = size_of::<RawPlan>();
/// Bytes of a question, without its texts.
pub const QUESTION_SIZE: usize = size_of::<RawQuestion>();
/// Most bytes of its texts.
pub const QUESTION_BYTES_MAX: usize = 64 << 10;
/// Bytes of a place.
pub const WHERE_SIZE: usize = size_of::<RawWhere>();
/// Bytes of a rule.
pub const RULE_SIZE: usize = size_of::<RawRule>();
/// Bytes of a rule by name.
pub const NAME_RULE_SIZE: usize = size_of::<RawNameRule>();

/// Where a field lies: its name in C, its offset and its bytes.
pub type FieldPlace = (&'static str, usize, usize);

/// Bytes of the field that `_field` picks.
const fn bytes_of<T, F>(_field: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Lists fields under their names in `plan.h`.
macro_rules! places {
    ($type:ty: $($c_name:literal $field:ident,)*) => {
        &[$(($c_name, core::mem::offset_of!($type, $field), bytes_of(|it: &$type| &it.$field)),)*]
    };
}

/// Every structure of the plan: its name in C, its bytes and its fields.
pub const STRUCTURES: &[(&str, usize, &[FieldPlace])] = &[
    (
        "heddle_plan",
        HEADER_SIZE,
        places! { RawPlan:
            "magic" magic, "bytes" bytes, "flags" flags, "run" run, "parent" parent,
            "stacks" stacks, "low" low, "high" high, "unused" unused, "rules" rules,
            "rules_offset" rules_offset, "names" names, "names_offset" names_offset,
            "texts_offset" texts_offset, "preload" preload, "flags_program" flags_program,
            "filters" filters, "user" user, "workers" workers,
        },
    ),
    (
        "heddle_question",
        QUESTION_SIZE,
        places! { RawQuestion:
            "bytes" bytes, "unused" unused, "device" device, "inode" inode,
            "address_space" address_space, "data" data, "stack" stack,
        },
    ),
    (
        "heddle_where",
        WHERE_SIZE,
        places! { RawWhere:
            "id" id, "id_bytes" id_bytes, "unused" unused, "offset" offset,
        },
    ),
    (
        "heddle_rule",
        RULE_SIZE,
        places! { RawRule:
            "start" start, "refine" refine, "flags" flags, "stack_size" stack_size, "role" role,
            "thread_class" class, "priority" priority, "group" group, "category" category,
            "trampoline" trampoline, "unused" unused,
        },
    ),
    (
        "heddle_name_rule",
        NAME_RULE_SIZE,
        places! { RawNameRule:
            "pattern" pattern, "flags" flags, "role" role, "thread_class" class,
            "priority" priority, "group" group, "category" category,
        },
    ),
];
