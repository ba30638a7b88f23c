//! Dates on the wire: the three forms that HTTP asks a server to read, the one that it may
//! write, and the one of the access log.
//!
//! Invariant: `parse(format(t)) == t` for every second of the years 1970 to 9999. Seconds since
//! 1970 are the only form that is kept; nothing here reads a clock.

/// Length of an HTTP date as written (`Sun, 06 Nov 1994 08:49:37 GMT`).
pub const LEN: usize = 29;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// The first second that has a five-digit year and so no HTTP date.
const END: u64 = 253_402_300_800;

struct Civil {
    year: u64,
    month: usize,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    weekday: usize,
}

/// Howard Hinnant's `civil_from_days`, for dates from 1970 on.
fn civil(unix: u64) -> Civil {
    let unix = unix.min(END - 1);
    let (days, rest) = (unix / 86_400, unix % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    Civil {
        year: year_of_era + era * 400 + u64::from(month <= 2),
        month: month as usize,
        day: day_of_year - (153 * from_march + 2) / 5 + 1,
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
        weekday: (days % 7) as usize,
    }
}

fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn put(out: &mut [u8], at: usize, digits: usize, mut value: u64) {
    for slot in out[at..at + digits].iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Writes the HTTP date of a second since 1970.
pub fn format(unix: u64) -> [u8; LEN] {
    let c = civil(unix);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[c.weekday]);
    put(&mut out, 5, 2, c.day);
    out[8..11].copy_from_slice(MONTHS[c.month - 1]);
    put(&mut out, 12, 4, c.year);
    put(&mut out, 17, 2, c.hour);
    put(&mut out, 20, 2, c.minute);
    put(&mut out, 23, 2, c.second);
    out
}

/// Writes the date of the access log (`06/Nov/1994:08:49:37 +0000`).
pub fn format_log(unix: u64) -> [u8; 26] {
    let c = civil(unix);
    let mut out = *b"01/Jan/1970:00:00:00 +0000";
    put(&mut out, 0, 2, c.day);
    out[3..6].copy_from_slice(MONTHS[c.month - 1]);
    put(&mut out, 7, 4, c.year);
    put(&mut out, 12, 2, c.hour);
    put(&mut out, 15, 2, c.minute);
    put(&mut out, 18, 2, c.second);
    out
}

/// Writes a date for people (`1994-11-06 08:49`).
pub fn format_short(unix: u64) -> [u8; 16] {
    let c = civil(unix);
    let mut out = *b"1970-01-01 00:00";
    put(&mut out, 0, 4, c.year);
    put(&mut out, 5, 2, c.month as u64);
    put(&mut out, 8, 2, c.day);
    put(&mut out, 11, 2, c.hour);
    put(&mut out, 14, 2, c.minute);
    out
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b" ").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')))
}

fn month(text: &[u8]) -> Option<u64> {
    MONTHS.iter().position(|m| m.as_slice() == text).map(|at| at as u64 + 1)
}

fn seconds(year: u64, month: u64, day: u64, time: &[u8]) -> Option<u64> {
    if time.len() != 8 || time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (hour, minute, second) =
        (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?.min(59));
    let valid = (1970..=9999).contains(&year) && (1..=31).contains(&day);
    if !valid || hour > 23 || minute > 59 {
        return None;
    }
    Some(days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Reads an HTTP date in any of its three forms; `None` for everything else.
pub fn parse(text: &[u8]) -> Option<u64> {
    if text.len() == LEN && text[3] == b',' && text.ends_with(b" GMT") {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let (day, year) = (number(&text[5..7])?, number(&text[12..16])?);
        return seconds(year, month(&text[8..11])?, day, &text[17..25]);
    }
    if text.len() == 24 && text[3] == b' ' {
        // Sun Nov  6 08:49:37 1994
        let (day, year) = (number(&text[8..10])?, number(&text[20..24])?);
        return seconds(year, month(&text[4..7])?, day, &text[11..19]);
    }
    // Sunday, 06-Nov-94 08:49:37 GMT
    let comma = text.iter().position(|&b| b == b',')?;
    let rest = text.get(comma + 2..)?;
    if rest.len() != 22 || !rest.ends_with(b" GMT") {
        return None;
    }
    let (day, short) = (number(&rest[..2])?, number(&rest[7..9])?);
    let year = if short < 70 { 2000 + short } else { 1900 + short };
    seconds(year, month(&rest[3..6])?, day, &rest[10..18])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_example_of_the_standard() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format_log(784_111_777), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(&format_short(784_111_777), b"1994-11-06 08:49");
    }

    #[test]
    fn reads_all_three_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_date() {
        for text in [
            "",
            ",",
            "yesterday",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Xyz 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, -6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let mut unix = 0;
        while unix < END {
            assert_eq!(parse(&format(unix)), Some(unix));
            unix += 86_400 * 27 + 12_345;
        }
    }
}
