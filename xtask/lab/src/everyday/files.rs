//! What the inputs consist of.

use std::fmt::Write;

use super::random::{Random, Words};

/// Lines of words, at least so many bytes.
pub(super) fn text(random: &mut Random, words: &Words, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        let mut line = 0;
        let long = 40 + random.below(40);
        while line < long {
            let word = words.pick(random);
            text += word;
            line += word.len() + 1;
            text.push(if line < long { ' ' } else { '\n' });
        }
    }
    text
}

/// The same lines, of which some are gone, some are twice, and some are others.
pub(super) fn changed(random: &mut Random, text: &str) -> String {
    let mut changed = String::with_capacity(text.len());
    for line in text.lines() {
        match random.below(40) {
            0 => {}
            1 => {
                let _ = writeln!(changed, "{line}\n{line}");
            }
            2 => {
                let _ = writeln!(changed, "{line} {}", random.below(1000));
            }
            _ => {
                let _ = writeln!(changed, "{line}");
            }
        }
    }
    changed
}

/// One number a line.
pub(super) fn numbers(random: &mut Random, count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let _ = writeln!(text, "{}", random.below(100_000_000));
    }
    text
}

/// An array of objects.
pub(super) fn records(random: &mut Random, words: &Words, count: usize) -> String {
    let mut text = "[".to_owned();
    for n in 0..count {
        let comma = if n > 0 { "," } else { "" };
        let (name, size, count) = (words.pick(random), random.below(1000), random.below(50));
        let _ = write!(
            text,
            "{comma}\n  {{\"name\": \"{name}-{n}\", \"size\": {size}, \"count\": {count}, \"tags\": ["
        );
        for tag in 0..random.below(4) {
            let comma = if tag > 0 { ", " } else { "" };
            let word = random.of(&["red", "green", "blue", "large", "small", "new"]);
            let _ = write!(text, "{comma}\"{word}\"");
        }
        text += "]}";
    }
    text + "\n]\n"
}

/// Preprocessed C: functions with loops, switches and calls.
pub(super) fn functions(random: &mut Random, count: usize) -> String {
    let mut text = "struct pair { long a, b; struct pair *next; };\n".to_owned();
    for n in 0..count {
        let _ = writeln!(text, "long f{n}(struct pair *p, long x, const char *s)\n{{");
        let _ = writeln!(text, "  long sum = {};", random.below(100));
        for _ in 0..2 + random.below(5) {
            let (small, other) = (random.below(64), random.below(n.max(1)));
            let _ = match random.below(5) {
                0 => writeln!(
                    text,
                    "  for (long i = 0; i < x + {small}; i++) sum += s[i] * i ^ p->a;"
                ),
                1 => writeln!(
                    text,
                    "  switch (x & 7) {{ case 0: sum += 3; break; case 3: sum -= p->b; break; \
                     case 5: sum *= {small}; break; default: sum ^= x; }}"
                ),
                2 if n > 0 => writeln!(
                    text,
                    "  if (sum > {small} && p->next) sum += f{other}(p->next, x - 1, s + 1);"
                ),
                3 => writeln!(
                    text,
                    "  while (p->next && p->a < sum) {{ p = p->next; sum = sum / 3 + {small}; }}"
                ),
                _ => writeln!(text, "  p->a = sum << {}; p->b ^= x % 10;", small % 20),
            };
        }
        text += "  return sum;\n}\n";
    }
    text
}

/// Instructions with labels.
pub(super) fn assembly(random: &mut Random, lines: usize) -> String {
    let registers = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r12"];
    let mut text = "\t.text\n".to_owned();
    for n in 0..lines {
        if n % 16 == 0 {
            let _ = writeln!(text, ".L{}:", n / 16);
        }
        let (a, b) = (random.of(&registers), random.of(&registers));
        let (number, label) = (random.below(4000), random.below(lines / 16));
        let _ = match random.below(6) {
            0 => writeln!(text, "\tmovq\t{number}(%{a}), %{b}"),
            1 => writeln!(text, "\taddq\t${number}, %{a}"),
            2 => writeln!(text, "\tjne\t.L{label}"),
            3 => writeln!(text, "\tleaq\t(%{a},%{b},4), %{b}"),
            4 => writeln!(text, "\tcmpl\t${number}, {}(%{a})", number % 128),
            _ => writeln!(text, "\timulq\t%{a}, %{b}"),
        };
    }
    text
}

/// Rules of a makefile, each of which needs others before it, and variables to be expanded.
pub(super) fn targets(random: &mut Random, count: usize) -> String {
    let mut text = "FLAGS = -O2 $(EXTRA)\nEXTRA = -g $(addprefix -I,include src)\n".to_owned();
    let _ = writeln!(text, "all: t{}", count - 1);
    for n in 0..count {
        let _ = write!(text, "t{n}:");
        for _ in 0..random.below(5).min(n) {
            let _ = write!(text, " t{}", random.below(n));
        }
        if n > 0 {
            let _ = write!(text, " t{}", n - 1);
        }
        let _ = writeln!(text, "\n\tcc $(FLAGS) -c $(patsubst t%,s%.c,$@) -o $@");
    }
    text
}

/// `git fast-import`'s stream: commits that change some of twelve files.
pub(super) fn commits(random: &mut Random, words: &Words, count: usize) -> String {
    let mut stream = String::new();
    let mut all: Vec<String> = (0..12).map(|_| text(random, words, 12_000)).collect();
    let names: Vec<String> = (0..12)
        .map(|n| format!("src/part{}/f{n}.txt", n % 3))
        .collect();
    for n in 0..count {
        let message = text(random, words, 60);
        let _ = writeln!(stream, "commit refs/heads/main");
        let at = 1_700_000_000 + n * 3600;
        let _ = writeln!(stream, "committer A B <a@example.org> {at} +0000");
        let _ = writeln!(stream, "data {}\n{message}", message.len());
        for (name, content) in names.iter().zip(&mut all) {
            if n > 0 && random.below(4) != 0 {
                continue;
            }
            *content = changed(random, content);
            let _ = writeln!(
                stream,
                "M 100644 inline {name}\ndata {}\n{content}",
                content.len()
            );
        }
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was measured was measured with these.
    #[test]
    fn inputs_are_the_same_everywhere() {
        let words = Words::new(&mut Random::new(1), 6000);
        let text = text(&mut Random::new(2), &words, 1000);
        let first = "sata erbo torsadier tabothtor dioulu nocobo un";
        assert_eq!(text.lines().next(), Some(first));
        // 64-bit FNV-1a.
        let fnv = |text: &str| {
            (text.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
        };
        let numbers = numbers(&mut Random::new(4), 1000);
        assert_eq!(numbers.lines().count(), 1000);
        assert_eq!(fnv(&(text + &numbers)), 13_251_906_665_604_533_246);
    }
}
