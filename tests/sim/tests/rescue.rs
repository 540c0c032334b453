// SPDX-License-Identifier: GPL-2.0-only
//! Starved tasks: who is rescued, how soon, and what that may take from the others.

mod common;

use common::{cpus_used, hogs, nice, run};
use drfq_sim::ffi::weight_one;
use drfq_sim::kernel::Place;
use drfq_sim::outside::Outside;
use drfq_sim::{Config, CpuSet, MS, Report, SEC, Sim, TaskSpec, Trace, US};

/// What rescues may take of a CPU.
const BUDGET: f64 = 0.05;

/// The longest wait of these tasks, s.
fn longest_wait(report: &Report, tasks: std::ops::Range<usize>) -> f64 {
    let waits = report.tasks[tasks].iter().map(|t| t.max_wait_ns);
    waits.max().unwrap_or(0) as f64 / SEC as f64
}

/// 600 hogs on one CPU need 4.8 s for a round. The rescue must not turn weights into turns.
#[test]
fn weights_hold_among_six_hundred_hogs_on_a_cpu() {
    let mut weights = vec![weight_one(); 300];
    weights.extend([3 * weight_one(); 300]);
    let config = Config::new(1);
    let origin = config.v_origin_ns;
    let report = run(config, hogs(&weights), 240);
    let used = cpus_used(&report);
    let (light, heavy): (f64, f64) = (used[..300].iter().sum(), used[300..].iter().sum());
    // All that rescues take could go to the light ones: 0.25 + 0.05 of the CPU.
    assert!(
        heavy / light > (0.75 - BUDGET) / (0.25 + BUDGET),
        "1:{:.3}",
        heavy / light
    );
    // V follows: 240 s are 0.2 s at a total weight of 1200.
    let moved = (report.v_ns - origin) as f64 / SEC as f64;
    assert!((moved / 0.2 - 1.0).abs() < 0.25, "V moved {moved:.3} s");
}

/// Eight hogs of nice -20, and lighter ones that fair queueing serves once in 47 s.
fn starving(light: usize) -> Vec<TaskSpec> {
    let mut specs = hogs(&[nice(-20); 8]);
    specs.extend(hogs(&vec![nice(19); light]));
    specs
}

#[test]
fn each_task_runs_within_ten_seconds_if_the_budget_allows() {
    let report = run(Config::new(1), starving(60), 100);
    let wait = longest_wait(&report, 8..68);
    assert!(wait <= 10.0, "{wait:.2} s");
    assert_eq!(report.counters.late, 0);
}

#[test]
fn rescues_take_at_most_their_budget() {
    for light in [30, 60, 90] {
        let mut sim = Sim::new(Config::new(1), starving(light));
        // All start at V, so each has its first packet without a rescue.
        let before = sim.run_until(30 * SEC);
        let report = sim.run_until(130 * SEC);
        let used: f64 = report.shares_since(&before)[8..].iter().sum();
        // The fair share of nice 19 is 15/1024 beside 88761/1024.
        let fair = light as f64 * 15.0 / (8.0 * 88761.0);
        assert!(
            used < BUDGET + fair + 0.002,
            "{light} light hogs: {used:.4} of the CPU"
        );
        // What is counted is what they had.
        let counted_ns = report.counters.rescued_ns - before.counters.rescued_ns;
        let counted = counted_ns as f64 / (100 * SEC) as f64;
        assert!(
            (counted - used).abs() < fair + 0.002,
            "{counted:.4} of {used:.4}"
        );
    }
}

/// What no budget limits. A packet has up to two ticks.
const ALWAYS_S: f64 = 15.0;

#[test]
fn no_crowd_lets_a_task_wait_for_as_long_as_the_watchdog() {
    let config = Config::new(1);
    let packet = (config.slice_ns + config.tick_ns) as f64 / SEC as f64;
    for light in [200, 1000] {
        let report = run(config.clone(), starving(light), 100);
        let wait = longest_wait(&report, 8..8 + light);
        assert!(report.counters.late > 100, "{}", report.counters.late);
        let most = ALWAYS_S + light as f64 * packet;
        assert!(wait <= most && most < 30.0, "{light}: {wait:.2} s");
    }
}

/// Each urgent task waits for its next turn, so that together they use up any budget.
#[test]
fn a_crowd_of_urgent_tasks_does_not_starve_another() {
    let mut specs = hogs(&[nice(-20); 8]);
    specs.extend(hogs(&[nice(19); 210]));
    for spec in &mut specs[8..208] {
        spec.kthread = true;
    }
    let report = run(Config::new(1), specs, 100);
    let wait = longest_wait(&report, 208..218);
    assert!(wait < ALWAYS_S + 2.0, "{wait:.2} s");
}

/// What is overdue must not use up the budget of those that others wait for.
#[test]
fn a_reader_of_rcu_runs_within_seconds_where_every_task_is_overdue() {
    let wait = urgent_among(5000, |_| ());
    assert!(wait < 3.0, "{wait:.2} s");
}

/// It has only its last switch to do, and could not be rescued from a queue.
#[test]
fn a_task_that_was_reaped_does_not_wait_in_a_queue() {
    let mut sim = Sim::new(Config::new(1), starving(1));
    let light = 8;
    let mut now_ns = MS;
    sim.run_until(now_ns);
    while sim.kernel().place(light) != Place::Running {
        now_ns += MS;
        assert!(now_ns < SEC, "it never ran");
        sim.run_until(now_ns);
    }
    sim.kernel().reap(light);
    let report = sim.run_until(20 * SEC);
    let wait = longest_wait(&report, light..light + 1);
    assert!(wait < 0.2, "{wait:.2} s");
}

#[test]
fn a_pinned_task_is_rescued_on_its_own_cpu() {
    let mut specs = Vec::new();
    for cpu in 0..2 {
        let mut of_cpu = starving(5);
        for spec in &mut of_cpu {
            spec.allowed = CpuSet::one(cpu);
        }
        specs.extend(of_cpu);
    }
    let report = run(Config::new(2), specs, 60);
    for lights in [8..13, 21..26] {
        let wait = longest_wait(&report, lights);
        assert!(wait < 3.0, "{wait:.2} s");
    }
}

/// Thousands of threads that sleep and run, others of any nice value, and a real-time task that
/// takes a CPU for 0.3 s of 1.3 s: the load of tests/vm/guest/crowd.py.
#[test]
fn each_of_thousands_of_tasks_runs_within_ten_seconds() {
    const CROWD: usize = 4096;
    const SECONDS: u64 = 40;
    let mut specs = hogs(&[weight_one(); CROWD]);
    for (i, spec) in specs.iter_mut().enumerate().skip(CROWD / 2) {
        spec.trace = Trace::sleeper((1 + i as u64 % 7) * MS, (1 + i as u64 % 5) * 10 * MS);
    }
    specs.extend(hogs(&[-20, -5, 0, 5, 19].map(nice).repeat(4)));
    let mut sim = Sim::new(Config::new(4), specs);
    for turn in 0..SECONDS * 10 / 13 {
        let ns = 3 * SEC / 10;
        let cpu = turn as usize % 4;
        sim.plan((1 + turn) * 13 * SEC / 10, Outside::Take { cpu, ns });
    }
    let report = sim.run_until(SECONDS * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let wait = longest_wait(&report, 0..report.tasks.len());
    assert!(wait <= 10.0, "{wait:.2} s");
    assert_eq!(report.counters.late, 0);
    // Each CPU has a budget.
    let rescued = report.counters.rescued_ns as f64 / (4 * report.now_ns) as f64;
    println!("{wait:.2} s, {rescued:.4} of each CPU");
    assert!(rescued < BUDGET, "{rescued:.4} of each CPU");
}

/// What RCU and other tasks wait for runs within a second, among a thousand tasks per CPU.
fn urgent_among(hogs_per_cpu: usize, make: fn(&mut TaskSpec)) -> f64 {
    let mut specs = hogs(&vec![weight_one(); 2 * hogs_per_cpu]);
    let mut urgent = TaskSpec::new("urgent", Trace::hog()).weight(nice(19));
    urgent.arrival_ns = 5 * SEC;
    make(&mut urgent);
    specs.push(urgent);
    let number = 2 * hogs_per_cpu;
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(5 * SEC + MS);
    sim.kernel().set_rcu_reader(number, true);
    let report = sim.run_until(30 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.tasks[number].cpu_ns > 20 * MS);
    longest_wait(&report, number..number + 1)
}

#[test]
fn a_reader_of_rcu_runs_within_a_second() {
    for hogs_per_cpu in [4, 400, 2000] {
        let wait = urgent_among(hogs_per_cpu, |_| ());
        assert!(wait < 1.0, "{hogs_per_cpu} hogs per CPU: {wait:.2} s");
    }
}

/// A host that stops the virtual CPU makes packets of 32 ms. A round of 600 tasks takes 19 s, and
/// the budget is for 1.5 rescues a second. RCU reports a stall after 21 s.
#[test]
fn a_hundred_readers_of_rcu_run_long_before_a_stall() {
    let mut config = Config::new(1);
    config.tick_ns = 28 * MS;
    let mut sim = Sim::new(config, hogs(&vec![weight_one(); 600]));
    sim.run_until(MS);
    for reader in (0..600).step_by(6) {
        sim.kernel().set_rcu_reader(reader, true);
    }
    let report = sim.run_until(90 * SEC);
    for reader in (0..600).step_by(6) {
        let wait = longest_wait(&report, reader..reader + 1);
        assert!(wait < 15.0, "{wait:.2} s");
    }
    // The watchdog allows 30 s.
    let wait = longest_wait(&report, 0..600);
    assert!(wait < 28.0, "{wait:.2} s");
}

/// A host that stops the virtual CPU for 0.35 s in each packet. A packet that ran ahead would use up
/// the budget of 7 s. The agent and RCU's own thread must not wait for so long.
#[test]
fn a_budget_comes_back_within_seconds_where_a_host_stops_the_cpu() {
    let mut config = Config::new(1);
    config.tick_ns = 350 * MS;
    let mut specs = vec![TaskSpec::new("agent", Trace::hog()).weight(nice(19))];
    specs.extend(hogs(&[weight_one(); 40]));
    specs.push(TaskSpec::new("rcu_preempt", Trace::sleeper(MS, 10 * MS)).weight(nice(19)));
    specs[41].kthread = true;
    for spec in &mut specs[1..] {
        spec.arrival_ns = SEC;
    }
    let mut sim = Sim::new(config, specs);
    sim.run_until(MS);
    sim.kernel().set_agent(0);
    sim.run_until(2 * SEC);
    for reader in (1..41).step_by(8) {
        sim.kernel().set_rcu_reader(reader, true);
    }
    let report = sim.run_until(120 * SEC);
    for task in [0, 41] {
        let wait = longest_wait(&report, task..task + 1);
        assert!(wait < 6.0, "{wait:.2} s");
    }
}

/// khugepaged at nice 19 copies a huge page in one section, which takes it 100 ms.
#[test]
fn a_long_read_section_ends_soon() {
    let mut specs = hogs(&vec![weight_one(); 800]);
    specs.push(TaskSpec::new("khugepaged", Trace::hog()).weight(nice(19)));
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(5 * SEC);
    sim.kernel().set_rcu_reader(800, true);
    let before_ns = sim.run_until(5 * SEC + MS).tasks[800].cpu_ns;
    let used_ns = sim.run_until(8 * SEC).tasks[800].cpu_ns - before_ns;
    assert!(used_ns >= 100 * MS, "{} ms", used_ns / MS);
    // One that never ends gets no more than the budget of 63 s, what it saved up in 1 s, the
    // rest of a section that began while some was left, and an eighth of a CPU for 20 s.
    let used_ns = sim.run_until(68 * SEC).tasks[800].cpu_ns - before_ns;
    let most_ns = (BUDGET * 64.0 * SEC as f64) as u64 + 40 * MS + 5 * SEC / 2;
    assert!(used_ns < most_ns, "{} us", used_ns / US);
}

/// Some tasks of nice 19, many hogs, and 20 kernel threads that use up the budget.
fn nice_among(count: usize, many: usize) -> Vec<TaskSpec> {
    let mut specs = hogs(&vec![nice(19); count]);
    specs.extend(hogs(&vec![weight_one(); many]));
    specs.extend(hogs(&[nice(19); 20]).into_iter().map(|spec| TaskSpec {
        kthread: true,
        ..spec
    }));
    specs
}

/// On a host that stops the virtual CPUs, khugepaged's section took seconds.
#[test]
fn a_read_section_of_seconds_ends_before_a_stall() {
    let reader = 0;
    let mut sim = Sim::new(Config::new(2), nice_among(1, 800));
    sim.run_until(5 * SEC);
    sim.kernel().set_rcu_reader(reader, true);
    let before_ns = sim.run_until(5 * SEC + MS).tasks[reader].cpu_ns;
    let report = sim.run_until(25 * SEC);
    let used_ns = report.tasks[reader].cpu_ns - before_ns;
    assert!(used_ns >= 3 * SEC / 2, "{} ms", used_ns / MS);
    assert_eq!(report.counters.late, 0);
    // One that has ended takes no more than others of its kind.
    sim.kernel().set_rcu_reader(reader, false);
    let before_ns = sim.run_until(26 * SEC).tasks[reader].cpu_ns;
    let used_ns = sim.run_until(46 * SEC).tasks[reader].cpu_ns - before_ns;
    assert!(used_ns < 100 * MS, "{} ms", used_ns / MS);
}

/// A section that never ends must not take the place of another task's.
#[test]
fn a_long_read_section_is_rescued_though_another_never_ends() {
    let (endless, reader) = (0, 1);
    let mut sim = Sim::new(Config::new(1), nice_among(2, 400));
    sim.run_until(5 * SEC);
    sim.kernel().set_rcu_reader(endless, true);
    sim.run_until(36 * SEC);
    sim.kernel().set_rcu_reader(reader, true);
    let before_ns = sim.run_until(36 * SEC + MS).tasks[reader].cpu_ns;
    let used_ns = sim.run_until(56 * SEC).tasks[reader].cpu_ns - before_ns;
    assert!(used_ns >= SEC, "{} ms", used_ns / MS);
}

/// What looks like one endless section may be a new one each time.
#[test]
fn a_long_read_section_is_rescued_again_after_a_minute() {
    let reader = 0;
    let mut sim = Sim::new(Config::new(1), nice_among(2, 400));
    sim.run_until(5 * SEC);
    sim.kernel().set_rcu_reader(reader, true);
    let mut used_until = |at: u64| sim.run_until(at * SEC).tasks[reader].cpu_ns;
    let before = used_until(5);
    let first = used_until(36) - before;
    let rest = used_until(62) - first - before;
    let again = used_until(105) - rest - first - before;
    assert!(first >= 3 * SEC / 2, "{} ms", first / MS);
    assert!(rest < SEC, "{} ms", rest / MS);
    assert!(again >= 3 * SEC / 2, "{} ms", again / MS);
}

/// Among a hundred readers, the budget is for one section of 40 ms in a second. RCU reports a
/// stall after 21 s.
#[test]
fn a_long_read_section_ends_before_a_stall_where_the_budget_is_used_up() {
    let mut sim = Sim::new(Config::new(1), hogs(&vec![weight_one(); 2000]));
    let before = sim.run_until(SEC);
    let mut readers: Vec<usize> = (0..2000).step_by(20).collect();
    for reader in &readers {
        sim.kernel().set_rcu_reader(*reader, true);
    }
    for at in 11..200 {
        let report = sim.run_until(at * SEC / 10);
        let used_ns = |reader: usize| report.tasks[reader].cpu_ns - before.tasks[reader].cpu_ns;
        for reader in readers.extract_if(.., |reader| used_ns(*reader) >= 40 * MS) {
            sim.kernel().set_rcu_reader(reader, false);
        }
    }
    assert_eq!(readers, Vec::<usize>::new());
}

#[test]
fn a_kernel_thread_runs_within_a_second() {
    for hogs_per_cpu in [4, 400, 2000] {
        let wait = urgent_among(hogs_per_cpu, |spec| spec.kthread = true);
        assert!(wait < 1.0, "{hogs_per_cpu} hogs per CPU: {wait:.2} s");
    }
}

/// Among a hundred readers, one section of 40 ms uses up the budget of most of a second.
#[test]
fn a_kernel_thread_runs_within_a_second_beside_long_read_sections() {
    for number in [1000, 2000, 4000] {
        let mut specs = hogs(&vec![weight_one(); number]);
        specs.push(TaskSpec::new("kthread", Trace::hog()));
        specs[number].kthread = true;
        let mut sim = Sim::new(Config::new(1), specs);
        sim.run_until(SEC);
        for reader in (0..number).step_by(number / 100) {
            sim.kernel().set_rcu_reader(reader, true);
        }
        let report = sim.run_until(40 * SEC);
        assert_eq!(report.violations, Vec::<String>::new());
        let wait = longest_wait(&report, number..number + 1);
        assert!(wait < 1.0, "{number} others: {wait:.2} s");
    }
}

/// A real-time task has each CPU in turn for 0.3 s of 1.3 s. The thread may wait for one of them.
#[test]
fn a_kernel_thread_runs_within_a_second_though_a_higher_class_takes_its_cpu() {
    let mut specs = hogs(&vec![weight_one(); 2000]);
    specs.push(TaskSpec::new("kthread", Trace::hog()));
    specs[2000].kthread = true;
    let mut sim = Sim::new(Config::new(2), specs);
    for turn in 0..30 {
        let (cpu, ns) = (turn as usize % 2, 300 * MS);
        sim.plan((1 + turn) * 1300 * MS, Outside::Take { cpu, ns });
    }
    sim.run_until(SEC);
    for reader in (0..2000).step_by(20) {
        sim.kernel().set_rcu_reader(reader, true);
    }
    let report = sim.run_until(40 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let wait = longest_wait(&report, 2000..2001);
    assert!(wait < 1.0, "{wait:.2} s");
}

/// Where a long read section comes now and then, a search for kernel threads goes on after it was
/// not made for a while. The task at which it was has run, and threads may wait before that one.
#[test]
fn a_kernel_thread_runs_within_a_second_after_a_rare_read_section() {
    let mut specs = hogs(&vec![weight_one(); 120]);
    for i in 0..20 {
        let trace = Trace::sleeper(MS, (500 + 37 * i) * MS);
        specs.push(TaskSpec::new("kthread", trace).weight(nice(19)));
        specs[120 + i as usize].kthread = true;
    }
    let mut sim = Sim::new(Config::new(1), specs);
    for turn in 1..40 {
        sim.run_until(turn * 2 * SEC);
        sim.kernel().set_rcu_reader(turn as usize, true);
        sim.run_until(turn * 2 * SEC + SEC);
        sim.kernel().set_rcu_reader(turn as usize, false);
    }
    let report = sim.run_until(80 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let wait = longest_wait(&report, 120..140);
    assert!(wait < 1.0, "{wait:.2} s");
}

/// Kernel threads that use up the budget and more leave it none. RCU reports a stall after 21 s.
#[test]
fn a_reader_of_rcu_runs_long_before_a_stall_beside_many_kernel_threads() {
    let mut specs = hogs(&vec![weight_one(); 600]);
    specs.extend(hogs(&[nice(19); 61]));
    for spec in &mut specs[601..] {
        spec.kthread = true;
    }
    let mut sim = Sim::new(Config::new(1), specs);
    sim.run_until(5 * SEC);
    sim.kernel().set_rcu_reader(600, true);
    let report = sim.run_until(60 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let wait = longest_wait(&report, 600..601);
    assert!(wait < 10.0, "{wait:.2} s");
}

/// The agent's sockets, a shell: a task that starves beside urgent ones still gets its turn.
#[test]
fn urgent_tasks_leave_others_a_part_of_the_budget() {
    let mut specs = hogs(&[nice(-20); 8]);
    specs.extend(hogs(&[nice(19); 40]));
    for spec in &mut specs[8..40] {
        spec.kthread = true;
    }
    let report = run(Config::new(1), specs, 100);
    let wait = longest_wait(&report, 40..48);
    assert!(wait <= 10.0, "{wait:.2} s");
    // What kernel threads had on credit is a second's budget at most.
    let rescued = report.counters.rescued_ns as f64 / report.now_ns as f64;
    assert!(rescued < 1.02 * BUDGET, "{rescued:.4} of the CPU");
}

/// The agent beside three hogs of nice -20 on two CPUs.
fn with_agent(trace: Trace) -> Report {
    let mut specs = hogs(&[nice(-20); 3]);
    specs.push(TaskSpec::new("agent", trace));
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(MS);
    sim.kernel().set_agent(3);
    let report = sim.run_until(60 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    report
}

#[test]
fn the_agent_answers_at_once_beside_hogs_of_nice_minus_20() {
    let report = with_agent(Trace::sleeper(2 * MS, 100 * MS));
    let agent = &report.tasks[3];
    assert!(agent.wake_latencies_ns.len() > 500);
    assert!(agent.max_wake_ns() < MS, "{} ns", agent.max_wake_ns());
    assert!(report.counters.agent_ahead > 500);
}

#[test]
fn the_agent_answers_although_a_higher_class_takes_its_cpu() {
    let mut specs = hogs(&[nice(-20); 3]);
    specs.push(TaskSpec::new("agent", Trace::sleeper(2 * MS, 100 * MS)));
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(MS);
    sim.kernel().set_agent(3);
    for (cpu, at_s) in [(0, 10), (1, 20)] {
        sim.plan(at_s * SEC, Outside::Take { cpu, ns: 5 * SEC });
    }
    let report = sim.run_until(30 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    // The packet that runs on the other CPU ends first.
    let wait = report.tasks[3].max_wake_ns();
    assert!(wait < 10 * MS, "{wait} ns");
}

/// The group's tasks wait for its quota for up to 10 s, longer than the one that starves.
#[test]
fn throttled_tasks_do_not_hide_one_that_starves() {
    let mut weights = vec![weight_one(); 100];
    weights.extend([nice(-20); 8]);
    weights.push(nice(19));
    let mut sim = Sim::new(Config::new(1), hogs(&weights));
    sim.run_until(MS);
    sim.act(|kernel, now_ns| {
        let group = kernel.cgroup_new(None, 100);
        kernel.cgroup_set_quota(group, 1000, 1_000_000);
        (0..100).for_each(|task| kernel.cgroup_move(now_ns, task, group));
    });
    let report = sim.run_until(60 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let wait = longest_wait(&report, 108..109);
    assert!(wait <= 4.0, "{wait:.2} s");
}

/// The agent's request and its answer: one task wakes the other.
#[test]
fn the_process_that_serves_statistics_goes_ahead_within_the_same_budget() {
    let mut specs = hogs(&[nice(-20); 3]);
    specs.push(TaskSpec::new("agent", Trace::hog()));
    specs.push(TaskSpec::new("drfq-stats", Trace::hog()));
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(MS);
    sim.kernel().set_agent(3);
    sim.kernel().set_agent_stats(4);
    let report = sim.run_until(60 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    let used = cpus_used(&report);
    let both = used[3] + used[4];
    assert!(both < BUDGET + 2.0 * (0.008 + 0.002), "{both:.4} CPUs");
    for used in &used[3..] {
        assert!(*used > 0.016, "{used:.4} of a CPU");
    }
}

/// Two threads of the agent wait for its budget. Their ids differ by the number of places for
/// threads that wait (`AGENT_WAITS_MAX`).
#[test]
fn no_thread_of_the_agent_that_waits_for_the_budget_is_forgotten() {
    const AGENT: usize = 3;
    const STATS: usize = AGENT + 8;
    let mut specs = hogs(&[nice(-20); AGENT]);
    specs.push(TaskSpec::new("agent", Trace::hog()));
    for i in 1..8 {
        specs.push(TaskSpec::new(
            format!("sleeper{i}"),
            Trace::sleeper(US, SEC),
        ));
    }
    specs.push(TaskSpec::new("drfq-stats", Trace::hog()));
    let mut sim = Sim::new(Config::new(2), specs);
    sim.run_until(MS);
    sim.kernel().set_agent(AGENT);
    sim.kernel().set_agent_stats(STATS);
    let report = sim.run_until(60 * SEC);
    assert_eq!(report.violations, Vec::<String>::new());
    // A packet of 8 ms uses up the budget of 160 ms, and another one may come first.
    for task in [AGENT, STATS] {
        let wait = longest_wait(&report, task..task + 1);
        assert!(wait < 0.4, "{wait:.3} s");
    }
}

/// The fair share of nice 0 beside three of nice -20 is 0.8 % of a CPU.
#[test]
fn an_agent_that_never_sleeps_gets_its_budget_and_no_more_than_its_share_beside() {
    let report = with_agent(Trace::hog());
    let used = cpus_used(&report)[3];
    assert!(used < BUDGET + 0.008 + 0.002, "{used:.4} of a CPU");
    assert!(used > 0.95 * BUDGET, "{used:.4} of a CPU");
    let ahead = report.counters.agent_ahead_ns as f64 / report.now_ns as f64;
    assert!((ahead - BUDGET).abs() < 0.002, "{ahead:.4} of a CPU");
}
