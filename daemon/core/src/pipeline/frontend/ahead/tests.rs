//! Tests of [`super`].

use super::*;
use crate::pipeline::frontend::predict::branches_of;
use crate::pipeline::frontend::predict::frames::Frame;

fn coming(line: u64) -> CodeLate {
    CodeLate {
        line,
        ..CodeLate::default()
    }
}

/// Cycles until fetch has begun everywhere, from the decoders or not, where each line comes so late.
fn cycles_where(
    p: &Branch,
    mut starts: Backlog<Start>,
    from_decoders: bool,
    late: impl Fn(&Start) -> CodeLate,
) -> u64 {
    let mut ahead = Ahead::new(p);
    let mut frames = Frames::new(p);
    let mut clock = 0;
    while starts.front().is_some() {
        let now = Now {
            head: u64::MAX,
            released: u64::MAX,
            clock,
            executed: 0,
            visits: 0,
        };
        let waiting = (&mut starts, &mut frames);
        let limit = ahead.limit(waiting, &now, |_| from_decoders, |start, _| late(start));
        if let (_, Some((at, _))) = limit {
            clock = at;
        }
    }
    clock
}

/// The same where all lines come as late, none from the decoders.
fn cycles(p: &Branch, starts: Backlog<Start>, late: CodeLate) -> u64 {
    cycles_where(p, starts, false, |_| late)
}

/// Cycles in which the predictor comes to the starts of turns of a loop: a call, a return and a
/// jump back, all predicted and in the nearest buffer, with code in the first-level cache.
fn cycles_a_turn(call: u32, back: u32) -> f64 {
    let mut p = branches_of("zen5");
    p.starts_per_cycle = 2;
    p.page_turn = None;
    let turns = 1000;
    let mut starts = Backlog::new();
    starts.extend((0..3 * turns).map(|n| Start {
        number: n,
        address: 0x1000 * (1 + n % 3),
        way: Way::Branch(Steer::Taken(0)),
        shares: 1 + 2 * [call, back, 0][n as usize % 3],
        frame: Frame::Stays,
    }));
    cycles(&p, starts, CodeLate::default()) as f64 / turns as f64
}

#[test]
fn what_may_be_kept_as_uops_is_not_asked_for_before_that_is_known() {
    let p = branches_of("zen5");
    let mut ahead = Ahead::new(&p);
    let mut frames = Frames::new(&p);
    let line = |n: u64| Start {
        number: 8 * n,
        address: 0x1000 + 64 * n,
        way: Way::Line,
        shares: 1,
        frame: Frame::Stays,
    };
    let mut starts = Backlog::new();
    starts.extend((0..4).map(line));
    let mut asked = Vec::new();
    for (released, expected) in [(9, 16), (9, 16), (32, u64::MAX)] {
        let now = Now {
            head: 0,
            released,
            clock: 100,
            executed: 0,
            visits: 0,
        };
        let (limit, wait) = ahead.limit(
            (&mut starts, &mut frames),
            &now,
            |_| false,
            |start, _| {
                asked.push(start.number);
                CodeLate::default()
            },
        );
        assert_eq!((limit, wait), (expected, None));
    }
    assert_eq!(asked, [0, 8, 16, 24]);
}

/// Cycles a line of code that misses the first level, in runs of so many lines between jumps.
fn cycles_a_line(p: &Branch, run: u64, late: u64) -> f64 {
    let lines = 4000;
    let mut starts = Backlog::new();
    starts.extend((0..lines).map(|n| Start {
        number: n,
        address: 64 * n,
        way: match n % run {
            0 => Way::Branch(Steer::Taken(0)),
            _ => Way::Line,
        },
        shares: 1,
        frame: Frame::Stays,
    }));
    cycles(p, starts, coming(late)) as f64 / lines as f64
}

#[test]
fn fewer_lines_of_straight_code_than_of_jumps_are_on_their_way_at_once() {
    let mut p = branches_of("zen5");
    p.line_delay = 0;
    p.line_misses = 12;
    p.line_spacing = 3;
    p.straight_lines = 4;
    p.straight_misses = 6;
    for (run, late, expected) in [
        // As many as may be on their way share the time that one takes.
        (1, 60, 60.0 / 12.0),
        (4, 60, 60.0 / 12.0),
        (4000, 60, 60.0 / 6.0),
        // No faster than one behind the other.
        (1, 12, 3.0),
        (4000, 12, 3.0),
    ] {
        let found = cycles_a_line(&p, run, late);
        assert!((found - expected).abs() < 0.1, "{run} {late}: {found}");
    }
    // Each run of eight has some that wait.
    let mixed = cycles_a_line(&p, 8, 60);
    assert!((5.5..9.5).contains(&mixed), "{mixed}");
    p.straight_lines = 0;
    let found = cycles_a_line(&p, 4000, 60);
    assert!((found - 5.0).abs() < 0.1, "{found}");
}

/// Cycles a jump to another page, each of whose translations takes so long, before a line that misses or not.
fn cycles_a_page(p: &Branch, late: CodeLate) -> f64 {
    let pages = 4000;
    let mut starts = Backlog::new();
    starts.extend((0..pages).map(|n| Start {
        number: n,
        address: 4160 * n,
        way: Way::Branch(Steer::Taken(0)),
        shares: 1,
        frame: Frame::Stays,
    }));
    cycles(p, starts, late) as f64 / pages as f64
}

#[test]
fn translations_come_before_lines_and_only_so_many_at_once() {
    let mut p = branches_of("zen4");
    (p.line_delay, p.line_misses, p.line_spacing) = (0, 12, 0);
    (p.translations_hold, p.translations_together) = (0, 0);
    for (at_once, translation, line, expected) in [
        (1, 80, 0, 80.0),
        (4, 80, 0, 20.0),
        // Lines are on their way meanwhile.
        (1, 80, 60, 80.0),
        (4, 80, 360, 30.0),
    ] {
        p.translations = at_once;
        let found = cycles_a_page(&p, CodeLate { translation, line });
        assert!(
            (found - expected).abs() < 0.03 * expected,
            "{at_once} {translation} {line}: {found}"
        );
    }
}

#[test]
fn lines_of_one_page_wait_for_one_translation() {
    let mut p = branches_of("zen4");
    (p.translations, p.translations_hold, p.translations_together) = (1, 0, 0);
    let lines = 64 * 100;
    let mut starts = Backlog::new();
    starts.extend((0..lines).map(|n| Start {
        number: n,
        address: 64 * n,
        way: Way::Line,
        shares: 1,
        frame: Frame::Stays,
    }));
    let late = CodeLate {
        translation: 80,
        line: 0,
    };
    let found = cycles(&p, starts, late) as f64 / 100.0;
    assert!((80.0..150.0).contains(&found), "{found} cycles a page");
}

#[test]
fn bubbles_of_calls_and_returns_add_to_the_predictors_pace() {
    for (call, back) in [(0, 0), (1, 0), (1, 2), (3, 3)] {
        let expected = 1.5 + f64::from(call + back);
        let found = cycles_a_turn(call, back);
        assert!((found - expected).abs() < 0.01, "{call} {back}: {found}");
    }
}

#[test]
fn each_return_of_a_call_from_before_the_kernel_ran_is_a_wrong_prediction() {
    let p = branches_of("zen5");
    assert!(p.kernel_empties_returns);
    let depth = 20;
    let cycles = |visit: bool| {
        let mut ahead = Ahead::new(&p);
        let mut frames = Frames::new(&p);
        let mut starts = Backlog::new();
        starts.extend((0..2 * depth).map(|n| Start {
            number: n,
            address: 0x40 * (1 + n),
            way: Way::Branch(Steer::Taken(0)),
            shares: 1,
            frame: if n < depth {
                Frame::Opens
            } else {
                Frame::Closes
            },
        }));
        let mut clock = 0;
        while let Some(start) = starts.front() {
            let number = start.number;
            let now = Now {
                head: number,
                released: if number < depth { depth } else { u64::MAX },
                clock,
                // A branch is executed when it is delivered.
                executed: clock,
                visits: u64::from(visit && number >= depth),
            };
            let waiting = (&mut starts, &mut frames);
            if let (_, Some((at, _))) =
                ahead.limit(waiting, &now, |_| false, |_, _| CodeLate::default())
            {
                clock = at;
            }
        }
        (clock, frames.lost)
    };
    let (kept, lost) = (cycles(false), cycles(true));
    assert_eq!((kept.1, lost.1), (0, depth));
    let per_start = 1.0 / p.starts_per_cycle as f64;
    let more = depth as f64 * (p.redirect as f64 - per_start);
    let found = (lost.0 - kept.0) as f64;
    assert!((found - more).abs() <= 1.0, "{found} {more}");
}

/// Cycles a jump that no buffer has, each so many lines behind the last one and its line so late.
fn cycles_a_decoded_jump(p: &Branch, lines: u64, late: u64) -> f64 {
    let jumps = 1000;
    let mut starts = Backlog::new();
    starts.extend((0..jumps).map(|n| Start {
        number: n,
        address: 64 * lines * n,
        way: Way::Branch(Steer::Decoded),
        shares: 1,
        frame: Frame::Stays,
    }));
    cycles(p, starts, coming(late)) as f64 / jumps as f64
}

#[test]
fn lines_behind_a_branch_that_no_buffer_has_are_on_their_way_when_it_is_decoded() {
    let mut p = branches_of("zen5");
    (p.starts_per_cycle, p.line_delay, p.line_spacing) = (1, 0, 0);
    let decoded = (p.decode_redirect - 1) as f64;
    for (runs_on, lines, late, expected) in [
        (false, 1, 0, decoded),
        (false, 1, 30, decoded + 30.0),
        // Asked for so many cycles after the predictor began anew behind the branch before, one
        // branch's decoding before that one's line arrived.
        (true, 1, 0, decoded),
        (true, 1, 30, (31.0 + decoded) / 2.0),
        (true, 4, 30, (34.0 + decoded) / 2.0),
        // Nobody had come there when it was decoded.
        (true, 100, 30, decoded + 30.0),
    ] {
        p.runs_on = runs_on;
        let found = cycles_a_decoded_jump(&p, lines, late);
        assert!(
            (found - expected).abs() < 1.1,
            "{runs_on} {lines} {late}: {found}"
        );
    }
}

#[test]
fn the_right_path_comes_later_where_it_is_decoded() {
    let mut p = branches_of("glc");
    p.decoded_redirect = 4;
    let cycles = |from_decoders: bool| {
        let mut ahead = Ahead::new(&p);
        let mut frames = Frames::new(&p);
        let mut starts = Backlog::new();
        starts.extend((0..1000).map(|n| Start {
            number: n,
            address: 64 * n,
            way: Way::Branch(Steer::WrongTarget),
            shares: 1,
            frame: Frame::Stays,
        }));
        let mut clock = 0;
        while let Some(start) = starts.front() {
            let now = Now {
                head: start.number,
                released: u64::MAX,
                clock,
                // A branch is executed when it is delivered.
                executed: clock,
                visits: 0,
            };
            let waiting = (&mut starts, &mut frames);
            let late = |_: &Start, _| CodeLate::default();
            if let (_, Some((at, _))) = ahead.limit(waiting, &now, |_| from_decoders, late) {
                clock = at;
            }
        }
        clock
    };
    assert_eq!(cycles(false), 1000 * p.redirect);
    assert_eq!(cycles(true), 1000 * (p.redirect + p.decoded_redirect));
}

/// Cycles a page of so many lines each, whose translations and lines are so late: two lines a cycle.
fn cycles_of_pages(p: &Branch, lines: u64, translation: u64, line: u64) -> f64 {
    let pages = 1200;
    let mut starts = Backlog::new();
    starts.extend((0..pages * lines).map(|n| Start {
        number: n,
        address: 4096 * (n / lines) + 64 * (n % lines),
        way: Way::Branch(Steer::Taken(0)),
        shares: (n % 2) as u32,
        frame: Frame::Stays,
    }));
    let late = |start: &Start| CodeLate {
        translation: match start.address.is_multiple_of(4096) {
            true => translation,
            false => 0,
        },
        line,
    };
    cycles_where(p, starts, false, late) as f64 / pages as f64
}

#[test]
fn lines_that_wait_for_translations_hold_up_those_behind() {
    let mut p = branches_of("zen5");
    (p.page_turn, p.translations_together) = (None, 0);
    assert_eq!((p.translations, p.translations_hold), (4, 7));
    for (lines, translation, expected) in [
        (8, 0, 4.0),
        // Four lines at once, of so many pages.
        (1, 7, 7.0 / 4.0),
        (2, 7, 7.0 / 2.0),
        (4, 7, 7.0),
        // What is behind the fourth line comes two a cycle.
        (8, 7, 7.0 + 2.0),
        (16, 7, 7.0 + 6.0),
        // Tables are walked aside.
        (1, 80, 7.0 / 4.0),
    ] {
        let found = cycles_of_pages(&p, lines, translation, 0);
        assert!(
            (found - expected).abs() < 0.1,
            "{lines} lines, {translation}: {found}"
        );
    }
}

#[test]
fn translations_are_asked_for_behind_the_lines_ahead_and_together() {
    let mut p = branches_of("zen5");
    (p.page_turn, p.line_delay, p.line_spacing) = (None, 0, 2);
    let (translation, line) = (7, 15);
    for together in [1, 8] {
        p.translations_together = together;
        for lines in [40, 4] {
            // The first line of those together waits for all ahead; the others come one behind the other.
            let apart = lines.max(u64::from(together).div_ceil(lines) * lines);
            let expected = (translation + line) as f64 + 2.0 * (apart - 1) as f64;
            let found = cycles_of_pages(&p, lines, translation, line) * apart as f64 / lines as f64;
            assert!(
                (found - expected).abs() < 0.1 * expected,
                "{together} together, {lines} lines a page: {found}, {expected}"
            );
        }
    }
}

#[test]
fn starts_of_a_line_that_missed_take_longer_where_the_decoders_deliver() {
    let p = branches_of("zen5");
    assert_eq!(p.missed_starts, 140);
    let cycles = |late: u64, from_decoders: bool| {
        let starts_a_line = 4;
        let lines = 1000;
        let mut starts = Backlog::new();
        starts.extend((0..lines * starts_a_line).map(|n| Start {
            number: n,
            address: 16 * n,
            way: Way::Branch(Steer::Taken(0)),
            shares: 1,
            frame: Frame::Stays,
        }));
        let clock = cycles_where(&p, starts, from_decoders, |_| coming(late));
        clock as f64 / (lines * starts_a_line) as f64
    };
    for (late, from_decoders, expected) in [(0, true, 1.0), (10, false, 1.0), (10, true, 1.4)] {
        let found = cycles(late, from_decoders);
        assert!((found - expected).abs() < 0.02, "{late}: {found}");
    }
}
