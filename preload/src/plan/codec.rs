//! The plan's bytes: writing them, and reading them back without trust.
//!
//! Invariant: [`parse`] checks what libheddle-preload checks and more: what it accepts,
//! [`encode`] would write again, up to the order of the texts.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::mem::offset_of;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use heddle_record::{Category, Class, Group};

use super::layout::{
    BYTES_MAX, FLAG_MEDIATED, FLAG_QUIET, FLAG_TRIPWIRE, HEADER_SIZE, MAGIC, NAME_RULE_SIZE,
    PROGRAM_HAD_PRELOAD, RULE_ATTRIBUTES, RULE_FORCED, RULE_REFINED, RULE_SIZE, RULE_STACK,
    RULE_TRAMPOLINE, RawNameRule, RawPlan, RawRule, RawWhere, WHERE_SIZE,
};
use super::{NameRule, Plan, RULES_MAX, Rule, StackRule, Stacks, Trampoline, User};
use crate::key::{BUILD_ID_MAX, BuildId, Key, Module, Where};
use crate::policy::{Attributes, Pattern, Zones};

/// Why a plan cannot be written or read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// It would be larger than the library reads.
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// A text in it holds a NUL.
    Nul,
    /// The file is no plan of this version, is cut off, or contradicts itself.
    Field {
        /// The field that is not right.
        field: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooLarge { bytes } => {
                write!(f, "a plan of {bytes} bytes: at most {BYTES_MAX} are read")
            }
            Error::Nul => f.write_str("a text of the plan holds a NUL"),
            Error::Field { field } => write!(f, "broken plan: its {field} cannot be"),
        }
    }
}

impl std::error::Error for Error {}

/// Bytes in the making, all zero at first.
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn put_u32(&mut self, offset: usize, number: u32) {
        self.put(offset, &number.to_le_bytes());
    }
}

/// The texts of a plan, each once.
struct Texts {
    area: Vec<u8>,
    known: HashMap<Vec<u8>, u32>,
}

impl Texts {
    /// The offset of a text.
    fn keep(&mut self, text: &OsStr) -> Result<u32, Error> {
        let bytes = text.as_bytes();
        if bytes.contains(&0) {
            return Err(Error::Nul);
        }
        if let Some(offset) = self.known.get(bytes) {
            return Ok(*offset);
        }
        let offset = self.area.len();
        let number = u32::try_from(offset).map_err(|_| Error::TooLarge { bytes: offset })?;
        self.area.extend(bytes);
        self.area.push(0);
        self.known.insert(bytes.to_owned(), number);
        Ok(number)
    }
}

pub(super) fn encode(plan: &Plan) -> Result<Vec<u8>, Error> {
    let names_offset = HEADER_SIZE + plan.rules.len() * RULE_SIZE;
    let texts_offset = names_offset + plan.names.len() * NAME_RULE_SIZE;
    let too_large = |bytes| if bytes > BYTES_MAX { Err(Error::TooLarge { bytes }) } else { Ok(()) };
    too_large(texts_offset)?;
    let mut out = Bytes(vec![0; texts_offset]);
    let mut texts = Texts { area: vec![0], known: HashMap::from([(Vec::new(), 0)]) };
    for (index, rule) in plan.rules.iter().enumerate() {
        put_rule(&mut out, HEADER_SIZE + index * RULE_SIZE, rule, &mut texts)?;
    }
    for (index, rule) in plan.names.iter().enumerate() {
        put_name_rule(&mut out, names_offset + index * NAME_RULE_SIZE, rule, &mut texts)?;
    }
    let preload = texts.keep(plan.preload.as_deref().unwrap_or_default())?;
    let library = plan.user.as_ref().map(|user| user.library.as_os_str());
    let user = texts.keep(library.unwrap_or_default())?;
    let bytes = texts_offset + texts.area.len();
    too_large(bytes)?;
    // All below BYTES_MAX.
    let numbers = [
        (offset_of!(RawPlan, bytes), bytes as u32),
        (offset_of!(RawPlan, rules), plan.rules.len() as u32),
        (offset_of!(RawPlan, rules_offset), HEADER_SIZE as u32),
        (offset_of!(RawPlan, names), plan.names.len() as u32),
        (offset_of!(RawPlan, names_offset), names_offset as u32),
        (offset_of!(RawPlan, texts_offset), texts_offset as u32),
        (offset_of!(RawPlan, preload), preload),
        (offset_of!(RawPlan, user), user),
    ];
    for (offset, number) in numbers {
        out.put_u32(offset, number);
    }
    put_header(&mut out, plan);
    out.0.extend(texts.area);
    Ok(out.0)
}

/// The header's fields that are no offsets.
fn put_header(out: &mut Bytes, plan: &Plan) {
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let flags = flag(plan.tripwire, FLAG_TRIPWIRE)
        | flag(plan.mediated, FLAG_MEDIATED)
        | flag(plan.quiet, FLAG_QUIET);
    let program = flag(plan.preload.is_some(), PROGRAM_HAD_PRELOAD);
    out.put(offset_of!(RawPlan, magic), &MAGIC.to_le_bytes());
    out.put_u32(offset_of!(RawPlan, flags), flags);
    out.put(offset_of!(RawPlan, run), &plan.run.to_le_bytes());
    out.put(offset_of!(RawPlan, parent), &plan.parent.to_le_bytes());
    let bytes = [plan.stacks as u8, plan.zones.low, plan.zones.high];
    out.put(offset_of!(RawPlan, stacks), &bytes);
    out.put_u32(offset_of!(RawPlan, flags_program), program);
    out.put_u32(offset_of!(RawPlan, filters), plan.filters);
    let workers = plan.user.as_ref().and_then(|user| user.workers).unwrap_or_default();
    out.put_u32(offset_of!(RawPlan, workers), workers.into());
}

fn put_rule(out: &mut Bytes, at: usize, rule: &Rule, texts: &mut Texts) -> Result<(), Error> {
    let mut flags = 0;
    out.put(at + offset_of!(RawRule, start), &raw_where(&rule.key.start));
    if let Some(refine) = &rule.key.refine {
        flags |= RULE_REFINED;
        out.put(at + offset_of!(RawRule, refine), &raw_where(refine));
    }
    if let Some(stack) = rule.stack {
        flags |= RULE_STACK | if stack.forced { RULE_FORCED } else { 0 };
        out.put_u32(at + offset_of!(RawRule, stack_size), stack.bytes);
    }
    if rule.trampoline != Trampoline::None {
        flags |= RULE_TRAMPOLINE;
        out.put(at + offset_of!(RawRule, trampoline), &[rule.trampoline as u8]);
    }
    if let Some(attributes) = &rule.attributes {
        flags |= RULE_ATTRIBUTES;
        out.put_u32(at + offset_of!(RawRule, role), role(attributes, texts)?);
        out.put(at + offset_of!(RawRule, class), &words(attributes));
    }
    out.put_u32(at + offset_of!(RawRule, flags), flags);
    Ok(())
}

fn put_name_rule(
    out: &mut Bytes,
    at: usize,
    rule: &NameRule,
    texts: &mut Texts,
) -> Result<(), Error> {
    let pattern = texts.keep(OsStr::new(rule.pattern.as_str()))?;
    out.put_u32(at + offset_of!(RawNameRule, pattern), pattern);
    out.put_u32(at + offset_of!(RawNameRule, flags), RULE_ATTRIBUTES);
    out.put_u32(at + offset_of!(RawNameRule, role), role(&rule.attributes, texts)?);
    out.put(at + offset_of!(RawNameRule, class), &words(&rule.attributes));
    Ok(())
}

fn role(attributes: &Attributes, texts: &mut Texts) -> Result<u32, Error> {
    texts.keep(OsStr::new(attributes.role.as_deref().unwrap_or_default()))
}

/// Class, priority, group and category as they lie in both sorts of rules.
fn words(attributes: &Attributes) -> [u8; 4] {
    let Attributes { class, priority, group, category, .. } = attributes;
    [*class as u8, *priority, *group as u8, *category as u8]
}

/// A place in a module as `struct heddle_where`.
pub(super) fn raw_where(place: &Where) -> [u8; WHERE_SIZE] {
    let mut out = [0; WHERE_SIZE];
    match &place.module {
        Module::BuildId(id) => {
            let bytes = id.bytes();
            out[..bytes.len()].copy_from_slice(bytes);
            out[offset_of!(RawWhere, id_bytes)] = bytes.len() as u8;
        }
        Module::Path(hash) => out[..8].copy_from_slice(&hash.to_le_bytes()),
    }
    out[offset_of!(RawWhere, offset)..].copy_from_slice(&place.offset.to_le_bytes());
    out
}

/// A plan's bytes, nobody's word taken.
struct View<'a> {
    bytes: &'a [u8],
    texts: &'a [u8],
}

impl View<'_> {
    fn u8(&self, offset: usize) -> u8 {
        self.bytes[offset]
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    /// Panics if it does not fit: callers stay in areas that were checked.
    fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes[offset..offset + N].try_into().expect("N bytes")
    }

    /// The text at an offset of the texts.
    fn text(&self, field: &'static str, offset: u32) -> Result<&[u8], Error> {
        let lie = Error::Field { field };
        let rest = self.texts.get(offset as usize..).ok_or(lie)?;
        let end = rest.iter().position(|byte| *byte == 0).ok_or(lie)?;
        Ok(&rest[..end])
    }

    /// Where an area of `count` things of `size` bytes begins, if it lies in the file.
    fn area(&self, field: &'static str, count: u32, at: u32, size: usize) -> Result<usize, Error> {
        let bytes = (count as usize).checked_mul(size);
        let end = bytes.and_then(|bytes| bytes.checked_add(at as usize));
        let is_inside = end.is_some_and(|end| end <= self.bytes.len());
        let is_behind = at as usize >= HEADER_SIZE && at.is_multiple_of(8);
        if is_inside && is_behind { Ok(at as usize) } else { Err(Error::Field { field }) }
    }
}

/// `Ok` if `right`, else which field is not.
fn check(right: bool, field: &'static str) -> Result<(), Error> {
    if right { Ok(()) } else { Err(Error::Field { field }) }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Plan, Error> {
    check((HEADER_SIZE..=BYTES_MAX).contains(&bytes.len()), "size")?;
    let view = View { bytes, texts: &[] };
    check(view.u64(offset_of!(RawPlan, magic)) == MAGIC, "magic")?;
    check(view.u32(offset_of!(RawPlan, bytes)) as usize == bytes.len(), "bytes")?;
    let texts = view.u32(offset_of!(RawPlan, texts_offset)) as usize;
    check(texts >= HEADER_SIZE, "texts_offset")?;
    let texts = bytes.get(texts..).ok_or(Error::Field { field: "texts_offset" })?;
    check(texts.first() == Some(&0) && texts.last() == Some(&0), "texts")?;
    let view = View { bytes, texts };

    let count = view.u32(offset_of!(RawPlan, rules));
    check(count as usize <= RULES_MAX, "rules")?;
    let at = view.u32(offset_of!(RawPlan, rules_offset));
    let at = view.area("rules_offset", count, at, RULE_SIZE)?;
    let rules = (0..count as usize).map(|index| read_rule(&view, at + index * RULE_SIZE));
    let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
    let sorted = rules
        .is_sorted_by(|one, two| super::rules::order(&one.key) < super::rules::order(&two.key));
    check(sorted, "order of rules")?;

    let count = view.u32(offset_of!(RawPlan, names));
    let at = view.u32(offset_of!(RawPlan, names_offset));
    let at = view.area("names_offset", count, at, NAME_RULE_SIZE)?;
    let names = (0..count as usize).map(|index| read_name_rule(&view, at + index * NAME_RULE_SIZE));
    let names = names.collect::<Result<_, _>>()?;
    read_header(&view, rules, names)
}

fn read_header(view: &View, rules: Vec<Rule>, names: Vec<NameRule>) -> Result<Plan, Error> {
    let stacks = view.u8(offset_of!(RawPlan, stacks));
    let stacks = Stacks::ALL.into_iter().find(|it| *it as u8 == stacks);
    let low = view.u8(offset_of!(RawPlan, low));
    let high = view.u8(offset_of!(RawPlan, high));
    check(low < high && high <= 100, "low")?;
    let flags = view.u32(offset_of!(RawPlan, flags));
    check(flags & !(FLAG_TRIPWIRE | FLAG_MEDIATED | FLAG_QUIET) == 0, "flags")?;
    let program = view.u32(offset_of!(RawPlan, flags_program));
    check(program & !PROGRAM_HAD_PRELOAD == 0, "flags_program")?;
    let preload = view.text("preload", view.u32(offset_of!(RawPlan, preload)))?;
    Ok(Plan {
        run: view.u64(offset_of!(RawPlan, run)),
        parent: view.u32(offset_of!(RawPlan, parent)).cast_signed(),
        stacks: stacks.ok_or(Error::Field { field: "stacks" })?,
        zones: Zones { low, high },
        tripwire: flags & FLAG_TRIPWIRE != 0,
        mediated: flags & FLAG_MEDIATED != 0,
        quiet: flags & FLAG_QUIET != 0,
        filters: view.u32(offset_of!(RawPlan, filters)),
        preload: (program & PROGRAM_HAD_PRELOAD != 0)
            .then(|| OsString::from_vec(preload.to_owned())),
        user: read_user(view)?,
        rules,
        names,
    })
}

fn read_user(view: &View) -> Result<Option<User>, Error> {
    let library = view.text("user", view.u32(offset_of!(RawPlan, user)))?;
    let workers = view.u32(offset_of!(RawPlan, workers));
    let workers = u16::try_from(workers).map_err(|_| Error::Field { field: "workers" })?;
    check(workers == 0 || !library.is_empty(), "workers")?;
    let library = PathBuf::from(OsString::from_vec(library.to_owned()));
    let workers = (workers != 0).then_some(workers);
    Ok((!library.as_os_str().is_empty()).then_some(User { library, workers }))
}

fn read_rule(view: &View, at: usize) -> Result<Rule, Error> {
    let flags = view.u32(at + offset_of!(RawRule, flags));
    let has = |flag: u32| flags & flag != 0;
    let known = RULE_ATTRIBUTES | RULE_STACK | RULE_REFINED | RULE_TRAMPOLINE | RULE_FORCED;
    check(flags & !known == 0 && (has(RULE_STACK) || !has(RULE_FORCED)), "rule.flags")?;
    let start = read_where(view, at + offset_of!(RawRule, start))?;
    let refine = at + offset_of!(RawRule, refine);
    let refine = has(RULE_REFINED).then(|| read_where(view, refine)).transpose()?;
    let trampoline = view.u8(at + offset_of!(RawRule, trampoline));
    let trampoline = Trampoline::ALL.into_iter().find(|it| *it as u8 == trampoline);
    let trampoline = trampoline.ok_or(Error::Field { field: "rule.trampoline" })?;
    check(has(RULE_TRAMPOLINE) == (trampoline != Trampoline::None), "rule.trampoline")?;
    let stack = has(RULE_STACK).then(|| StackRule {
        bytes: view.u32(at + offset_of!(RawRule, stack_size)),
        forced: has(RULE_FORCED),
    });
    let role = at + offset_of!(RawRule, role);
    let words = at + offset_of!(RawRule, class);
    let attributes =
        has(RULE_ATTRIBUTES).then(|| read_attributes(view, role, words)).transpose()?;
    Ok(Rule { key: Key { start, refine }, attributes, stack, trampoline })
}

fn read_name_rule(view: &View, at: usize) -> Result<NameRule, Error> {
    let flags = view.u32(at + offset_of!(RawNameRule, flags));
    check(flags == RULE_ATTRIBUTES, "name_rule.flags")?;
    let pattern = view.u32(at + offset_of!(RawNameRule, pattern));
    let pattern = view.text("name_rule.pattern", pattern)?;
    let pattern = std::str::from_utf8(pattern).ok().and_then(|text| Pattern::new(text).ok());
    let role = at + offset_of!(RawNameRule, role);
    let attributes = read_attributes(view, role, at + offset_of!(RawNameRule, class))?;
    Ok(NameRule {
        pattern: pattern.ok_or(Error::Field { field: "name_rule.pattern" })?,
        attributes,
    })
}

fn read_attributes(view: &View, role: usize, words: usize) -> Result<Attributes, Error> {
    let role = view.text("role", view.u32(role))?;
    let role = std::str::from_utf8(role).map_err(|_| Error::Field { field: "role" })?;
    let [class, priority, group, category] = view.array(words);
    let class = Class::from_raw(class).ok_or(Error::Field { field: "thread_class" })?;
    let range = if class == Class::TimeCritical { 1..=99 } else { 0..=0 };
    check(range.contains(&priority), "priority")?;
    Ok(Attributes {
        role: (!role.is_empty()).then(|| role.to_owned()),
        class,
        priority,
        group: Group::from_raw(group).ok_or(Error::Field { field: "group" })?,
        category: Category::from_raw(category).ok_or(Error::Field { field: "category" })?,
    })
}

fn read_where(view: &View, at: usize) -> Result<Where, Error> {
    let id: [u8; BUILD_ID_MAX] = view.array(at + offset_of!(RawWhere, id));
    let length = view.u32(at + offset_of!(RawWhere, id_bytes)) as usize;
    let lie = Error::Field { field: "where.id_bytes" };
    let (used, rest) = match length {
        0 => id.split_at(8),
        length => id.split_at_checked(length).ok_or(lie)?,
    };
    check(rest.iter().all(|byte| *byte == 0), "where.id")?;
    let module = match length {
        0 => Module::Path(u64::from_le_bytes(used.try_into().expect("8 bytes"))),
        _ => Module::BuildId(BuildId::new(used).ok_or(lie)?),
    };
    Ok(Where { module, offset: view.u64(at + offset_of!(RawWhere, offset)) })
}
