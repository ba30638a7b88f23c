//! Turns: in each round every implementation runs once, and the round begins with another one each
//! time, so that neither drift nor what ran before favours any.

use super::impls::Impl;
use super::progress::Progress;

/// An implementation and its samples, or why it has none.
pub type Turns<T> = Vec<(&'static Impl, Result<Vec<T>, String>)>;

/// Runs `once` for each implementation in each round. One that fails is out, with its reason: a
/// figure from the rounds that went well would hide the one that did not.
pub fn interleave<T>(
    label: &str,
    rounds: usize,
    chosen: &[&'static Impl],
    progress: &mut Progress,
    mut once: impl FnMut(&'static Impl) -> Result<T, String>,
) -> Turns<T> {
    let mut turns: Turns<T> = chosen.iter().map(|&one| (one, Ok(Vec::new()))).collect();
    for round in 0..rounds {
        for i in 0..turns.len() {
            let at = (round + i) % turns.len();
            let (one, samples) = &mut turns[at];
            if let Ok(values) = samples {
                progress.show(&format!("{label} {} {}/{rounds}", one.name, round + 1));
                match once(one) {
                    Ok(value) => values.push(value),
                    Err(reason) => *samples = Err(reason),
                }
            }
            progress.advance(1);
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::super::impls::THREADS;
    use super::*;

    #[test]
    fn takes_turns_and_rotates() {
        let chosen: Vec<_> = THREADS.iter().take(3).collect();
        let mut order = Vec::new();
        interleave("x", 2, &chosen, &mut Progress::new("micro", 6), |one| {
            order.push(one.name);
            Ok(())
        });
        assert_eq!(order, ["heddle", "native", "pthread", "native", "pthread", "heddle"]);
    }

    #[test]
    fn a_failure_ends_one_and_not_the_others() {
        let chosen: Vec<_> = THREADS.iter().take(2).collect();
        let turns = interleave("x", 3, &chosen, &mut Progress::new("micro", 6), |one| {
            if one.name == "native" { Err("no".to_string()) } else { Ok(1) }
        });
        assert_eq!(turns[0].1, Ok(vec![1, 1, 1]));
        assert_eq!(turns[1].1, Err("no".to_string()));
    }
}
