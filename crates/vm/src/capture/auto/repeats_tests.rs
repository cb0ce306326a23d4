//! Tests of the search for repeats.

use super::repeats::{LONGEST, Repeats, SHORTEST};

/// Returns all that is found in some tokens.
fn found(tokens: impl IntoIterator<Item = u64>) -> Vec<Vec<u64>> {
    let mut repeats = Repeats::new();
    tokens.into_iter().filter_map(|token| repeats.push(token)).collect()
}

/// Tokens that have nothing in common with those of another `part`.
fn part(part: u64, length: usize) -> Vec<u64> {
    (0..length as u64).map(|k| (part << 32 | k).wrapping_mul(0x2545_f491_4f6c_dd1d)).collect()
}

#[test]
fn a_loop_is_found_in_its_second_round() {
    let body = part(1, 100);
    assert_eq!(found([body.clone(), body.clone()].concat()), vec![body]);
}

#[test]
fn a_loop_with_breaks_is_found_whole() {
    let body = part(1, 100);
    let rounds: Vec<u64> = (0..3).flat_map(|k| [body.clone(), part(100 + k, 1)].concat()).collect();
    assert_eq!(found(rounds), vec![body.clone(), body]);
}

#[test]
fn a_short_loop_is_repeated_until_it_is_long_enough() {
    let body = part(1, 5);
    let rounds: Vec<u64> = (0..20).flat_map(|_| body.clone()).collect();
    let all = found(rounds);
    assert_eq!(all[0].len(), 20);
    assert!(all.iter().all(|tokens| tokens.len() % body.len() == 0 && tokens.len() >= SHORTEST));
}

#[test]
fn the_step_of_a_model_of_equal_layers_is_found() {
    let layer = part(2, 40);
    let step = [part(1, 30), layer.clone(), layer.clone(), layer, part(3, 30)].concat();
    let steps: Vec<u64> = (0..3).flat_map(|k| [step.clone(), part(100 + k, 1)].concat()).collect();
    assert!(found(steps).contains(&step));
}

#[test]
fn what_never_repeats_is_not_found() {
    assert!(found(part(1, 5000)).is_empty());
    // Too short.
    let short = part(1, SHORTEST - 1);
    let rounds: Vec<u64> =
        (0..9).flat_map(|k| [short.clone(), part(100 + k, 1)].concat()).collect();
    assert!(found(rounds).is_empty());
}

#[test]
fn long_repeats_are_found_within_the_history() {
    let body = part(1, LONGEST - 1);
    assert!(found([body.clone(), body.clone(), body.clone()].concat()).contains(&body));
    let body = part(1, 2 * LONGEST);
    assert!(found([body.clone(), body.clone(), body].concat()).is_empty());
}

#[test]
fn what_is_found_occurred_twice() {
    // Few tokens, so that runs of all lengths begin and end.
    let mut state = 1_u64;
    for _ in 0..20 {
        let mut tokens: Vec<u64> = Vec::new();
        let mut repeats = Repeats::new();
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let choice = state >> 60;
            let from = (state >> 30) as usize % tokens.len().max(1);
            let next: Vec<u64> = match choice {
                0 => tokens[from..(from + 60).min(tokens.len())].to_vec(),
                _ => vec![choice % 3],
            };
            for token in next {
                tokens.push(token);
                if let Some(found) = repeats.push(token) {
                    let count = tokens.windows(found.len()).filter(|w| *w == found).count();
                    assert!(count >= 2, "{} tokens occurred {count} times", found.len());
                }
            }
        }
    }
}

#[test]
fn a_stretch_between_breaks_is_found_whole() {
    // All of it is a short loop, which is found first.
    let stretch: Vec<u64> = (0..8).flat_map(|_| part(1, 5)).collect();
    let mut repeats = Repeats::new();
    let mut last = None;
    for k in 0..2 {
        stretch.iter().for_each(|token| drop(repeats.push(*token)));
        last = repeats.push_break(part(100 + k, 1)[0]);
    }
    assert_eq!(last, Some(stretch));
}
