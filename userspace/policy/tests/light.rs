// SPDX-License-Identifier: GPL-2.0-only
//! What the policy `drf` gives to light and to bounded groups beside hogs, in the model of
//! `tests/mba.rs`.
//!
//!   cargo test -p drfq_policy --test light -- --nocapture --ignored --test-threads 1    prints figures

// The model has more than these tests need.
#[allow(dead_code)]
mod plant;

use drfq_policy::drf::curve::Curve;
use plant::{Law, Load, PERIOD_S, Plant, Sharing, Want, laws::*, steady};

/// Length of a run (s), and what is left out of its beginning.
const RUN_S: f64 = 60.0;
const SKIP_S: f64 = 10.0;

/// What the noise of the runs begins with.
const SEEDS: u64 = 3;

/// Hogs of weight 1, and one other load that comes last.
fn plant(sharing: Sharing, noise: f64, hogs: usize, other: Load) -> Plant {
    let mut loads = vec![steady(1.0, 0.9); hogs];
    loads.push(other);
    Plant {
        sharing,
        noise,
        ..Plant::new(&loads)
    }
}

/// Mean traffic of the last load and of all, in parts of m.
fn moved(plant: &Plant, law: &mut dyn Law) -> [f64; 2] {
    let periods = plant.run(law, RUN_S);
    let counted = &periods[(SKIP_S / PERIOD_S).round() as usize..];
    let mean =
        |of: fn(&Vec<f64>) -> f64| counted.iter().map(of).sum::<f64>() / counted.len() as f64;
    [
        mean(|period| period[period.len() - 1]),
        mean(|period| period.iter().sum()),
    ]
}

/// What the last load gets of `want`, and the total as a part of the unmanaged one: means of
/// runs. `min`: its minimum.
fn served(plant: &Plant, want: f64, min: f64) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for seed in 1..=SEEDS {
        let plant = Plant {
            seed,
            ..plant.clone()
        };
        let mut law = Drf::plain(&plant);
        law.snapshot.groups.last_mut().unwrap().min = min;
        let [own, total] = moved(&plant, &mut law);
        let [_, unmanaged] = moved(&plant, &mut Static::unmanaged(&plant));
        sums[0] += own / want / SEEDS as f64;
        sums[1] += total / unmanaged / SEEDS as f64;
    }
    sums
}

#[test]
#[ignore = "prints figures"]
fn figures_of_light_groups_beside_hogs() {
    let chaser = Load {
        weight: 1.0,
        want: Want::Chaser(0.06),
    };
    let steadies = [0.02, 0.05, 0.1, 0.2].map(|want| (want, steady(1.0, want)));
    let lights = steadies.into_iter().chain([(0.06, chaser)]);
    for sharing in [Sharing::Proportional, Sharing::RateBound, Sharing::Latency] {
        for noise in [0.0, 0.005, 0.02, 0.05] {
            for hogs in [2, 4, 8, 16] {
                println!("{sharing:?}, noise {noise}, {hogs} hogs:");
                for (want, light) in lights.clone() {
                    let plant = plant(sharing, noise, hogs, light);
                    let [unmanaged, _] = moved(&plant, &mut Static::unmanaged(&plant));
                    let all = [unmanaged / want]
                        .into_iter()
                        .chain(served(&plant, want, 0.0))
                        .chain(served(&plant, want, want));
                    let percent: Vec<_> = all.map(|part| format!("{:5.1}", 100.0 * part)).collect();
                    println!(
                        "  {:?}: unmanaged {} %  drf {} %, total {} %  with its minimum {} %, total {} %",
                        light.want, percent[0], percent[1], percent[2], percent[3], percent[4],
                    );
                }
            }
        }
    }
}

#[test]
fn noise_refuses_no_light_group() {
    for (sharing, hogs, least) in [
        (Sharing::Proportional, 2, 0.9),
        (Sharing::Proportional, 4, 0.75),
        (Sharing::Proportional, 8, 0.6),
        (Sharing::Proportional, 16, 0.4),
        (Sharing::RateBound, 2, 0.65),
    ] {
        for weight in [1.0, 4.0] {
            let plant = plant(sharing, 0.02, hogs, steady(weight, 0.1));
            let [own, total] = served(&plant, 0.1, 0.0);
            let text = format!("{sharing:?}, {hogs} hogs, weight {weight}: {own:.3} {total:.3}");
            println!("{text}");
            assert!(own > least && total > 0.97, "{text}");
        }
    }
}

#[test]
fn tests_of_many_light_groups_leave_memory_in_use() {
    for sharing in [Sharing::Proportional, Sharing::RateBound] {
        for (noise, least) in [(0.005, 0.95), (0.02, 0.9), (0.05, 0.88)] {
            let mut loads = vec![steady(1.0, 0.3); 4];
            loads.extend(vec![steady(1.0, 0.03); 8]);
            let plant = Plant {
                sharing,
                noise,
                ..Plant::new(&loads)
            };
            let [own, total] = served(&plant, 0.03, 0.0);
            let text = format!("{sharing:?}, noise {noise}: {own:.3} {total:.3}");
            println!("{text}");
            assert!(own > 0.8 && total > least, "{text}");
        }
    }
}

#[test]
fn a_group_that_gains_slowly_keeps_its_weight() {
    // It gains while the other sinks, also where memory has room.
    let kept = (1..=5).filter(|&seed| {
        let plant = Plant {
            sharing: Sharing::Latency,
            seed,
            ..Plant::new(&[steady(1.0, 0.6), steady(4.0, 0.6)])
        };
        let mut law = Drf {
            tells: true,
            ..Drf::plain(&plant)
        };
        let [own, total] = moved(&plant, &mut law);
        println!("seed {seed}: {:.2}", own / (total - own));
        own / (total - own) > 3.5
    });
    assert_eq!(kept.count(), 5);
}

#[test]
fn a_light_group_gets_most_of_its_minimum_whatever_its_weight() {
    for (sharing, least) in [(Sharing::Proportional, 0.75), (Sharing::RateBound, 0.5)] {
        for hogs in [4, 8] {
            for weight in [0.1, 1.0, 4.0] {
                let plant = plant(sharing, 0.02, hogs, steady(weight, 0.1));
                let [own, total] = served(&plant, 0.1, 0.1);
                let text =
                    format!("{sharing:?}, {hogs} hogs, weight {weight}: {own:.3} {total:.3}");
                println!("{text}");
                assert!(own > least && total > 0.92, "{text}");
            }
        }
    }
}

#[test]
fn a_minimum_holds_for_a_group_whose_traffic_is_like_noise() {
    // Unmanaged it moves 0.3 % of m.
    let plant = plant(Sharing::Proportional, 0.02, 8, steady(1.0, 0.02));
    let [own, total] = served(&plant, 0.02, 0.02);
    println!("{own:.3} {total:.3}");
    assert!(own > 0.5 && total > 0.96, "{own} {total}");
}

#[test]
fn a_minimum_that_is_not_wanted_costs_the_others_little() {
    for sharing in [Sharing::Proportional, Sharing::RateBound] {
        for hogs in [2, 8] {
            for (want, least) in [(0.0, 0.999), (0.002, 0.99), (0.02, 0.93), (0.1, 0.85)] {
                let plant = plant(sharing, 0.02, hogs, steady(1.0, want));
                let [_, total] = served(&plant, 1.0, 0.3);
                let text = format!("{sharing:?}, {hogs} hogs, {want}: {total:.4}");
                println!("{text}");
                assert!(total > least, "{text}");
            }
        }
    }
}

/// Beside `hogs`, the mean traffic of a load that wants 0.9 m and pauses, both for `length_s`, and
/// its worst second. `max`: its maximum.
fn pulses(hogs: usize, length_s: f64, max: f64, seed: u64) -> [f64; 2] {
    let pulse = Load {
        weight: 1.0,
        want: Want::Phases([0.9, 0.0], length_s, 0.0),
    };
    let plant = Plant {
        seed,
        ..plant(Sharing::Proportional, 0.02, hogs, pulse)
    };
    let mut law = Drf::new(&plant, Curve::linear(1, 1, 100), hogs + 1);
    law.snapshot.groups[hogs].max = max;
    let periods = plant.run(&mut law, RUN_S);
    let moved: Vec<f64> = periods.iter().map(|period| period[hogs]).collect();
    let mean = |moved: &[f64]| moved.iter().sum::<f64>() / moved.len() as f64;
    let seconds = moved[20..].windows(10).map(mean);
    [mean(&moved[20..]), seconds.fold(0.0, f64::max)]
}

#[test]
fn bursts_after_pauses_keep_to_a_maximum() {
    for hogs in [0, 1, 4] {
        for length_s in [0.2, 0.4, 1.0] {
            for max in [0.03, 0.1] {
                for seed in 1..=3 {
                    let [mean, worst] = pulses(hogs, length_s, max, seed).map(|part| part / max);
                    let text = format!("{hogs} hogs, {length_s} s, {max}: {mean:.2} {worst:.2}");
                    println!("{text}");
                    assert!(mean < 0.8 && worst < 1.45, "{text}");
                }
            }
        }
    }
}

#[test]
fn a_maximum_above_what_a_group_gets_delays_nothing() {
    // The second load leaves memory to the first one every other 3 s.
    let other = Load {
        weight: 4.0,
        want: Want::Phases([0.95, 0.0], 3.0, 0.0),
    };
    let plant = Plant::new(&[other, steady(1.0, 0.68)]);
    let gets = |max: f64| {
        let mut law = Drf::plain(&plant);
        law.snapshot.groups[1].max = max;
        moved(&plant, &mut law)[0]
    };
    let (free, held) = (gets(f64::INFINITY), gets(0.8));
    assert!(held > 0.99 * free, "{held} {free}");
}

#[test]
fn a_maximum_that_a_reload_removes_is_gone_within_1_s() {
    let plant = Plant::new(&[steady(1.0, 0.9)]);
    let mut law = Drf::plain(&plant);
    law.snapshot.groups[0].max = 0.1;
    plant.run(&mut law, 10.0);
    assert!(law.plan.groups[0].fractions[0] < 0.15, "{:?}", law.plan);
    law.snapshot.groups[0].max = f64::INFINITY;
    plant.run(&mut law, 1.0);
    assert!(law.plan.groups[0].fractions[0] >= 1.0, "{:?}", law.plan);
}
